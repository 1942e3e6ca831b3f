"""Schemas of custom kinds as documents have them: with what every object has, and for v2 without what v2 cannot say.

Clients read "no properties" as "anything goes", and refuse what they cannot read. So in v2 nothing is said below a value that may
be null or keeps unknown fields, and a list without items has no type; kube-apiserver does the same.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.server.openapi.kinds import LIST_META, told
from modelplane.server.resource import ResourceType
from modelplane.server.schema.node import OBJECT_META

V2: Final = "#/definitions/"
V3: Final = "#/components/schemas/"
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_RESOURCES: Final = f"More info: {_CONVENTIONS}#resources"
_KINDS: Final = f"More info: {_CONVENTIONS}#types-kinds"
_TYPE_META: Final = {
    "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
        f"recognized schemas to the latest internal value, and may reject unrecognized values. {_RESOURCES}",
        "type": "string",
    },
    "kind": {
        "description": "Kind is a string value representing the REST resource this object represents. Servers may infer this "
        f"from the endpoint the client submits requests to. Cannot be updated. In CamelCase. {_KINDS}",
        "type": "string",
    },
}
_EMBEDDED_META: Final = {
    "apiVersion": {
        "description": f"apiVersion defines the versioned schema of this representation of an object. {_RESOURCES}",
        "type": "string",
    },
    "kind": {
        "description": f"kind is a string value representing the type of this object. In CamelCase. {_KINDS}",
        "type": "string",
    },
}
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_EITHER: Final = "x-kubernetes-int-or-string"
_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
_PLAIN: Final[tuple[str, ...]] = (
    "type", "title", "description", "externalDocs", "example", "format", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum",
    "maxProperties", "minProperties", "required", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-map-type", "x-kubernetes-validations", _EITHER, _OPEN, _EMBEDDED,
)  # fmt: skip
"""What v2 takes over as it is; not defaults, `nullable`, and what combines schemas (`allOf`, `oneOf`, `anyOf`, `not`)."""


def kind_schema(type_: ResourceType, source: Object, root: str) -> Object:
    """The schema of a kind; ``root`` is V2 or V3."""
    if root == V2 and source.get(_OPEN):
        return {"type": "object"} | _extensions(type_, type_.gvk.kind)  # with a field clients would refuse all others
    schema = _v2(source) if root == V2 else _v3(source)
    properties = {**(schema.get("properties") or {}), **_TYPE_META, "metadata": _metadata(root)}
    return {**schema, "properties": properties} | _extensions(type_, type_.gvk.kind)


def list_schema(type_: ResourceType, name: str, root: str) -> Object:
    """The schema of its list; ``name`` is that of its own."""
    words = f"List of {type_.plural}. More info: {_CONVENTIONS}"
    made: Object = {
        "description": f"{type_.list_kind} is a list of {type_.gvk.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "items": {"description": words, "type": "array", "items": {"$ref": root + name}},
            "metadata": _referring(root, LIST_META, f"Standard list metadata. {_KINDS}"),
        },
    }
    return made | _extensions(type_, type_.list_kind)


def _metadata(root: str) -> Object:
    return _referring(root, OBJECT_META, f"Standard object's metadata. More info: {_CONVENTIONS}#metadata")


def _referring(root: str, name: str, words: str) -> Object:
    """A reference with a description, beside which nothing stands in v3."""
    target = {"$ref": root + name}
    return {"description": words, **(target if root == V2 else {"allOf": [target]})}


def _extensions(type_: ResourceType, kind: str) -> Object:
    made: Object = {"x-kubernetes-group-version-kind": [told(GVK(type_.gvk.group, type_.gvk.version, kind))]}
    if type_.selectable_fields:
        made["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in type_.selectable_fields]
    return made


def _v3(source: Object) -> Object:
    """A structural schema with what its extensions mean written out."""
    made = dict(source)
    if made.get(_EITHER) and not _says_either(made):
        either = {"anyOf": _TYPES}
        made |= {"allOf": [either, *(made.get("allOf") or ())]} if made.get("anyOf") else either
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _v3(made[key])
    if made.get("properties"):
        made["properties"] = {name: _v3(inner) for name, inner in made["properties"].items()}
    return _embedding(made, V3) if made.get(_EMBEDDED) else made


def _says_either(schema: Object) -> bool:
    if schema.get("anyOf") == _TYPES:
        return True
    return any(part.get("anyOf") == _TYPES for part in (schema.get("allOf") or ())[:1])


def _v2(source: Object) -> Object:
    """A structural schema, without what v2 cannot say."""
    kept: Object = {key: source[key] for key in _PLAIN if key in source and not _nothing(source[key])}
    nullable, keeps = bool(source.get("nullable")), bool(source.get(_OPEN))
    items, properties = source.get("items"), source.get("properties")
    if nullable or keeps:
        items = properties = None
    if nullable or (kept.get("type") == "array" and items is None) or (keeps and kept.get("type") == "object"):
        kept.pop("type", None)
    values = source.get("additionalProperties")
    required = [name for name in kept.pop("required", ()) if not ((properties or {}).get(name) or {}).get("nullable")]
    if required and not (isinstance(values, dict) and values.get("nullable")):
        kept["required"] = required
    if items is not None:
        kept["items"] = _v2(items)
    if properties:
        kept["properties"] = {name: _v2(inner) for name, inner in properties.items()}
    if values is not None:
        kept["additionalProperties"] = _v2(values) if isinstance(values, dict) else values
    return _embedding(kept, V2) if source.get(_EMBEDDED) and not keeps else kept


def _nothing(value: object) -> bool:
    """Whether Go's JSON leaves a value out; a zero is one, since a least or most value may be it."""
    return value is None or value is False or (isinstance(value, str | list) and not value)


def _embedding(schema: Object, root: str) -> Object:
    """An object inside an object has what every object has."""
    properties = {**(schema.get("properties") or {}), **_EMBEDDED_META, "metadata": _metadata(root)}
    required = list(schema.get("required") or ())
    required += [name for name in ("kind", "apiVersion") if name not in required]
    return {**schema, "properties": properties, "required": required}
