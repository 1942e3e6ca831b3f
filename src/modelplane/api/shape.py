"""The words in which a type says what its schema is: bounds, list types, rules, columns.

A kind is a tree of `Shape` classes. What msgspec checks itself (lengths, ranges, patterns) is a `msgspec.Meta`; what only a
Kubernetes schema knows (list types, CEL rules, immutability) rides in `Meta(extra=...)` under one key each. The generator in
`schema.py` reads both; nothing at run time does, so a type costs a process no more than its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from modelplane.api.meta import Object, ObjectMeta, Resource
from modelplane.errors import InvalidObject


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One cross-field rule: CEL over ``self``, that must be true (``x-kubernetes-validations``).

    ``message`` is what a person reads when it is false; ``expression`` computes a better one that quotes the value, and
    ``message`` stands in should that fail. ``field`` is the JSON path, from where the rule stands, that the error points at.
    """

    rule: str
    message: str
    expression: str | None = None
    field: str | None = None
    optional_old_self: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object of the API. A field without default is required; one that is ``None``, ``()``, ``{}`` or ``""`` by default is
    optional; any other default is the schema's default, which the API server writes into the object."""

    RULES: ClassVar[tuple[Rule, ...]] = ()


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A printer column. Priority 1 shows with ``-o wide`` alone."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of the scale subresource."""

    spec: str
    status: str
    selector: str | None = None


class Owner(StrEnum):
    """Who writes a kind's spec."""

    PLATFORM = "platform"
    """Platform teams."""
    DEVELOPER = "developer"
    """Teams that have models served; the control plane may compose the kind too."""
    COMPOSED = "composed"
    """The control plane alone."""


Vocabulary: TypeAlias = type[StrEnum]
"""The words that a field may have, each with its meaning below it."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """All that a CustomResourceDefinition needs to know about one kind."""

    resource: Resource
    type: type[Shape]
    owner: Owner
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("crossplane", "modelplane")
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    machinery: bool = True
    """Whether the kind is reconciled by us, and so shows whether it is synced and ready."""
    conditions: Vocabulary | None = None
    """Condition types of its own, besides Ready and Synced."""
    reasons: Vocabulary | None = None


# --- vocabulary of annotations ----------------------------------------------------------------------------------

Labels: TypeAlias = Mapping[str, str]


def text(least: int | None = None, most: int | None = None, *, pattern: str | None = None) -> Meta:
    """Bounds of a string's length, and a pattern that has to be found in it."""
    return Meta(min_length=least, max_length=most, pattern=pattern)


def number(least: int | None = None, most: int | None = None) -> Meta:
    """Bounds of an integer, both included."""
    return Meta(ge=least, le=most)


def listed(least: int | None = None, most: int | None = None) -> Meta:
    """Bounds of a list that carries no merge annotation."""
    return Meta(min_length=least, max_length=most)


def atomic(least: int | None = None, most: int | None = None) -> Meta:
    """A list that is replaced as a whole."""
    return Meta(min_length=least, max_length=most, extra={"listType": "atomic"})


def keyed(*keys: str, least: int | None = None, most: int | None = None) -> Meta:
    """A list whose entries are told apart by the named fields: duplicates are refused, apply merges entry by entry."""
    return Meta(min_length=least, max_length=most, extra={"listType": "map", "listMapKeys": keys})


def entries(least: int | None = None, most: int | None = None) -> Meta:
    """Bounds of the number of keys of a map."""
    return Meta(min_length=least, max_length=most)


def formatted(name: str) -> Meta:
    """An OpenAPI format such as ``date-time`` or ``int64``."""
    return Meta(extra={"format": name})


def ruled(*rules: Rule) -> Meta:
    """Rules that stand at the field rather than at the type of its value."""
    return Meta(extra={"rules": rules})


ONE_KEY_AT_LEAST: Final = Meta(extra={"minProperties": 1})
"""An object that may not be empty."""

EMPTY: Final = Meta(extra={"default": {}})
"""An object that the API server writes when it is absent, so that the defaults inside it take effect."""

EXPLICIT: Final = Meta(extra={"required": True})
"""Required by the schema although the type has a default (for readers that build one by hand)."""

IMMUTABLE: Final = Rule(
    rule="self == oldSelf",
    message="this field cannot be changed; create a new object instead",
)


# --- reading ----------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=Shape)


def read(type_: type[S], obj: Mapping[str, Any]) -> S:
    """An object as its type. Unknown fields are passed over, since a newer server may have written them.

    Raises InvalidObject with the kind, the name and the path of the first field that does not fit.
    """
    try:
        return msgspec.convert(obj, type_)
    except msgspec.ValidationError as error:
        metadata = obj.get("metadata") or {}
        name = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
        raise InvalidObject(f"{obj.get('kind', type_.__name__)} {name or '(unnamed)'}: {error}") from error


class Root(Shape, frozen=True, kw_only=True):
    """What every object has besides spec and status."""

    metadata: ObjectMeta = ObjectMeta()


def to_object(resource: Resource, value: Root) -> Object:
    """A typed object as JSON, with defaults left out."""
    body: Object = msgspec.to_builtins(value, str_keys=True)
    return {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind, **body}
