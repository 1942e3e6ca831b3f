"""The scheduler at work: watches, decides for one pod after the other, writes allocations, binds.

Decisions are serial and remember what was decided but is not yet in the watch cache, so no device and no slot is given
twice; the writes of a decision run beside the next decision. A pod that fits nowhere waits until something that matters changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from modelplane.api.meta import Key, Object
from modelplane.errors import ApiError, Conflict, NotFound
from modelplane.kube import Client, PatchType
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.events import Events
from modelplane.local.kinds import CLAIM, DEVICE_CLASS, NODE, POD, RESOURCE_SLICE
from modelplane.local.scheduler import devices
from modelplane.local.scheduler.devices import Selects
from modelplane.local.scheduler.nodes import NodeView
from modelplane.local.scheduler.pools import Shelf
from modelplane.local.scheduler.schedule import Bind, Snapshot, Unschedulable, schedule, unusable
from modelplane.local.work import Work

log = logging.getLogger(__name__)

FINALIZER = "resource.kubernetes.io/delete-protection"
FINISHED = ("Succeeded", "Failed")


class Scheduler:
    """Schedules pods whose `schedulerName` is `name`."""

    def __init__(self, client: Client, caches: Caches, selects: Selects, *, name: str = "default-scheduler") -> None:
        self._client = client
        self._selects = selects
        self._name = name
        self._pods = caches.of(POD)
        self._nodes = caches.of(NODE)
        self._claims = caches.of(CLAIM)
        self._classes = caches.of(DEVICE_CLASS)
        self._slices = caches.of(RESOURCE_SLICE)
        self._caches = caches
        self._work: Work[Key] = Work("schedule", self._schedule, workers=1)
        self._events = Events(client, name)
        self._on_node: dict[str, dict[str, Object]] = {}
        self._views: dict[str, NodeView] = {}
        self._shelf: Shelf | None = None
        self._stuck: dict[Key, str] = {}
        """Pods that fit nowhere, with the message that their status has."""
        self._assumed: dict[str, str] = {}
        """Pod UID to node, bound by us and not yet seen."""
        self._allocated: dict[str, Object] = {}
        """Claim UID to allocation, written by us and not yet seen."""
        self._bindings: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._caches.synced(POD, NODE, CLAIM, DEVICE_CLASS, RESOURCE_SLICE)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._claim_changed)
        self._classes.subscribe(self._class_changed)
        self._slices.subscribe(self._slice_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._work.run())

    # --- what changed ----------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _placed(old), _placed(new)
        for pod, node in ((old, before), (new, after)):
            if pod is not None and node:
                self._views.pop(node, None)
                self._on_node.setdefault(node, {}).pop(pod["metadata"]["uid"], None)
        if new is not None and after:
            self._on_node.setdefault(after, {})[new["metadata"]["uid"]] = new
            self._assumed.pop(new["metadata"]["uid"], None)
        if before and not after:
            self._retry_stuck()
        pod = new or old
        assert pod is not None
        key = Key.of(pod)
        if new is None:
            self._assumed.pop(pod["metadata"]["uid"], None)
            self._stuck.pop(key, None)
        elif self._is_ours(new) and (old is None or _matters(old) != _matters(new)):
            self._work.add(key)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = new or old
        assert node is not None
        self._views.pop(node["metadata"]["name"], None)
        if old is None or new is None or _shape(old) != _shape(new):
            self._retry_stuck()

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new or old
        assert claim is not None
        if new is None or (new.get("status") or {}).get("allocation"):
            self._allocated.pop(claim["metadata"]["uid"], None)
        self._retry_stuck()

    def _class_changed(self, old: Object | None, new: Object | None) -> None:
        self._retry_stuck()

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        self._shelf = None
        self._retry_stuck()

    def _retry_stuck(self) -> None:
        for key in self._stuck:
            self._work.add(key)

    def _is_ours(self, pod: Object) -> bool:
        spec = pod["spec"]
        return (
            not spec.get("nodeName")
            and not pod["metadata"].get("deletionTimestamp")
            and (pod.get("status") or {}).get("phase") not in FINISHED
            and spec.get("schedulerName", self._name) == self._name
            and not spec.get("schedulingGates")
            and pod["metadata"]["uid"] not in self._assumed
        )

    # --- one pod ---------------------------------------------------------------------------------------------------

    async def _schedule(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        if pod is None or not self._is_ours(pod):
            self._stuck.pop(key, None)
            return None
        claims = self._claims_of(pod)
        if isinstance(claims, str):
            await self._refuse(key, pod, Unschedulable(claims))
            return None
        if claims is None:
            self._stuck.setdefault(key, "")
            return None
        decision = schedule(pod, claims, self._snapshot(), self._selects)
        if isinstance(decision, Unschedulable):
            await self._refuse(key, pod, decision)
            return None
        self._assume(pod, claims, decision)
        self._stuck.pop(key, None)
        task = asyncio.create_task(self._bind(key, pod, claims, decision))
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)
        return None

    def _claims_of(self, pod: Object) -> list[Object] | str | None:
        """The pod's claims with our own allocations; a sentence when one is unusable, None while one is still to be made."""
        made = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        claims: list[Object] = []
        for reference in pod["spec"].get("resourceClaims") or ():
            name = reference.get("resourceClaimName")
            if reference.get("resourceClaimTemplateName"):
                if reference["name"] not in made:
                    return None
                name = made[reference["name"]]
                if not name:
                    continue
            claim = self._claims.get(Key(pod["metadata"]["namespace"], name))
            if claim is None:
                if reference.get("resourceClaimTemplateName"):
                    return None
                return f'resourceclaim "{name}" not found'
            why_not = unusable(claim, pod)
            if why_not:
                return why_not
            assumed = self._allocated.get(claim["metadata"]["uid"])
            if assumed is not None and not (claim.get("status") or {}).get("allocation"):
                claim = {**claim, "status": {**(claim.get("status") or {}), "allocation": assumed}}
            claims.append(claim)
        return claims

    def _snapshot(self) -> Snapshot:
        for node in self._nodes.items():
            name = node["metadata"]["name"]
            if name not in self._views:
                self._views[name] = NodeView.of(node, self._on_node.get(name, {}).values())
        alive = [self._views[node["metadata"]["name"]] for node in self._nodes.items()]
        taken = devices.allocated(self._claims.items())
        taken |= devices.allocated({"status": {"allocation": a}} for a in self._allocated.values())
        classes = {c["metadata"]["name"]: c for c in self._classes.items()}
        if self._shelf is None:
            self._shelf = Shelf(self._slices.items())
        return Snapshot(alive, classes, self._shelf, taken)

    def _assume(self, pod: Object, claims: list[Object], decision: Bind) -> None:
        uid = pod["metadata"]["uid"]
        self._assumed[uid] = decision.node
        self._on_node.setdefault(decision.node, {})[uid] = pod
        self._views.pop(decision.node, None)
        for claim in claims:
            allocation = decision.allocations.get(claim["metadata"]["name"])
            if allocation is not None:
                self._allocated[claim["metadata"]["uid"]] = allocation

    def _forget(self, pod: Object, claims: list[Object], decision: Bind) -> None:
        uid = pod["metadata"]["uid"]
        self._assumed.pop(uid, None)
        self._on_node.get(decision.node, {}).pop(uid, None)
        self._views.pop(decision.node, None)
        for claim in claims:
            if claim["metadata"]["name"] in decision.allocations:
                self._allocated.pop(claim["metadata"]["uid"], None)

    async def _bind(self, key: Key, pod: Object, claims: list[Object], decision: Bind) -> None:
        metadata = pod["metadata"]
        try:
            for claim in claims:
                await self._reserve(pod, claim, decision.allocations.get(claim["metadata"]["name"]))
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
            }
            path = POD.path(metadata["namespace"], metadata["name"], "binding")
            await self._client.request("POST", path, body=binding)
        except ApiError as error:
            self._forget(pod, claims, decision)
            log.info("binding %s to %s: %s", key, decision.node, error)
            if not isinstance(error, NotFound | Conflict):
                self._events.event(pod, "Warning", "FailedScheduling", f"binding to {decision.node} failed: {error}")
            self._work.add_after(key, 0.05)
            return
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {decision.node}"
        self._events.event(pod, "Normal", "Scheduled", message)

    async def _reserve(self, pod: Object, claim: Object, allocation: Object | None) -> None:
        """Protect the claim from deletion, then write its allocation and who uses it."""
        metadata = claim["metadata"]
        status: dict[str, Any] = dict(claim.get("status") or {})
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        users = [user for user in status.get("reservedFor") or () if user["uid"] != consumer["uid"]]
        if allocation is None and len(users) < len(status.get("reservedFor") or ()):
            return
        fresh = claim
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": clock.stamp()}
            if FINALIZER not in (metadata.get("finalizers") or ()):
                finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
                body = {
                    **claim,
                    "metadata": {**metadata, "finalizers": finalizers},
                    "status": claim.get("status") or {},
                }
                fresh = await self._client.replace(body)
        status["reservedFor"] = [*users, consumer]
        written = await self._client.replace({**fresh, "status": status}, "status")
        self._claims.accept(written)

    async def _refuse(self, key: Key, pod: Object, verdict: Unschedulable) -> None:
        """Say in the pod's status why it waits, once per message."""
        message = verdict.message
        if self._stuck.get(key) == message:
            return
        self._stuck[key] = message
        self._events.event(pod, "Warning", "FailedScheduling", message)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": verdict.reason,
            "message": message,
            "lastTransitionTime": clock.stamp(),
        }
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        with contextlib.suppress(NotFound, Conflict):
            await self._client.patch(POD, key.name, key.namespace, patch, PatchType.STRATEGIC, "status")


def _placed(pod: Object | None) -> str | None:
    """The node that a pod takes room on."""
    if pod is None or (pod.get("status") or {}).get("phase") in FINISHED:
        return None
    node: str | None = pod["spec"].get("nodeName")
    return node


def _matters(pod: Object) -> tuple[Any, ...]:
    """What of an unbound pod changes a decision; its own PodScheduled condition does not."""
    metadata = pod["metadata"]
    claims = (pod.get("status") or {}).get("resourceClaimStatuses")
    return pod["spec"], metadata.get("labels"), metadata.get("deletionTimestamp"), claims


def _shape(node: Object) -> tuple[Any, ...]:
    """What of a node changes a decision; its heartbeat does not."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels, spec.get("taints"), spec.get("unschedulable"), status.get("allocatable")
