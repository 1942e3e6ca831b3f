"""The comprehensions: ``all``, ``exists``, ``filter``, ``map`` and their two-variable forms as loops over a frame.

``all`` and ``exists`` absorb errors of single rounds as ``&&`` and ``||`` do; the others do not. Every round is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Value, held_key, key_value, map_key, overload_fault

Frame: TypeAlias = list[Value]
Closure: TypeAlias = Callable[[Frame], Value]
Rounds: TypeAlias = Callable[[Frame], Iterator[None]]


class Exhausted(Exception):
    """The step budget is used up. No operator absorbs it."""


def fold_closure(
    kind: str, over: Closure, places: list[int], keep: Closure | None, body: Closure, cost: int, item: Closure
) -> Closure:
    """The closure of a comprehension; ``places`` are those of its one or two variables, ``item`` reads the last of them."""
    rounds = _rounds(over, places, cost)
    match kind:
        case "all":
            return _quantifier(rounds, body, False)
        case "exists":
            return _quantifier(rounds, body, True)
        case "existsOne":
            return _exists_one(rounds, body)
        case "filter":
            return _filter(rounds, body, item)
        case "map" | "transformList":
            return _map(rounds, keep, body)
        case _:
            return _transform(rounds, keep, body, places[0], entries=kind == "transformMapEntry")


def _rounds(over: Closure, places: list[int], cost: int) -> Rounds:
    """Sets the variables for each round, after charging for it."""
    single = len(places) == 1
    first, last = places[0], places[-1]

    def each(frame: Frame) -> Iterator[None]:
        value = over(frame)
        if isinstance(value, dict):
            pairs = [(key_value(key), item) for key, item in value.items()]
            if single:
                pairs = [(key, key) for key, _ in pairs]
        elif isinstance(value, list):
            pairs = list(enumerate(value))
        else:
            raise overload_fault()
        for key, item in pairs:
            frame[0] -= cost  # type: ignore[operator]
            if frame[0] < 0:  # type: ignore[operator]
                raise Exhausted
            frame[first] = key
            frame[last] = item
            yield

    return each


def decided(closures: Iterable[Closure], frame: Frame, decisive: bool) -> bool:
    """Whether one of them is ``decisive``, which those after it need not be asked for; an error counts only where none is."""
    fault: Fault | None = None
    for closure in closures:
        try:
            value = closure(frame)
        except Fault as error:
            fault = fault or error
            continue
        if value is decisive:
            return decisive
        if value is not (not decisive):
            fault = fault or overload_fault()
    if fault is not None:
        raise fault
    return not decisive


def _quantifier(rounds: Rounds, body: Closure, decisive: bool) -> Closure:
    return lambda frame: decided((body for _ in rounds(frame)), frame, decisive)


def _truth(value: Value) -> bool:
    if value is True or value is False:
        return bool(value)
    raise overload_fault()


def _exists_one(rounds: Rounds, body: Closure) -> Closure:
    return lambda frame: sum(1 for _ in rounds(frame) if _truth(body(frame))) == 1


def _filter(rounds: Rounds, body: Closure, item: Closure) -> Closure:
    return lambda frame: [item(frame) for _ in rounds(frame) if _truth(body(frame))]


def _map(rounds: Rounds, keep: Closure | None, body: Closure) -> Closure:
    if keep is None:
        return lambda frame: [body(frame) for _ in rounds(frame)]
    return lambda frame: [body(frame) for _ in rounds(frame) if _truth(keep(frame))]


def _transform(rounds: Rounds, keep: Closure | None, body: Closure, place: int, *, entries: bool) -> Closure:
    def evaluate(frame: Frame) -> Value:
        found: dict[Value, Value] = {}
        for _ in rounds(frame):
            if keep is not None and not _truth(keep(frame)):
                continue
            value = body(frame)
            if not entries:
                _insert(found, frame[place], value)
                continue
            if not isinstance(value, dict):
                raise overload_fault()
            for key, item in value.items():
                _insert(found, key_value(key), item)
        return found

    return evaluate


def _insert(found: dict[Value, Value], key: Value, value: Value) -> None:
    """A new entry. Raises `Fault` if there is one under this key, or under the same number of another kind."""
    try:
        held_key(found, key)
    except KeyError:
        found[map_key(key)] = value
        return
    raise Fault(f"insert failed: key {key} already exists")
