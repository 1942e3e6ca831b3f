"""Take children away, in the order that deletion edges give.

Each is deleted by UID and only if it still says it is ours; what is shared stays while somebody else has it; what is retained is
only forgotten. An entry leaves the inventory when the object is seen to be gone, not when its deletion was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

import msgspec

from modelplane.api.meta import Object
from modelplane.compose.contract import After
from modelplane.control.apply import Applier, propagation
from modelplane.control.caches import Caches
from modelplane.control.charts import RELEASE
from modelplane.control.index import Parent
from modelplane.control.inventory import Entry, Inventories
from modelplane.control.ownership import Owner, Ref, control_plane_of, owner_uid
from modelplane.errors import ApiError, Conflict, NotFound


class Remaining(msgspec.Struct, frozen=True):
    """A child that is not gone, and why."""

    entry: Entry
    why: str
    lost: bool = False
    """Its cluster cannot be reached,"""
    since: str = ""
    """since this time, where it is known."""


class Pruner:
    """One for all parents."""

    def __init__(self, caches: Caches, applier: Applier, inventories: Inventories) -> None:
        self._caches = caches
        self._applier = applier
        self._inventories = inventories

    async def remove(
        self, parent: Parent, owner: Owner, entries: Iterable[Entry], edges: Sequence[After]
    ) -> list[Remaining]:
        """One step: delete whatever nothing has to precede, and go on with what that frees at once."""
        left = {entry.ref: entry for entry in entries}
        result: dict[Ref, Remaining] = {}
        while True:
            free = [
                entry for entry in left.values() if entry.ref not in result and not _before(entry, left.values(), edges)
            ]
            if not free:
                break
            for outcome in await asyncio.gather(*(self._one(parent, owner, entry) for entry in free)):
                if isinstance(outcome, Remaining):
                    result[outcome.entry.ref] = outcome
                else:
                    del left[outcome.ref]
        for entry in left.values():
            if entry.ref not in result:
                first = ", ".join(str(earlier.ref) for earlier in _before(entry, left.values(), edges))
                ahead = [result[e.ref] for e in _before(entry, left.values(), edges) if e.ref in result]
                since = max((item.since for item in ahead), default="")
                result[entry.ref] = Remaining(entry, f"after {first}", all(item.lost for item in ahead), since)
        return list(result.values())

    async def _one(self, parent: Parent, owner: Owner, entry: Entry) -> Entry | Remaining:
        """The entry when it is gone."""
        if entry.retain or (entry.shared and self._inventories.others(entry.ref, parent)):
            self._applier.forget(entry.ref)
            return entry
        lost = self._caches.lost(entry.ref.target)
        if lost is not None:
            return Remaining(entry, lost.message or lost.reason, lost=True, since=lost.since)
        try:
            if entry.ref.gvk == RELEASE:
                await self._applier.remove_chart(owner, entry.ref)
                self._applier.forget(entry.ref)
                return entry
            return await self._object(owner, entry)
        except ApiError as error:
            return Remaining(entry, str(error))

    async def _object(self, owner: Owner, entry: Entry) -> Entry | Remaining:
        ref = entry.ref
        client = self._caches.client(ref.target)
        if client is None:
            return Remaining(entry, f"cluster {ref.cluster} has no client yet", lost=True)
        try:
            found = await client.get(ref.gvk, ref.name, ref.namespace or None)
        except NotFound:
            self._applier.forget(ref)
            return entry
        if not _deletable(found, owner, entry):
            return entry
        if not found["metadata"].get("deletionTimestamp"):
            uid = found["metadata"]["uid"]
            with contextlib.suppress(Conflict):
                answer = await client.delete(
                    ref.gvk, ref.name, ref.namespace or None, uid=uid, propagation=propagation(ref.gvk)
                )
                if answer.get("kind") == "Status" or not _lingers(answer):
                    self._applier.forget(ref)
                    return entry
                found = answer
        return Remaining(entry, _waits(found))


def _before(entry: Entry, left: Iterable[Entry], edges: Sequence[After]) -> list[Entry]:
    """Entries that have to be gone before this one is deleted."""
    patterns = [edge.earlier for edge in edges if _matches(edge.later, entry.key)]
    if not patterns:
        return []
    return [
        other
        for other in left
        if other.ref != entry.ref
        and other.key != entry.key
        and any(_matches(pattern, other.key) for pattern in patterns)
    ]


def _matches(pattern: str, key: str) -> bool:
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def _deletable(found: Object, owner: Owner, entry: Entry) -> bool:
    if entry.uid and found["metadata"].get("uid") != entry.uid and owner_uid(found) != owner.uid:
        return False
    if entry.shared:
        return control_plane_of(found) == owner.control_plane
    return owner_uid(found) == owner.uid


def _lingers(answer: Object) -> bool:
    metadata = answer.get("metadata") or {}
    return bool(metadata.get("finalizers")) or bool(metadata.get("deletionGracePeriodSeconds"))


def _waits(found: Object) -> str:
    finalizers = ", ".join(found["metadata"].get("finalizers") or ())
    return f"is being deleted, which waits for {finalizers}" if finalizers else "is being deleted"
