"""The node runtime at work: registers the cluster's nodes, gives every pod on them a worker, serves logs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from modelplane import processes
from modelplane.api.meta import Key, Object
from modelplane.kube import Client
from modelplane.local.caches import Caches
from modelplane.local.events import Events
from modelplane.local.fleet_spec import Cluster
from modelplane.local.kinds import CLAIM, POD
from modelplane.local.nodes import addresses, inventory
from modelplane.local.nodes.forge import Forge
from modelplane.local.nodes.logs import LogServer, Source
from modelplane.local.nodes.records import PodRecord, Records
from modelplane.local.nodes.registration import Registration
from modelplane.local.nodes.worker import Host, Worker
from modelplane.server.tls import ensure_certificates

log = logging.getLogger(__name__)


class NodeRuntime:
    """All nodes of one cluster. `data_dir` keeps what has to survive; `network` is a CIDR for pods where loopback
    will not do, `tls` a directory with the serving certificate of somebody else, for logs."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        cluster: Cluster,
        data_dir: Path,
        *,
        network: str | None = None,
        tls: Path | None = None,
        first_delay: float = 10.0,
    ) -> None:
        self._client = client
        self._caches = caches
        self._cluster = cluster
        self._directory = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self._pods = caches.of(POD)
        self._claims = caches.of(CLAIM)
        self._records = Records(data_dir / "pods")
        self._events = Events(client, "kubelet")
        self._forge = Forge()
        self._tls = tls or data_dir / "tls"
        self._logs = LogServer(self._log_source, self._tls / "serving.crt", self._tls / "serving.key")
        self._nodes: set[str] = set()
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, PodRecord] = {}
        self._host = Host(
            client=client,
            claims=self._claims,
            events=self._events,
            records=self._records,
            forge=self._forge,
            addresses=addresses.for_cluster(f"{data_dir.resolve()}#{cluster.name}", network),
            used=self._used,
            first_delay=first_delay,
        )

    async def run(self) -> None:
        """Run until cancelled; engines live on."""
        remembered = self._directory / "log-port"
        self._tls.mkdir(exist_ok=True)
        await asyncio.to_thread(ensure_certificates, self._tls, [])
        port = await self._logs.start(int(remembered.read_text()) if remembered.exists() else 0)
        remembered.write_text(str(port))
        plans = inventory.plan(self._cluster, log_port=port)
        self._nodes = {plan.name for plan in plans}
        self._known = {record.uid: record for record in self._records.all()}
        registration = Registration(self._client, plans, inventory.classes(self._cluster))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run())
                group.create_task(self._forge.warm())
                group.create_task(self._register(registration))
                await self._caches.synced(POD, CLAIM)
                await self._bury()
                self._pods.subscribe(self._pod_changed)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._logs.close()
            await self._forge.close()

    async def _register(self, registration: Registration) -> None:
        await registration.register()
        log.info("%d nodes of %s are registered", len(self._nodes), self._cluster.name)
        await registration.run()

    def _used(self) -> set[str]:
        running = {worker.record.ip for worker in self._workers.values()}
        return running | {record.ip for record in self._known.values()}

    async def _bury(self) -> None:
        """Stop what was left of pods that were removed while nobody watched."""
        alive = {pod["metadata"]["uid"] for pod in self._pods.items()}
        for uid, record in list(self._known.items()):
            if uid in alive:
                continue
            if record.process is not None:
                log.info("pod %s/%s is gone; stopping its engine", record.namespace, record.name)
                await processes.stop(record.process, grace=1.0)
            del self._known[uid]
            self._records.remove(uid)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            worker = self._workers.get(old["metadata"]["uid"])
            if worker is not None:
                worker.vanish()
        if new is None or new["spec"].get("nodeName") not in self._nodes:
            return
        uid = new["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(new)
        else:
            self._take_up(uid, new)

    def _take_up(self, uid: str, pod: Object) -> None:
        metadata = pod["metadata"]
        record = self._known.pop(uid, None) or PodRecord(
            uid=uid, namespace=metadata["namespace"], name=metadata["name"], node=pod["spec"]["nodeName"], ip=""
        )
        self._records.save(record)
        worker = Worker(self._host, pod, record)
        self._workers[uid] = worker
        task = asyncio.create_task(worker.run(), name=f"pod {metadata['namespace']}/{metadata['name']}")
        self._tasks[uid] = task
        task.add_done_callback(lambda done: self._let_go(uid, done))

    def _let_go(self, uid: str, task: asyncio.Task[None]) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("the worker of pod %s failed", task.get_name(), exc_info=task.exception())

    def _log_source(self, namespace: str, pod: str, container: str) -> Source | str:
        """Where a container's log is, or a sentence why there is none."""
        found = self._pods.get(Key(namespace, pod))
        if found is None or found["metadata"]["uid"] not in self._workers:
            return f'pod "{namespace}/{pod}" is not on this node'
        spec = found["spec"]
        if container not in [c["name"] for c in (*spec["containers"], *(spec.get("initContainers") or ()))]:
            return f'container "{container}" is not in pod "{namespace}/{pod}"'
        uid = found["metadata"]["uid"]
        record = self._workers[uid].record
        run = record.restarts
        if run and not self._records.log(uid, run).exists():
            run -= 1  # it waits for its next start: the last run is what there is to see
        previous = self._records.log(uid, run - 1) if run else None
        return Source(self._records.log(uid, run), previous, lambda: uid not in self._workers or record.restarts > run)
