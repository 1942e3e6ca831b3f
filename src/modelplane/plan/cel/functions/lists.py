"""List and set functions: Kubernetes' own library, CEL's lists extension, ``sets``, ``includes`` of list attributes."""

from __future__ import annotations

from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Final

from modelplane.plan.cel.functions.operators import plus
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Duration, Value, equal, less, overload_fault

_ORDERED: Final = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_SUMMED: Final = ("int", "uint", "double", "duration")
_LARGEST_RANGE: Final = 100_000
_LARGEST_PRODUCT: Final = 1_000_000


def _contains(items: list[Value], wanted: Value) -> bool:
    return any(equal(item, wanted) for item in items)


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
    return not any(less(b, a) for a, b in pairwise(items))


@declare("sum", *(f"list({kind}).() -> {kind}" for kind in _SUMMED))
def total(items: list[Value]) -> Value:
    if not items:
        return 0
    start: Value = Duration(0) if isinstance(items[0], Duration) else type(items[0])(0)  # type: ignore[call-arg]
    return reduce(plus, items, start)


@declare("min", *(f"list({kind}).() -> {kind}" for kind in _ORDERED))
def minimum(items: list[Value]) -> Value:
    if not items:
        raise Fault("min called on empty list")
    return reduce(lambda a, b: b if less(b, a) else a, items)


@declare("max", *(f"list({kind}).() -> {kind}" for kind in _ORDERED))
def maximum(items: list[Value]) -> Value:
    if not items:
        raise Fault("max called on empty list")
    return reduce(lambda a, b: b if less(a, b) else a, items)


@declare("indexOf", "list(A).(A) -> int")
def index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


@declare("lastIndexOf", "list(A).(A) -> int")
def last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in reversed(range(len(items))) if equal(items[index], wanted)), -1)


@declare("includes", "list(A).(A) -> bool", "A.(A) -> bool")
def includes(items: Value, wanted: Value) -> bool:
    """A scalar counts as a list of one, so that a selector works before and after an attribute became a list."""
    return _contains(list(items) if isinstance(items, (list, tuple)) else [items], wanted)


# --- CEL's lists extension -----------------------------------------------------------------------------------------


@declare("slice", "list(A).(int, int) -> list(A)")
def slice_of(items: list[Value], start: int, end: int) -> list[Value]:
    if not 0 <= start <= end <= len(items):
        raise Fault(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


@declare("flatten", "list(list(A)).() -> list(A)", "list(dyn).(int) -> list(dyn)")
def flatten(items: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise Fault("level must be non-negative")
    found: list[Value] = []
    for item in items:
        if isinstance(item, (list, tuple)) and depth > 0:
            found.extend(flatten(list(item), depth - 1))
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
    return -1 if less(a, b) else 1 if less(b, a) else 0


@declare("sort", *(f"list({kind}).() -> list({kind})" for kind in _ORDERED))
def sort(items: list[Value]) -> list[Value]:
    return sorted(items, key=cmp_to_key(compare))


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
