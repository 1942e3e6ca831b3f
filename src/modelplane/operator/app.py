"""The operator host: one process that is a client of its API server like any other.

Wires caches, clusters, ledger, probes, charts and composers together, and holds the only clock. It needs the rights of
`rbac.yaml` and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from modelplane import __version__
from modelplane.api.meta import GVK
from modelplane.api.model_deployment import KIND as MODEL_DEPLOYMENT
from modelplane.api.model_replica import KIND as MODEL_REPLICA
from modelplane.compose.contract import Host
from modelplane.compose.registry import COMPOSERS, HOLDERS
from modelplane.control.caches import Caches
from modelplane.control.charts import ChartInstaller, SimulatedCharts
from modelplane.control.clusters import Clusters
from modelplane.control.deletion import Bounds
from modelplane.control.index import Parent
from modelplane.control.ledger import Ledger
from modelplane.control.probes import Probes
from modelplane.control.queue import Rank
from modelplane.control.reconcile import Reconciler
from modelplane.control.told import Told
from modelplane.errors import ApiError, Forbidden, NotFound, TemporaryError, Throttled, Unauthorized
from modelplane.kube import Backoff, Client, Kubeconfig
from modelplane.operator.election import KEY, Election, Times, leader
from modelplane.operator.health import Health
from modelplane.operator.metrics import CONTENT_TYPE, Metrics
from modelplane.operator.webhook import Webhook
from modelplane.plan import plan

log = logging.getLogger(__name__)

NAMESPACE: Final = GVK("", "v1", "Namespace")
KUBE_SYSTEM: Final = "kube-system"
CONTROL: Final = "control"
"""What requests to the control cluster are counted under."""
GRACE: Final = 8.0
"""Seconds for an orderly end."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to run."""

    kubeconfig: Kubeconfig
    health_port: int | None = None
    health_address: str = "127.0.0.1"
    simulated_charts: bool = False
    host_name: str = "operator"
    front_door_port: int | None = None
    cluster_gateway_port: int | None = None
    cluster_gateway_ports: Mapping[str, int] = {}
    unreachable_bound: float = Bounds().unreachable
    workers: int = 8
    leader_elect: bool = False
    webhook_port: int | None = None
    webhook_certificate: Path = Path()


def clock() -> str:
    """Now as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Operator:
    """A running control plane. ``async with Operator(options)``; it works until it is left."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.metrics = Metrics(
            depth=lambda: self.reconciler.queue.depth,
            leading=self._leading,
            unplaced=lambda: self.ledger.unplaced(),
        )
        agent = f"modelplane-operator/{__version__}"
        identity = options.kubeconfig
        observe = partial(self.metrics.answered, CONTROL)
        # The election has connections of its own: a renewal waits for nothing, and is the one write that nobody guards.
        self.electorate = Client(identity, user_agent=agent, observe=observe) if options.leader_elect else None
        self.election = Election(self.electorate) if self.electorate is not None else None
        guard = self.election.guard if self.election is not None else lambda: None
        self.client = Client(identity, user_agent=agent, observe=observe, guard=guard)
        self.caches = Caches(self.client, clock=clock, given_charts=not options.simulated_charts)
        self.clusters = Clusters(self.caches, clock=clock, user_agent=agent, observe=self.metrics.answered, guard=guard)
        self.probes = Probes(self.caches, self._wake)
        self.ledger = Ledger(self.caches, self.metrics.timed(plan), self._wake, self.metrics.refused)
        self.health = Health(
            {"/healthz": lambda: "", "/livez": lambda: "", "/readyz": self._unready},
            {"/metrics": (CONTENT_TYPE, self.metrics.text)},
        )
        self.webhook: Webhook | None = None
        self._standing_by = False
        self._waiting = ""
        """What the start waits for before it reads anything."""
        self._host = _host(options, "")
        charts: ChartInstaller | None = SimulatedCharts(clock) if options.simulated_charts else None
        self.reconciler = Reconciler(
            self.client,
            self.caches,
            COMPOSERS,
            host=self._now_host,
            clock=clock,
            now=time.time,
            holders=HOLDERS,
            placer=self.ledger,
            charts=charts,
            overlays={MODEL_REPLICA: self.probes.overlay},
            rank=self._rank,
            bounds=Bounds(unreachable=options.unreachable_bound),
            workers=options.workers,
            observe=self.metrics.passed,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Return when the work has begun. Waits for the API server; raises Unauthorized and the like at once."""
        if self.options.health_port is not None:
            await self.health.start(self.options.health_port, self.options.health_address)
            log.info("health on port %d", self.health.port)
        if self.options.webhook_port is not None:
            self.webhook = Webhook(self.options.webhook_certificate)
            await self.webhook.start(self.options.webhook_port, self.options.health_address)
            log.info("webhook on port %d", self.webhook.port)
        uid = await self._control_plane_uid()
        self._host = _host(self.options, uid)
        self.caches.control_plane = uid
        await self._lead()
        self.caches.on_fresh(self._control_seen)
        self.ledger.start()
        self.clusters.start()
        self.probes.start()
        # A pass that begins earlier would say of every cluster that it does not exist.
        await self._meanwhile(self.clusters.known.wait())
        self._tasks.append(asyncio.create_task(self.reconciler.run(), name="reconciler"))
        await self._meanwhile(self.reconciler.started.wait())
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        log.info("reconciling %d kinds at %s", len(COMPOSERS), self.client.kubeconfig.server)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self.probes.close()
                await self.clusters.close()
                await self.caches.close()
                if self.election is not None:
                    await self.election.release()
                if self.electorate is not None:
                    await self.electorate.close()
                await self.client.close()
                await self.health.close()
                if self.webhook is not None:
                    await self.webhook.close()

    async def _meanwhile(self, waiting: Coroutine[object, object, object]) -> None:
        """Wait for a step of the start; raises what `failed` would where that comes first."""
        step = asyncio.create_task(waiting)
        try:
            while not step.done():
                working = {task for task in self._tasks if not task.done()}
                await asyncio.wait({step, *working}, return_when=asyncio.FIRST_COMPLETED)
                for task in working:
                    if task.done():
                        task.result()
        finally:
            step.cancel()

    async def failed(self) -> None:
        """Return, by raising, when the Lease is lost, or the reconciler ends on its own, which is a bug."""
        await asyncio.gather(*self._tasks)

    async def _lead(self) -> None:
        """Where there is an election, return when it is won. Nothing is read or kept before: standing by costs no memory."""
        if self.election is not None:
            self._standing_by = True
            await self.election.acquire()
            self._standing_by = False
            self._tasks.append(asyncio.create_task(self.election.hold(), name="election"))
        else:
            self._tasks.append(asyncio.create_task(self._look_around(), name="looking for another operator"))

    async def _look_around(self, times: Times | None = None) -> None:
        """One that takes no part in elections works beside whoever was elected, and nobody else would notice."""
        with contextlib.suppress(ApiError):
            other = await leader(self.client, times=times)
            if other:
                log.warning(
                    "%s holds the Lease %s and works, too: two operators undo each other's work; stop this one, or start it "
                    "with --leader-elect",
                    other,
                    KEY,
                )

    async def _control_plane_uid(self) -> str:
        backoff, told = Backoff(0.05, 5.0), Told()
        while True:
            try:
                namespace = await self.client.get(NAMESPACE, KUBE_SYSTEM)
                self._waiting = ""
                return str(namespace["metadata"]["uid"])
            except (Unauthorized, Forbidden, NotFound):
                raise
            except ApiError as error:
                self._waiting = f"waiting for the API server: {error}"
                if told.news("", self._waiting):
                    log.warning("%s", self._waiting)
                await asyncio.sleep(backoff.next())

    def _control_seen(self, cluster: str | None, kind: GVK | None) -> None:
        """One line in the log when the control cluster is lost, and one when it is back. One that was not there yet is not lost."""
        if cluster is None and kind == MODEL_DEPLOYMENT:
            error = self.caches.watch(None, MODEL_DEPLOYMENT).informer.error
            if not self.reconciler.started.is_set():
                return
            if error is not None:
                log.warning("%s: %s", _trouble(error), error)
            else:
                log.info("the control cluster is back")

    def _now_host(self) -> Host:
        return msgspec.structs.replace(self._host, now=clock())

    def _wake(self, parent: Parent) -> None:
        self.reconciler.wake(parent)

    def _rank(self, parent: Parent) -> Rank:
        """Deployments are placed first come, first served by age; other kinds come before them, in the order of events."""
        if parent.kind != MODEL_DEPLOYMENT:
            return (0,)
        deployment = self.caches.get(MODEL_DEPLOYMENT, parent.key)
        created = deployment["metadata"].get("creationTimestamp", "") if deployment is not None else ""
        return (1, created, parent.key.namespace, parent.key.name)

    def _leading(self) -> bool:
        return self.election.leading if self.election is not None else self.reconciler.started.is_set()

    def _unready(self) -> str:
        if self._standing_by:
            return ""
        if not self.reconciler.started.is_set():
            return self._waiting or _reading(self.caches.unread())
        error = self.caches.watch(None, MODEL_DEPLOYMENT).informer.error
        return "" if error is None else f"{_trouble(error)}: {error}"


def _trouble(error: ApiError) -> str:
    """What an error of the control cluster's watch means."""
    if isinstance(error, Throttled):
        return "the control cluster is busy"
    return "the control cluster is lost" if isinstance(error, TemporaryError) else "the control cluster refuses"


def _reading(unread: Sequence[tuple[GVK, ApiError | None]]) -> str:
    """What was not read yet, refusals first: they do not end by themselves."""
    refused = [f"{kind.kind}: {error}" for kind, error in unread if error is not None]
    rest = sorted({kind.kind for kind, error in unread if error is None})
    names = "; ".join([*refused, *([f"no answer yet for {', '.join(rest)}"] if rest else [])])
    return f"still reading the cluster{'; ' if names else ''}{names}"


def _host(options: Options, uid: str) -> Host:
    given = {
        "front_door_port": options.front_door_port,
        "cluster_gateway_port": options.cluster_gateway_port,
        "cluster_gateway_ports": dict(options.cluster_gateway_ports),
    }
    host = Host(name=options.host_name, control_plane_uid=uid, installs_charts=options.simulated_charts)
    return msgspec.structs.replace(host, **{name: value for name, value in given.items() if value})
