"""CEL's type checker: gives every node its type and every call its possible overloads, or the issues with their positions.

Messages are those of Kubernetes' own checker. List literals are homogeneous, as there.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, assert_never

from modelplane.plan.cel.infer import Inference, is_variable, most_general
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


def check(source: Source, node: Node, variables: Mapping[str, Type], without: Container[str] = ()) -> Type:
    """The type of the whole expression; functions ``without`` which the dialect is are unknown. Raises `CelError` with every
    issue found, in the order of their places."""
    checker = _Checker(source, variables, without)
    result = checker.visit(node)
    if checker.issues:
        issues = sorted(checker.issues, key=lambda issue: (issue.line, issue.column))
        raise CelError(source, issues)
    checker.settle()
    return checker.inference.resolved(result, final=True)


def qualified_name(node: Node) -> str | None:
    """``a.b.c`` when the node is a plain chain of names."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None


def _unsettled(found: Type) -> bool:
    return is_variable(found) or any(map(_unsettled, found.params))


class _Checker:
    def __init__(self, source: Source, variables: Mapping[str, Type], without: Container[str]) -> None:
        self.source = source
        self.without = without
        self.scope = dict(variables)
        self.issues: list[Issue] = []
        self.inference = Inference()
        self._calls: list[tuple[Call, list[Type]]] = []
        self._nodes: list[Node] = []

    def settle(self) -> None:
        """Give every node its type and say of every call whether its one overload is certain, now that all is known."""
        for each in self._nodes:
            assert each.type is not None
            each.type = self.inference.resolved(each.type, final=True)
        for node, types in self._calls:
            certain = not any(self.inference.resolved(found, final=True).is_dynamic for found in types)
            node.exact = len(node.overloads or ()) == 1 and certain

    def assignable(self, given: Type, wanted: Type) -> bool:
        return self.inference.assignable([given], [wanted])

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
        self._nodes.append(node)
        return found

    def _visit(self, node: Node) -> Type:
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Ident():
                return self.name(node)
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

    def name(self, node: Ident) -> Type:
        found = self.scope.get(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return Type("type", (TYPE_NAMES[node.name],))
        told = f".{node.name}" if node.absolute else node.name
        return self.report(node.at, f"undeclared reference to '{told}' (in container '')")

    # --- selection ----------------------------------------------------------------------------------------------

    def select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name in TYPE_NAMES and name.partition(".")[0] not in self.scope:
            return Type("type", (TYPE_NAMES[name],))
        operand = self.inference.resolved(self.visit(node.operand))
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
        if is_variable(operand):
            self.assignable(DYN, operand)
        if operand.is_dynamic or is_variable(operand):
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
        overloads = None if node.function in self.without else FUNCTIONS.get(node.function)
        operands = node.args if node.target is None else [node.target, *node.args]
        types = [self.visit(operand) for operand in operands]
        if overloads is None:
            return self.report(node.at, f"undeclared reference to '{node.function}' (in container '')")
        return self.resolve(node, overloads, types)

    def logic(self, node: Call) -> Type:
        for argument in node.args:
            self.require_bool(argument)
        return BOOL

    def resolve(self, node: Call, overloads: list[Overload], types: list[Type]) -> Type:
        member = node.target is not None
        guessed = any(_unsettled(self.inference.resolved(found)) for found in types)
        matched: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member != member or len(overload.params) != len(types):
                continue
            gives, *wanted = self.inference.instance((overload.result, *overload.params))
            if self.inference.assignable(types, wanted):
                found = self.inference.resolved(gives)
                result = found if result is None or result == found else DYN
                matched.append(overload)
        if result is None:
            return self.no_overload(node.at, node.function, types, member=member)
        node.overloads = tuple(matched)
        if guessed:
            types = [*types, DYN]  # what is guessed now may be another thing when it runs
        self._calls.append((node, types))
        return result

    def no_overload(self, at: int, function: str, types: list[Type], *, member: bool = False) -> Type:
        shown = [str(self.inference.resolved(found, final=True)) for found in types]
        if member:
            arguments = f"{shown[0]}.({', '.join(shown[1:])})"
        else:
            arguments = f"({', '.join(shown)})"
        return self.report(at, f"found no matching overload for '{function}' applied to '{arguments}'")

    # --- literals -----------------------------------------------------------------------------------------------

    def list_literal(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, child in enumerate(node.elements):
            found = self.visit(child)
            if index in node.optional:
                found = self.unwrap(found, child.at)
            element = self.join(element, found)
        return list_of(element or self.inference.fresh())

    def map_literal(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self.join(key, self.visit(entry.key))
            found = self.visit(entry.value)
            if entry.optional:
                found = self.unwrap(found, entry.value.at)
            value = self.join(value, found)
        return map_of(key or self.inference.fresh(), value or self.inference.fresh())

    def unwrap(self, found: Type, at: int) -> Type:
        if found.name == "optional_type":
            return found.params[0]
        return found if found.is_dynamic else self.mismatch(at, optional_of(found), found)

    def join(self, before: Type | None, found: Type) -> Type:
        if before is None or before == found:
            return found
        # Values of different types are let through here: whether they may stand together is judged when all types are known.
        return most_general(before, found) if self.assignable(before, found) else DYN

    def mismatch(self, at: int, expected: Type, found: Type) -> Type:
        return self.report(at, f"expected type '{expected}' but found '{found}'")

    # --- comprehensions -----------------------------------------------------------------------------------------

    def fold(self, node: Fold) -> Type:
        over = self.inference.resolved(self.visit(node.range))
        if over.name == "list":
            index, item = INT, over.params[0]
        elif over.name == "map":
            index, item = over.params
        elif over.name in ("dyn", "error") or is_variable(over):
            self.assignable(DYN, over)
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
            if node.kind in ("all", "exists"):
                self.require_bool(node.body)
                return BOOL
            if node.kind == "existsOne":
                self.require_choice(node.body, node.at, INT)
                return BOOL
            if node.kind == "filter":
                return self.require_choice(node.body, node.at, list_of(names[node.item]))
            test = self.visit(node.filter) if node.filter is not None else BOOL
            body = self.visit(node.body)
        found = self.transformed(node, index, body)
        return self.chosen(test, node.at, found) if found != ERROR else ERROR

    def transformed(self, node: Fold, index: Type, body: Type) -> Type:
        """What a loop makes that has a value for each entry."""
        if node.kind in ("map", "transformList"):
            return self.inference.resolved(list_of(body))
        if node.kind == "transformMap":
            return self.inference.resolved(map_of(index, body))
        entries = map_of(self.inference.fresh(), self.inference.fresh())
        if not self.assignable(body, entries):
            return self.no_overload(node.at, "cel.@mapInsert", [map_of(DYN, DYN), body])
        return self.inference.resolved(entries)

    def require_bool(self, node: Node) -> None:
        found = self.visit(node)
        if not self.assignable(found, BOOL):
            self.mismatch(node.at, BOOL, self.inference.resolved(found, final=True))

    def require_choice(self, node: Node, at: int, found: Type) -> Type:
        return self.chosen(self.visit(node), at, found)

    def chosen(self, test: Type, at: int, found: Type) -> Type:
        """What a loop keeps if a test holds, which the macro writes as a choice."""
        if not self.assignable(test, BOOL):
            return self.no_overload(at, "_?_:_", [test, found, found])
        return self.inference.resolved(found)

    def optional_map(self, node: OptionalMap) -> Type:
        before = len(self.issues)
        value, inner = self.visit(node.value), self.inference.fresh()
        self.issues += self.issues[before:]  # the macro writes the value twice
        if not self.assignable(value, optional_of(inner)):
            # The macro asks twice: whether there is a value, and which.
            self.no_overload(node.at, "hasValue", [value], member=True)
            return self.no_overload(node.at, "value", [value], member=True)
        with self.binding({node.name: self.inference.resolved(inner)}):
            body = self.visit(node.body)
        # As a choice between what the body gives and an empty optional.
        either = self.inference.fresh()
        given = [body if node.flat else optional_of(body), optional_of(self.inference.fresh())]
        if not self.inference.assignable(given, [either, either]):
            return self.no_overload(node.at, "_?_:_", [BOOL, *given])
        return self.inference.resolved(either)
