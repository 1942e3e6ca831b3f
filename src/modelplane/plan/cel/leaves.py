"""What a compiled expression is made of: one small closure for each kind of step, from fields to late dispatch.

The compiler decides which is needed; nothing here knows the tree, beyond the type of a node where that changes what a value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from modelplane.plan.cel.folds import Exhausted, decided
from modelplane.plan.cel.functions.operators import contained, value_of
from modelplane.plan.cel.registry import Overload
from modelplane.plan.cel.syntax import Fault, Node
from modelplane.plan.cel.types import Type
from modelplane.plan.cel.values import NONE, Optional, Value, kind, overload_fault
from modelplane.plan.semver import Semver

Frame: TypeAlias = list[Value]
Closure: TypeAlias = Callable[[Frame], Value]

_LARGE: Final = 256


def constant(value: Value) -> Closure:
    return lambda frame: value


def as_attribute(closure: Closure, node: Node) -> Closure:
    """What a name or a choice gives is taken apart and put together again by Kubernetes, which takes
    optionals within it away and fails where the inner value is of a type that only a library knows."""
    if node.type is not None and node.type.name != "optional_type" and not node.type.is_dynamic:
        return closure

    def evaluate(frame: Frame) -> Value:
        value = closure(frame)
        if not isinstance(value, Optional) or not value.present:
            return value
        inner = value.value
        while isinstance(inner, Optional):
            inner = inner.value
        if "." in kind(inner):
            inner = Fault(f"unsupported conversion to ref.Val: ({kind(inner)})")  # for who takes it out
        return Optional(True, inner)

    return evaluate


def patient_index(entry: Callable[[Value, Value], Value], container: Closure, key: Closure) -> Closure:
    """An index into what may be an optional; where that is empty nobody looks at the index."""

    def evaluate(frame: Frame) -> Value:
        value = container(frame)
        return NONE if isinstance(value, Optional) and not value.present else entry(value, key(frame))

    return evaluate


def guarded(place: int) -> Closure:
    def read(frame: Frame) -> Value:
        value = frame[place]
        if isinstance(value, Fault):
            raise value
        return value

    return read


def field(operand: Closure, name: str) -> Closure:
    def select(frame: Frame) -> Value:
        value = operand(frame)
        try:
            return value[name]  # type: ignore[index]
        except KeyError:
            raise Fault(f"no such key: {name}") from None
        except TypeError:
            if isinstance(value, Optional):
                return _find(value.value, name) if value.present else NONE
            raise overload_fault() from None

    return select


def optional_field(operand: Closure, name: str) -> Closure:
    def select(frame: Frame) -> Value:
        value = operand(frame)
        if isinstance(value, Optional):
            return _find(value.value, name) if value.present else NONE
        return _find(value, name)

    return select


def _find(value: Value, name: str) -> Optional:
    if isinstance(value, list):
        raise overload_fault()
    if not isinstance(value, dict):
        return NONE
    try:
        return Optional(True, value[name])
    except KeyError:
        return NONE


def present(operand: Closure, name: str) -> Closure:
    def test(frame: Frame) -> Value:
        value = operand(frame)
        if isinstance(value, Optional):
            if not value.present:
                return False
            value = value.value
        if isinstance(value, list):
            raise overload_fault()
        return isinstance(value, dict) and name in value

    return test


def logic(closures: list[Closure], decisive: bool) -> Closure:
    """``||`` when True decides, ``&&`` when False does; an error counts only if nothing decides."""
    return lambda frame: decided(closures, frame, decisive)


def conditional(condition: Closure, then: Closure, otherwise: Closure) -> Closure:
    def evaluate(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise overload_fault()

    return evaluate


def or_else(optional: Closure, other: Closure, *, unwrap: bool) -> Closure:
    def evaluate(frame: Frame) -> Value:
        found = optional(frame)
        if not isinstance(found, Optional):
            return found
        if not found.present:
            return other(frame)
        return value_of(found) if unwrap else found

    return evaluate


def in_constants(needle: Closure, members: list[Value]) -> Closure:
    strings = frozenset(member for member in members if isinstance(member, str))

    def evaluate(frame: Frame) -> Value:
        value = needle(frame)
        if type(value) is str:
            return value in strings
        if isinstance(value, bytes | Semver):
            raise overload_fault("@in", value)  # Go cannot look these up
        return contained(value, members)

    return evaluate


def invoke(function: str, overloads: tuple[Overload, ...], closures: list[Closure], exact: bool) -> Closure:
    if overloads[0].generic or exact:
        implementation = overloads[0].implementation
        match closures:
            case []:
                return lambda frame: implementation()
            case [first]:
                return lambda frame: implementation(first(frame))
            case [first, second]:
                return lambda frame: implementation(first(frame), second(frame))
        return lambda frame: implementation(*[closure(frame) for closure in closures])

    def dispatch(frame: Frame) -> Value:
        values = [closure(frame) for closure in closures]
        kinds = [kind(value) for value in values]
        for overload in overloads:
            if all(
                wanted is None or wanted == found for wanted, found in zip(overload.kinds, kinds, strict=True)
            ) and all(map(_fits, overload.params, values)):
                return overload.implementation(*values)
        raise overload_fault(function, *values)

    return dispatch


def _fits(wanted: Type, value: Value) -> bool:
    """Whether a value may stand for a type; of a list the first entry speaks for all."""
    if wanted.is_param or wanted.is_dynamic:
        return True
    if kind(value) != wanted.name:
        return False
    return not isinstance(value, list) or not value or _fits(wanted.params[0], value[0])


def measured(closure: Closure) -> Closure:
    """Charges for long operands, so that a loop over a list cannot scan another one for nothing."""

    def evaluate(frame: Frame) -> Value:
        value = closure(frame)
        if isinstance(value, (str, bytes, list, dict)) and len(value) > _LARGE:
            frame[0] -= len(value) if isinstance(value, list) else len(value) // 10  # type: ignore[operator]
            if frame[0] < 0:  # type: ignore[operator]
                raise Exhausted
        return value

    return evaluate


def sized(closure: Closure) -> Closure:
    """Charges for long results, so that doubling a string again and again comes to an end."""

    def evaluate(frame: Frame) -> Value:
        value = closure(frame)
        if isinstance(value, (str, bytes, list)) and len(value) > _LARGE:
            frame[0] -= len(value) // 10  # type: ignore[operator]
            if frame[0] < 0:  # type: ignore[operator]
                raise Exhausted
        return value

    return evaluate
