"""The ReplicaSet decision: which pods to make or delete, and the status that follows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from modelplane.api.meta import Object
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import matches

BURST = 500


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many pods to create, which to delete."""

    create: int
    delete: Sequence[Object]


def scaling(replica_set: Object, pods: Sequence[Object]) -> Scaling:
    """`pods` are those that the set controls."""
    if replica_set["metadata"].get("deletionTimestamp"):
        return Scaling(0, ())
    active = [pod for pod in pods if podlib.is_active(pod)]
    surplus = len(active) - replica_set["spec"].get("replicas", 1)
    if surplus <= 0:
        return Scaling(min(-surplus, BURST), ())
    return Scaling(0, sorted(active, key=podlib.deletion_order)[: min(surplus, BURST)])


@dataclass(frozen=True, slots=True)
class Counted:
    status: Object
    again: float | None
    """Seconds until a ready pod will count as available, None when none is on its way."""


def count(replica_set: Object, pods: Sequence[Object], at: datetime, failure: Object | None = None) -> Counted:
    """The status of the set; `failure` is its ReplicaFailure condition when creating or deleting failed."""
    spec = replica_set["spec"]
    active = [pod for pod in pods if podlib.is_active(pod)]
    until = [podlib.available_in(pod, spec.get("minReadySeconds", 0), at) for pod in active]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    status: Object = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(matches({"matchLabels": labels}, pod["metadata"].get("labels")) for pod in active),
        "readyReplicas": sum(seconds is not None for seconds in until),
        "availableReplicas": sum(seconds == 0 for seconds in until),
        "terminatingReplicas": sum(podlib.is_stopping(pod) for pod in pods),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    if failure is not None:
        status["conditions"] = [failure]
    waiting = [seconds for seconds in until if seconds]
    return Counted(status, min(waiting) if waiting else None)
