"""The same pods before both schedulers, one after the other, every decision from the same state.

Pods of a cluster come one by one. First our scheduler decides on a twin of the pod: it runs as it always does, a client of this API
server, except that the server judges its writes and does not keep them (dry run). Then the twin goes, kube-scheduler decides on the
pod itself, and what it did is the state for the next one. So each pair of verdicts is about one state, however the two would have
gone on, and what we write has been through a real server's validation.

Clusters are kept apart by labels, so all of them advance together, a pod of each at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from modelplane.api.meta import Key, Object
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client, Kubeconfig
from modelplane.local.caches import Caches
from modelplane.local.kinds import CLAIM, DEVICE_CLASS, NODE, POD, RESOURCE_SLICE
from modelplane.local.scheduler.selectors import selects
from modelplane.local.scheduler.service import Scheduler
from tests.kubernetes.clusters import LABEL, Cluster

OURS: Final = "modelplane"
AT_ONCE: Final = 24
PATIENCE: Final = 90.0
FENCE: Final = "case-fence"
_BINDING: Final = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/binding$")
_POD_STATUS: Final = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/status$")
_CLAIM_STATUS: Final = re.compile(r"/namespaces/([^/]+)/resourceclaims/([^/]+)/status$")


@dataclass(frozen=True)
class State:
    """What a scheduler has to decide from, of one cluster."""

    nodes: Sequence[Object]
    classes: Sequence[Object]
    slices: Sequence[Object]
    claims: Mapping[str, Object]
    pods: Sequence[Object]
    """Those that have a node."""


@dataclass(frozen=True)
class Verdict:
    """``node`` is None for a pod that waits, with the reason and message of its PodScheduled condition."""

    node: str | None
    allocations: Mapping[str, Object] = field(default_factory=dict)
    """Of the pod's claims, by name."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Decision:
    """Both verdicts about one pod."""

    seed: int
    step: int
    pod: Object
    state: State
    ours: Verdict
    real: Verdict

    @property
    def where(self) -> str:
        return f"seed {self.seed}, pod {self.step}"


class Rehearsal(Client):
    """A client whose writes are judged by the server and not kept; what it wanted to write is."""

    def __init__(self, kubeconfig: Kubeconfig, heard: Callable[[Key, Verdict], None]) -> None:
        super().__init__(kubeconfig, field_manager=OURS)
        self._heard = heard
        self._allocations: defaultdict[str, dict[str, Object]] = defaultdict(dict)

    async def request(
        self, method: str, path: str, body: Any = None, params: Any = None, *rest: Any, **more: Any
    ) -> Object:
        if method == "GET":
            return await super().request(method, path, body, params, *rest, **more)
        try:
            answer = await super().request(method, path, body, {**(params or {}), "dryRun": "All"}, *rest, **more)
        except ApiError as error:
            if not path.endswith("/events"):
                self._refused(path, body, error)
            raise
        if found := _BINDING.search(path):
            key = Key(found[1], found[2])
            self._heard(key, Verdict(body["target"]["name"], self._allocations[body["metadata"]["uid"]]))
        elif found := _CLAIM_STATUS.search(path):
            for user in body["status"]["reservedFor"]:
                self._allocations[user["uid"]][found[2]] = body["status"]["allocation"]
        elif found := _POD_STATUS.search(path):
            condition = body["status"]["conditions"][0]
            self._heard(Key(found[1], found[2]), Verdict(None, {}, condition["reason"], condition["message"]))
        return answer

    def _refused(self, path: str, body: Any, error: ApiError) -> None:
        """A write that the server does not take is a verdict too, and never the right one."""
        refused = Verdict(None, {}, "Refused", f"{path}: {error}")
        if found := _BINDING.search(path) or _POD_STATUS.search(path):
            self._heard(Key(found[1], found[2]), refused)
        for user in (body.get("status") or {}).get("reservedFor") or ():
            self._heard(Key(body["metadata"]["namespace"], user["name"]), refused)


async def decisions(kubeconfig: Path, clusters: Sequence[Cluster]) -> list[Decision]:
    """Every pod of every cluster, decided by both. Raises TimeoutError when a scheduler says nothing about a pod."""
    config = Kubeconfig.load(kubeconfig)
    async with Client(config) as client:
        caches = Caches(client)
        watching = asyncio.create_task(caches.run())
        try:
            comparison = _Comparison(config, client, caches)
            await comparison.furnish(clusters)
            made: list[Decision] = []
            for step in range(max(len(cluster.arrivals) for cluster in clusters)):
                made += await comparison.round(step, [c for c in clusters if step < len(c.arrivals)])
            return made
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


class _Comparison:
    def __init__(self, config: Kubeconfig, client: Client, caches: Caches) -> None:
        self._config = config
        self._client = client
        self._pods = caches.of(POD)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._settled: dict[Key, Verdict] = {}
        self._wake = asyncio.Event()
        self._pods.subscribe(self._pod_changed)

    # --- what both start from --------------------------------------------------------------------------------------

    async def furnish(self, clusters: Sequence[Cluster]) -> None:
        """Everything but pods and claims, and the proof that kube-scheduler has seen all of it."""
        await self._all(self._client.create(_namespace(cluster.name)) for cluster in clusters)
        await self._all(self._client.create(obj) for c in clusters for obj in (*c.nodes, *c.classes, *c.slices))
        await self._fence()

    async def _fence(self) -> None:
        """A watch is in order: whoever sees the last object of each kind has seen the others."""
        pod, claim, *others = _fence()
        await self._client.create(_namespace(FENCE))
        for obj in (*others, claim, pod):
            await self._client.create(obj)
        found = await self._verdicts([Key(FENCE, FENCE)])
        if found[Key(FENCE, FENCE)].node is None:
            await self._until(lambda: bool((self._pods.get(Key(FENCE, FENCE)) or {})["spec"].get("nodeName")))

    # --- one pod of each -------------------------------------------------------------------------------------------

    async def round(self, step: int, clusters: Sequence[Cluster]) -> list[Decision]:
        arrivals = {cluster.name: cluster.arrivals[step] for cluster in clusters}
        await self._all(self._client.create(claim) for arrival in arrivals.values() for claim in arrival.claims)
        keys = [Key.of(arrival.pod) for arrival in arrivals.values()]
        twins = {Key.of(twin): Key.of(a.pod) for a in arrivals.values() for twin in [_twin(a.pod)]}
        await self._all(self._client.create(_twin(arrival.pod)) for arrival in arrivals.values())
        ours, states = await self._rehearse(twins)
        await self._all(self._client.delete(POD, twin.name, twin.namespace, grace_period=0) for twin in twins)
        await self._all(self._client.create(arrival.pod) for arrival in arrivals.values())
        real = await self._verdicts(keys)
        claims = (await self._client.list(CLAIM)).items
        allocated = {Key.of(c): (c.get("status") or {}).get("allocation") for c in claims}
        made = []
        for cluster in clusters:
            pod = arrivals[cluster.name].pod
            verdict = real[Key.of(pod)]
            if verdict.node is not None:
                names = [each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or ()]
                verdict = Verdict(verdict.node, {name: allocated[Key(cluster.name, name)] for name in names})
            made.append(Decision(cluster.seed, step, pod, states[cluster.name], ours[Key.of(pod)], verdict))
        return made

    async def _rehearse(self, twins: Mapping[Key, Key]) -> tuple[dict[Key, Verdict], dict[str, State]]:
        """Our scheduler, started on what is there now, until it has said something about each twin."""
        said: dict[Key, Verdict] = {}
        all_said = asyncio.Event()

        def heard(twin: Key, verdict: Verdict) -> None:
            if twin in twins:
                said.setdefault(twins[twin], verdict)
            if len(said) == len(twins):
                all_said.set()

        async with Rehearsal(self._config, heard) as client:
            caches = Caches(client)
            scheduler = Scheduler(client, caches, selects, name=OURS)
            running = [asyncio.create_task(each) for each in (caches.run(), scheduler.run())]
            try:
                await caches.synced(NODE, DEVICE_CLASS, RESOURCE_SLICE, CLAIM, POD)
                states = _states(caches)
                async with asyncio.timeout(PATIENCE):
                    await all_said.wait()
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        return said, states

    # --- kube-scheduler's word -------------------------------------------------------------------------------------

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        condition = next(
            (c for c in new.get("status", {}).get("conditions") or () if c["type"] == "PodScheduled"), None
        )
        if new["spec"].get("nodeName"):
            self._settled[Key.of(new)] = Verdict(new["spec"]["nodeName"])
        elif condition is not None:
            self._settled[Key.of(new)] = Verdict(None, {}, condition["reason"], condition.get("message", ""))
        self._wake.set()

    async def _verdicts(self, keys: Sequence[Key]) -> dict[Key, Verdict]:
        await self._until(lambda: all(key in self._settled for key in keys))
        return {key: self._settled[key] for key in keys}

    async def _until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not done():
                self._wake.clear()
                await self._wake.wait()

    async def _all(self, calls: Iterable[Awaitable[Any]]) -> None:
        async def one(call: Awaitable[Any]) -> None:
            async with self._gate:
                with suppress(NotFound):
                    await call

        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(one(call))


def _states(caches: Caches) -> dict[str, State]:
    """By cluster: slices and classes belong to a cluster by their names, the rest by label or namespace."""
    nodes, classes, slices = (
        _grouped(caches.of(kind).items(), _owner) for kind in (NODE, DEVICE_CLASS, RESOURCE_SLICE)
    )
    claims = _grouped(caches.of(CLAIM).items(), lambda claim: str(claim["metadata"]["namespace"]))
    bound = [pod for pod in caches.of(POD).items() if pod["spec"].get("nodeName")]
    pods = _grouped(bound, lambda pod: str(pod["metadata"]["namespace"]))
    names = {**nodes, **claims}
    return {
        name: State(
            nodes[name], classes[name], slices[name], {c["metadata"]["name"]: c for c in claims[name]}, pods[name]
        )
        for name in names
    }


def _grouped(objects: Iterable[Object], owner: Callable[[Object], str]) -> defaultdict[str, list[Object]]:
    groups: defaultdict[str, list[Object]] = defaultdict(list)
    for obj in objects:
        groups[owner(obj)].append(obj)
    return groups


def _owner(obj: Object) -> str:
    found = re.search(r"case-(\d+|fence)", obj["metadata"]["name"])
    assert found, obj["metadata"]["name"]
    return found[0]


def _namespace(name: str) -> Object:
    labels = {"resource.kubernetes.io/admin-access": "true"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _twin(pod: Object) -> Object:
    metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-twin"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "schedulerName": OURS}}


def _fence() -> list[Object]:
    """A pod that needs a claim, a class, a slice and a node of its own."""
    room = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    pool = {"name": FENCE, "generation": 1, "resourceSliceCount": 1}
    request = {"name": "one", "exactly": {"deviceClassName": FENCE}}
    resource = "resource.k8s.io/v1"
    rule = {"cel": {"expression": f"device.driver == '{FENCE}.example.com'"}}
    here = {"name": FENCE, "namespace": FENCE}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": here, "spec": {
            "nodeSelector": {LABEL: FENCE}, "containers": [{"name": "c", "image": "none"}],
            "resourceClaims": [{"name": "c", "resourceClaimName": FENCE}]}},
        {"apiVersion": resource, "kind": "ResourceClaim", "metadata": here, "spec": {"devices": {"requests": [request]}}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": FENCE, "labels": {LABEL: FENCE}},
         "status": {"capacity": room, "allocatable": room}},
        {"apiVersion": resource, "kind": "DeviceClass", "metadata": {"name": FENCE}, "spec": {"selectors": [rule]}},
        {"apiVersion": resource, "kind": "ResourceSlice", "metadata": {"name": FENCE}, "spec": {
            "driver": f"{FENCE}.example.com", "pool": pool, "nodeName": FENCE, "devices": [{"name": "d"}]}},
    ]  # fmt: skip
