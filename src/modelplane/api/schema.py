"""From types to structural OpenAPI v3.

Pure: descriptions come in as a function, because reading source text is not the business of the core. The output obeys
Kubernetes' structural rules: every object spells out its properties, there is no ``$ref``, and nothing sits inside a junctor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import EnumMeta, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec

from modelplane.api.meta import Condition, Object, ObjectMeta
from modelplane.api.shape import Definition, Root, Rule, Shape

Describe: TypeAlias = Callable[[type, str | None], str]
"""The words about a class (field None) or about one of its fields, by Python name."""

NAME_LENGTH: Final = 63
"""Longest name of an object of ours: names become label values."""


_CONDITION_WORDS: Final = {
    "type": "What the condition is about.",
    "status": "True, False or Unknown.",
    "reason": "Why, as one word.",
    "message": "What is so, and what to do about it.",
    "last_transition_time": "When the status last changed.",
    "observed_generation": "The generation of the object that was looked at.",
}


class UnsupportedType(TypeError):
    """A field has a type that has no structural schema: a fault of ours, found when schemas are generated."""


def silent(type_: type, field: str | None) -> str:
    """Describes nothing: for readers that validate and do not explain."""
    return ""


def schema_of(type_: type[Shape], describe: Describe = silent) -> Object:
    """The structural schema of a type."""
    return _object(type_, describe)


def root_schema(definition: Definition, describe: Describe = silent) -> Object:
    """The schema of a whole object: apiVersion, kind and metadata besides what the type has."""
    schema = _object(definition.type, describe)
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Group and version of this representation of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": NAME_LENGTH}}},
        **schema["properties"],
    }
    return schema


# --- types ------------------------------------------------------------------------------------------------------


@cache
def _fields(type_: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(type_)


def _object(type_: type[msgspec.Struct], describe: Describe) -> Object:
    properties: Object = {}
    required: list[str] = []
    for info in _fields(type_):
        if info.type is ObjectMeta:
            continue
        inner, metas = _unwrap(info.type)
        schema = _of(inner, describe)
        words = _CONDITION_WORDS.get(info.name, "") if type_ is Condition else describe(type_, info.name)
        if words:
            schema = {"description": words, **schema}
        explicit = _apply(schema, metas)
        default = explicit.get("default", _default(info))
        if default is not None:
            schema["default"] = default
        if info.required or explicit.get("required"):
            required.append(info.encode_name)
        properties[info.encode_name] = schema
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    words = describe(type_, None) if issubclass(type_, Root) else ""
    if words:
        schema = {"description": words, **schema}
    _add_rules(schema, getattr(type_, "RULES", ()))
    return schema


def _unwrap(type_: Any) -> tuple[Any, tuple[msgspec.Meta, ...]]:
    """A type without its annotations and without None, and the annotations."""
    metas: tuple[msgspec.Meta, ...] = ()
    while True:
        if get_origin(type_) is Annotated:
            type_, *found = get_args(type_)
            metas += tuple(meta for meta in found if isinstance(meta, msgspec.Meta))
        elif get_origin(type_) in (Union, UnionType):
            members = [member for member in get_args(type_) if member is not NoneType]
            if len(members) != 1:
                raise UnsupportedType(
                    f"{type_} is a union of several types; a structural schema has one type per field"
                )
            type_ = members[0]
        else:
            return type_, metas


def _of(type_: Any, describe: Describe) -> Object:
    """The schema of an unwrapped type."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": _annotated(arguments[0], describe)}
    if origin is not None and issubclass(origin, Mapping):
        key, value = arguments
        if value is Any:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if _unwrap(key)[0] is not str:
            raise UnsupportedType(f"{type_}: keys of a map are strings")
        return {"type": "object", "additionalProperties": _annotated(value, describe)}
    if isinstance(type_, EnumMeta):
        return {"type": "string", "enum": [str(member.value) for member in list[Any](type_)]}
    if type_ is str:
        return {"type": "string"}
    if type_ is bool:
        return {"type": "boolean"}
    if type_ is int:
        return {"type": "integer"}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _object(type_, describe)
    raise UnsupportedType(f"{type_} has no structural schema")


def _annotated(type_: Any, describe: Describe) -> Object:
    inner, metas = _unwrap(type_)
    schema = _of(inner, describe)
    _apply(schema, metas)
    return schema


_LENGTHS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def _apply(schema: Object, metas: tuple[msgspec.Meta, ...]) -> Object:
    """Write annotations into a schema; what only the parent can act on (required) is returned."""
    explicit: Object = {}
    for meta in metas:
        least, most = _LENGTHS.get(schema["type"], ("", ""))
        for key, value in (
            (least, meta.min_length),
            (most, meta.max_length),
            ("pattern", meta.pattern),
            ("minimum", meta.ge),
            ("maximum", meta.le),
        ):
            if value is not None:
                schema[key] = value
        for key, value in (meta.extra or {}).items():
            if key == "rules":
                _add_rules(schema, value)
            elif key == "listType":
                schema["x-kubernetes-list-type"] = value
            elif key == "listMapKeys":
                schema["x-kubernetes-list-map-keys"] = list(value)
            elif key in ("format", "minProperties"):
                schema[key] = value
            else:
                explicit[key] = value
    return explicit


def _default(info: msgspec.structs.FieldInfo) -> Any:
    """The default that the API server writes, None for none: empty values merely stand for absence."""
    value = info.default
    if value is msgspec.NODEFAULT or value is None or value == "" or value == () or isinstance(value, msgspec.Struct):
        return None
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value


def _add_rules(schema: Object, rules: tuple[Rule, ...]) -> None:
    for rule in rules:
        entry: Object = {"rule": rule.rule, "message": rule.message}
        if rule.expression:
            entry["messageExpression"] = rule.expression
        if rule.field:
            entry["fieldPath"] = rule.field
        if rule.optional_old_self:
            entry["optionalOldSelf"] = True
        schema.setdefault("x-kubernetes-validations", []).append(entry)
