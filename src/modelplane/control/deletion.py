"""A parent that is being deleted: hold it while it is used, take its children away in order, then let it go.

Runs on the inventory and the composer's edges alone, with no lookup that could fail. Every wait is bounded: a cluster that stays
out of reach, or an object that never goes, is let go after a while with an event that lists what may be left; an annotation
forces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from modelplane.api.meta import Condition, Object
from modelplane.compose.contract import After, Event
from modelplane.control.conditions import deleting
from modelplane.control.index import Parent
from modelplane.control.inventory import Entry
from modelplane.control.ownership import Owner
from modelplane.control.prune import Pruner, Remaining

FORCE: Final = "modelplane.ai/force-delete"
"""Annotation of a parent: ``"true"`` lets go at once of whatever cannot be deleted."""
NAMED: Final = 10


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds before something is let go."""

    unreachable: float = 300.0
    stuck: float = 1800.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a step of deletion came to."""

    done: bool = False
    """The parent may go."""
    left: Sequence[Entry] = ()
    condition: Condition
    events: Sequence[Event] = ()
    again: float | None = None
    """Seconds until a bound, if one is running."""


class Deletion:
    """``now`` gives seconds since the epoch."""

    def __init__(self, pruner: Pruner, now: Callable[[], float], bounds: Bounds) -> None:
        self._pruner = pruner
        self._now = now
        self._bounds = bounds

    def held(self, users: Sequence[str], entries: Sequence[Entry]) -> Step:
        """While others use the parent nothing is deleted."""
        message = f"in use by {_listed(users)}; delete or drain them first"
        return Step(
            left=entries, condition=deleting(message), events=(Event(type="Warning", reason="InUse", message=message),)
        )

    async def step(
        self, parent: Parent, xr: Object, owner: Owner, entries: Sequence[Entry], edges: Sequence[After]
    ) -> Step:
        remaining = await self._pruner.remove(parent, owner, entries, edges)
        asked = seconds_of(xr["metadata"]["deletionTimestamp"])
        due = {item.entry.ref: self._due(item, asked) for item in remaining}
        let_go = [item for item in remaining if forced(xr) or self._now() >= due[item.entry.ref]]
        left = [item for item in remaining if item not in let_go]
        events = []
        if let_go:
            what = _listed([f"{item.entry.ref} ({item.why})" for item in let_go])
            why = f"as {FORCE} asks" if forced(xr) else "after waiting long enough"
            events.append(Event(type="Warning", reason="LeftBehind", message=f"let go {why}; may be left: {what}"))
        if not left:
            return Step(done=True, condition=deleting("everything is gone"), events=events)
        message = f"waiting for {_listed([f'{item.entry.ref}: {item.why}' for item in left])}"
        return Step(
            left=[item.entry for item in left],
            condition=deleting(message),
            events=events,
            again=max(1.0, min(due[item.entry.ref] for item in left) - self._now()),
        )

    def _due(self, item: Remaining, asked: float) -> float:
        """When it is let go: so long after the deletion was asked for, and after its cluster was lost."""
        if not item.lost:
            return asked + self._bounds.stuck
        return max(asked, seconds_of(item.since) if item.since else asked) + self._bounds.unreachable


def forced(xr: Object) -> bool:
    return bool((xr["metadata"].get("annotations") or {}).get(FORCE) == "true")


def seconds_of(timestamp: str) -> float:
    """An RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return "; ".join(names[:NAMED]) + (f"; and {more} more" if more > 0 else "")
