"""What the reconciler keeps between passes: who reads what, who has what, who is who.

Nothing in here is needed to be right. All of it is found again in caches and statuses after a start; it only saves work and answers
questions that span parents.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelplane.api.meta import Object
from modelplane.compose.contract import Ready
from modelplane.control.index import Parent, ReadIndex
from modelplane.control.inventory import Entry, Inventories, entries_of
from modelplane.control.ownership import Ref
from modelplane.kube import Backoff


class Book:
    """One for all parents."""

    def __init__(self) -> None:
        self.index = ReadIndex()
        self.inventories = Inventories()
        self.parents: dict[str, Parent] = {}
        """Parents that exist, by UID."""
        self.rules: dict[Parent, dict[str, Ready]] = {}
        """By which rule each child is ready, as its composer said last."""
        self.written: dict[Parent, tuple[str, str]] = {}
        """Digests of the status that was last written, and of what the server made of it: it prunes and sets defaults."""
        self.waiting: dict[Parent, frozenset[str]] = {}
        """Clusters that a parent wants objects on and that could not be reached: nothing is in its inventory for them yet."""
        self._entries: dict[Parent, dict[Ref, Entry]] = {}
        self._backoff: dict[Parent, Backoff] = {}

    def entries(self, parent: Parent, xr: Object) -> dict[Ref, Entry]:
        """The inventory: what the status holds, and what was done since it was read."""
        return {**entries_of(xr), **self._entries.get(parent, {})}

    def remember(self, parent: Parent, entries: Mapping[Ref, Entry]) -> None:
        self._entries[parent] = dict(entries)
        self.inventories.put(parent, entries)

    def backoff(self, parent: Parent) -> Backoff:
        found = self._backoff.get(parent)
        if found is None:
            found = self._backoff[parent] = Backoff(0.02, 30.0)
        return found

    def seen(self, parent: Parent, old: Object | None, new: Object | None) -> None:
        """A parent appeared, changed, or went."""
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self.parents.pop(old["metadata"]["uid"], None)
            self._entries.pop(parent, None)
        if new is not None:
            self.parents[new["metadata"]["uid"]] = parent
            self.inventories.put(parent, self.entries(parent, new))

    def forget(self, parent: Parent) -> None:
        """A parent is gone for good."""
        self.index.put(parent, ())
        self.inventories.put(parent, ())
        self.rules.pop(parent, None)
        self.written.pop(parent, None)
        self.waiting.pop(parent, None)
        self._entries.pop(parent, None)
        self._backoff.pop(parent, None)
