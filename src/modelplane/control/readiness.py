"""When a child counts as ready: by existing, by a condition about its current generation, or by an expression."""

from __future__ import annotations

from modelplane.api.meta import Object, Status
from modelplane.compose.contract import Cel, ConditionTrue, Ready


def is_ready(rule: Ready, obj: Object | None) -> bool:
    """False for what does not exist, is on its way out, or whose controller has not seen the current generation."""
    if obj is None or obj["metadata"].get("deletionTimestamp"):
        return False
    match rule:
        case ConditionTrue(type=wanted):
            return _is_true(obj, wanted)
        case Cel(expression=expression):
            from modelplane.control.expressions import holds

            return holds(expression, obj)
    return True


def _is_true(obj: Object, wanted: str) -> bool:
    """Read from plain JSON, since other projects' conditions lack what ours always have."""
    status = obj.get("status") or {}
    generation = obj["metadata"].get("generation") or 0
    entry = next((entry for entry in status.get("conditions") or () if entry.get("type") == wanted), None)
    if entry is None or entry.get("status") != Status.TRUE.value:
        return False
    seen = (status.get("observedGeneration"), entry.get("observedGeneration"))
    return all(value is None or value >= generation for value in seen)
