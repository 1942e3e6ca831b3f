"""Sets of field paths, and their form in ``managedFields`` (FieldsV1).

A path element is the text that FieldsV1 uses: ``f:name``, ``k:{"name":"a"}``, ``v:"x"``, ``i:0``. So the set and
its encoding are the same tree, and elements compare as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from modelplane.api.meta import Object

Path: TypeAlias = tuple[str, ...]
_RANK = {"f": 0, "k": 1, "v": 2, "i": 3}


def field(name: str) -> str:
    return f"f:{name}"


def keys(values: Object) -> str:
    """The element of an item of a list map."""
    return f"k:{json.dumps(values, sort_keys=True, separators=(',', ':'), ensure_ascii=False)}"


def item(value: object) -> str:
    """The element of an item of a set."""
    return f"v:{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}"


def readable(path: Path) -> str:
    """A path as conflicts show it: ``.spec.containers[name="a"].image``."""
    return "".join(_readable(element) for element in path)


def _readable(element: str) -> str:
    kind, _, text = element.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return f"[{','.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in json.loads(text).items())}]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def _order(element: str) -> tuple[int, str]:
    return _RANK.get(element[:1], 4), element


class FieldSet:
    """``members`` are paths that end here, ``children`` those that go on; one element can be both."""

    __slots__ = ("children", "members")

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.children: dict[str, FieldSet] = {}

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        made = cls()
        for path in paths:
            made.insert(path)
        return made

    @classmethod
    def decode(cls, fields: Object) -> FieldSet:
        """From FieldsV1."""
        made = cls()
        for element, below in fields.items():
            if element == ".":
                continue
            if not below or "." in below:
                made.members.add(element)
            child = cls.decode(below or {})
            if child:
                made.children[element] = child
        return made

    def encode(self) -> Object:
        """To FieldsV1."""
        made: Object = {}
        for element in self._ordered():
            child = self.children.get(element)
            below = child.encode() if child else {}
            made[element] = {".": {}, **below} if below and element in self.members else below
        return made

    def insert(self, path: Path) -> None:
        """Add a path; the root itself is never a member."""
        if path:
            self.place(path[:-1]).members.add(path[-1])

    def place(self, path: Path) -> FieldSet:
        """The set of what is below a path, to be filled."""
        here = self
        for element in path:
            below = here.children.get(element)
            if below is None:
                below = here.children[element] = FieldSet()
            here = below
        return here

    def attach(self, path: Path, deeper: FieldSet) -> None:
        """Add everything of another set below a path that has nothing below it yet."""
        if not path:
            self.members, self.children = deeper.members, deeper.children
        elif deeper:
            self.place(path[:-1]).children[path[-1]] = deeper

    def has(self, path: Path) -> bool:
        here: FieldSet | None = self
        for element in path[:-1]:
            here = here.children.get(element) if here else None
        return bool(path) and here is not None and path[-1] in here.members

    def below(self, element: str) -> FieldSet | None:
        """The paths that go on from an element, None when there are none."""
        return self.children.get(element) or None

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and set(self.paths()) == set(other.paths())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(readable(path) for path in self.paths())})"

    def paths(self) -> Iterator[Path]:
        """All paths, in the order of FieldsV1."""
        for element in self._ordered():
            if element in self.members:
                yield (element,)
            for path in self.children[element].paths() if element in self.children else ():
                yield (element, *path)

    def _ordered(self) -> list[str]:
        """The elements as FieldsV1 orders them: those of one sort, as they mostly are, by their text."""
        found = sorted(self.members | self.children.keys()) if self.children else sorted(self.members)
        mixed = found and found[0][0] != found[-1][0]
        return sorted(found, key=_order) if mixed else found

    def union(self, other: FieldSet) -> FieldSet:
        """Both; not to be inserted into, because it shares with them."""
        if not other:
            return self
        if not self:
            return other
        made = FieldSet()
        made.members = self.members | other.members
        for element in self.children.keys() | other.children.keys():
            mine, theirs = self.children.get(element), other.children.get(element)
            made.children[element] = mine.union(theirs) if mine and theirs else (mine or theirs or FieldSet())
        return made

    def intersection(self, other: FieldSet) -> FieldSet:
        made = FieldSet()
        made.members = self.members & other.members
        for element in self.children.keys() & other.children.keys():
            child = self.children[element].intersection(other.children[element])
            if child:
                made.children[element] = child
        return made

    def difference(self, other: FieldSet) -> FieldSet:
        """Without the very paths of ``other``; what is below them stays."""
        made = FieldSet()
        made.members = self.members - other.members
        for element, mine in self.children.items():
            theirs = other.children.get(element)
            child = mine.difference(theirs) if theirs else mine
            if child:
                made.children[element] = child
        return made

    def without_below(self, other: FieldSet) -> FieldSet:
        """Without the paths of ``other`` and everything below them."""
        made = FieldSet()
        made.members = self.members - other.members
        for element, mine in self.children.items():
            if element in other.members:
                continue
            theirs = other.children.get(element)
            child = mine.without_below(theirs) if theirs else mine
            if child:
                made.children[element] = child
        return made

    def only_below(self, element: str) -> FieldSet:
        """The paths at or below one top-level element."""
        made = FieldSet()
        made.members = self.members & {element}
        if element in self.children:
            made.children[element] = self.children[element]
        return made
