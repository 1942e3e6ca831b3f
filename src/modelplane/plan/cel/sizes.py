"""Sizes and costs as Kubernetes' estimator counts them: ranges of 64 bits without sign that stop at their end.

Where it looks a size up it walks a path into the declared type. Its paths are slices of Go, which share memory, so that one may
change under another; what a rule is said to cost depends on that, and is followed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

LIMIT: Final = 2**64 - 1


def added(one: int, other: int) -> int:
    return min(one + other, LIMIT)


def multiplied(one: int, other: int) -> int:
    return min(one * other, LIMIT)


def scaled(count: int, factor: float) -> int:
    """A count times a factor, rounded up."""
    found = float(count) * factor
    return LIMIT if found >= 2.0**64 else math.ceil(found)


class Size(NamedTuple):
    """Characters of a text, bytes, or entries of a list or map: at least and at most."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        return Size(added(self.least, other.least), added(self.most, other.most))

    def times(self, other: Size) -> Size:
        return Size(multiplied(self.least, other.least), multiplied(self.most, other.most))

    def or_else(self, other: Size) -> Size:
        """What covers both."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN: Final = Size(0, LIMIT)
ONE: Final = Size(1, 1)


class Entry(NamedTuple):
    """Sizes of the keys and of the values of a list or map that the expression itself makes."""

    list: bool
    key: Size
    value: Size


def either(one: Entry | None, other: Entry | None) -> Entry | None:
    """The entries of a value that is one of two, where both are known."""
    if one is None or other is None:
        return None
    return Entry(one.list, one.key.or_else(other.key), one.value.or_else(other.value))


@dataclass(slots=True)
class Path:
    """Where a value lies under a variable: the first ``length`` of some names that other paths may share."""

    names: list[str]
    length: int
    room: int

    def to(self, name: str) -> Path:
        """One step further. Room that is left is used, whoever else uses it."""
        if self.length < self.room:
            self.names[self.length : self.length + 1] = [name]
            return Path(self.names, self.length + 1, self.room)
        return Path([*self.names[: self.length], name], self.length + 1, max(1, 2 * self.room))

    def steps(self) -> list[str]:
        """The names after the variable's own."""
        return self.names[1 : self.length]

    def apart(self) -> Path:
        """The same place in memory of its own."""
        return Path(self.names[: self.length], self.length, self.length)


NOWHERE: Final = Path([], 0, 0)


def rooted(name: str) -> Path:
    return Path([name], 1, 1)
