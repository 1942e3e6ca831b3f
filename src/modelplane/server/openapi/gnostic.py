"""A Swagger 2.0 document in protobuf: `openapi.v2.Document` of gnostic, the only form that Kubernetes' Go client reads.

Field numbers are those of its `OpenAPIv2.proto` (Apache-2.0), as far as our documents go. Values of any type travel as YAML, of
which JSON is a part. Zeros are left out, as proto3 does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from modelplane.api.meta import Object

_json: Final = msgspec.json.Encoder(order="sorted").encode
_Write = Callable[[int, object], bytes]
_Shape = Mapping[str, tuple[int, _Write]]


def varint(value: int) -> bytes:
    """A number as protobuf writes it; a negative one takes ten bytes."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def framed(number: int, data: bytes) -> bytes:
    """Bytes as the field with this number."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def head(number: int, size: int) -> bytes:
    """What stands before ``size`` bytes of this field, for a field that is written in parts."""
    return varint(number << 3 | 2) + varint(size)


def _text(number: int, value: object) -> bytes:
    assert isinstance(value, str)
    return framed(number, value.encode()) if value else b""


def _whole(number: int, value: object) -> bytes:
    assert isinstance(value, int | float)
    return varint(number << 3) + varint(int(value)) if value else b""


def _double(number: int, value: object) -> bytes:
    assert isinstance(value, int | float)
    return varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(number: int, value: object) -> bytes:
    return framed(number, framed(2, _json(value) + b"\n"))


def _each(write: _Write) -> _Write:
    def written(number: int, value: object) -> bytes:
        assert isinstance(value, list)
        return b"".join(write(number, item) for item in value)

    return written


def _named(number: int, name: str, value: bytes) -> bytes:
    """A pair of name and value, which is how maps travel; ``value`` is the value's own message."""
    return framed(number, framed(1, name.encode()) + framed(2, value))


def _map(of: Callable[[object], bytes], inner: int = 1) -> _Write:
    """A message that is only a map, whose entries are its field ``inner``."""

    def written(number: int, value: object) -> bytes:
        assert isinstance(value, dict)
        return framed(number, b"".join(_named(inner, name, of(item)) for name, item in value.items()))

    return written


def _message(shape: _Shape, extensions: int, value: object) -> bytes:
    """A message by its shape; names that start with ``x-`` are its extensions."""
    assert isinstance(value, dict)
    parts = []
    for name, item in value.items():
        if name.startswith("x-"):
            parts.append(_named(extensions, name, framed(2, _json(item) + b"\n")))
        else:
            number, write = shape[name]
            parts.append(write(number, item))
    return b"".join(parts)


def _one(of: Callable[[object], bytes], *around: int) -> _Write:
    """One message, inside of others of which it is the only field, from the outside in."""

    def written(number: int, value: object) -> bytes:
        data = of(value)
        for inner in reversed(around):
            data = framed(inner, data)
        return framed(number, data)

    return written


def schema(value: object) -> bytes:
    """One schema. Raises KeyError for a keyword that v2 does not have."""
    return _message(_SCHEMA, 31, value)


def _values(number: int, value: object) -> bytes:
    """`additionalProperties`, a schema or a boolean; here a false is said."""
    if isinstance(value, bool):
        return framed(number, b"\x10\x01" if value else b"\x10\x00")
    return framed(number, framed(1, schema(value)))


def _type(number: int, value: object) -> bytes:
    assert isinstance(value, str)
    return framed(number, framed(1, value.encode()))


def _docs(value: object) -> bytes:
    return _message({"description": (1, _text), "url": (2, _text)}, 3, value)


_SCHEMA: Final[_Shape] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _whole),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _whole),
    "maxLength": (11, _whole),
    "minLength": (12, _whole),
    "pattern": (13, _text),
    "maxItems": (14, _whole),
    "minItems": (15, _whole),
    "uniqueItems": (16, _whole),
    "maxProperties": (17, _whole),
    "minProperties": (18, _whole),
    "required": (19, _each(_text)),
    "enum": (20, _each(_any)),
    "additionalProperties": (21, _values),
    "type": (22, _type),
    "items": (23, _one(schema, 1)),
    "properties": (25, _map(schema)),
    "externalDocs": (29, _one(_docs)),
    "example": (30, _any),
}


def parameter(value: object) -> bytes:
    """One parameter of an operation, or a reference to one."""
    assert isinstance(value, dict)
    if "$ref" in value:
        return framed(2, framed(1, str(value["$ref"]).encode()))
    return framed(1, _own_parameter(value))


def _own_parameter(value: object) -> bytes:
    assert isinstance(value, dict)
    if value["in"] == "body":
        return framed(1, _message(_BODY, 6, value))
    number, shape = (3, _QUERY) if value["in"] == "query" else (4, _PATH)
    return framed(2, framed(number, _message(shape, 23, value)))


def _response(value: object) -> bytes:
    return framed(1, _message({"description": (1, _text), "schema": (2, _one(schema, 1))}, 5, value))


def _operation(value: object) -> bytes:
    return _message(_OPERATION, 13, value)


def item(value: object) -> bytes:
    """The operations of one path."""
    return _message(_ITEM, 10, value)


def named(name: str, value: bytes, number: int = 1) -> bytes:
    """One entry of definitions (field 1) or paths (field 2)."""
    return _named(number, name, value)


def document(paths: Iterable[bytes], definitions: Iterable[bytes], rest: Object) -> list[bytes]:
    """A whole document in parts: entries as ``named`` makes them, and what else there is at the top."""
    parts = [_message(_TOP, 16, rest)]
    for number, entries in ((8, list(paths)), (9, list(definitions))):
        parts += [head(number, sum(map(len, entries))), *entries]
    return parts


_BODY: Final[_Shape] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _whole),
    "schema": (5, _one(schema)),
}
_PATH: Final[_Shape] = {
    "required": (1, _whole),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _whole),
}
_QUERY: Final[_Shape] = {**_PATH, "type": (6, _text), "uniqueItems": (20, _whole)}
_PARAMETERS: Final = _each(_one(parameter))
_OPERATION: Final[_Shape] = {
    "produces": (6, _each(_text)),
    "consumes": (7, _each(_text)),
    "parameters": (8, _PARAMETERS),
    "responses": (9, _map(_response)),
    "schemes": (10, _each(_text)),
}
_ITEM: Final[_Shape] = {
    "get": (2, _one(_operation)),
    "put": (3, _one(_operation)),
    "post": (4, _one(_operation)),
    "delete": (5, _one(_operation)),
    "options": (6, _one(_operation)),
    "head": (7, _one(_operation)),
    "patch": (8, _one(_operation)),
    "parameters": (9, _PARAMETERS),
}


def _info(value: object) -> bytes:
    return _message({"title": (1, _text), "version": (2, _text)}, 7, value)


_TOP: Final[_Shape] = {
    "swagger": (1, _text),
    "info": (2, _one(_info)),
    "parameters": (10, _map(_own_parameter)),
}
