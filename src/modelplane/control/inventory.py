"""What a parent has, or is about to have: `status.children[]`, and the same thing across all parents.

Written down before the first remote write, so that whatever happens in between, nothing is left behind unknown. The fleet-wide half
answers who else uses a shared object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.control.index import Parent
from modelplane.control.ownership import Ref


class Entry(msgspec.Struct, frozen=True, order=True):
    """One child of one parent."""

    key: str
    ref: Ref
    uid: str = ""
    retain: bool = False
    shared: bool = False

    def record(self) -> Object:
        """As it stands in the status."""
        fields: Object = {
            "key": self.key,
            "cluster": self.ref.cluster,
            "apiVersion": self.ref.gvk.api_version,
            "kind": self.ref.gvk.kind,
            "namespace": self.ref.namespace,
            "name": self.ref.name,
            "uid": self.uid,
        }
        record = {name: value for name, value in fields.items() if value or name == "cluster"}
        return {**record, **({"retain": True} if self.retain else {}), **({"shared": True} if self.shared else {})}

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Entry:
        gvk = GVK.parse(str(record["apiVersion"]), str(record["kind"]))
        ref = Ref(str(record.get("cluster") or ""), gvk, str(record.get("namespace") or ""), str(record["name"]))
        return cls(
            str(record.get("key") or ""),
            ref,
            str(record.get("uid") or ""),
            bool(record.get("retain")),
            bool(record.get("shared")),
        )


def entries_of(xr: Object) -> dict[Ref, Entry]:
    """The inventory that a parent's status holds. Two entries with one key are an old object and its successor."""
    records = (xr.get("status") or {}).get("children") or ()
    return {entry.ref: entry for entry in map(Entry.read, records)}


def records_of(entries: Iterable[Entry]) -> list[Object]:
    """In a stable order, so that an unchanged inventory is an unchanged status."""
    return [entry.record() for entry in sorted(entries)]


class Inventories:
    """All inventories, by object."""

    def __init__(self) -> None:
        self._held: dict[Parent, frozenset[Ref]] = {}
        self._holders: dict[Ref, set[Parent]] = defaultdict(set)
        self._clusters: dict[str, set[Parent]] = defaultdict(set)

    def put(self, parent: Parent, refs: Iterable[Ref]) -> None:
        """Replace what is known of a parent; nothing forgets it."""
        fresh, old = frozenset(refs), self._held.get(parent, frozenset())
        for ref in old - fresh:
            self._holders[ref].discard(parent)
            if not self._holders[ref]:
                del self._holders[ref]
        for ref in fresh - old:
            self._holders[ref].add(parent)
        before, after = {ref.cluster for ref in old}, {ref.cluster for ref in fresh}
        for cluster in before - after:
            self._clusters[cluster].discard(parent)
        for cluster in after - before:
            self._clusters[cluster].add(parent)
        if fresh:
            self._held[parent] = fresh
        else:
            self._held.pop(parent, None)

    def others(self, ref: Ref, parent: Parent) -> Sequence[Parent]:
        """Who else has the object, in order."""
        return sorted(self._holders.get(ref, set()) - {parent})

    def holders(self, ref: Ref) -> Sequence[Parent]:
        return sorted(self._holders.get(ref, ()))

    def at(self, cluster: str, kind: GVK | None = None) -> Sequence[Parent]:
        """Who has anything (of a kind) on a cluster."""
        holders = self._clusters.get(cluster, ())
        if kind is None:
            return sorted(holders)
        return sorted(holder for holder in holders if any(ref.gvk == kind for ref in self._held[holder]))
