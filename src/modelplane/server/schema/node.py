"""A schema as a tree of small objects that pruning, defaulting, validation, patches and apply all walk.

Two dialects become one: structural OpenAPI v3 of CustomResourceDefinitions, and the definitions of built-in kinds,
which refer to each other by name. Plain leaves are shared, so a large schema costs kilobytes. A tree is never changed
once it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from modelplane.api.meta import Object

Sound = Callable[[object], bool]
MISSING: Final = object()
"""Tells "no default" from a default of null."""

_CONSTRAINTS: Final = (
    "enum", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "allOf", "anyOf", "oneOf", "not",
)  # fmt: skip
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Node:
    """One place of a schema.

    ``type`` is object, array, string, integer, number, boolean, int-or-string, quantity, or empty for anything.
    An object has ``properties``, ``additional`` (the values of a map), or both are empty and it takes anything only
    if ``preserve`` is set.
    """

    __slots__ = (
        "additional", "atomic", "constraints", "default", "defaulted", "embedded", "has_default_below", "has_lists_below",
        "items", "list_type", "map_keys", "merge_key", "name", "nullable", "preserve", "properties", "required", "rules",
        "sound", "strategies", "type",
    )  # fmt: skip

    def __init__(self, type_: str = "") -> None:
        self.type = type_
        self.name = ""
        """The Go type of a built-in definition (``DeploymentSpec``), for messages."""
        self.properties: Mapping[str, Node] = {}
        self.additional: Node | None = None
        self.items: Node | None = None
        self.required: tuple[str, ...] = ()
        self.nullable = False
        self.preserve = False
        self.embedded = False
        self.default: object = MISSING
        self.defaulted: tuple[tuple[str, Node], ...] = ()
        """The properties that have a default."""
        self.has_default_below = False
        self.has_lists_below = False
        """Whether this is a set or a list map, or has one below."""
        self.list_type = ""
        """atomic, set, map; empty for a list without a declared type, which is atomic to apply."""
        self.map_keys: tuple[str, ...] = ()
        self.atomic = False
        """x-kubernetes-map-type: atomic."""
        self.merge_key = ""
        self.strategies: tuple[str, ...] = ()
        self.constraints: Object = {}
        self.rules: tuple[Object, ...] = ()
        """x-kubernetes-validations."""
        self.sound: Sound | None = None
        """Made by ``sound.py`` when it is first asked for."""

    def field(self, name: str) -> Node | None:
        """The schema of one field of an object, None when it is not known."""
        return self.properties.get(name) or self.additional


ANYTHING: Final = Node()
ANYTHING.preserve = True


def _plain(type_: str, nullable: bool = False) -> Node:
    node = Node(type_)
    node.nullable = nullable
    return node


_LEAVES: Final = {
    (type_, nullable): _plain(type_, nullable)
    for type_ in ("string", "integer", "number", "boolean", "int-or-string", "quantity")
    for nullable in (False, True)
}
TEXT: Final = _LEAVES["string", False]


def _copy(node: Node) -> Node:
    copy = Node()
    for slot in Node.__slots__:
        setattr(copy, slot, getattr(node, slot))
    copy.sound = None
    return copy


def with_properties(node: Node, properties: Mapping[str, Node]) -> Node:
    """The same place of a schema with these fields besides its own, or instead of them."""
    copy = _copy(node)
    copy.properties = {**node.properties, **properties}
    copy.defaulted = _defaulted(copy)
    return copy


def _defaulted(node: Node) -> tuple[tuple[str, Node], ...]:
    return tuple((name, child) for name, child in node.properties.items() if child.default is not MISSING)


_IGNORED: Final = {
    "description", "title", "example", "externalDocs", "type", "nullable", "id", "$schema", "deprecated",
    "x-kubernetes-int-or-string", "x-kubernetes-group-version-kind", "x-kubernetes-unions",
}  # fmt: skip


class Compiler:
    """Makes nodes; remembers the named definitions that it has met, so that recursive kinds end.

    ``definition`` gives a built-in definition by its full name. With ``builtin`` set every value may be null, which
    is how Go decodes JSON: null is absent.
    """

    def __init__(self, definition: Callable[[str], Object] | None = None, *, builtin: bool = False) -> None:
        self._definition = definition
        self._builtin = builtin
        self._named: dict[str, Node] = {}

    def named(self, name: str) -> Node:
        """The node of a built-in definition."""
        if name == QUANTITY:
            return _LEAVES["quantity", self._builtin]
        if name == INT_OR_STRING:
            return _LEAVES["int-or-string", self._builtin]
        if name not in self._named:
            if self._definition is None:
                raise KeyError(name)
            node = self._named[name] = Node()
            node.name = name.rpartition(".")[2]
            self._fill(node, self._definition(name))
        return self._named[name]

    def compile(self, schema: Object) -> Node:
        """The node of an inline schema."""
        ref = schema.get("$ref")
        if ref is not None:
            return self._decorated(self.named(ref.rpartition("/")[2]), schema)
        if not (schema.keys() - _IGNORED):
            type_ = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
            leaf = _LEAVES.get((type_, self._builtin or bool(schema.get("nullable"))))
            if leaf is not None:
                return leaf
        node = Node()
        self._fill(node, schema)
        return node

    def _decorated(self, node: Node, schema: Object) -> Node:
        """A reference with list, map or patch extensions of its own beside it."""
        marks = [k for k in schema if k == "default" or (k.startswith("x-kubernetes-") and k not in _IGNORED)]
        if not marks:
            return node
        copy = _copy(node)
        self._extensions(copy, schema)
        return copy

    def _fill(self, node: Node, schema: Object) -> None:
        node.type = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
        node.nullable = self._builtin or bool(schema.get("nullable"))
        node.required = tuple(schema.get("required") or ())
        node.constraints = {key: schema[key] for key in _CONSTRAINTS if key in schema}
        self._extensions(node, schema)
        node.properties = {name: self.compile(child) for name, child in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            node.additional = self.compile(additional) if additional else ANYTHING
        elif additional is True:
            node.additional = ANYTHING
        items = schema.get("items")
        if isinstance(items, dict):
            node.items = self.compile(items)
        if self._builtin and not node.properties and node.additional is None and node.type in ("object", ""):
            node.preserve = node.atomic = True
        children = [*node.properties.values(), node.additional, node.items]
        node.defaulted = _defaulted(node)
        node.has_default_below = any(
            child is not None and (child.default is not MISSING or child.has_default_below) for child in children
        )

        node.has_lists_below = node.list_type in ("set", "map") or any(
            child is not None and child.has_lists_below for child in children
        )

    def _extensions(self, node: Node, schema: Object) -> None:
        if "default" in schema:
            node.default = schema["default"]
        node.preserve = node.preserve or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        node.embedded = node.embedded or bool(schema.get("x-kubernetes-embedded-resource"))
        node.list_type = schema.get("x-kubernetes-list-type", node.list_type)
        node.map_keys = tuple(schema.get("x-kubernetes-list-map-keys", node.map_keys))
        node.atomic = schema.get("x-kubernetes-map-type", "atomic" if node.atomic else "") == "atomic"
        node.merge_key = schema.get("x-kubernetes-patch-merge-key", node.merge_key)
        strategy = schema.get("x-kubernetes-patch-strategy")
        node.strategies = tuple(strategy.split(",")) if strategy else node.strategies
        node.rules = tuple(schema.get("x-kubernetes-validations") or ()) or node.rules
