"""The garbage collector's picture: who owns whom, across all kinds; and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelplane.api.meta import Key, Object, Resource

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(slots=True)
class Node:
    """One object, as far as ownership goes."""

    resource: Resource
    key: Key
    uid: str
    owners: Sequence[Mapping[str, Any]] = ()
    finalizers: Sequence[str] = ()
    deleting: bool = False

    @classmethod
    def of(cls, resource: Resource, obj: Object) -> Node:
        metadata = obj["metadata"]
        return cls(
            resource,
            Key.of(obj),
            metadata["uid"],
            tuple(metadata.get("ownerReferences") or ()),
            tuple(metadata.get("finalizers") or ()),
            bool(metadata.get("deletionTimestamp")),
        )


@dataclass(slots=True)
class Graph:
    """Objects by UID, and the dependents of a UID whether or not we know its object."""

    nodes: dict[str, Node] = field(default_factory=dict)
    dependents: dict[str, set[str]] = field(default_factory=dict)

    def put(self, node: Node) -> None:
        self._unlink(node.uid)
        self.nodes[node.uid] = node
        for owner in node.owners:
            self.dependents.setdefault(owner["uid"], set()).add(node.uid)

    def drop(self, uid: str) -> None:
        self._unlink(uid)
        self.nodes.pop(uid, None)

    def _unlink(self, uid: str) -> None:
        known = self.nodes.get(uid)
        for owner in known.owners if known else ():
            siblings = self.dependents.get(owner["uid"])
            if siblings is not None:
                siblings.discard(uid)
                if not siblings:
                    del self.dependents[owner["uid"]]

    def of_owner(self, uid: str) -> list[Node]:
        return [self.nodes[d] for d in sorted(self.dependents.get(uid, ()))]


def blocking(dependents: Iterable[Node], owner_uid: str) -> list[Node]:
    """Dependents that hold up the foreground deletion of their owner."""
    return [
        node
        for node in dependents
        if any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in node.owners)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a dependent: `delete` with a propagation policy, or `drop` these owners' references."""

    delete: str | None = None
    drop: tuple[str, ...] = ()


def judge(node: Node, absent: Iterable[str], waiting: Iterable[str], has_dependents: bool) -> Verdict:
    """`absent`: owners that do not exist. `waiting`: owners in foreground deletion. Both by UID."""
    gone, going = set(absent), set(waiting)
    solid = [o for o in node.owners if o["uid"] not in gone and o["uid"] not in going]
    if solid:
        return Verdict(drop=tuple(sorted((gone | going) & {o["uid"] for o in node.owners})))
    if not node.owners or not (gone or going):
        return Verdict()
    if going and has_dependents:
        return Verdict(delete="Foreground")
    if ORPHAN in node.finalizers:
        return Verdict(delete="Orphan")
    if FOREGROUND in node.finalizers:
        return Verdict(delete="Foreground")
    return Verdict(delete="Background")
