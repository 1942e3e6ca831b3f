"""Envoy's messages between JSON and bytes, from a table of field numbers instead of generated classes.

Envoy wants protobuf on the wire; generated classes of its whole API would cost every user a quarter of a second and
20 MB. `envoy_schema.json` holds the few hundred messages that ours can reach (scripts/generate_envoy_schema.py), and
this module encodes the JSON form of the protobuf documentation, strictly: an unknown field or value is an error here
rather than something that Envoy never sees. A message that is `bytes` already is taken as it is, so callers can cache.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from modelplane.errors import PermanentError

Json: TypeAlias = Any
"""The JSON edge: a message as dictionaries, lists and scalars, with `@type` in an Any."""

TYPE_URL: Final = "type.googleapis.com/"

_WRAPPERS: Final = {
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String")
}


class WireError(PermanentError):
    """A message does not fit the schema: a mistake of ours, or an Envoy of another version."""


class Field(NamedTuple):
    """One field of a message. `type` names the message or enumeration, and is empty for a scalar."""

    number: int
    kind: str
    type: str
    repeated: bool


class Schema(NamedTuple):
    messages: dict[str, dict[str, Field]]
    enums: dict[str, dict[str, int]]


@cache
def schema() -> Schema:
    """The committed table, read once."""
    table = orjson.loads(resources.files(__package__).joinpath("envoy_schema.json").read_bytes())
    messages = {
        name: {
            field: Field(number, kind, type_, bool(repeated))
            for field, (number, kind, type_, repeated) in fields.items()
        }
        for name, fields in table["messages"].items()
    }
    return Schema(messages, table["enums"])


class Shared(dict[str, Json]):
    """A message that many others contain and nobody changes: it is encoded once."""

    __slots__ = ("_encoded",)

    def __init__(self, *values: Json, **fields: Json) -> None:
        super().__init__(*values, **fields)
        self._encoded: dict[str, bytes] = {}

    def encoded(self, message: str) -> bytes:
        data = self._encoded.get(message)
        if data is None:
            data = self._encoded[message] = _encode(message, self)
        return data


def encode(message: str, value: Json) -> bytes:
    """The bytes of `value` as the named message. Raises WireError, naming the field, when it does not fit."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Shared):
        return value.encoded(message)
    return _encode(message, value)


def _encode(message: str, value: Json) -> bytes:
    special = _SPECIAL.get(message)
    if special is not None:
        return special(value)
    encoders = _encoders(message)
    if message in _WRAPPERS:
        return encoders["value"](value)
    if not isinstance(value, dict):
        raise WireError(f"{message} must be an object, not {value!r}")
    parts: list[bytes] = []
    for name, item in value.items():
        encoder = encoders.get(name)
        if encoder is None:
            raise WireError(f"{message} has no field {name!r}")
        if item is not None:
            parts.append(encoder(item))
    return b"".join(parts)


def any_of(type_name: str, value: Json) -> bytes:
    """A google.protobuf.Any that holds `value`."""
    return _delimited(1, (TYPE_URL + type_name).encode()) + _delimited(2, encode(type_name, value))


def decode(message: str, data: bytes) -> dict[str, Json]:
    """The known fields of a message. Unknown ones are skipped; an Any stays as type_url and value."""
    fields = {field.number: (name, field) for name, field in schema().messages[message].items()}
    result: dict[str, Json] = {}
    for number, raw in _read(data):
        if number not in fields:
            continue
        name, field = fields[number]
        if field.kind == "map":
            entry = decode(field.type, raw if isinstance(raw, bytes) else b"")
            result.setdefault(name, {})[entry.get("key", "")] = entry.get("value")
            continue
        item = _decoded(field, raw)
        if field.repeated:
            result.setdefault(name, []).append(item)
        else:
            result[name] = item
    return result


_SMALL: Final = tuple(bytes((number,)) for number in range(0x80))


def varint(value: int) -> bytes:
    """Base 128, least significant group first; a negative number takes ten bytes, as protobuf has it."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + _sized(data)


Encoder: TypeAlias = Callable[[Json], bytes]
"""From a field's value to its bytes, tag included."""


@cache
def _encoders(message: str) -> dict[str, Encoder]:
    """An encoder for every field of a message."""
    fields = schema().messages.get(message)
    if fields is None:
        raise WireError(f"message {message} is not in envoy_schema.json; add it to ROOTS of its script")
    return {name: _encoder(field, f"{message}.{name}") for name, field in fields.items()}


def _encoder(field: Field, where: str) -> Encoder:
    if field.kind == "map":
        return _map(field, where)
    single = _checked(_single(field), field, where)
    if not field.repeated:
        return single

    def repeated(value: Json) -> bytes:
        if not isinstance(value, list | tuple):
            raise WireError(f"{where} must be a list, not {value!r}")
        return b"".join([single(item) for item in value])

    return repeated


def _map(field: Field, where: str) -> Encoder:
    def entries(value: Json) -> bytes:
        pair = _encoders(field.type)
        try:
            return b"".join(
                [_delimited(field.number, pair["key"](key) + pair["value"](item)) for key, item in value.items()]
            )
        except AttributeError as error:
            raise WireError(f"{where} must be an object, not {value!r}") from error

    return entries


def _single(field: Field) -> Encoder:
    kind, type_ = field.kind, field.type
    tag = varint(field.number << 3 | _WIRE_TYPES.get(kind, 0))
    if kind == "message":
        return lambda value: tag + _sized(encode(type_, value))
    if kind == "string":
        return lambda value: tag + _sized(value.encode())
    if kind == "bytes":
        return lambda value: tag + _sized(bytes(value))
    if kind == "enum":
        words = schema().enums[type_]
        return lambda value: tag + varint(value if isinstance(value, int) else words[value])
    if kind in ("double", "float"):
        layout = "<d" if kind == "double" else "<f"
        return lambda value: tag + struct.pack(layout, value)
    if kind == "bool":
        return lambda value: tag + _BOOLS[value]
    return lambda value: tag + varint(int(value))


def _checked(encoder: Encoder, field: Field, where: str) -> Encoder:
    def checked(value: Json) -> bytes:
        try:
            return encoder(value)
        except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
            raise WireError(f"{where} cannot be {value!r} (a {field.type or field.kind})") from error

    return checked


_WIRE_TYPES: Final = {"message": 2, "string": 2, "bytes": 2, "double": 1, "float": 5}
_BOOLS: Final = {True: b"\x01", False: b"\x00"}


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def _decoded(field: Field, raw: int | bytes) -> Json:
    if isinstance(raw, int):
        return bool(raw) if field.kind == "bool" else raw
    if field.kind == "message":
        return decode(field.type, raw)
    if field.kind == "string":
        return raw.decode(errors="replace")
    if field.kind == "double":
        return struct.unpack("<d", raw)[0]
    if field.kind == "float":
        return struct.unpack("<f", raw)[0]
    return raw


def _read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise WireError(f"wire type {wire} in a message of {end} bytes")
        if at + size > end:
            raise WireError(f"a message of {end} bytes is cut short")
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        try:
            byte = data[at]
        except IndexError:
            raise WireError("a message ends inside a number") from None
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def _any(value: Json) -> bytes:
    body = {name: item for name, item in value.items() if name != "@type"}
    return any_of(value["@type"].removeprefix(TYPE_URL), body)


def _duration(value: Json) -> bytes:
    if not isinstance(value, str) or not value.endswith("s"):
        raise WireError(f"a duration is written like '1.5s', not {value!r}")
    seconds, _, fraction = value[:-1].partition(".")
    nanos = int(fraction.ljust(9, "0")[:9]) if fraction else 0
    return varint(1 << 3) + varint(int(seconds)) + (varint(2 << 3) + varint(nanos) if nanos else b"")


def _struct(value: Json) -> bytes:
    return b"".join(
        _delimited(1, _delimited(1, key.encode()) + _delimited(2, _value(item))) for key, item in value.items()
    )


def _value(value: Json) -> bytes:
    if value is None:
        return varint(1 << 3) + varint(0)
    if isinstance(value, bool):
        return varint(4 << 3) + varint(int(value))
    if isinstance(value, int | float):
        return varint(2 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        return _delimited(3, value.encode())
    if isinstance(value, dict):
        return _delimited(5, _struct(value))
    return _delimited(6, b"".join(_delimited(1, _value(item)) for item in value))


_SPECIAL: Final[dict[str, Callable[[Json], bytes]]] = {
    "google.protobuf.Any": _any,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _value,
}
