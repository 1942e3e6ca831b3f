"""OpenAPI v3: what `kubectl explain` prints, and what `kubectl apply` asks before it sends a body.

One document per group and version, built when it is asked for and kept compressed; its hash comes from what goes
into it, so that the index costs no document. Operations carry what clients look at, and no more.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

import modelplane
from modelplane.api.meta import GVK, Object
from modelplane.server.builtin.definitions import closure, fingerprint, names
from modelplane.server.builtin.kinds import definition_name
from modelplane.server.resource import ResourceType, Subresource
from modelplane.server.schema.node import INT_OR_STRING, OBJECT_META

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_LIST_META: Final = _META + "ListMeta"
_STATUS: Final = _META + "Status"
_DELETE: Final = _META + "DeleteOptions"
_PREFIX: Final = "#/components/schemas/"
_MERGES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values."
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests to. Cannot be updated. In CamelCase."
)
_WRITE_PARAMETERS: Final = {
    "dryRun": "When present, indicates that modifications should not be persisted. Valid values are: All",
    "fieldManager": "The name of the actor that makes the changes.",
    "fieldValidation": "What to do with unknown and duplicate fields of the body: Ignore, Warn or Strict.",
}
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
        for type_ in types:
            self._types.setdefault((type_.gvk.group, type_.gvk.version), []).append(type_)

    @cached_property
    def index(self) -> bytes:
        """The answer to ``/openapi/v3``: where each document is, with its hash."""
        paths = {}
        for group, version in sorted(self._types):
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.hash(group, version)}"}
        return _encode({"paths": paths})

    def hash(self, group: str, version: str) -> str:
        """Changes when the document does."""
        digest = hashlib.sha256(f"{modelplane.__version__} {fingerprint()}".encode())
        for type_ in self._types[group, version]:
            digest.update(f"{type_.gvk} {type_.plural} {sorted(type_.subresources)} {type_.namespaced}".encode())
            if type_.load_source is not None:
                digest.update(_encode(type_.load_source()))
        return digest.hexdigest().upper()

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
    paths: Object = {}
    needed = {_STATUS, _DELETE, OBJECT_META, _LIST_META}
    for type_ in types:
        name = _component(type_.gvk)
        if type_.load_source is not None:
            schemas[name] = _custom(type_, type_.load_source())
            schemas[f"{name}List"] = _list(type_, name)
        else:
            needed |= {name, *({f"{name}List"} if "list" in type_.verbs else ())}
        for below in type_.subresources.values():
            if _served_body(below):
                needed.add(_component(below.gvk))
        paths |= _paths(type_, name)
    for name, found in closure(needed - schemas.keys()).items():
        schemas[name] = _v3(found) if name != INT_OR_STRING else _int_or_string()
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{modelplane.__version__}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _int_or_string() -> Object:
    return {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}


def _component(gvk: GVK) -> str:
    """The name of a kind's schema: Go's for built-in kinds, the reversed group for custom ones."""
    if _builtin(gvk):
        return definition_name(gvk)
    return f"{'.'.join(reversed(gvk.group.split('.')))}.{gvk.version}.{gvk.kind}"


def _builtin(gvk: GVK) -> bool:
    return definition_name(gvk) in names()


def _served_body(below: Subresource) -> bool:
    return _builtin(below.gvk)


def _v3(value: object) -> Object:
    """A definition in OpenAPI v3, where a reference stands alone: what is beside it moves around it."""
    converted = _converted(value)
    assert isinstance(converted, dict)
    return converted


def _converted(value: object) -> object:
    if isinstance(value, list):
        return [_converted(item) for item in value]
    if not isinstance(value, dict):
        return value
    ref = value.get("$ref")
    if not isinstance(ref, str):
        return {key: _converted(item) for key, item in value.items()}
    target = {"$ref": ref if ref.startswith(_PREFIX) else _PREFIX + ref}
    rest = {key: _converted(item) for key, item in value.items() if key != "$ref"}
    return {"allOf": [target], **rest} if rest else target


def _gvk(gvk: GVK) -> Object:
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def _custom(type_: ResourceType, source: Object) -> Object:
    own = source.get("properties") or {}
    metadata = {
        "allOf": [{"$ref": _PREFIX + OBJECT_META}],
        "description": "Standard object's metadata.",
    }
    properties = {
        **own,
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": metadata,
    }
    return {**source, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(type_.gvk)]}


def _list(type_: ResourceType, name: str) -> Object:
    return {
        "description": f"{type_.list_kind} is a list of {type_.gvk.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "items": {"type": "array", "items": {"$ref": _PREFIX + name}},
            "metadata": {"allOf": [{"$ref": _PREFIX + _LIST_META}]},
        },
        "x-kubernetes-group-version-kind": [_gvk(GVK(type_.gvk.group, type_.gvk.version, type_.list_kind))],
    }


def _paths(type_: ResourceType, name: str) -> Object:
    root = type_.resource.path("{namespace}" if type_.namespaced else None)
    collection: Object = {}
    for verb, method in (("list", "get"), ("create", "post"), ("deletecollection", "delete")):
        if verb in type_.verbs:
            body = f"{name}List" if verb == "list" else name if verb == "create" else _STATUS
            collection[method] = _operation(type_.gvk, verb, body, custom=type_.custom)
    paths: Object = {root: _item(collection, type_.namespaced, named=False)}
    if not type_.stored:
        return paths
    if type_.namespaced and "list" in type_.verbs:
        paths[type_.resource.path()] = _item({"get": collection["get"]}, False, named=False)  # of all namespaces
    single = {
        method: _operation(type_.gvk, verb, _STATUS if verb == "delete" else name, custom=type_.custom)
        for verb, method in (("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete"))
        if verb in type_.verbs
    }
    paths[f"{root}/{{name}}"] = _item(single, type_.namespaced, named=True)
    for below_name, below in type_.subresources.items():
        schema = _component(below.gvk) if _served_body(below) or below.gvk == type_.gvk else _STATUS
        methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
        operations = {methods[verb]: _operation(below.gvk, verb, schema, custom=type_.custom) for verb in below.verbs}
        paths[f"{root}/{{name}}/{below_name}"] = _item(operations, type_.namespaced, named=True)
    return paths


def _item(operations: Object, namespaced: bool, *, named: bool) -> Object:
    parameters = [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in ([*(["name"] if named else []), *(["namespace"] if namespaced else [])])
    ]
    return {**operations, **({"parameters": parameters} if parameters else {})}


def _operation(gvk: GVK, verb: str, schema: str, *, custom: bool) -> Object:
    answer = {"$ref": _PREFIX + schema}
    made: Object = {
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": _gvk(gvk),
    }
    if verb in ("create", "update", "patch"):
        parameters = [
            {"in": "query", "name": name, "description": text, "schema": {"type": "string", "uniqueItems": True}}
            for name, text in _WRITE_PARAMETERS.items()
        ]
        if verb == "patch":
            text = 'Force is going to "force" Apply requests: fields of other managers are taken over.'
            schema_ = {"type": "boolean", "uniqueItems": True}
            parameters.append({"in": "query", "name": "force", "description": text, "schema": schema_})
        made["parameters"] = parameters
        types = (*_MERGES, *(() if custom else (_STRATEGIC,))) if verb == "patch" else ("application/json",)
        made["requestBody"] = {
            "content": {type_: {"schema": answer if verb != "patch" else {"type": "object"}} for type_ in types}
        }
    return made
