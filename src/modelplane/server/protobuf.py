"""Request bodies in Kubernetes' protobuf: what `kubectl create`, `kubectl auth` and helm send, and cannot do without.

Driven by a table of field numbers (``builtin/messages.zip``, made by ``scripts/generate_protobuf.py``); answers are
always JSON. Go writes zero values that its JSON would leave out, so those are dropped as ``omitempty`` says.
"""

from __future__ import annotations

import base64
import struct
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.errors import BadBody

MAGIC: Final = b"k8s\0"
_DEPTH: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Type(msgspec.Struct, frozen=True):
    """What a value is on the wire."""

    kind: str
    of: str = ""
    value: Type | None = None
    repeated: bool = False


class Field(msgspec.Struct, frozen=True, rename={"number": "n"}):
    """One field of a message."""

    number: int
    name: str
    kind: str
    of: str = ""
    value: Type | None = None
    repeated: bool = False
    pointer: bool = False
    omit: bool = False
    inline: bool = False


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(resources.files("modelplane.server.builtin").joinpath("messages.zip").open("rb"))


@cache
def _roots() -> dict[str, str]:
    return msgspec.json.decode(_archive().read("roots"), type=dict[str, str])


@cache
def _fields(message: str) -> dict[int, Field]:
    return {field.number: field for field in msgspec.json.decode(_archive().read(message), type=list[Field])}


def decode(body: bytes) -> Object:
    """The object in a protobuf body. Raises BadBody when it is not one, or of a kind that has no table."""
    if not body.startswith(MAGIC):
        raise BadBody("the body is not Kubernetes protobuf: it does not start with the bytes k8s and zero")
    try:
        envelope = dict(_wire(body[len(MAGIC) :]))
        type_meta = dict(_wire(_bytes(envelope.get(1, b""))))
        api_version, kind = (_bytes(type_meta.get(number, b"")).decode() for number in (1, 2))
        message = _roots().get("DeleteOptions" if kind == "DeleteOptions" else f"{api_version} {kind}")
        if message is None:
            raise BadBody(
                f"no kind {kind!r} in version {api_version!r} is read from protobuf; send it as application/json"
            )
        return {"apiVersion": api_version, "kind": kind, **_message(message, _bytes(envelope.get(2, b"")), 0)}
    except (ValueError, IndexError, struct.error) as error:
        raise BadBody(f"the protobuf body is damaged: {error}") from error


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as they are on the wire: field number, and a number or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                size, at = _varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire} is not used by Kubernetes")
            value = data[at : at + size]
            if len(value) < size:
                raise ValueError("it ends in the middle of a field")
            at += size
        yield tag >> 3, value


def _message(name: str, data: bytes, depth: int) -> Object:
    if depth > _DEPTH:
        raise ValueError("messages are nested too deeply")
    fields = _fields(name)
    made: Object = {}
    for number, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.kind == "map":
            assert field.value is not None
            entry = dict(_wire(_bytes(raw)))
            key = _bytes(entry.get(1, b"")).decode()
            made.setdefault(field.name, {})[key] = _value(field.value, entry.get(2, b""), depth)
        elif field.repeated:
            made.setdefault(field.name, []).append(_value(field, raw, depth))
        elif field.inline:
            made.update(_message(field.of, _bytes(raw), depth + 1))
        else:
            value = _value(field, raw, depth)
            if field.pointer or not _empty(field, value):
                made[field.name] = value
    return made


def _empty(field: Field, value: object) -> bool:
    """Whether Go's JSON would leave the value out: zero, or a struct in which nothing is set."""
    if value in ({}, None):
        return True
    return field.omit and (value in ("", 0, []) or value is False)


def _value(type_: Field | Type, raw: int | bytes, depth: int) -> object:
    match type_.kind:
        case "int":
            return _signed(raw)
        case "bool":
            return bool(raw)
        case "double" | "float":
            return struct.unpack("<d" if type_.kind == "double" else "<f", _bytes(raw))[0]
        case "string":
            return _bytes(raw).decode()
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "message":
            return _message(type_.of, _bytes(raw), depth + 1)
        case "items":
            assert type_.value is not None
            return [_value(type_.value, item, depth) for number, item in _wire(_bytes(raw)) if number == 1]
        case "time" | "microtime":
            return _time(dict(_wire(_bytes(raw))), micro=type_.kind == "microtime")
        case "quantity":
            return _bytes(dict(_wire(_bytes(raw))).get(1, b"")).decode()
        case "intorstring":
            parts = dict(_wire(_bytes(raw)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))
        case "raw":
            text = _bytes(dict(_wire(_bytes(raw))).get(1, b""))
            return msgspec.json.decode(text) if text else None
    raise ValueError(f"the table has an unknown kind {type_.kind}")


def _signed(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ValueError("bytes where a number belongs")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _time(parts: dict[int, int | bytes], *, micro: bool) -> str | None:
    """RFC 3339, or None for Go's zero time, which is written as an empty message."""
    if 1 not in parts:
        return None
    moment = _EPOCH + timedelta(seconds=_signed(parts[1]))
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{_signed(parts.get(2, 0)) // 1000:06d}Z" if micro else f"{text}Z"
