"""Objects between JSON and the store: encoding with a place for the revision, metadata, names, times.

A stored body is the object as its storage version has it, with the revision spliced in by the writer. Everything that
only needs labels, owner or a few fields of a stored body reads `Facts`, which is decoded once per revision.
"""

from __future__ import annotations

import random
import time
import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from modelplane.api.meta import Object
from modelplane.server.store import Draft, Entry

_PLACE: Final = f"revision-{uuid.uuid4().hex}"
_MARK: Final = f'"{_PLACE}"'.encode()
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(dict[str, Any])
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def decode(body: bytes) -> Object:
    """Raises ValueError (msgspec.DecodeError) for something that is not a JSON object."""
    return _decoder.decode(body)


def read(entry: Entry) -> Object:
    """A fresh copy of what an entry holds."""
    return _decoder.decode(entry.body)


def draft(obj: Object) -> Draft:
    """Encode an object so that the writer can put the revision into metadata.resourceVersion."""
    metadata = {**obj["metadata"], "resourceVersion": _PLACE}
    head, _, tail = _encoder.encode({**obj, "metadata": metadata}).partition(_MARK)
    return Draft(head + b'"', b'"' + tail)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_head_decoder: Final = msgspec.json.Decoder(_Head)
_NO_LABELS: Final[dict[str, str]] = {}


def metadata_of(entry: Entry) -> _Metadata:
    """Typed metadata of a stored body, decoded once."""
    memo = entry.memo
    if not isinstance(memo, _Metadata):
        memo = entry.memo = _head_decoder.decode(entry.body).metadata
    return memo


def labels_of(entry: Entry) -> dict[str, str]:
    return metadata_of(entry).labels or _NO_LABELS


def field_of(obj: Object, path: str) -> str:
    """A field selector's view of a field: a string, empty when it is absent."""
    value: object = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def now() -> str:
    return _time_of(int(time.time()))


@lru_cache(maxsize=1)
def _time_of(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_uid() -> str:
    """A random UUID (version 4). It names and guards nothing, so that no system call is made for it."""
    text = f"{random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


def generate_name(base: str) -> str:
    """A base of at most 58 characters with five random ones behind it."""
    return base[:58] + "".join(random.choices(_SUFFIX, k=5))
