"""The decision for one pod: a node and its claims' devices, or kube-scheduler's sentence why not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from modelplane.api.meta import Object
from modelplane.local.scheduler import amounts, devices
from modelplane.local.scheduler.devices import DeviceId, Selects, Unallocatable
from modelplane.local.scheduler.nodes import NodeView, matches_selector, preference, refusals


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod; first write these allocations into its claims (those that have one already are left out)."""

    node: str
    allocations: Mapping[str, Object]
    """Claim name to AllocationResult."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node will do for now."""

    message: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster as the decision sees it."""

    nodes: Sequence[NodeView]
    classes: Mapping[str, Object]
    slices: Sequence[Object]
    taken: Collection[DeviceId]


def schedule(pod: Object, claims: Sequence[Object], snapshot: Snapshot, selects: Selects) -> Bind | Unschedulable:
    """Where the pod goes. `claims` are the pod's own, every one existing."""
    if not snapshot.nodes:
        return Unschedulable("no nodes available to schedule pods")
    spec = pod["spec"]
    requests = amounts.pod_requests(spec)
    open_claims = [claim for claim in claims if not (claim.get("status") or {}).get("allocation")]
    reasons: Counter[str] = Counter()
    feasible: list[NodeView] = []
    for node in snapshot.nodes:
        against = refusals(spec, requests, node)
        if not against and not all(_available(claim, node) for claim in claims):
            against = ["resourceclaim not available on the node"]
        reasons.update(against)
        if not against:
            feasible.append(node)
    feasible.sort(key=lambda node: (preference(spec, requests, node), node.name))
    for node in feasible:
        if not open_claims:
            return Bind(node.name, {})
        try:
            found = devices.published(snapshot.slices, node)
            results = devices.allocate(open_claims, snapshot.classes, found, snapshot.taken, node.name, selects)
        except Unallocatable as error:
            reasons[str(error)] += 1
            continue
        return Bind(node.name, {c["metadata"]["name"]: r for c, r in zip(open_claims, results, strict=True)})
    return Unschedulable(summary(len(snapshot.nodes), reasons))


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
