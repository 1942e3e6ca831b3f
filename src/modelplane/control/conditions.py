"""Conditions as they are stored: with generation and time of transition, and the two that every parent has.

``Synced`` says whether the last pass could do what it wanted, ``Ready`` whether what is wanted works. Ready is never True by
default: something has to be there and to be ready in the state that this very pass asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from modelplane.api.meta import Condition, Object, Status

SYNCED: Final = "Synced"
READY: Final = "Ready"

AVAILABLE: Final = "Available"
CREATING: Final = "Creating"
DELETING: Final = "Deleting"
UNREACHABLE: Final = "Unreachable"
SUCCESS: Final = "ReconcileSuccess"
ERROR: Final = "ReconcileError"

NAMED: Final = 5
"""How many children a message names."""


def stored(
    old: Sequence[Mapping[str, object]],
    new: Iterable[Condition],
    *,
    generation: int,
    now: str,
    keep: Collection[str] | None,
) -> list[Object]:
    """The conditions to write. ``keep`` are types that stay although ``new`` lacks them; None keeps all. The time moves only
    with the status, the generation always."""
    before = {str(entry.get("type")): dict(entry) for entry in old}
    result: dict[str, Object] = {}
    for condition in new:
        previous = before.get(condition.type)
        unchanged = previous is not None and previous.get("status") == condition.status.value
        time = previous.get("lastTransitionTime") if previous is not None and unchanged else None
        entry = {
            "type": condition.type,
            "status": condition.status.value,
            "reason": condition.reason,
            "lastTransitionTime": time or now,
            "observedGeneration": generation,
        }
        result[condition.type] = {**entry, "message": condition.message} if condition.message else entry
    for kind, entry in before.items():
        if kind not in result and (keep is None or kind in keep):
            result[kind] = entry
    return list(result.values())


class ChildState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one wanted child after the pass."""

    key: str
    name: str
    """As in a message: kind, name and cluster."""
    ready: bool
    changed: bool = False
    """This pass changed it, so what it says of itself may be about yesterday."""
    lost: str = ""
    """Why its cluster cannot be reached."""
    blocked: str = ""
    """Why it was not applied."""


def synced(errors: Sequence[str], children: Sequence[ChildState], leaving: Sequence[str] = ()) -> Condition:
    """``leaving`` are objects that are on their way out: no failure, but worth a word."""
    if errors:
        # With what is missing besides, which may be why: a chart that is not installed brings definitions.
        missing = [f"{child.name}: {child.blocked}" for child in children if child.blocked and not child.lost]
        message = _bounded("; ".join(dict.fromkeys([*errors, *missing])))
        return Condition(type=SYNCED, status=Status.FALSE, reason=ERROR, message=message)
    waiting = [f"{child.name}: {child.blocked}" for child in children if child.blocked]
    if waiting:
        reason = UNREACHABLE if any(child.lost for child in children) else ERROR
        return Condition(type=SYNCED, status=Status.FALSE, reason=reason, message=_bounded("; ".join(waiting)))
    message = _bounded(f"removing {_some(leaving)}") if leaving else ""
    return Condition(type=SYNCED, status=Status.TRUE, reason=SUCCESS, message=message)


def ready(decided: Condition | None, children: Sequence[ChildState], *, failed: bool, held: bool) -> Condition | None:
    """The Ready condition. A kind's own True is doubted when this pass changed a child or failed. None keeps what was."""
    if decided is not None and decided.status is not Status.TRUE:
        return decided
    changed = [child.name for child in children if child.changed]
    if decided is not None:
        if changed:
            return creating(f"waiting for {_some(changed)} to take the change")
        return _failed() if failed else decided
    if held:
        return None
    if failed:
        return _failed()
    lost = [child for child in children if child.lost]
    if lost:
        message = f"{_some([child.name for child in lost])} cannot be seen: {lost[0].lost}"
        return Condition(type=READY, status=Status.UNKNOWN, reason=UNREACHABLE, message=_bounded(message))
    unready = [child.name for child in children if not child.ready or child.changed]
    if unready:
        return creating(f"waiting for {_some(unready)}")
    if not children:
        return creating("nothing has been composed yet")
    return Condition(type=READY, status=Status.TRUE, reason=AVAILABLE)


def creating(message: str) -> Condition:
    return Condition(type=READY, status=Status.FALSE, reason=CREATING, message=_bounded(message))


def deleting(message: str) -> Condition:
    return Condition(type=READY, status=Status.FALSE, reason=DELETING, message=_bounded(message))


def _failed() -> Condition:
    return Condition(
        type=READY, status=Status.FALSE, reason=ERROR, message="the last pass failed; see the condition Synced"
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _bounded(message: str, most: int = 1024) -> str:
    return message if len(message) <= most else message[: most - 1] + "…"
