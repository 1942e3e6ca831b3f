"""What a Deployment says about itself: how many pods of which kind, whether they are enough, and whether its rollout gets on.
Pure.

Conditions change their time only when they change; a rollout that moves renews the time of Progressing, and one that has not
moved for longer than its deadline is called timed out until it moves again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from modelplane.api.meta import Object
from modelplane.local import clock
from modelplane.local.controllers.rollout import NO_DEADLINE, Bounds, bounds, complete, counted, split


def status(deployment: Object, sets: Sequence[Object], at: datetime) -> tuple[Object, float | None]:
    """The deployment's status, and seconds until the progress deadline has to be looked at again."""
    current, old = split(deployment, sets)
    everything = [*old, *([current] if current else ())]
    limits = bounds(deployment)
    before = deployment.get("status") or {}
    total = sum(counted(s, "replicas") for s in everything)
    available = sum(counted(s, "availableReplicas") for s in everything)
    now: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": counted(current, "replicas") if current else 0,
        "readyReplicas": sum(counted(s, "readyReplicas") for s in everything),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(int(s["spec"].get("replicas", 1)) for s in everything) - available),
        "terminatingReplicas": sum(counted(s, "terminatingReplicas") for s in everything),
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
    shown = ("observedGeneration", "terminatingReplicas")
    return {key: value for key, value in now.items() if value or key in shown}, again


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
    known: Mapping[str, Any] = conditions.get("Progressing") or {}
    before = deployment.get("status") or {}
    if known.get("reason") == "DeploymentPaused":
        _put(conditions, at, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
        return float(deadline)
    if current is None:
        return None
    name = current["metadata"]["name"]
    # A set is new to the report when it was made after the last one, however often the report was tried meanwhile.
    made = str(current["metadata"].get("creationTimestamp") or "") >= str(known.get("lastUpdateTime") or "")
    if not known or (made and f'"{name}"' not in str(known.get("message", ""))):
        reason, text = ("NewReplicaSetCreated", "Created new") if made else ("FoundNewReplicaSet", "Found new")
        _put(conditions, at, "Progressing", "True", reason, f'{text} replica set "{name}"', renew=True)
        return float(deadline)
    if complete(deployment, sets, current, limits):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        _put(conditions, at, "Progressing", "True", "NewReplicaSetAvailable", text)
        return None
    moved = (
        now["updatedReplicas"] > before.get("updatedReplicas", 0)
        or now["replicas"] - now["updatedReplicas"] < before.get("replicas", 0) - before.get("updatedReplicas", 0)
        or now["readyReplicas"] > before.get("readyReplicas", 0)
        or now["availableReplicas"] > before.get("availableReplicas", 0)
    )
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
