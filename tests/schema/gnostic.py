"""Reads `openapi.v2.Document` of gnostic back into the JSON that it was made from, by field numbers written down here again.

It reads kube-apiserver's documents as well as ours, so that it is held by somebody else's writing too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

TEXT, WHOLE, DOUBLE, ANY = "text", "whole", "double", "any"
Shape = Mapping[int, tuple[str, Any]]
"""Field number to JSON name and what its value is; a name of ``x-`` is the extensions."""


def wire(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        match tag & 7:
            case 0:
                yield tag >> 3, varint()
            case 1:
                yield tag >> 3, struct.unpack("<d", data[at : at + 8])[0]
                at += 8
            case 2:
                size = varint()
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise AssertionError(f"wire type {other}")


def document(data: bytes) -> Any:
    """The whole document; of paths and definitions as maps."""
    return message(DOCUMENT, data)


def message(shape: Shape, data: bytes) -> Any:
    made: dict[str, Any] = {}
    for number, raw in wire(data):
        name, what = shape[number]
        if name == "x-":
            entry = dict(wire(raw))
            made[entry[1].decode()] = value(ANY, entry[2])
        elif isinstance(what, list):
            made.setdefault(name, []).append(value(what[0], raw))
        else:
            made[name] = value(what, raw)
    return made


def value(what: Any, raw: Any) -> Any:
    if what == TEXT:
        return raw.decode()
    if what in (WHOLE, DOUBLE):
        return raw
    if what == ANY:
        return yaml.load(dict(wire(raw))[2], Loader=yaml.CSafeLoader)
    return what(raw)


def named(of: Any, inner: int = 1) -> Any:
    """A map, as a message whose field ``inner`` has the entries."""

    def read(raw: bytes) -> Any:
        made = {}
        for number, entry in wire(raw):
            assert number == inner
            parts = dict(wire(entry))
            made[parts[1].decode()] = value(of, parts.get(2, b""))
        return made

    return read


def schema(raw: bytes) -> Any:
    return message(SCHEMA, raw)


def values(raw: bytes) -> Any:
    ((number, inner),) = wire(raw)
    return schema(inner) if number == 1 else bool(inner)


def only(of: Any, number: int = 1) -> Any:
    """A message with one field."""

    def read(raw: bytes) -> Any:
        ((seen, inner),) = wire(raw)
        assert seen == number
        return value(of, inner)

    return read


def parameter(raw: bytes) -> Any:
    ((number, inner),) = wire(raw)
    if number == 2:
        return {"$ref": dict(wire(inner))[1].decode()}
    return own_parameter(inner)


def own_parameter(raw: bytes) -> Any:
    ((number, inner),) = wire(raw)
    if number == 1:
        return message(BODY, inner)
    ((kind, inner),) = wire(inner)
    return message(QUERY if kind == 3 else PATH, inner)


EXTERNAL: Final[Shape] = {1: ("description", TEXT), 2: ("url", TEXT)}
SCHEMA: Final[Shape] = {
    1: ("$ref", TEXT), 2: ("format", TEXT), 3: ("title", TEXT), 4: ("description", TEXT), 5: ("default", ANY),
    6: ("multipleOf", DOUBLE), 7: ("maximum", DOUBLE), 8: ("exclusiveMaximum", WHOLE), 9: ("minimum", DOUBLE),
    10: ("exclusiveMinimum", WHOLE), 11: ("maxLength", WHOLE), 12: ("minLength", WHOLE), 13: ("pattern", TEXT),
    14: ("maxItems", WHOLE), 15: ("minItems", WHOLE), 16: ("uniqueItems", WHOLE), 17: ("maxProperties", WHOLE),
    18: ("minProperties", WHOLE), 19: ("required", [TEXT]), 20: ("enum", [ANY]), 21: ("additionalProperties", values),
    22: ("type", only(TEXT)), 23: ("items", only(schema)), 24: ("allOf", [schema]), 25: ("properties", named(schema)),
    29: ("externalDocs", lambda raw: message(EXTERNAL, raw)), 30: ("example", ANY), 31: ("x-", ANY),
}  # fmt: skip
BODY: Final[Shape] = {
    1: ("description", TEXT), 2: ("name", TEXT), 3: ("in", TEXT), 4: ("required", WHOLE), 5: ("schema", schema),
}  # fmt: skip
PATH: Final[Shape] = {
    1: ("required", WHOLE), 2: ("in", TEXT), 3: ("description", TEXT), 4: ("name", TEXT), 5: ("type", TEXT),
    19: ("uniqueItems", WHOLE),
}  # fmt: skip
QUERY: Final[Shape] = {
    1: ("required", WHOLE), 2: ("in", TEXT), 3: ("description", TEXT), 4: ("name", TEXT), 6: ("type", TEXT),
    20: ("uniqueItems", WHOLE),
}  # fmt: skip
RESPONSE: Final[Shape] = {1: ("description", TEXT), 2: ("schema", only(schema))}
OPERATION: Final[Shape] = {
    1: ("tags", [TEXT]), 3: ("description", TEXT), 5: ("operationId", TEXT), 6: ("produces", [TEXT]), 7: ("consumes", [TEXT]),
    8: ("parameters", [parameter]), 9: ("responses", named(only(lambda raw: message(RESPONSE, raw)))), 10: ("schemes", [TEXT]),
    11: ("deprecated", WHOLE), 13: ("x-", ANY),
}  # fmt: skip


def operation(raw: bytes) -> Any:
    return message(OPERATION, raw)


ITEM: Final[Shape] = {
    2: ("get", operation), 3: ("put", operation), 4: ("post", operation), 5: ("delete", operation), 6: ("options", operation),
    7: ("head", operation), 8: ("patch", operation), 9: ("parameters", [parameter]),
}  # fmt: skip
KEY: Final[Shape] = {1: ("type", TEXT), 2: ("name", TEXT), 3: ("in", TEXT), 4: ("description", TEXT)}
DOCUMENT: Final[Shape] = {
    1: ("swagger", TEXT),
    2: ("info", lambda raw: message({1: ("title", TEXT), 2: ("version", TEXT)}, raw)),
    8: ("paths", named(lambda raw: message(ITEM, raw), 2)),
    9: ("definitions", named(schema)),
    10: ("parameters", named(own_parameter)),
    12: ("security", [named(lambda raw: [])]),
    13: ("securityDefinitions", named(only(lambda raw: message(KEY, raw), 2))),
}


def flat(found: Any) -> Any:
    """A JSON document as protobuf can say it: numbers and switches that are zero are not there, nor are empty words."""
    if isinstance(found, list):
        return [flat(item) for item in found]
    if not isinstance(found, dict):
        return found
    return {key: item if key.startswith("x-") else flat(item) for key, item in found.items() if not _unsaid(key, item)}


def _unsaid(key: str, item: object) -> bool:
    if key == "additionalProperties" or isinstance(item, dict | list):
        return False
    return item is False or item == "" or (isinstance(item, int | float) and item == 0)
