"""CEL's type checker: gives every node its type and every call its possible overloads, or the issues with their positions.

Messages are those of Kubernetes' own checker. List literals are homogeneous, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final, assert_never

from modelplane.plan.cel.registry import FUNCTIONS, Overload
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    CelError,
    Fold,
    Ident,
    Issue,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
    Source,
)
from modelplane.plan.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TYPE_NAMES,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    substitute,
    unify,
)
from modelplane.plan.cel.values import UInt

if TYPE_CHECKING:
    from collections.abc import Iterator

_LITERALS: Final = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
_LOGIC: Final = ("_&&_", "_||_")


def check(source: Source, node: Node, variables: Mapping[str, Type]) -> Type:
    """The type of the whole expression. Raises `CelError` with every issue found."""
    checker = _Checker(source, variables)
    result = checker.visit(node)
    if checker.issues:
        raise CelError(source, checker.issues, "compilation failed: ")
    return result


def qualified_name(node: Node) -> str | None:
    """``a.b.c`` when the node is a plain chain of names."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None


class _Checker:
    def __init__(self, source: Source, variables: Mapping[str, Type]) -> None:
        self.source = source
        self.scope = dict(variables)
        self.issues: list[Issue] = []

    def report(self, at: int, message: str) -> Type:
        self.issues.append(self.source.issue(at, message))
        return ERROR

    @contextmanager
    def binding(self, names: Mapping[str, Type]) -> Iterator[None]:
        saved = self.scope
        self.scope = saved | dict(names)
        yield
        self.scope = saved

    def visit(self, node: Node) -> Type:
        node.type = found = self._visit(node)
        return found

    def _visit(self, node: Node) -> Type:
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Ident():
                return self.name(node.name, node.at)
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
                value = self.visit(node.value)
                with self.binding({node.name: value}):
                    return self.visit(node.body)
            case OptionalMap():
                return self.optional_map(node)
        assert_never(node)

    def name(self, name: str, at: int) -> Type:
        found = self.scope.get(name)
        if found is not None:
            return found
        if name in TYPE_NAMES:
            return Type("type", (TYPE_NAMES[name],))
        return self.report(at, f"undeclared reference to '{name}' (in container '')")

    # --- selection ----------------------------------------------------------------------------------------------

    def select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name in TYPE_NAMES and name.partition(".")[0] not in self.scope:
            return Type("type", (TYPE_NAMES[name],))
        operand = self.visit(node.operand)
        through = operand.name == "optional_type"
        found = self.field(operand.params[0] if through and operand.params else operand, node)
        if node.test:
            return BOOL
        return optional_of(found) if through or node.optional else found

    def field(self, operand: Type, node: Select) -> Type:
        if operand.fields is not None:
            found = operand.fields.get(node.field)
            return found or self.report(node.at, f"undefined field '{node.field}'")
        if operand.name == "map":
            return operand.params[1] if operand.params else DYN
        if operand.name in ("dyn", "error"):
            return DYN
        return self.report(node.at, f"type '{operand}' does not support field selection")

    # --- calls --------------------------------------------------------------------------------------------------

    def call(self, node: Call) -> Type:
        if node.function in _LOGIC:
            return self.logic(node)
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None and prefix.partition(".")[0] not in self.scope:
                full = f"{prefix}.{node.function}"
                if full in FUNCTIONS:
                    node.function, node.target = full, None
        overloads = FUNCTIONS.get(node.function)
        operands = node.args if node.target is None else [node.target, *node.args]
        before = len(self.issues)
        types = [self.visit(operand) for operand in operands]
        if overloads is None:
            if len(self.issues) > before and node.target is not None:
                return ERROR
            return self.report(node.at, f"undeclared reference to '{node.function}' (in container '')")
        return self.resolve(node, overloads, types)

    def logic(self, node: Call) -> Type:
        types = [self.visit(argument) for argument in node.args]
        for left, right in pairwise(types):
            if not (unify({}, BOOL, left) and unify({}, BOOL, right)):
                return self.no_overload(node, [left, right])
        return BOOL

    def resolve(self, node: Call, overloads: list[Overload], types: list[Type]) -> Type:
        member = node.target is not None
        matched: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member != member or len(overload.params) != len(types):
                continue
            bound: dict[str, Type] = {}
            if all(unify(bound, formal, actual) for formal, actual in zip(overload.params, types, strict=True)):
                found = substitute(bound, overload.result)
                result = found if result is None or result == found else DYN
                matched.append(overload)
        if result is None:
            return ERROR if ERROR in types else self.no_overload(node, types)
        node.overloads = tuple(matched)
        node.exact = len(matched) == 1 and not any(actual.is_dynamic for actual in types)
        return result

    def no_overload(self, node: Call, types: list[Type]) -> Type:
        shown = [str(found) for found in types]
        if node.target is not None:
            arguments = f"{shown[0]}.({', '.join(shown[1:])})"
        else:
            arguments = f"({', '.join(shown)})"
        return self.report(node.at, f"found no matching overload for '{node.function}' applied to '{arguments}'")

    # --- literals -----------------------------------------------------------------------------------------------

    def list_literal(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, child in enumerate(node.elements):
            found = self.visit(child)
            if index in node.optional:
                found = self.unwrap(found, child.at)
            element = self.join(element, found, child.at)
        return list_of(element or DYN)

    def map_literal(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self.join(key, self.visit(entry.key), entry.key.at)
            found = self.visit(entry.value)
            if entry.optional:
                found = self.unwrap(found, entry.value.at)
            value = self.join(value, found, entry.value.at)
        return map_of(key or DYN, value or DYN)

    def unwrap(self, found: Type, at: int) -> Type:
        if found.name == "optional_type":
            return found.params[0]
        return found if found.is_dynamic else self.mismatch(at, optional_of(found), found)

    def join(self, before: Type | None, found: Type, at: int) -> Type:
        if before is None or before == found:
            return found
        if unify({}, before, found):
            return before if before.is_dynamic or not found.is_dynamic else found
        return self.mismatch(at, before, found)

    def mismatch(self, at: int, expected: Type, found: Type) -> Type:
        return self.report(at, f"expected type '{expected}' but found '{found}'")

    # --- comprehensions -----------------------------------------------------------------------------------------

    def fold(self, node: Fold) -> Type:
        over = self.visit(node.range)
        if over.name == "list":
            index, item = INT, over.params[0]
        elif over.name == "map":
            index, item = over.params
        elif over.name in ("dyn", "error"):
            index, item = DYN, DYN
        else:
            self.report(
                node.range.at,
                f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
            index, item = ERROR, ERROR
        if node.key is None:
            names = {node.item: index if over.name == "map" else item}
        else:
            names = {node.key: index, node.item: item}
        with self.binding(names):
            if node.filter is not None:
                self.require_bool(node.filter)
            if node.kind in ("all", "exists", "existsOne", "filter"):
                self.require_bool(node.body)
                return BOOL if node.kind != "filter" else list_of(names[node.item])
            body = self.visit(node.body)
        if node.kind in ("map", "transformList"):
            return list_of(body)
        if node.kind == "transformMap":
            return map_of(index, body)
        if body.name != "map" and not body.is_dynamic:
            return self.mismatch(node.body.at, map_of(DYN, DYN), body)
        return body

    def require_bool(self, node: Node) -> None:
        found = self.visit(node)
        if not unify({}, BOOL, found):
            self.mismatch(node.at, BOOL, found)

    def optional_map(self, node: OptionalMap) -> Type:
        value = self.visit(node.value)
        if value.name != "optional_type" and not value.is_dynamic:
            return self.mismatch(node.value.at, optional_of(DYN), value)
        inner = value.params[0] if value.params else DYN
        with self.binding({node.name: inner}):
            body = self.visit(node.body)
        if not node.flat:
            return optional_of(body)
        if body.name != "optional_type" and not body.is_dynamic:
            return self.mismatch(node.body.at, optional_of(DYN), body)
        return body
