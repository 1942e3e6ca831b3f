"""CEL's static types, and the small language of signatures in which functions are declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type by name and parameters. ``fields`` makes it an object with just those fields; a single capital letter is a type
    parameter of a declaration."""

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False)

    @property
    def is_param(self) -> bool:
        return len(self.name) == 1

    @property
    def is_dynamic(self) -> bool:
        """dyn, any, or the type of something that was already reported as wrong."""
        return self.name in _DYNAMIC

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


_DYNAMIC: Final = frozenset({"dyn", "any", "error"})

DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("error")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")

TYPE_NAMES: Final = {
    "bool": BOOL,
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "null_type": NULL,
    "list": Type("list", (DYN,)),
    "map": Type("map", (DYN, DYN)),
    "type": Type("type"),
    "optional_type": Type("optional_type", (DYN,)),
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "kubernetes.Quantity": QUANTITY,
    "kubernetes.Semver": SEMVER,
    "net.IP": Type("net.IP"),
    "net.CIDR": Type("net.CIDR"),
    "kubernetes.URL": Type("kubernetes.URL"),
}
"""Identifiers that denote types in expressions."""

_SHORT: Final = {
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "IP": Type("net.IP"),
    "CIDR": Type("net.CIDR"),
    "URL": Type("kubernetes.URL"),
    "Format": Type("kubernetes.NamedFormat"),
}
_WORD: Final = re.compile(r"[A-Za-z_.]+|[(),]")


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(element: Type) -> Type:
    return Type("optional_type", (element,))


def parse_type(text: str) -> Type:
    """Read ``map(string, list(A))``; ``optional(A)`` and the short names of opaque types are understood."""
    words = iter([*_WORD.findall(text), ""])
    return _parse(next(words), words)[0]


def _parse(name: str, words: Iterator[str]) -> tuple[Type, str]:
    following = next(words)
    if following != "(":
        return _SHORT.get(name) or Type(name), following
    params = []
    while following != ")":
        param, following = _parse(next(words), words)
        params.append(param)
    return Type({"optional": "optional_type"}.get(name, name), tuple(params)), next(words)


def unify(bound: dict[str, Type], formal: Type, actual: Type) -> bool:
    """Whether a value of the actual type may be given for the formal one; binds the formal's type parameters."""
    if formal.is_param:
        known = bound.get(formal.name)
        if known is None:
            bound[formal.name] = actual
            return True
        if not unify(bound, known, actual):
            return False
        if actual.is_dynamic:
            bound[formal.name] = actual
        return True
    if formal.is_dynamic or actual.is_dynamic:
        return True
    if "null" in (formal.name, actual.name) and formal.name != actual.name:
        return "." in formal.name + actual.name or {formal.name, actual.name} & {"duration", "timestamp"} != set()
    if formal.name != actual.name:
        return False
    if formal.name == "type" or len(formal.params) != len(actual.params):
        return True
    return all(unify(bound, f, a) for f, a in zip(formal.params, actual.params, strict=True))


def substitute(bound: Mapping[str, Type], type_: Type) -> Type:
    """The type with its parameters replaced; an unbound one becomes dyn."""
    if type_.is_param:
        return bound.get(type_.name, DYN)
    if type_.params:
        return Type(type_.name, tuple(substitute(bound, param) for param in type_.params))
    return type_
