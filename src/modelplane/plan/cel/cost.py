"""What an expression may cost at most, worked out from its tree and the sizes of the values that it can meet.

Kubernetes refuses rules by this figure, so it is the same figure to the unit: the walk, the order in which sizes are asked for and
what a macro stands for are those of its estimator. Only the upper end of the range is kept, because nobody asks for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, assert_never

from modelplane.plan.cel.check import qualified_name
from modelplane.plan.cel.prices import LIST, MAP, Asked, price
from modelplane.plan.cel.registry import FUNCTIONS, Overload
from modelplane.plan.cel.sizes import LIMIT, NOWHERE, ONE, UNKNOWN, Entry, Path, Size, added, either, multiplied, rooted
from modelplane.plan.cel.syntax import (
    Bind,
    Call,
    Fold,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Node,
    OptionalMap,
    Select,
)
from modelplane.plan.cel.types import BOOL, DYN, INT, TYPE_NAMES, Type

Lookup: TypeAlias = Callable[[list[str]], Size | None]
"""The size of what lies at some steps below the variable: field names, ``@items``, ``@keys``, ``@values``. None when unknown."""

_RESULT: Final = "@result"
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "duration", "timestamp"})
_CONDITIONS: Final = {"all": 2, "exists": 3}
"""The test before each round."""


def estimate(tree: Node, lookup: Lookup) -> int:
    """The most that a checked expression may cost."""
    return _Estimator(lookup).visit(tree).cost


def _scalar(found: Type) -> bool:
    if found.name == "optional_type":
        return _scalar(found.params[0])
    return found.name in _SCALARS


class _Seen:
    """What is known of one node; as an argument of a call, what its price depends on."""

    __slots__ = ("_lookup", "cost", "derived", "entry", "fixed", "known", "literal", "local", "path", "type")

    def __init__(self, lookup: Lookup, node: Node | None, path: Path = NOWHERE) -> None:
        self._lookup = lookup
        self.cost = 0
        self.path = path
        self.entry: Entry | None = None
        self.derived: Size | None = None
        """The size as it was known when the node's turn as an argument came."""
        self.known: Size | None = None
        """What was worked out."""
        self.fixed: Size | None = None
        """What the text itself says."""
        self.local: Size | None = None
        """What was known of a variable when it was set."""
        self.literal: object = node.value if isinstance(node, Literal) else None
        self.type = DYN if node is None or node.type is None else node.type

    def size(self) -> Size | None:
        """Asked late: a path may have changed meanwhile, as the memory that it shares has."""
        if self.known is None and self.fixed is None:
            self.known = self.sought()
        return self.known or self.fixed or (ONE if _scalar(self.type) else self.local)

    def sought(self) -> Size | None:
        return self._lookup(self.path.steps()) if self.path.length else None

    def items(self) -> Size | None:
        return self._lookup(self.path.apart().to("@items").steps()) if self.path.length else None

    def take(self, other: _Seen) -> None:
        """The sizes of another node are this one's."""
        self.known, self.entry = other.size() or self.known, other.entry or self.entry


class _Estimator:
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._locals: dict[str, list[_Seen]] = {}

    def visit(self, node: Node) -> _Seen:
        match node:
            case Literal():
                return self._literal(node)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
            case Fold():
                return self._fold(node)
            case Bind():
                return self._bound(node.name, node.value, node.body)
            case OptionalMap():
                return self._optional_map(node)
        assert_never(node)

    def _seen(self, node: Node | None, cost: int = 0, path: Path = NOWHERE) -> _Seen:
        seen = _Seen(self._lookup, node, path)
        seen.cost = cost
        return seen

    def _literal(self, node: Literal) -> _Seen:
        seen = self._seen(node)
        count = len(node.value) if isinstance(node.value, str | bytes) else 1
        seen.fixed = Size(count, count)
        return seen

    def _ident(self, node: Ident) -> _Seen:
        kept = self._locals.get(node.name)
        if not kept:
            return self._seen(node, 1, rooted(node.name))
        seen = self._seen(node, 1, kept[-1].path)
        seen.local, seen.entry = kept[-1].local, kept[-1].entry
        return seen

    def _select(self, node: Select) -> _Seen:
        name = qualified_name(node)
        if name in TYPE_NAMES and name.partition(".")[0] not in self._locals:
            return self._seen(node, 1, rooted(name))
        over = self.visit(node.operand)
        if node.test:
            return self._seen(node, over.cost)
        if node.optional:
            return self._seen(node, added(over.cost, 1))
        paid = over.type.name == "map" or over.type.fields is not None
        return self._seen(node, added(over.cost, 1 if paid else 0), over.path.to(node.field))

    # --- calls --------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> _Seen:
        if node.function == "dyn":
            (argument,) = map(self.visit, node.args)
            seen = self._seen(node, added(argument.cost, 1))
            seen.take(argument)
            return seen
        args, spent = [], 0
        for each in node.args:
            args.append(argument := self._argument(each))
            spent = added(spent, argument.cost)
        if node.function in ("_&&_", "_||_"):
            return self._seen(node, spent)
        if node.function == "_?_:_":
            return self._choice(node, *args)
        target = self._argument(node.target) if node.target is not None else None
        seen = self._seen(node)
        most, result = 0, None
        for overload in node.overloads or ():
            asked = price(node.function, Asked(overload, target, args))
            most = max(most, asked.cost)
            if asked.result is not None:
                result = asked.result if result is None else result.or_else(asked.result)
            if node.function == "_+_":
                seen.entry = either(args[0].entry, args[1].entry) or seen.entry
            if node.function == "_[_]" and overload.params[0].name in ("list", "map"):
                result = args[0].entry.value if args[0].entry is not None else None
                seen.path = args[0].path.to("@items" if overload.params[0].name == "list" else "@values")
            result = result or seen.size()
        seen.known = result or seen.known
        seen.cost = added(added(most, spent), target.cost if target is not None else 0)
        return seen

    def _argument(self, node: Node) -> _Seen:
        seen = self.visit(node)
        seen.derived = seen.size()
        return seen

    def _choice(self, node: Node | None, condition: _Seen, one: _Seen, other: _Seen) -> _Seen:
        seen = self._seen(node, added(condition.cost, max(one.cost, other.cost)))
        seen.known = (one.derived or UNKNOWN).or_else(other.derived or UNKNOWN)
        seen.entry = either(one.entry, other.entry)
        return seen

    # --- literals -----------------------------------------------------------------------------------------------

    def _list(self, node: ListExpr) -> _Seen:
        seen = self._seen(node)
        cost, item = 0, Size(LIMIT if node.elements else 0, 0)
        for element in node.elements:
            found = self.visit(element)
            cost, item = added(cost, found.cost), item.or_else(found.size() or UNKNOWN)
        seen.cost = added(cost, LIST)
        seen.fixed = Size(len(node.elements), len(node.elements))
        seen.entry = Entry(True, ONE, item)
        return seen

    def _map(self, node: MapExpr) -> _Seen:
        seen = self._seen(node)
        none = Size(LIMIT if node.entries else 0, 0)
        cost, key, value = 0, none, none
        for entry in node.entries:
            found, kept = self.visit(entry.key), self.visit(entry.value)
            cost = added(added(cost, found.cost), kept.cost)
            key, value = key.or_else(found.size() or UNKNOWN), value.or_else(kept.size() or UNKNOWN)
        seen.cost = added(cost, MAP)
        seen.fixed = Size(len(node.entries), len(node.entries))
        seen.entry = Entry(False, key, value)
        return seen

    # --- macros -------------------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> _Seen:
        """A loop over a range: start value, test and step of each round, and the result, as the macro writes them."""
        over = self.visit(node.range)
        start, step = _written(node)
        kept = self.visit(start)
        self._push(_RESULT, kept.path, kept.size(), kept.entry)
        self._push_variables(node, over)
        made = self.visit(step)
        for name in _names(node):
            self._locals[name].pop()
        self._locals[_RESULT].pop()
        count = over.size() or UNKNOWN
        each = added(made.cost, _CONDITIONS.get(node.kind, 0))
        end = 2 if node.kind == "existsOne" else 1
        spent = added(added(over.cost, kept.cost), end)
        seen = self._seen(node, added(spent, multiplied(count.most, each)))
        if isinstance(start, Literal):
            seen.known = kept.size()
        else:
            seen.known, seen.entry = count, made.entry
        return seen

    def _push_variables(self, node: Fold, over: _Seen) -> None:
        entry = over.entry
        listed = entry.list if entry is not None else over.type.name == "list"
        key, value = (None, None) if entry is None else (entry.key, entry.value)
        if node.key is not None:
            self._push(node.key, over.path.to("@indices" if listed else "@keys"), key, None)
            self._push(node.item, over.path.to("@items" if listed else "@values"), value, None)
        elif listed:
            self._push(node.item, over.path.to("@items"), value, None)
        else:
            self._push(node.item, over.path.to("@keys"), key, None)

    def _push(self, name: str, path: Path, size: Size | None, entry: Entry | None) -> None:
        kept = self._seen(None, 0, path)
        kept.local, kept.entry = size, entry
        self._locals.setdefault(name, []).append(kept)

    def _bound(self, name: str, value: Node | _Seen, body: Node) -> _Seen:
        """A name for a value, which is a loop over an empty list."""
        kept = value if isinstance(value, _Seen) else self.visit(value)
        self._push(name, kept.path, kept.size(), kept.entry)
        found = self.visit(body)
        self._locals[name].pop()
        seen = self._seen(body, added(added(kept.cost, found.cost), LIST))
        seen.take(found)
        return seen

    def _optional_map(self, node: OptionalMap) -> _Seen:
        """``value.hasValue() ? optional.of(body of value.value()) : optional.none()``."""
        asked = self.visit(node.value)
        asked.cost = added(asked.cost, 1)
        taken = self._seen(None, asked.cost)
        taken.type = asked.type.params[0] if asked.type.params else DYN
        found = self._bound(node.name, taken, node.body)
        there = found if node.flat else self._seen(node, added(found.cost, 1))
        none = self._seen(node, 1)
        there.derived, none.derived = there.size(), none.size()
        return self._choice(node, asked, there, none)


def _names(node: Fold) -> list[str]:
    return [node.item] if node.key is None else [node.key, node.item]


def _written(node: Fold) -> tuple[Node, Node]:
    """The start value of a macro's loop and the step that it takes each round."""
    at = node.at
    kept = Ident(_RESULT, at, node.type)
    match node.kind:
        case "all" | "exists":
            kept.type = BOOL
            function = "_&&_" if node.kind == "all" else "_||_"
            return Literal(node.kind == "all", at, BOOL), Call(function, None, [kept, node.body], at, type=BOOL)
        case "existsOne":
            kept.type = INT
            one = _sum(kept, Literal(1, at, INT), "int")
            return Literal(0, at, INT), _choose(node.body, one, kept)
        case "filter":
            item = ListExpr([Ident(node.item, at, _item(node.type))], at, type=node.type)
            return ListExpr([], at, type=node.type), _choose(node.body, _sum(kept, item, "list"), kept)
        case "map" | "transformList":
            start: Node = ListExpr([], at, type=node.type)
            step: Node = _sum(kept, ListExpr([node.body], at, type=node.type), "list")
        case _:
            parts = (
                [kept, node.body] if node.kind == "transformMapEntry" else [kept, Ident(node.key or "", at), node.body]
            )
            start = MapExpr([], at, type=node.type)
            step = Call("cel.@mapInsert", None, parts, at, _any(), type=node.type)
    return start, step if node.filter is None else _choose(node.filter, step, kept)


def _item(found: Type | None) -> Type:
    return found.params[0] if found is not None and found.params else DYN


def _any() -> tuple[Overload, ...]:
    return (FUNCTIONS["_?_:_"][0],)


def _choose(condition: Node, one: Node, other: Node) -> Node:
    return Call("_?_:_", None, [condition, one, other], one.at, _any(), type=one.type)


def _sum(one: Node, other: Node, kind: str) -> Node:
    (overload,) = (each for each in FUNCTIONS["_+_"] if each.params[0].name == kind)
    return Call("_+_", None, [one, other], one.at, (overload,), type=one.type)
