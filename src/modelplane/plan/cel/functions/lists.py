"""List and set functions: Kubernetes' own library, CEL's lists extension, ``sets``, ``includes`` of list attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Final

from modelplane.plan.cel.folds import Exhausted
from modelplane.plan.cel.functions.operators import plus
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import NONE, Duration, Optional, UInt, Value, kind, less, overload_fault, same

_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_LARGEST_RANGE: Final = 100_000
_LARGEST_PRODUCT: Final = 1_000_000


def _before(a: Value, b: Value) -> bool:
    """Whether a comes before b; what cannot be compared with another comes neither before nor after it."""
    try:
        return less(a, b)
    except Fault:
        return False


def _ordered(items: list[Value]) -> Iterator[Value]:
    """The items as far as they are of kinds that have an order. Raises `Fault` at the first that is not."""
    for item in items:
        if kind(item) not in _ORDERED:
            raise overload_fault()
        yield item


def _contains(items: list[Value], wanted: Value) -> bool:
    return any(same(wanted, item) for item in items)


def _affordable(a: list[Value], b: list[Value]) -> None:
    """Comparing all pairs has to stay within the budget of an evaluation. Raises `Fault`."""
    if len(a) * len(b) > _LARGEST_PRODUCT:
        raise Fault("operation cancelled: actual cost limit exceeded")


def _distinct(items: list[Value]) -> list[Value]:
    _affordable(items, items)
    found: list[Value] = []
    for item in items:
        if not _contains(found, item):
            found.append(item)
    return found


# --- Kubernetes' lists ---------------------------------------------------------------------------------------------


@declare("isSorted", *(f"list({kind}).() -> bool" for kind in _ORDERED))
def is_sorted(items: list[Value]) -> bool:
    return not any(_before(b, a) for a, b in pairwise(_ordered(items)))


def _sum(nothing: Value) -> Callable[[list[Value]], Value]:
    """The function for lists of one type, whose sum of no item is ``nothing``."""

    def total(items: list[Value]) -> Value:
        return reduce(plus, items, nothing)

    return total


for _kind, _nothing in (("int", 0), ("uint", UInt(0)), ("double", 0.0), ("duration", Duration(0))):
    declare("sum", f"list({_kind}).() -> {_kind}")(_sum(_nothing))


@declare("min", *(f"list({kind}).() -> {kind}" for kind in _ORDERED))
def minimum(items: list[Value]) -> Value:
    if not items:
        raise Fault("min called on empty list")
    return reduce(lambda a, b: b if _before(b, a) else a, _ordered(items))


@declare("max", *(f"list({kind}).() -> {kind}" for kind in _ORDERED))
def maximum(items: list[Value]) -> Value:
    if not items:
        raise Fault("max called on empty list")
    return reduce(lambda a, b: b if _before(a, b) else a, _ordered(items))


@declare("indexOf", "list(A).(A) -> int")
def index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if same(item, wanted)), -1)


@declare("lastIndexOf", "list(A).(A) -> int")
def last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in reversed(range(len(items))) if same(items[index], wanted)), -1)


@declare("includes", "dyn.(dyn) -> bool")
def includes(items: Value, wanted: Value) -> bool:
    """A scalar counts as a list of one, so that a selector works before and after an attribute became a list."""
    return any(same(item, wanted) for item in (items if isinstance(items, list) else [items]))


# --- CEL's lists extension -----------------------------------------------------------------------------------------


@declare("slice", "list(A).(int, int) -> list(A)")
def slice_of(items: list[Value], start: int, end: int) -> list[Value]:
    if not 0 <= start <= end <= len(items):
        raise Fault(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


@declare("flatten", "list(list(A)).() -> list(A)", "list(dyn).(int) -> list(dyn)", generic=True)
def flatten(items: Value, depth: Value = 1) -> list[Value]:
    """A list that is flat already passes as well, which is why the kinds of arguments are looked at here."""
    if not isinstance(items, list) or type(depth) is not int:
        raise overload_fault("flatten", items)
    if depth < 0:
        raise Fault("level must be non-negative")
    if len(items) * depth >= _LARGEST_PRODUCT:
        raise Exhausted
    found: list[Value] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            found.extend(flatten(item, depth - 1))
        else:
            found.append(item)
    return found


declare("distinct", "list(A).() -> list(A)")(_distinct)


@declare("lists.range", "(int) -> list(int)")
def range_of(end: int) -> list[Value]:
    if end > _LARGEST_RANGE:
        raise Fault(f"lists.range({end}) is longer than {_LARGEST_RANGE}")
    return list(range(end))


@declare("reverse", "list(A).() -> list(A)")
def reverse(items: list[Value]) -> list[Value]:
    return list(reversed(items))


def compare(a: Value, b: Value) -> int:
    """-1, 0 or 1 for two values of one orderable type. Raises `Fault`."""
    if type(a) is not type(b):
        raise overload_fault()
    return -1 if _before(a, b) else 1 if _before(b, a) else 0


@declare("sort", *(f"list({kind}).() -> list({kind})" for kind in _ORDERED))
def sort(items: list[Value]) -> list[Value]:
    return sorted(items, key=cmp_to_key(compare))


@declare("@sortByAssociatedKeys", *(f"list(A).(list({kind})) -> list(A)" for kind in _ORDERED))
def sort_by(items: list[Value], keys: list[Value]) -> list[Value]:
    """What ``sortBy`` becomes: the items in the order of their keys."""
    order = sorted(range(len(items)), key=cmp_to_key(lambda a, b: compare(keys[a], keys[b])))  # type: ignore[call-overload]
    return [items[place] for place in order]


@declare("first", "list(A).() -> optional(A)")
def first(items: list[Value]) -> Optional:
    return Optional(True, items[0]) if items else NONE


@declare("last", "list(A).() -> optional(A)")
def last(items: list[Value]) -> Optional:
    return Optional(True, items[-1]) if items else NONE


@declare("unwrapOpt", "list(optional(A)).() -> list(A)")
@declare("optional.unwrap", "(list(optional(A))) -> list(A)")
def unwrap(items: list[Value]) -> list[Value]:
    if not all(isinstance(item, Optional) for item in items):
        raise overload_fault("optional.unwrap", items)
    return [item.value for item in items if item.present]  # type: ignore[attr-defined]


# --- sets ----------------------------------------------------------------------------------------------------------


@declare("sets.contains", "(list(A), list(A)) -> bool")
def set_contains(items: list[Value], wanted: list[Value]) -> bool:
    _affordable(items, wanted)
    return all(_contains(items, item) for item in wanted)


@declare("sets.equivalent", "(list(A), list(A)) -> bool")
def set_equivalent(a: list[Value], b: list[Value]) -> bool:
    return bool(set_contains(a, b) and set_contains(b, a))


@declare("sets.intersects", "(list(A), list(A)) -> bool")
def set_intersects(a: list[Value], b: list[Value]) -> bool:
    _affordable(a, b)
    return any(_contains(b, item) for item in a)
