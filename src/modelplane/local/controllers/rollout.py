"""The Deployment decision: from a deployment and its ReplicaSets to sizes, a new set, and what is to go. Pure.

The steps and figures are those of Kubernetes' deployment controller: proportional scaling, surge and unavailability bounds,
unhealthy old pods first, progress deadline by the last progress seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
LONGEST_HISTORY: Final = 2000
"""Characters."""
NO_DEADLINE: Final = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Bounds:
    """The deployment's strategy in whole pods."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        return self.replicas + self.surge

    @property
    def fewest_available(self) -> int:
        return self.replicas - self.unavailable


@dataclass(slots=True)
class Plan:
    """What to write, in this order: a new set, sizes, annotations, removals."""

    create: Object | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    """ReplicaSet name to new size."""
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    """ReplicaSet name to annotations that have to change."""
    min_ready: dict[str, int] = field(default_factory=dict)
    """ReplicaSet name to minReadySeconds, where they have to change."""
    delete: list[str] = field(default_factory=list)
    revision: str = ""
    again: float | None = None


def bounds(deployment: Object) -> Bounds:
    """Percentages of surge round up, of unavailability down; both zero means one unavailable."""
    spec = deployment["spec"]
    replicas = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Bounds(replicas, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = _resolve(rolling.get("maxSurge", "25%"), replicas, math.ceil)
    unavailable = _resolve(rolling.get("maxUnavailable", "25%"), replicas, math.floor)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def _resolve(value: Any, replicas: int, rounding: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounding(replicas * int(value[:-1]) / 100))
    return int(value)


def template_hash(deployment: Object) -> str:
    """The value of `pod-template-hash`; a collision count makes it differ where a name was taken."""
    collisions = (deployment.get("status") or {}).get("collisionCount")
    return podlib.digest([deployment["spec"]["template"], collisions] if collisions else deployment["spec"]["template"])


def same_template(deployment: Object, replica_set: Object) -> bool:
    """Whether the set's template is the deployment's, the hash label aside."""
    template = replica_set["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH}
    wanted = dict(deployment["spec"]["template"].get("metadata") or {})
    for entry in (metadata, wanted):
        entry.pop("creationTimestamp", None)
    metadata["labels"] = labels
    wanted.setdefault("labels", {})
    return metadata == wanted and template["spec"] == deployment["spec"]["template"]["spec"]


def split(deployment: Object, sets: Sequence[Object]) -> tuple[Object | None, list[Object]]:
    """The current set and the older ones, oldest first."""
    ordered = sorted(sets, key=lambda s: (s["metadata"].get("creationTimestamp") or "", s["metadata"]["name"]))
    current = next((s for s in ordered if same_template(deployment, s)), None)
    return current, [s for s in ordered if s is not current]


def plan(deployment: Object, sets: Sequence[Object], pods: Sequence[Object]) -> Plan:
    """What to do next. `pods` are all pods of the sets, for the Recreate strategy."""
    current, old = split(deployment, sets)
    limits = bounds(deployment)
    result = Plan(revision=_revision(current, old))
    paused = bool(deployment["spec"].get("paused"))
    if _scaled(sets, limits) or paused:
        _scale(result, deployment, current, old, limits)
        _annotate(result, deployment, current, old, limits, sized=True)
        if paused:
            result.delete = _history(deployment, old)
        return result
    recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
    if recreate and any(_size(s) for s in old):
        for each in old:
            _resize(result, each, 0)
        _annotate(result, deployment, current, old, limits)
        return result
    if recreate and any(_is_old(pod, current) and podlib.phase(pod) not in ("Succeeded", "Failed") for pod in pods):
        return result
    if current is None:
        size = min(limits.replicas, max(0, limits.most - sum(_size(s) for s in old)))
        result.create = _new_set(deployment, size, result.revision, limits)
    elif recreate:
        _resize(result, current, limits.replicas)
    elif not _grow(result, current, old, limits):
        _shrink(result, current, old, limits)
    _annotate(result, deployment, current, old, limits)
    if current is not None and complete(deployment, [*old, current], current, limits):
        result.delete = _history(deployment, old)
    return result


def _scaled(sets: Sequence[Object], limits: Bounds) -> bool:
    """Whether the deployment's size changed since the sets were last sized."""
    return any(
        _size(s) and (s["metadata"].get("annotations") or {}).get(DESIRED) not in (None, str(limits.replicas))
        for s in sets
    )


def _scale(result: Plan, deployment: Object, current: Object | None, old: Sequence[Object], limits: Bounds) -> None:
    everything = [*old, *([current] if current else ())]
    active = [s for s in everything if _size(s)]
    if len(active) <= 1:
        only = active[0] if active else current
        if only is not None:
            _resize(result, only, limits.replicas)
        return
    if current is not None and counted(current, "availableReplicas") == _size(current) == limits.replicas:
        for each in old:
            _resize(result, each, 0)
        return
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return
    # Proportional: the difference is shared in proportion to size, what rounding leaves goes to the largest.
    total = sum(_size(s) for s in active)
    left = limits.most - total if limits.replicas else -total
    by_age = sorted(active, key=lambda s: s["metadata"].get("creationTimestamp") or "", reverse=left > 0)
    ranked = sorted(
        by_age, key=_size, reverse=True
    )  # the largest first; of equals the newest grows, the oldest shrinks first
    before = {s["metadata"]["name"]: _maximum(s, limits) for s in active}
    sizes = {s["metadata"]["name"]: _size(s) for s in active}
    for each in ranked:
        name = each["metadata"]["name"]
        share = round(_size(each) * limits.most / max(1, before[name])) - _size(each)
        share = max(0, min(share, left)) if left > 0 else min(0, max(share, left))
        sizes[name] += share
        left -= share
    first = ranked[0]["metadata"]["name"]
    sizes[first] = max(0, sizes[first] + left)
    for each in active:
        _resize(result, each, sizes[each["metadata"]["name"]])


def _maximum(replica_set: Object, limits: Bounds) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    return int(text) if text.isdigit() else limits.most


def _grow(result: Plan, current: Object, old: Sequence[Object], limits: Bounds) -> bool:
    """Size the current set up (or down to the deployment's size); whether that was to be done."""
    size = _size(current)
    if size == limits.replicas:
        return False
    if size > limits.replicas:
        _resize(result, current, limits.replicas)
        return True
    room = limits.most - size - sum(_size(s) for s in old)
    if room <= 0:
        return False
    _resize(result, current, size + min(room, limits.replicas - size))
    return True


def _shrink(result: Plan, current: Object, old: Sequence[Object], limits: Bounds) -> None:
    """Size old sets down: first pods that are not available anyway, then as many as availability allows."""
    total = sum(_size(s) for s in old) + _size(current)
    starting = _size(current) - counted(current, "availableReplicas")
    allowed = total - limits.fewest_available - starting
    sizes = {s["metadata"]["name"]: _size(s) for s in old}
    for each in old:
        name = each["metadata"]["name"]
        broken = max(0, min(sizes[name] - counted(each, "availableReplicas"), allowed))
        sizes[name] -= broken
        allowed -= broken
    available = sum(min(sizes[s["metadata"]["name"]], counted(s, "availableReplicas")) for s in old)
    spare = min(available + counted(current, "availableReplicas") - limits.fewest_available, allowed)
    for each in old:
        name = each["metadata"]["name"]
        fewer = max(0, min(sizes[name], spare))
        sizes[name] -= fewer
        spare -= fewer
    for each in old:
        _resize(result, each, sizes[each["metadata"]["name"]])


def _resize(result: Plan, replica_set: Object, size: int) -> None:
    if size != _size(replica_set):
        result.sizes[replica_set["metadata"]["name"]] = size


def _annotate(
    result: Plan,
    deployment: Object,
    current: Object | None,
    old: Sequence[Object],
    limits: Bounds,
    *,
    sized: bool = False,
) -> None:
    """Sets say for which size of the deployment they were sized last, when that is done (``sized``: all of them now); the current
    one has the deployment's own annotations and its minReadySeconds besides, and remembers revisions that it had before."""
    for each in [*old, *([current] if current else ())]:
        name = each["metadata"]["name"]
        have = each["metadata"].get("annotations") or {}
        wanted = {}
        if name in result.sizes or (sized and _size(each)):
            wanted = {DESIRED: str(limits.replicas), MAXIMUM: str(limits.most)}
        if current is not None and name == current["metadata"]["name"]:
            wanted |= _carried(deployment) | _revised(have, result.revision)
            ready = int(deployment["spec"].get("minReadySeconds", 0))
            if ready != each["spec"].get("minReadySeconds", 0):
                result.min_ready[name] = ready
        changed = {key: value for key, value in wanted.items() if have.get(key) != value}
        if changed:
            result.annotations[name] = changed


def _revised(have: Mapping[str, str], revision: str) -> dict[str, str]:
    """The revision, and the one before it at the end of the history; what would make that too long falls out in front."""
    before = have.get(REVISION, "")
    if before == revision or not before.isdigit():
        return {REVISION: revision}
    history = [*filter(None, have.get(HISTORY, "").split(",")), before]
    while len(",".join(history)) > LONGEST_HISTORY:
        del history[0]
    return {REVISION: revision, HISTORY: ",".join(history)}


def _history(deployment: Object, old: Sequence[Object]) -> list[str]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    idle = [
        s for s in old if not _size(s) and not counted(s, "replicas") and not s["metadata"].get("deletionTimestamp")
    ]
    idle.sort(key=_revision_of)
    return [s["metadata"]["name"] for s in idle[: max(0, len(idle) - limit)]]


def _revision_of(replica_set: Object) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _revision(current: Object | None, old: Sequence[Object]) -> str:
    newest_old = max((_revision_of(s) for s in old), default=0)
    if current is not None and _revision_of(current) > newest_old:
        return str(_revision_of(current))
    return str(newest_old + 1)


def _new_set(deployment: Object, size: int, revision: str, limits: Bounds) -> Object:
    metadata, spec = deployment["metadata"], deployment["spec"]
    mark = template_hash(deployment)
    template = dict(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: mark}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: mark}
    carried = _carried(deployment)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{mark}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**carried, REVISION: revision, DESIRED: str(limits.replicas), MAXIMUM: str(limits.most)},
            "ownerReferences": controlled(deployment),
        },
        "spec": {
            "replicas": size,
            "selector": selector,
            "template": template,
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
        },
    }


_NOT_CARRIED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
)


def _carried(deployment: Object) -> dict[str, str]:
    """Annotations that the current set has from its deployment."""
    annotations = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in _NOT_CARRIED}


def _is_old(pod: Object, current: Object | None) -> bool:
    if current is None:
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return all(owner["uid"] != current["metadata"]["uid"] for owner in owners)


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def counted(replica_set: Object, name: str) -> int:
    """A number of the set's status."""
    return int((replica_set.get("status") or {}).get(name) or 0)


def complete(deployment: Object, sets: Sequence[Object], current: Object, limits: Bounds) -> bool:
    return (
        counted(current, "replicas") == limits.replicas == sum(counted(s, "replicas") for s in sets)
        and sum(counted(s, "availableReplicas") for s in sets) >= limits.replicas
    )
