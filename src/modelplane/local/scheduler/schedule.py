"""The decision for one pod: a node and its claims' devices, or kube-scheduler's sentence why not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.meta import Object
from modelplane.local.scheduler import amounts, devices
from modelplane.local.scheduler.devices import Broken, Selects, Unallocatable, missing_class
from modelplane.local.scheduler.nodes import NodeView, conflicting, matches_selector, preference, refusals
from modelplane.local.scheduler.pools import DeviceId, Shelf


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod; first write these allocations into its claims (those that have one already are left out)."""

    node: str
    allocations: Mapping[str, Object]
    """Claim name to AllocationResult."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node will do for now. The reason is SchedulerError where a claim could not be judged at all."""

    message: str
    reason: str = "Unschedulable"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster as the decision sees it."""

    nodes: Sequence[NodeView]
    classes: Mapping[str, Object]
    shelf: Shelf
    taken: Collection[DeviceId]


def schedule(pod: Object, claims: Sequence[Object], snapshot: Snapshot, selects: Selects) -> Bind | Unschedulable:
    """Where the pod goes. `claims` are the pod's own, every one existing.

    Devices are looked for on every node that the pod fits, even when one was found: a claim that cannot be judged on one of
    them is a fault of the claim, and the pod waits.
    """
    count = len(snapshot.nodes)
    if not count:
        return Unschedulable("no nodes available to schedule pods")
    spec = pod["spec"]
    open_claims = [claim for claim in claims if not (claim.get("status") or {}).get("allocation")]
    impossible = conflicting(spec) or missing_class(open_claims, snapshot.classes)
    if impossible is not None:
        return Unschedulable(f"0/{count} nodes are available: {impossible}.")
    requests = amounts.pod_requests(spec)
    reasons: Counter[str] = Counter()
    feasible: dict[str, tuple[NodeView, Sequence[Object]]] = {}
    for node in snapshot.nodes:
        against = refusals(spec, requests, node)
        if against:
            reasons.update(against)
            continue
        unavailable = not all(_available(claim, node) for claim in claims)
        try:
            pools = snapshot.shelf.pools(node) if open_claims else ()
            found = devices.allocate(open_claims, snapshot.classes, pools, snapshot.taken, node.name, selects)
        except Unallocatable as error:
            reasons[str(error)] += 1
            continue
        except Broken as error:
            return Unschedulable(f'running "DynamicResources" filter plugin: {error}', "SchedulerError")
        if unavailable:
            reasons["resourceclaim not available on the node"] += 1
        else:
            feasible[node.name] = (node, found)
    if not feasible:
        return Unschedulable(summary(count, reasons))
    name, (_, given) = min(feasible.items(), key=lambda item: (preference(spec, requests, item[1][0]), item[0]))
    return Bind(name, {c["metadata"]["name"]: r for c, r in zip(open_claims, given, strict=True)})


def _available(claim: Object, node: NodeView) -> bool:
    """Whether an allocated claim can be used from the node."""
    selector = ((claim.get("status") or {}).get("allocation") or {}).get("nodeSelector")
    return selector is None or matches_selector(selector, node.name, node.labels)


def summary(nodes: int, reasons: Mapping[str, int]) -> str:
    """kube-scheduler's sentence: counts per reason, sorted as text."""
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def unusable(claim: Object, pod: Object) -> str | None:
    """Why a pod may not use a claim at all, whatever the node; None when it may."""
    name = claim["metadata"]["name"]
    if claim["metadata"].get("deletionTimestamp"):
        return f'resourceclaim "{name}" is being deleted'
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("uid") != pod["metadata"]["uid"]:
            return f'resourceclaim "{name}" was not created for pod "{pod["metadata"]["name"]}"'
    return None
