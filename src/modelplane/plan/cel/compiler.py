"""From a checked tree to nested Python closures: the evaluator.

A closure takes a frame, a list whose first place counts the steps that are left and whose other places hold variables. CEL's errors
are `Fault` exceptions, so that only the operators that absorb errors pay for them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from modelplane.plan.cel import leaves
from modelplane.plan.cel.check import qualified_name
from modelplane.plan.cel.folds import fold_closure
from modelplane.plan.cel.functions.operators import index, optional_index
from modelplane.plan.cel.functions.regexes import pattern
from modelplane.plan.cel.leaves import Closure, Frame
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    Fault,
    Fold,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
)
from modelplane.plan.cel.types import DYN, TYPE_NAMES
from modelplane.plan.cel.values import NONE, Optional, TypeValue, UInt, Value, kind, literal_key, overload_fault

CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})
_FOLDED: Final = CONVERSIONS | {"dyn", "type", "quantity", "semver", "ip", "cidr", "url"}
_EARLY: Final = CONVERSIONS | {"dyn", "type"}
_FOLDING: Final = 1_000_000
"""Steps for working out one constant."""
_QUALIFIERS: Final = (bool, int, str, float)
_GO_TYPES: Final = {
    "bytes": "types.Bytes",
    "duration": "types.Duration",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "null": "types.Null",
    "timestamp": "types.Timestamp",
    "type": "*types.Type",
}
"""What Kubernetes calls values that no list or map can be asked for."""
_LOOKED_UP: Final = frozenset({bool, int, UInt, float, str})
_CONSTANT_TIME: Final = frozenset({"_[_]", "_[?_]", "size", "type", "dyn"})
_SIZED: Final = frozenset({"string", "bytes", "list"})


class ConstantError(Exception):
    """A conversion of a constant can never succeed."""


class Compiled:
    """A closure and the places that its frame needs."""

    def __init__(self, closure: Closure, places: int) -> None:
        self.closure = closure
        self.places = places


def compile_tree(node: Node, variables: Iterable[str]) -> Compiled:
    """The closure of a checked tree; variables take the places from 1 on, in order. Raises `ConstantError`."""
    builder = _Builder({name: place for place, name in enumerate(variables, 1)})
    closure = builder.build(node)
    return Compiled(closure, builder.places)


class _Builder:
    def __init__(self, scope: Mapping[str, int]) -> None:
        self.scope = dict(scope)
        self.guarded: frozenset[str] = frozenset()
        """Names from ``cel.bind``, whose value may be an error that shows only where the name is used."""
        self.places = len(scope) + 1
        self.looping = False
        """Inside a comprehension, where the size of what a function looks at counts."""

    def within(self, names: Iterable[str], *, guarded: bool = False) -> tuple[_Builder, list[int]]:
        """A builder that sees more variables, each at a place of its own, and those places."""
        names = list(names)
        inner = _Builder(self.scope)
        inner.looping = self.looping
        inner.guarded = self.guarded | set(names) if guarded else self.guarded - set(names)
        places = []
        for name in names:
            inner.scope[name] = self.places
            places.append(self.places)
            self.places += 1
        inner.places = self.places
        return inner, places

    def build(self, node: Node) -> Closure:
        match node:
            case Literal():
                return leaves.constant(node.value)
            case Ident():
                place = self.scope.get(node.name)
                if place is None:
                    return leaves.constant(TypeValue(node.name))
                read = leaves.guarded(place) if node.name in self.guarded else operator.itemgetter(place)
                return leaves.as_attribute(read, node)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case Fold():
                return self.fold(node)
            case Bind():
                return self.bind(node)
            case OptionalMap():
                return self.optional_map(node)
        assert_never(node)

    def select(self, node: Select) -> Closure:
        name = qualified_name(node)
        if name in TYPE_NAMES and name.partition(".")[0] not in self.scope:
            return leaves.constant(TypeValue(name))
        operand = self.build(node.operand)
        if node.test:
            return leaves.present(operand, node.field)
        return leaves.optional_field(operand, node.field) if node.optional else leaves.field(operand, node.field)

    def call(self, node: Call) -> Closure:
        operands = [*([node.target] if node.target is not None else []), *node.args]
        closures = [self.build(operand) for operand in operands]
        match node.function:
            case "_&&_":
                return leaves.logic(closures, False)
            case "_||_":
                return leaves.logic(closures, True)
            case "_?_:_":
                return leaves.as_attribute(leaves.conditional(*closures), node)
            case "_[_]" | "_[?_]":
                if _is_constant(node.args[1]) and not isinstance(key := closures[1]([_FOLDING]), _QUALIFIERS):
                    raise ConstantError(f"invalid qualifier type: {_GO_TYPES.get(kind(key), kind(key))}")
                over = node.args[0].type
                if over is not None and (over.name == "optional_type" or over.is_dynamic):
                    return leaves.patient_index(index if node.function == "_[_]" else optional_index, *closures)
            case "matches" | "find" | "findAll":
                self.require_pattern(node)
            case "@in":
                members = _constant_members(node.args[1], closures[1])
                if members is not None:
                    # Whether something is in an empty list is decided without a look at it.
                    return leaves.in_constants(closures[0], members) if members else leaves.constant(False)
            case "or" | "orValue":
                return leaves.or_else(closures[0], closures[1], unwrap=node.function == "orValue")
        assert node.overloads is not None
        if self.looping and node.function not in _CONSTANT_TIME:
            closures = [leaves.measured(closure) for closure in closures]
        closure = leaves.invoke(node.function, node.overloads, closures, node.exact)
        if node.function in _FOLDED and all(map(_is_constant, operands)):
            try:
                return leaves.constant(closure([_FOLDING]))
            except Fault as fault:
                if node.function in CONVERSIONS:
                    raise ConstantError(str(fault)) from fault
        if node.function == "_+_" or any(overload.result.name in _SIZED for overload in node.overloads):
            return leaves.sized(closure)
        return closure

    def require_pattern(self, node: Call) -> None:
        """Patterns that are known already are read before any device is met. Raises `ConstantError`."""
        place = node.args[0] if node.target is not None else node.args[-1]
        if _is_constant(place) and isinstance(text := self.build(place)([_FOLDING]), str):
            try:
                pattern(text)
            except Fault as fault:
                raise ConstantError(str(fault)) from fault

    def list_literal(self, node: ListExpr) -> Closure:
        closures = [self.build(element) for element in node.elements]
        if all(isinstance(element, Literal) for element in node.elements) and not node.optional:
            return leaves.constant([closure([]) for closure in closures])
        if not node.optional:
            return lambda frame: [closure(frame) for closure in closures]
        pairs = [(closure, index in node.optional) for index, closure in enumerate(closures)]

        def build(frame: Frame) -> Value:
            found = []
            for closure, optional in pairs:
                value = closure(frame)
                if not optional:
                    found.append(value)
                elif not isinstance(value, Optional):
                    raise overload_fault()
                elif value.present:
                    found.append(value.value)
            return found

        return build

    def map_literal(self, node: MapExpr) -> Closure:
        entries = [(self.build(entry.key), self.build(entry.value), entry.optional) for entry in node.entries]

        def build(frame: Frame) -> Value:
            found: dict[Value, Value] = {}
            for key_closure, value_closure, optional in entries:
                key, value = literal_key(key_closure(frame)), value_closure(frame)
                if optional:
                    if not isinstance(value, Optional):
                        raise overload_fault()
                    if not value.present:
                        continue
                    value = value.value
                found[key] = value
            return found

        if _is_constant(node):
            try:
                return leaves.constant(build([_FOLDING]))
            except Fault as fault:
                raise ConstantError(str(fault)) from fault
        return build

    def fold(self, node: Fold) -> Closure:
        over = self.build(node.range)
        inner, places = self.within([node.item] if node.key is None else [node.key, node.item])
        inner.looping = True
        keep = inner.build(node.filter) if node.filter is not None else None
        body = inner.build(node.body)
        self.places = inner.places
        items = node.range.type.params[-1:] if node.range.type is not None and node.kind == "filter" else ()
        item = inner.build(Ident(node.item, node.at, items[0] if items else DYN))
        return fold_closure(node.kind, over, places, keep, body, size(node.body) + 2, item)

    def bind(self, node: Bind) -> Closure:
        value = self.build(node.value)
        inner, (place,) = self.within([node.name], guarded=True)
        body = inner.build(node.body)
        self.places = inner.places

        def bound(frame: Frame) -> Value:
            try:
                frame[place] = value(frame)
            except Fault as fault:
                frame[place] = fault
            return body(frame)

        return bound

    def optional_map(self, node: OptionalMap) -> Closure:
        value = self.build(node.value)
        inner, (place,) = self.within([node.name], guarded=True)
        body = inner.build(node.body)
        self.places = inner.places

        def mapped(frame: Frame) -> Value:
            found = value(frame)
            if not isinstance(found, Optional):
                raise overload_fault()
            if not found.present:
                return NONE
            frame[place] = found.value
            result = body(frame)
            return result if node.flat else Optional(True, result)

        return leaves.as_attribute(mapped, node)


def size(node: Node) -> int:
    """The number of nodes of a tree: what one round of a comprehension costs."""
    match node:
        case Literal() | Ident():
            return 1
        case Select():
            return 1 + size(node.operand)
        case Call():
            return 1 + sum(map(size, node.args)) + (size(node.target) if node.target is not None else 0)
        case ListExpr():
            return 1 + sum(map(size, node.elements))
        case MapExpr():
            return 1 + sum(size(entry.key) + size(entry.value) for entry in node.entries)
        case Fold():
            return 1 + size(node.range) + size(node.body)
        case Bind() | OptionalMap():
            return 1 + size(node.value) + size(node.body)
    assert_never(node)


def _is_constant(node: Node) -> bool:
    """Whether Kubernetes works a node out before it meets any device."""
    match node:
        case Literal():
            return True
        case ListExpr():
            return all(map(_is_constant, node.elements)) and not node.optional
        case MapExpr():
            return all(_is_constant(e.key) and _is_constant(e.value) and not e.optional for e in node.entries)
        case Call():
            return node.function in _EARLY and node.target is None and all(map(_is_constant, node.args))
    return False


def _constant_members(node: Node, closure: Closure) -> list[Value] | None:
    """What a list holds that Kubernetes makes a set of: constants of types that it can look up."""
    if not isinstance(node, ListExpr) or not _is_constant(node):
        return None
    members = closure([_FOLDING])
    return members if all(type(member) in _LOOKED_UP for member in members) else None  # type: ignore[return-value,attr-defined]
