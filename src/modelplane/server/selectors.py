"""Label and field selectors of list, watch and delete-collection requests: parsed once, matched per object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from modelplane.server import labelparser, refusals


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


def parse_labels(text: str) -> LabelSelector:
    """Raises a 400 in the words of the label selector parser."""
    return LabelSelector(tuple(Requirement(*term) for term in labelparser.parse(text)))


def parse_fields(text: str, supported: Collection[str], *, plain: bool = False) -> FieldSelector:
    """``supported`` are the fields of the resource; ``plain`` says that it has none of its own. Raises a 400."""
    terms: list[tuple[str, str, bool]] = []
    for raw in re.findall(r"(?:\\.|\\$|[^\\,])+", text, re.DOTALL):
        found = re.match(r"(.*?)(!=|==|=)(.*)", raw, re.DOTALL)
        if found is None:
            raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{raw}'")
        name, operator, value = found.groups()
        terms.append((name, _unescaped(value), operator != "!="))
    for name, _, _ in terms:
        if name not in supported and plain:
            known = ", ".join(f'"{each}"' for each in sorted(supported))
            raise refusals.bad_request(f'"{name}" is not a known field selector: only {known}')
        if name not in supported:
            raise refusals.bad_request(f"field label not supported: {name}")
    return FieldSelector(tuple(terms))


def _unescaped(value: str) -> str:
    """A value without the backslashes before commas, equal signs and backslashes, which do not stand without one."""
    made = []
    for escaped, plain in re.findall(r"\\(.|$)|(.)", value, re.DOTALL):
        if not plain and escaped not in ("\\", ",", "="):
            raise refusals.bad_request(f"invalid field selector: invalid escape sequence: \\{escaped}")
        if plain == "=":
            raise refusals.bad_request(f"invalid field selector: unescaped character in value: {ord(plain)}")
        made.append(plain or escaped)
    return "".join(made)
