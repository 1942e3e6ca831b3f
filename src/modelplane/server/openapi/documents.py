"""OpenAPI v3: what `kubectl explain` prints, and what `kubectl apply` asks before it sends a body.

One document per group and version, built when it is asked for and kept compressed; its hash comes from what goes
into it, so that the index costs no document.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

import modelplane
from modelplane.api.meta import Object
from modelplane.server.builtin.definitions import closure, fingerprint
from modelplane.server.openapi.custom import V3, kind_schema, list_schema
from modelplane.server.openapi.kinds import ALWAYS, component, needed, traits
from modelplane.server.openapi.operations import paths
from modelplane.server.resource import ResourceType
from modelplane.server.schema.node import INT_OR_STRING, QUANTITY

_OTHERWISE: Final[dict[str, Object]] = {
    INT_OR_STRING: {"oneOf": [{"type": "integer"}, {"type": "string"}], "type": None},
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}], "type": None},
}
"""Values of two types, which v2 cannot say."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Document:
    """One document: ``gzip`` is what is kept, ``body`` the JSON."""

    def __init__(self, content: Object) -> None:
        self.gzip = gzip.compress(_encode(content), 6, mtime=0)

    @property
    def body(self) -> bytes:
        return gzip.decompress(self.gzip)


class Documents:
    """The documents of one set of served kinds; a changed set makes a new one."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[tuple[str, str], list[ResourceType]] = {}
        self._made: dict[tuple[str, str], Document] = {}
        self._hashes: dict[tuple[str, str], str] = {}
        for type_ in types:
            self._types.setdefault((type_.gvk.group, type_.gvk.version), []).append(type_)

    @cached_property
    def index(self) -> bytes:
        """The answer to ``/openapi/v3``: where each document is, with its hash."""
        found = {}
        for group, version in sorted(self._types):
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            found[path] = {"serverRelativeURL": self.address(group, version)}
        return _encode({"paths": found})

    def address(self, group: str, version: str) -> str:
        """Where a document is, with its hash."""
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        return f"/openapi/v3/{path}?hash={self.hash(group, version)}"

    def hash(self, group: str, version: str) -> str:
        """Changes when the document does."""
        key = (group, version)
        if key not in self._hashes:
            digest = hashlib.sha256(f"{modelplane.__version__} {fingerprint()}".encode())
            for type_ in self._types[key]:
                digest.update(traits(type_))
            self._hashes[key] = digest.hexdigest().upper()
        return self._hashes[key]

    def document(self, group: str, version: str) -> Document | None:
        """The document of a group and version, None when it is not served."""
        key = (group, version)
        if key not in self._types:
            return None
        if key not in self._made:
            self._made[key] = Document(_document(self._types[key]))
        return self._made[key]


def _document(types: Sequence[ResourceType]) -> Object:
    schemas: Object = {}
    every: Object = {}
    roots = set(ALWAYS)
    for type_ in types:
        name = component(type_.gvk)
        if type_.load_source is not None:
            schemas[name] = kind_schema(type_, type_.load_source(), V3)
            schemas[f"{name}List"] = list_schema(type_, name, V3)
        roots |= needed(type_)
        every |= paths(type_, name)
    for name, found in closure(roots - schemas.keys()).items():
        schemas[name] = _v3(found | _OTHERWISE.get(name, {}))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{modelplane.__version__}"},
        "paths": every,
        "components": {"schemas": schemas},
    }


def _v3(value: object) -> Object:
    """A definition in OpenAPI v3, where a reference stands alone: what is beside it moves around it."""
    converted = _converted(value)
    assert isinstance(converted, dict)
    return {key: item for key, item in converted.items() if item is not None}


def _converted(value: object) -> object:
    if isinstance(value, list):
        return [_converted(item) for item in value]
    if not isinstance(value, dict):
        return value
    ref = value.get("$ref")
    if not isinstance(ref, str):
        return {key: _converted(item) for key, item in value.items()}
    target = {"$ref": ref if ref.startswith(V3) else V3 + ref}
    rest = {key: _converted(item) for key, item in value.items() if key != "$ref"}
    return {"allOf": [target], **rest} if rest else target
