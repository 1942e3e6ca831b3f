"""Built-in kinds that are served in two shapes of one stored object: events, and autoscalers.

Custom kinds need no code here: their versions differ by name only (the strategy None of a definition).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from modelplane.api.meta import GVK, Object

Convert = Callable[[Object], Object]

_EVENT_NAMES: Final = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
"""Fields of events.k8s.io/v1, and what core/v1, in which events are stored, calls them."""


def _event_to_stored(obj: Object) -> Object:
    renamed = dict(_EVENT_NAMES)
    return {**{renamed.get(key, key): value for key, value in obj.items()}, "apiVersion": "v1"}


def _event_from_stored(obj: Object) -> Object:
    renamed = {stored: name for name, stored in _EVENT_NAMES}
    shown = {renamed.get(key, key): value for key, value in obj.items()}
    return {**shown, "apiVersion": "events.k8s.io/v1"}


def _scaler_to_stored(obj: Object) -> Object:
    spec = dict(obj.get("spec") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu("target", {"type": "Utilization", "averageUtilization": target})]
    status = dict(obj.get("status") or {})
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu("current", {"averageUtilization": current})]
    made = {**obj, "apiVersion": "autoscaling/v2", "spec": spec}
    return {**made, "status": status} if "status" in obj else made


def _scaler_from_stored(obj: Object) -> Object:
    spec = dict(obj.get("spec") or {})
    for metric in spec.pop("metrics", None) or ():
        if (metric.get("resource") or {}).get("name") == "cpu":
            target = (metric["resource"].get("target") or {}).get("averageUtilization")
            if target is not None:
                spec["targetCPUUtilizationPercentage"] = target
    spec.pop("behavior", None)
    status = dict(obj.get("status") or {})
    for metric in status.pop("currentMetrics", None) or ():
        if (metric.get("resource") or {}).get("name") == "cpu":
            current = (metric["resource"].get("current") or {}).get("averageUtilization")
            if current is not None:
                status["currentCPUUtilizationPercentage"] = current
    status.pop("conditions", None)
    made = {**obj, "apiVersion": "autoscaling/v1", "spec": spec}
    return {**made, "status": status} if "status" in obj else made


def _cpu(name: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", name: value}}


_TO_STORED: Final[Mapping[GVK, Convert]] = {
    GVK("events.k8s.io", "v1", "Event"): _event_to_stored,
    GVK("autoscaling", "v1", "HorizontalPodAutoscaler"): _scaler_to_stored,
}
_FROM_STORED: Final[Mapping[GVK, Convert]] = {
    GVK("events.k8s.io", "v1", "Event"): _event_from_stored,
    GVK("autoscaling", "v1", "HorizontalPodAutoscaler"): _scaler_from_stored,
}


def to_stored(gvk: GVK, obj: Object, api_version: str) -> Object:
    """An object of this kind in its storage version."""
    convert = _TO_STORED.get(gvk)
    return convert(obj) if convert is not None else {**obj, "apiVersion": api_version}


def from_stored(gvk: GVK, obj: Object) -> Object:
    """A stored object as this kind shows it."""
    convert = _FROM_STORED.get(gvk)
    return convert(obj) if convert is not None else {**obj, "apiVersion": gvk.api_version}
