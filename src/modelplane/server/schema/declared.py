"""What CEL may know of a schema: the type of each place that a rule can reach, and how large its values can be.

Kubernetes makes both from the structural schema. A place whose type it cannot tell (unknown fields that are kept, and lists and
maps of such) is not there for rules; where there is no limit, what fits into one request is the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from modelplane.plan.cel.lexer import KEYWORDS
from modelplane.plan.cel.sizes import Size
from modelplane.plan.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of

REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request."""
_PLAIN: Final = {"boolean": (BOOL, 4), "number": (DOUBLE, 1), "integer": (INT, 1)}
_TIMES: Final = {
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}
"""By format the type, and the fewest and the most bytes in JSON."""
_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_META: Final = {
    "kind": {"type": "string"},
    "apiVersion": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
}

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """One place: its type (an object has none of its own until it is named), the most characters or entries of its value, and the
    fewest bytes that it takes."""

    type: Type | None
    most: int
    smallest: int
    fields: Mapping[str, Declared] = field(default_factory=dict)
    key: Declared | None = None
    item: Declared | None = None

    def named(self, name: str) -> Type:
        """The type, with objects called by where they are."""
        if self.type is not None:
            return self.type
        if self.item is None:
            return Type(name, (), {one: below.named(f"{name}.{one}") for one, below in self.fields.items()})
        if self.key is None:
            return list_of(self.item.named(f"{name}.@idx"))
        return map_of(STRING, self.item.named(f"{name}.@elem"))

    def size(self, steps: list[str]) -> Size | None:
        """The size of what lies some steps below, None where there is no such place."""
        found = self
        for step in steps:
            below = found.below(step)
            if below is None:
                return None
            found = below
        return Size(0, found.most)

    def below(self, step: str) -> Declared | None:
        match step:
            case "@items" | "@values":
                return self.item
            case "@keys":
                return self.key
        return self.fields.get(step)

    @property
    def times(self) -> int:
        """How many such values fit into a request."""
        return REQUEST // (self.smallest + 1)


_KEY: Final = Declared(STRING, 0, 2)


def escaped(name: str) -> str | None:
    """A property's name as rules write it, None if they cannot."""
    if name in KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return re.sub(r"__|[.\-/]", lambda found: _ESCAPED[found[0]], name)


def declared(schema: Schema, *, root: bool = False) -> Declared | None:
    """A place of a structural schema; ``root`` is one that has apiVersion, kind and a name. None if rules cannot see it."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(DYN, 4 * _limit(schema, "maxLength", 0) if "maxLength" in schema else REQUEST - 2, 1)
    match schema.get("type"):
        case "array":
            return _list(schema)
        case "object":
            return _object(schema, root)
        case "string":
            return _text(schema)
        case "boolean" | "number" | "integer" as plain:
            type_, smallest = _PLAIN[plain]
            return Declared(type_, 0, smallest)
    return None


def _limit(schema: Schema, name: str, otherwise: int) -> int:
    found = schema.get(name)
    return otherwise if found is None else max(int(found), 0)


def _below(schema: object) -> Declared | None:
    return (
        declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource"))) if isinstance(schema, dict) else None
    )


def _list(schema: Schema) -> Declared | None:
    item = _below(schema.get("items"))
    if item is None:
        return None
    most = _limit(schema, "maxItems", (REQUEST - 2) // (item.smallest + 1))
    return Declared(None, most, 2, item=item)


def _object(schema: Schema, root: bool) -> Declared | None:
    if isinstance(schema.get("additionalProperties"), dict):
        item = _below(schema["additionalProperties"])
        if item is None:
            return None
        most = _limit(schema, "maxProperties", (REQUEST - 2) // (item.smallest + 6))
        return Declared(None, most, 2, key=_KEY, item=item)
    properties = schema.get("properties") or {}
    if root and not _has_meta(properties):
        properties = {**properties, **_META}
    required = schema.get("required") or ()
    fields: dict[str, Declared] = {}
    smallest = 2
    for name, child in properties.items():
        below = _below(child)
        if below is None:
            continue
        written = escaped(name)
        if written is not None:
            fields[written] = below
        if name in required and child.get("default") is None:
            smallest += len(name.encode()) + below.smallest + 4
    return Declared(None, 0, smallest, fields)


def _has_meta(properties: Schema) -> bool:
    """Whether a resource's own schema says what every resource has."""
    meta = properties.get("metadata") or {}
    inside = meta.get("properties") or {}
    texts = [properties.get("kind"), properties.get("apiVersion"), inside.get("name"), inside.get("generateName")]
    return meta.get("type") == "object" and all((text or {}).get("type") == "string" for text in texts)


def _text(schema: Schema) -> Declared:
    format_ = schema.get("format")
    if format_ == "byte":
        return Declared(BYTES, _limit(schema, "maxLength", REQUEST - 2), 2)
    if format_ in _TIMES:
        type_, smallest, most = _TIMES[format_]
        return Declared(type_, most, smallest)
    if schema.get("maxLength") is not None:
        return Declared(STRING, 4 * _limit(schema, "maxLength", 0), 2)
    values = schema.get("enum") or ()
    most = max((len(value.encode()) for value in values if isinstance(value, str)), default=0)
    return Declared(STRING, most if values else REQUEST - 2, 2)
