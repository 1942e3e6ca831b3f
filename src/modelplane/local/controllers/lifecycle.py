"""The node life cycle: a node whose Lease is not renewed becomes Unknown and tainted, its pods not ready, and after their
tolerated time they are evicted; pods without a node, or finished with one, are collected.

Staleness is measured from when we saw a Lease change, not by its own clock: clocks differ, and after a pause of this process
every Lease would look old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from modelplane.api.meta import Key, Object
from modelplane.errors import NotFound
from modelplane.kube import Client, PatchType
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.events import Events
from modelplane.local.kinds import LEASE, NODE, POD
from modelplane.local.scheduler.nodes import tolerates
from modelplane.local.work import Work

LEASES: Final = "kube-node-lease"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
GRACE: Final = 40.0
DEFAULT_TOLERATION: Final = 300.0
QUARANTINE: Final = 40.0
"""Seconds that a pod of a missing node is left alone, in case the node comes back."""


def wanted_taints(node: Object, at: str) -> list[Object]:
    """The node's taints as its Ready condition and cordon ask for; a taint that stays keeps its timeAdded."""
    spec = node.get("spec") or {}
    have: list[Object] = list(spec.get("taints") or ())
    ready = next(
        (c["status"] for c in (node.get("status") or {}).get("conditions") or () if c["type"] == "Ready"), "Unknown"
    )
    key = {"True": None, "False": NOT_READY}.get(ready, UNREACHABLE)
    wanted = [(key, "NoSchedule"), (key, "NoExecute")] if key else []
    if spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    managed = (UNREACHABLE, NOT_READY, UNSCHEDULABLE)
    kept = [t for t in have if t["key"] not in managed or (t["key"], t["effect"]) in wanted]
    there = {(t["key"], t["effect"]) for t in kept}
    return [*kept, *({"key": k, "effect": e, "timeAdded": at} for k, e in wanted if (k, e) not in there)]


def evict_after(pod: Object, taints: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds that the pod tolerates the node's NoExecute taints: None for ever, 0 not at all.

    Without a toleration of its own a pod bears a lost node for 300 s, as the API server's admission would have written into it.
    """
    tolerations = pod["spec"].get("tolerations") or ()
    bounds: list[float] = []
    for taint in taints:
        if taint["effect"] != "NoExecute":
            continue
        fitting = [t for t in tolerations if tolerates((t,), taint)]
        if fitting:
            bounds += [
                max(0.0, float(t["tolerationSeconds"])) for t in fitting if t.get("tolerationSeconds") is not None
            ]
        else:
            bounds.append(DEFAULT_TOLERATION if taint["key"] in (UNREACHABLE, NOT_READY) else 0.0)
    return min(bounds) if bounds else None


class NodeLifecycle:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches, *, grace: float = GRACE) -> None:
        self._client = client
        self._caches = caches
        self._grace = grace
        self._nodes = caches.of(NODE)
        self._leases = caches.of(LEASE)
        self._pods = caches.of(POD)
        self._beats: dict[str, tuple[str, float]] = {}
        """Node to the last renewTime and when we saw it change."""
        self._missing: dict[Key, float] = {}
        self._node_work: Work[str] = Work("node", self._sync_node, workers=2)
        self._pod_work: Work[Key] = Work("eviction", self._sync_pod, workers=2)
        self._events = Events(client, "node-controller")

    async def run(self) -> None:
        await self._caches.synced(NODE, LEASE, POD)
        self._leases.subscribe(self._lease_changed)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._node_work.run())
            group.create_task(self._pod_work.run())

    def _lease_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or new["metadata"]["namespace"] != LEASES:
            return
        name, renewed = new["metadata"]["name"], new["spec"].get("renewTime") or ""
        if self._beats.get(name, ("", 0.0))[0] != renewed:
            late = name in self._beats and time.monotonic() - self._beats[name][1] > self._grace
            self._beats[name] = (renewed, time.monotonic())
            if late:
                self._node_work.add(name)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = new or old
        assert node is not None
        self._node_work.add(node["metadata"]["name"])
        if new is None or old is None or (old["spec"].get("taints") != new["spec"].get("taints")):
            for pod in self._pods.items():
                if pod["spec"].get("nodeName") == node["metadata"]["name"]:
                    self._pod_work.add(Key.of(pod))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        moved = old is None or old["spec"].get("nodeName") != new["spec"].get("nodeName")
        homeless = new["metadata"].get("deletionTimestamp") and not new["spec"].get("nodeName")
        if moved or homeless:
            self._pod_work.add(Key.of(new))

    async def _sync_node(self, name: str) -> float | None:
        node = self._nodes.get(Key("", name))
        if node is None:
            self._beats.pop(name, None)
            return None
        beat = self._beats.setdefault(name, ("", time.monotonic()))
        age = time.monotonic() - beat[1]
        if age >= self._grace:
            node = await self._lose(node)
        taints = wanted_taints(node, clock.stamp())
        if taints != list((node.get("spec") or {}).get("taints") or ()):
            patch = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}}
            self._nodes.accept(await self._client.patch(NODE, name, None, patch))
        return max(0.05, self._grace - age) if age < self._grace else self._grace

    async def _lose(self, node: Object) -> Object:
        """Nobody renews the Lease: what the node last said is no longer known to be true."""
        name = node["metadata"]["name"]
        conditions = (node.get("status") or {}).get("conditions") or []
        known = {c["type"]: c for c in conditions}
        if known.get("Ready", {}).get("status") == "Unknown":
            return node
        moment = clock.stamp()
        unknown = [
            {
                **known.get(type_, {}),
                "type": type_,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": moment,
            }
            for type_ in {"Ready": None, **known}
        ]
        body = {**node, "status": {**(node.get("status") or {}), "conditions": unknown}}
        node = await self._client.replace(body, "status")
        self._nodes.accept(node)
        self._events.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self._pods.items():
            if pod["spec"].get("nodeName") == name and podlib.is_ready(pod):
                await self._unready(pod)
                self._events.event(pod, "Warning", "NodeNotReady", "Node is not ready")
        return node

    async def _unready(self, pod: Object) -> None:
        metadata = pod["metadata"]
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": clock.stamp()}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                POD, metadata["name"], metadata["namespace"], patch, PatchType.STRATEGIC, subresource="status"
            )
        except NotFound:
            return

    async def _sync_pod(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None:
            self._missing.pop(key, None)
            return None
        name = pod["spec"].get("nodeName")
        if not name:
            if pod["metadata"].get("deletionTimestamp"):
                await self._collect(pod)
            return None
        node = self._nodes.get(Key("", name))
        if node is None:
            return await self._without_node(key, pod, name)
        self._missing.pop(key, None)
        if pod["metadata"].get("deletionTimestamp"):
            return None
        taints = [t for t in (node["spec"].get("taints") or ()) if t["effect"] == "NoExecute"]
        bound = evict_after(pod, taints)
        if bound is None:
            return None
        since = max((clock.since(t.get("timeAdded")) for t in taints if t.get("timeAdded")), default=float("inf"))
        if since < bound:
            return bound - since
        metadata = pod["metadata"]
        self._events.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        try:
            await self._client.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except NotFound:
            return None
        return None

    async def _without_node(self, key: Key, pod: Object, name: str) -> float | None:
        first = self._missing.setdefault(key, time.monotonic())
        left = first + QUARANTINE - time.monotonic()
        if left > 0:
            return left
        try:
            await self._client.get(NODE, name)
        except NotFound:
            self._missing.pop(key, None)
            await self._collect(pod)
        return None

    async def _collect(self, pod: Object) -> None:
        """Remove a pod that nobody will stop any more."""
        metadata = pod["metadata"]
        try:
            await self._client.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period=0)
        except NotFound:
            return
