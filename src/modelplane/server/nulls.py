"""Nothing in objects of built-in kinds, as Go reads and writes it.

Null is absent, and in a list or a map the empty value of its type; an empty list or map that is not required is absent
too. Custom kinds keep all of that for their schema to judge; a built-in kind has none of it once its body was read, so
that nothing after this has to expect it. Counts that are zero are absent where Go has them so.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import Object
from modelplane.server.schema.node import Node
from modelplane.server.schema.nothing import may_have_nothing

_ZERO: Final[dict[str, object]] = {"string": "", "integer": 0, "number": 0, "boolean": False, "int-or-string": 0}


_COUNTS: Final = ("availableReplicas", "observedGeneration", "readyReplicas")
_LEFT_OUT: Final[dict[str, frozenset[str]]] = {
    "DaemonSetSpec": frozenset({"minReadySeconds"}),
    "DaemonSetStatus": frozenset(
        {"numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"}
    ),
    "DeploymentSpec": frozenset({"minReadySeconds", "paused"}),
    "DeploymentStatus": frozenset({*_COUNTS, "replicas", "unavailableReplicas", "updatedReplicas"}),
    "HorizontalPodAutoscalerStatus": frozenset({"currentReplicas"}),
    "JobStatus": frozenset({"active", "failed", "succeeded"}),
    "PodDisruptionBudgetStatus": frozenset({"observedGeneration"}),
    "PodSpec": frozenset({"hostIPC", "hostNetwork", "hostPID"}),
    "PodStatus": frozenset({"observedGeneration"}),
    "ReplicaSetSpec": frozenset({"minReadySeconds"}),
    "ReplicaSetStatus": frozenset({*_COUNTS, "fullyLabeledReplicas"}),
    "ReplicationControllerStatus": frozenset({*_COUNTS, "fullyLabeledReplicas"}),
    "ServiceSpec": frozenset({"healthCheckNodePort", "publishNotReadyAddresses"}),
    "StatefulSetSpec": frozenset({"minReadySeconds"}),
    "StatefulSetStatus": frozenset({"currentReplicas", "observedGeneration", "readyReplicas", "updatedReplicas"}),
}
"""Numbers and booleans that Go does not write when they are zero or false, by the names of their types."""


def without_nulls(node: Node, obj: Object, *, empty: bool = False) -> Object:
    """The object without null; shared with the input where it has none. ``empty`` lists and maps may be kept: an apply
    patch owns a field that it gives as empty."""
    if not may_have_nothing(obj):
        return obj
    cleaned = _clean(node, obj, empty)
    assert isinstance(cleaned, dict)
    return cleaned


def _clean(node: Node | None, value: object, empty: bool) -> object:
    if isinstance(value, dict):
        kept = {}
        left_out = _LEFT_OUT.get(node.name, ()) if node is not None and not empty else ()
        for name, item in value.items():
            if left_out and name in left_out and item in (0, False):
                continue
            below = None if node is None else node.field(name)
            if item is None:
                if node is not None and below is not None and name not in node.properties and below.type in _ZERO:
                    kept[name] = _ZERO[below.type]
            elif empty or not (node is not None and item in ([], {}) and _omitted(node, name, below)):
                kept[name] = _clean(below, item, empty)
        return value if len(kept) == len(value) and all(kept[name] is value[name] for name in kept) else kept
    if isinstance(value, list):
        below = None if node is None else node.items
        items = [_zero(below) if item is None else _clean(below, item, empty) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _omitted(node: Node, name: str, below: Node | None) -> bool:
    """Whether Go leaves an empty value of this field out: lists and maps, where the field may be missing."""
    if below is None or name == "managedFields" or name not in node.properties or name in node.required:
        return False
    return below.type == "array" or (below.additional is not None and not below.properties)


def _zero(node: Node | None) -> object:
    return {} if node is None else _ZERO.get(node.type, {})
