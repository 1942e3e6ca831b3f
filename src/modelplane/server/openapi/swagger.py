"""OpenAPI v2, the one document of all kinds: what kubectl checks the items of a `kind: List` with before it sends them.

It is made when a client asks for it, entry by entry, each gone as soon as it is encoded, and between entries other requests have
their turn: the whole of it as objects would take more memory than the server has otherwise. What is kept is compressed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import zlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, Protocol

import msgspec

import modelplane
from modelplane.api.meta import Object
from modelplane.server.builtin.definitions import definition, fingerprint, references
from modelplane.server.openapi import gnostic
from modelplane.server.openapi.custom import V2, kind_schema, list_schema
from modelplane.server.openapi.kinds import ALWAYS, component, needed, traits
from modelplane.server.openapi.operations import parameter, paths
from modelplane.server.resource import ResourceType

_SLICE: Final = 0.004
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_SHARED: Final = ("fieldManager", "force")
"""Parameters that are written once; `dryRun` and `fieldValidation` are not, because clients look for them in place."""


class Form(Protocol):
    """How a document is written."""

    def definition(self, name: str, schema: Object) -> bytes: ...

    def path(self, path: str, item: Object) -> bytes: ...

    def document(self, paths: Iterable[bytes], definitions: Iterable[bytes], rest: Object) -> Iterable[bytes]: ...


class _Json:
    def definition(self, name: str, schema: Object) -> bytes:
        return _encode(name) + b":" + _encode(schema)

    def path(self, path: str, item: Object) -> bytes:
        return self.definition(path, item)

    def document(self, paths: Iterable[bytes], definitions: Iterable[bytes], rest: Object) -> Iterable[bytes]:
        yield b'{"definitions":{'
        yield b",".join(definitions)
        yield b'},"paths":{'
        yield b",".join(paths)
        yield b"}," + _encode(rest)[1:]


class _Protobuf:
    def definition(self, name: str, schema: Object) -> bytes:
        return gnostic.named(name, gnostic.schema(schema))

    def path(self, path: str, item: Object) -> bytes:
        return gnostic.named(path, gnostic.item(item), 2)

    def document(self, paths: Iterable[bytes], definitions: Iterable[bytes], rest: Object) -> Iterable[bytes]:
        return gnostic.document(paths, definitions, rest)


FORMS: Final[Mapping[str, Form]] = {"json": _Json(), "protobuf": _Protobuf()}


class Swagger:
    """A changed set of kinds makes a new one."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types = tuple(types)
        self._made: dict[str, bytes] = {}
        self._making = asyncio.Lock()

    @cached_property
    def etag(self) -> str:
        """Changes when the document does; made from what goes into it, so that it costs no document."""
        digest = hashlib.sha512(f"{modelplane.__version__} {fingerprint()}".encode())
        for line in sorted(hashlib.sha512(traits(type_)).digest() for type_ in self._types):
            digest.update(line)
        return digest.hexdigest().upper()

    async def compressed(self, form: str) -> bytes:
        """The document in one of ``FORMS``, in gzip."""
        async with self._making:
            if form not in self._made:
                self._made[form] = await self._make(FORMS[form])
        return self._made[form]

    async def _make(self, form: Form) -> bytes:
        definitions: dict[str, bytes] = {}
        operations: dict[str, bytes] = {}
        turn = _Turn()
        waiting = set(ALWAYS)
        for type_ in self._types:
            name = component(type_.gvk)
            if type_.load_source is not None:
                definitions[name] = form.definition(name, kind_schema(type_, type_.load_source(), V2))
                definitions[f"{name}List"] = form.definition(f"{name}List", list_schema(type_, name, V2))
            waiting |= needed(type_)
            for path, item in paths(type_, name).items():
                operations[path] = form.path(path, _item(item))
            await turn.over()
        waiting -= definitions.keys()
        while waiting:
            name = waiting.pop()
            found = definition(name)
            definitions[name] = form.definition(name, _builtin(found))
            waiting.update(references(found) - definitions.keys())
            await turn.over()
        rest = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": f"v{modelplane.__version__}"},
            "parameters": _shared(),
        }
        packer = zlib.compressobj(6, wbits=31)
        packed = []
        for part in form.document(_sorted(operations), _sorted(definitions), rest):
            packed.append(packer.compress(part))
            await turn.over()
        return b"".join([*packed, packer.flush()])


class _Turn:
    """Lets other requests be answered in the middle of long work."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def over(self) -> None:
        if time.perf_counter() - self._since > _SLICE:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


def _sorted(entries: Mapping[str, bytes]) -> list[bytes]:
    return [entries[name] for name in sorted(entries)]


def _builtin(value: Object) -> Object:
    """A definition with whole references and without defaults, which v2 does not publish."""
    converted = _converted(value)
    assert isinstance(converted, dict)
    return converted


def _converted(value: object) -> object:
    if isinstance(value, list):
        return [_converted(item) for item in value]
    if not isinstance(value, dict):
        return value
    made: Object = {}
    for key, item in value.items():
        if key == "$ref" and isinstance(item, str):
            made[key] = V2 + item
        elif key == "properties" and isinstance(item, dict):
            made[key] = {name: _converted(inner) for name, inner in item.items()}
        elif key != "default":
            made[key] = _converted(item)
    return made


def _shared() -> Object:
    return {name: _parameter(parameter(name)) for name in _SHARED}


def _item(item: Object) -> Object:
    made = {method: _operation(found) for method, found in item.items() if method != "parameters"}
    parameters = [_parameter(found) for found in item.get("parameters") or ()]
    return {**made, "parameters": parameters} if parameters else made


def _operation(found: Object) -> Object:
    """A v3 operation in the words of v2: bodies are parameters, and media types stand in lists."""
    content = found["responses"]["200"]["content"]["application/json"]
    made: Object = {
        **{name: value for name, value in found.items() if name.startswith("x-")},
        "schemes": ["https"],
        "produces": ["application/json", "application/yaml"],
        "consumes": ["*/*"],
        "responses": {"200": {"description": "OK", "schema": _referring(content["schema"])}},
    }
    parameters = []
    body = found.get("requestBody")
    if body is not None:
        if "application/json" not in body["content"]:
            made["consumes"] = list(body["content"])
        schema = next(iter(body["content"].values()))["schema"]
        parameters.append({"name": "body", "in": "body", "required": True, "schema": _referring(schema)})
    for each in found.get("parameters") or ():
        name = each["name"]
        parameters.append({"$ref": f"#/parameters/{name}"} if name in _SHARED else _parameter(each))
    return {**made, "parameters": parameters} if parameters else made


def _parameter(found: Object) -> Object:
    return {**{name: value for name, value in found.items() if name != "schema"}, **found["schema"]}


def _referring(schema: Object) -> Object:
    ref = schema.get("$ref")
    return {"$ref": V2 + ref.rpartition("/")[2]} if ref else schema
