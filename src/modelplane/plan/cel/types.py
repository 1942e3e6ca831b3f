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
        if self.name == "error":
            return "!error!"
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
    "net.IP": Type("net.IP"),
    "net.CIDR": Type("net.CIDR"),
}
"""Identifiers that denote types in expressions. Quantities, versions and URLs are of types that have none."""

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
