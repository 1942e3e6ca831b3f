"""What workload controllers ask about a pod."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from modelplane.api.meta import Object
from modelplane.errors import ApiError, Forbidden
from modelplane.local import clock
from modelplane.local.controllers.owners import controlled

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' letters for generated names: no vowels, no look-alikes."""


def suffix(length: int = 5) -> str:
    """A random end for a name."""
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(length))


def digest(value: Any, length: int = 10) -> str:
    """A stable hash of JSON in the letters of names."""
    number = int.from_bytes(hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()[:10])
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[digit])
    return "".join(letters)


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_active(pod: Object) -> bool:
    """Neither finished nor being deleted."""
    return phase(pod) not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def is_stopping(pod: Object) -> bool:
    """Being deleted, and not finished yet."""
    return bool(pod["metadata"].get("deletionTimestamp")) and phase(pod) not in ("Succeeded", "Failed")


def ready_since(pod: Object) -> str | None:
    """When the pod became Ready; None while it is not."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return str(condition.get("lastTransitionTime") or "") if condition["status"] == "True" else None
    return None


def is_ready(pod: Object) -> bool:
    return ready_since(pod) is not None


def available_in(pod: Object, min_ready: float, at: datetime) -> float | None:
    """Seconds until the pod counts as available: 0 when it does, None while it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, min_ready - clock.since(since, at)) if min_ready and since else 0.0


def from_template(template: Mapping[str, Any], owner: Object, prefix: str) -> Object:
    """A new pod of an owner's pod template, with a name of its own."""
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{prefix[:57]}-{suffix()}",
            "generateName": f"{prefix[:57]}-",
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "finalizers": list(metadata.get("finalizers") or ()),
            "ownerReferences": controlled(owner),
        },
        "spec": template["spec"],
    }


def refused_at_the_end(error: ApiError) -> bool:
    """Whether a create was refused because its namespace is being deleted: nothing to report, and nothing to try again."""
    return isinstance(error, Forbidden) and any(
        field == "metadata.namespace" and message.endswith("is being terminated") for field, message in error.causes
    )


def deletion_order(pod: Object) -> tuple[Any, ...]:
    """Sort key: pods to delete first come first, as in the ReplicaSet controller."""
    annotations = pod["metadata"].get("annotations") or {}
    cost = annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
    since = ready_since(pod)
    restarts = max(
        (s.get("restartCount", 0) for s in (pod.get("status") or {}).get("containerStatuses") or ()), default=0
    )
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        since is not None,
        int(cost) if cost.lstrip("+-").isdigit() else 0,
        _newest_first(since),
        -restarts,
        _newest_first(pod["metadata"].get("creationTimestamp")),
        pod["metadata"]["name"],
    )


def _newest_first(text: str | None) -> float:
    moment = clock.read(text)
    return -moment.timestamp() if moment else 0.0
