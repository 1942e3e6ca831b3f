"""From a change of an object to the parents that looked at it.

The reads of a parent's last pass are its watch set. A named read is found by its name, a list read by its kind and labels, old or
new; then the projection decides whether the change can be seen through it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from modelplane.api.meta import GVK, Key, Object
from modelplane.compose.contract import Read
from modelplane.control.projection import differs


class Parent(msgspec.Struct, frozen=True, order=True):
    """One object that we reconcile."""

    kind: GVK
    key: Key

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


Place: TypeAlias = tuple[str | None, GVK]
"""Cluster (None for the control cluster) and kind."""


class ReadIndex:
    """Who reads what. All operations are synchronous and cheap; it is used from one event loop."""

    def __init__(self) -> None:
        self._reads: dict[Parent, frozenset[Read]] = {}
        self._named: dict[tuple[Place, str, str], dict[Read, set[Parent]]] = defaultdict(dict)
        self._lists: dict[Place, dict[Read, set[Parent]]] = defaultdict(dict)

    def reads_of(self, parent: Parent) -> frozenset[Read]:
        return self._reads.get(parent, frozenset())

    def put(self, parent: Parent, reads: Iterable[Read]) -> None:
        """Replace a parent's watch set; an empty one forgets it."""
        fresh, old = frozenset(reads), self._reads.get(parent, frozenset())
        for read in old - fresh:
            bucket = self._bucket(read)
            bucket[read].discard(parent)
            if not bucket[read]:
                del bucket[read]
        for read in fresh - old:
            self._bucket(read).setdefault(read, set()).add(parent)
        if fresh:
            self._reads[parent] = fresh
        else:
            self._reads.pop(parent, None)

    def _bucket(self, read: Read) -> dict[Read, set[Parent]]:
        place = (read.cluster, read.kind)
        if read.name is None:
            return self._lists[place]
        return self._named[(place, read.namespace or "", read.name)]

    def readers(self, place: Place, old: Object | None, new: Object | None) -> set[Parent]:
        """The parents that can see this change."""
        obj = new if new is not None else old
        if obj is None:
            return set()
        key = Key.of(obj)
        woken: set[Parent] = set()
        for read, parents in self._named.get((place, key.namespace, key.name), {}).items():
            if read.wakes and differs(old, new, read.project):
                woken |= parents
        for read, parents in self._lists.get(place, {}).items():
            if not read.wakes or read.namespace not in (None, key.namespace) or parents <= woken:
                continue
            before = old if old is not None and selects(read, old) else None
            after = new if new is not None and selects(read, new) else None
            if differs(before, after, read.project):
                woken |= parents
        return woken

    def readers_at(self, cluster: str | None, kind: GVK | None = None) -> set[Parent]:
        """Everybody who reads anything at a cluster (of one kind): for a cache that became ready, or a cluster lost or back."""
        woken: set[Parent] = set()
        for (place_cluster, place_kind), reads in self._lists.items():
            if place_cluster == cluster and kind in (None, place_kind):
                woken.update(*reads.values())
        for ((place_cluster, place_kind), _, _), reads in self._named.items():
            if place_cluster == cluster and kind in (None, place_kind):
                woken.update(*reads.values())
        return woken


def selects(read: Read, obj: Object) -> bool:
    """Whether a list read's labels select the object."""
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in read.labels)
