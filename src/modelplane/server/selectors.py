"""Label and field selectors of list, watch and delete-collection requests: parsed once, matched per object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.server import refusals

_TOKEN: Final = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|<|>)|([^\s=!,()<>]+))")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: operator is ``in``, ``notin``, ``exists``, ``!``, ``gt`` or ``lt``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        bound = int(next(iter(self.values)))
        if value is None or not value.lstrip("-").isdigit():
            return False
        return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none holds for everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms of (field, wanted value, equal?)."""

    terms: tuple[tuple[str, str, bool], ...] = ()

    def matches(self, value_of: Callable[[str], str]) -> bool:
        return all((value_of(name) == value) is equal for name, value, equal in self.terms)

    def pinned(self, name: str) -> str:
        """The value that the selector demands of one field, or an empty string."""
        return next((value for term, value, equal in self.terms if equal and term == name), "")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:
                raise self.fail("unexpected character")
            self.tokens.append(found.group(1) or found.group(2))
            position = found.end()
        self.at = 0

    def fail(self, why: str) -> Exception:
        return refusals.bad_request(f"unable to parse requirement: {why}")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return Requirement(self.key(), "!")
        key = self.key()
        operator = self.peek()
        if operator in ("", ","):
            return Requirement(key, "exists")
        self.take()
        if operator in ("=", "=="):
            return Requirement(key, "in", frozenset({self.value()}))
        if operator == "!=":
            return Requirement(key, "notin", frozenset({self.value()}))
        if operator in ("in", "notin"):
            return Requirement(key, operator, self.value_set())
        if operator in ("<", ">"):
            bound = self.value()
            if not bound.lstrip("-").isdigit():
                raise self.fail(f"for 'Gt', 'Lt' operators, the value must be an integer, found '{bound}'")
            return Requirement(key, "gt" if operator == ">" else "lt", frozenset({bound}))
        raise self.fail(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def key(self) -> str:
        key = self.take()
        _, _, bare = key.rpartition("/")
        if not _NAME.fullmatch(bare) or len(bare) > 63:
            raise self.fail(f"found '{key}', expected: identifier")
        return key

    def value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        value = self.take()
        if not _NAME.fullmatch(value) or len(value) > 63:
            raise self.fail(f"found '{value}', expected: identifier")
        return value

    def value_set(self) -> frozenset[str]:
        found = self.take()
        if found != "(":
            raise self.fail(f"found '{found}' expected: '('")
        values: set[str] = set()
        while True:
            if self.peek() in (",", ")"):
                values.add("")
            else:
                values.add(self.value())
            token = self.take()
            if token == ")":
                return frozenset(values)
            if token != ",":
                raise self.fail("expected: ',' or ')'")


def parse_labels(text: str) -> LabelSelector:
    """Raises a 400 in the words of the label selector parser."""
    if not text.strip():
        return LabelSelector()
    parser = _Parser(text)
    requirements = [parser.requirement()]
    while parser.peek():
        if parser.take() != ",":
            raise parser.fail(f"found '{parser.tokens[parser.at - 1]}', expected: ',' or 'end of string'")
        requirements.append(parser.requirement())
    return LabelSelector(tuple(requirements))


def parse_fields(text: str, supported: Collection[str], *, plain: bool = False) -> FieldSelector:
    """``supported`` are the fields of the resource; ``plain`` says that it has none of its own. Raises a 400."""
    terms: list[tuple[str, str, bool]] = []
    for raw in _split(text):
        found = re.match(r"([^=!]+)(==|!=|=)(.*)", raw, re.DOTALL)
        if found is None:
            raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{raw}'")
        name, operator, value = found.groups()
        if name not in supported:
            if plain:
                known = ", ".join(f'"{each}"' for each in sorted(supported))
                raise refusals.bad_request(f'"{name}" is not a known field selector: only {known}')
            raise refusals.bad_request(f"field label not supported: {name}")
        terms.append((name, re.sub(r"\\(.)", r"\1", value), operator != "!="))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return [term for term in re.split(r"(?<!\\),", text) if term]
