"""What the store holds and tells: keys, entries at a revision, and changes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Key(NamedTuple):
    """Where a body lives; the namespace of a cluster-wide resource is empty."""

    resource: str
    namespace: str
    name: str


class Draft(NamedTuple):
    """A body without its revision; the writer puts the decimal revision between the two parts."""

    head: bytes
    tail: bytes


class Entry:
    """One stored body at one revision. ``memo`` is room for whatever a reader derives from the body once."""

    __slots__ = ("body", "key", "memo", "revision")

    def __init__(self, key: Key, body: bytes, revision: int) -> None:
        self.key = key
        self.body = body
        self.revision = revision
        self.memo: object = None


class Change(IntEnum):
    """What happened to a key."""

    ADDED = 0
    MODIFIED = 1
    DELETED = 2


class Event:
    """One change. ``previous`` is None for an addition, or when the log no longer knows the earlier body."""

    __slots__ = ("change", "entry", "previous")

    def __init__(self, change: Change, entry: Entry, previous: Entry | None) -> None:
        self.change = change
        self.entry = entry
        self.previous = previous
