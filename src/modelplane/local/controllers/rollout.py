"""The Deployment decision: from a deployment and its ReplicaSets to sizes, a new set, and the status. Pure.

The steps and figures are those of Kubernetes' deployment controller: proportional scaling, surge and unavailability bounds,
unhealthy old pods first, progress deadline by the last progress seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local import clock
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
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
        _annotate(result, current, old, limits)
        return result
    recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
    if recreate and any(_size(s) for s in old):
        for each in old:
            _resize(result, each, 0)
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
    _annotate(result, current, old, limits)
    if current is not None and _complete(deployment, [*old, current], current, limits):
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
    if current is not None and _status(current, "availableReplicas") == _size(current) == limits.replicas:
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
    starting = _size(current) - _status(current, "availableReplicas")
    allowed = total - limits.fewest_available - starting
    sizes = {s["metadata"]["name"]: _size(s) for s in old}
    for each in old:
        name = each["metadata"]["name"]
        broken = max(0, min(sizes[name] - _status(each, "availableReplicas"), allowed))
        sizes[name] -= broken
        allowed -= broken
    available = sum(min(sizes[s["metadata"]["name"]], _status(s, "availableReplicas")) for s in old)
    spare = min(available + _status(current, "availableReplicas") - limits.fewest_available, allowed)
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


def _annotate(result: Plan, current: Object | None, old: Sequence[Object], limits: Bounds) -> None:
    for each in [*old, *([current] if current else ())]:
        name = each["metadata"]["name"]
        have = each["metadata"].get("annotations") or {}
        wanted = {}
        if result.sizes.get(name, _size(each)):
            wanted = {DESIRED: str(limits.replicas), MAXIMUM: str(limits.most)}
        if each is current:
            wanted[REVISION] = result.revision
        changed = {key: value for key, value in wanted.items() if have.get(key) != value}
        if changed:
            result.annotations[name] = changed


def _history(deployment: Object, old: Sequence[Object]) -> list[str]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    idle = [
        s for s in old if not _size(s) and not _status(s, "replicas") and not s["metadata"].get("deletionTimestamp")
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
    carried = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _NOT_CARRIED}
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


_NOT_CARRIED: Final = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAXIMUM)


def _is_old(pod: Object, current: Object | None) -> bool:
    if current is None:
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    return all(owner["uid"] != current["metadata"]["uid"] for owner in owners)


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _status(replica_set: Object, name: str) -> int:
    return int((replica_set.get("status") or {}).get(name) or 0)


# --- status ----------------------------------------------------------------------------------------------------------


def _complete(deployment: Object, sets: Sequence[Object], current: Object, limits: Bounds) -> bool:
    return (
        _status(current, "replicas") == limits.replicas == sum(_status(s, "replicas") for s in sets)
        and sum(_status(s, "availableReplicas") for s in sets) >= limits.replicas
    )


def status(deployment: Object, sets: Sequence[Object], at: datetime) -> tuple[Object, float | None]:
    """The deployment's status, and seconds until the progress deadline has to be looked at again."""
    current, old = split(deployment, sets)
    everything = [*old, *([current] if current else ())]
    limits = bounds(deployment)
    before = deployment.get("status") or {}
    total = sum(_status(s, "replicas") for s in everything)
    available = sum(_status(s, "availableReplicas") for s in everything)
    now: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": _status(current, "replicas") if current else 0,
        "readyReplicas": sum(_status(s, "readyReplicas") for s in everything),
        "availableReplicas": available,
        "unavailableReplicas": max(0, max(limits.replicas, total) - available),
    }
    if before.get("collisionCount"):
        now["collisionCount"] = before["collisionCount"]
    conditions = {c["type"]: c for c in before.get("conditions") or ()}
    enough = available >= limits.fewest_available
    _put(
        conditions,
        at,
        "Available",
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )
    again = _progress(deployment, current, everything, now, conditions, at, limits)
    failure = next((c for s in everything for c in (s.get("status") or {}).get("conditions") or ()), None)
    conditions.pop("ReplicaFailure", None)
    if failure is not None and failure["type"] == "ReplicaFailure" and failure["status"] == "True":
        conditions["ReplicaFailure"] = {**failure, "lastUpdateTime": failure.get("lastTransitionTime")}
    now["conditions"] = list(conditions.values())
    return {key: value for key, value in now.items() if value or key == "observedGeneration"}, again


def _progress(
    deployment: Object,
    current: Object | None,
    sets: Sequence[Object],
    now: Object,
    conditions: dict[str, Object],
    at: datetime,
    limits: Bounds,
) -> float | None:
    deadline = deployment["spec"].get("progressDeadlineSeconds", 600)
    if deadline == NO_DEADLINE:
        conditions.pop("Progressing", None)
        return None
    if deployment["spec"].get("paused"):
        _put(conditions, at, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        return None
    name = current["metadata"]["name"] if current else ""
    known: Mapping[str, Any] = conditions.get("Progressing") or {}
    before = deployment.get("status") or {}
    if known.get("reason") == "DeploymentPaused":
        known = {}
    if current is not None and _complete(deployment, sets, current, limits):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        _put(conditions, at, "Progressing", "True", "NewReplicaSetAvailable", text)
        return None
    moved = (
        now["updatedReplicas"] > before.get("updatedReplicas", 0)
        or now["replicas"] - now["updatedReplicas"] < before.get("replicas", 0) - before.get("updatedReplicas", 0)
        or now["readyReplicas"] > before.get("readyReplicas", 0)
        or now["availableReplicas"] > before.get("availableReplicas", 0)
    )
    if current is None:
        return None
    if f'"{name}"' not in str(known.get("message", "")):
        fresh = "observedGeneration" not in (current.get("status") or {})
        reason, text = ("NewReplicaSetCreated", "Created new") if fresh else ("FoundNewReplicaSet", "Found new")
        _put(conditions, at, "Progressing", "True", reason, f'{text} replica set "{name}"', renew=True)
        return float(deadline)
    if moved:
        text = f'ReplicaSet "{name}" is progressing.'
        _put(conditions, at, "Progressing", "True", "ReplicaSetUpdated", text, renew=True)
        return float(deadline)
    if known.get("reason") in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return None
    spent = clock.since(known.get("lastUpdateTime"), at)
    if spent >= deadline:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        _put(conditions, at, "Progressing", "False", "ProgressDeadlineExceeded", text)
        return None
    return float(deadline - spent)


def _put(
    conditions: dict[str, Object],
    at: datetime,
    type_: str,
    status_: str,
    reason: str,
    message: str,
    *,
    renew: bool = False,
) -> None:
    known = conditions.get(type_)
    if known is not None and (known["status"], known["reason"]) == (status_, reason) and not renew:
        return
    moment = clock.stamp(at)
    kept = known.get("lastTransitionTime") if known is not None and known["status"] == status_ else None
    conditions[type_] = {
        "type": type_,
        "status": status_,
        "reason": reason,
        "message": message,
        "lastUpdateTime": moment,
        "lastTransitionTime": kept or moment,
    }
