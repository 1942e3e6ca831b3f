"""Operators, ``size`` and the optional type: 64-bit arithmetic with overflow errors, comparison across number types."""

from __future__ import annotations

import math
from typing import Final

from modelplane.plan.cel.registry import declare, declare_form
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Duration,
    Missing,
    OddKey,
    Optional,
    Timestamp,
    UInt,
    Value,
    equal,
    held_key,
    less,
    overload_fault,
    same,
)

_ORDERS: Final = (
    "(bool, bool) -> bool",
    *(f"(int, {b}) -> bool" for b in ("int", "double", "uint")),
    *(f"(uint, {b}) -> bool" for b in ("uint", "double", "int")),
    *(f"(double, {b}) -> bool" for b in ("double", "int", "uint")),
    *(f"({a}, {a}) -> bool" for a in ("string", "bytes", "timestamp", "duration")),
)
"""The order matters here and everywhere: a value of unknown type becomes what the first overload takes."""

FIRST_MOMENT: Final = -62_135_596_800 * 10**9
LAST_MOMENT: Final = 253_402_300_800 * 10**9 - 1


def integer(value: int) -> int:
    """The value, if it fits 64 bits. Raises `Fault`."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Fault("integer overflow")


def unsigned(value: int) -> UInt:
    """The value, if it fits 64 bits without sign. Raises `Fault`."""
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise Fault("unsigned integer overflow")


def moment(nanoseconds: int) -> Timestamp:
    """The moment, if it is within the years 1 to 9999. Raises `Fault`."""
    if FIRST_MOMENT <= nanoseconds <= LAST_MOMENT:
        return Timestamp(nanoseconds)
    raise Fault("timestamp overflow")


@declare("_==_", "(A, A) -> bool", generic=True)
def equals(a: Value, b: Value) -> bool:
    return equal(a, b)


@declare("_!=_", "(A, A) -> bool", generic=True)
def differs(a: Value, b: Value) -> bool:
    try:
        return not equal(a, b)
    except Fault:
        return True  # what cannot be compared is not equal


@declare("_<_", *_ORDERS, generic=True)
def is_less(a: Value, b: Value) -> bool:
    return less(a, b)


@declare("_>_", *_ORDERS, generic=True)
def is_greater(a: Value, b: Value) -> bool:
    return less(b, a)


@declare("_<=_", *_ORDERS, generic=True)
def is_at_most(a: Value, b: Value) -> bool:
    return less(a, b) or equal(a, b)


@declare("_>=_", *_ORDERS, generic=True)
def is_at_least(a: Value, b: Value) -> bool:
    return less(b, a) or equal(a, b)


@declare(
    "_+_",
    *(f"({a}, {a}) -> {a}" for a in ("bytes", "double", "duration")),
    "(duration, timestamp) -> timestamp",
    "(timestamp, duration) -> timestamp",
    *(f"({a}, {a}) -> {a}" for a in ("int", "list(A)", "string", "uint")),
    generic=True,
)
def plus(a: Value, b: Value) -> Value:
    match a, b:
        case (bool(), _) | (_, bool()):
            pass
        case (UInt(), UInt()):
            return unsigned(int(a) + int(b))
        case (UInt(), _) | (_, UInt()):
            pass
        case (int(), int()):
            return integer(a + b)
        case (float(), float()) | (str(), str()) | (bytes(), bytes()):
            return a + b  # type: ignore[operator]
        case (list(), list()):
            return [*a, *b]
        case (Timestamp() | Duration(), Timestamp() | Duration()) if type(a) is not type(b):
            return moment(a.nanoseconds + b.nanoseconds)
        case (Duration(), Duration()):
            return Duration(integer(a.nanoseconds + b.nanoseconds))
    raise overload_fault()


@declare(
    "_-_",
    *(f"({a}, {a}) -> {a}" for a in ("double", "duration", "int")),
    "(timestamp, duration) -> timestamp",
    "(timestamp, timestamp) -> duration",
    "(uint, uint) -> uint",
    generic=True,
)
def minus(a: Value, b: Value) -> Value:
    match a, b:
        case (bool(), _) | (_, bool()):
            pass
        case (UInt(), UInt()):
            return unsigned(int(a) - int(b))
        case (UInt(), _) | (_, UInt()):
            pass
        case (int(), int()):
            return integer(a - b)
        case (float(), float()):
            return a - b
        case (Timestamp(), Duration()):
            return moment(a.nanoseconds - b.nanoseconds)
        case (Timestamp() | Duration(), Timestamp() | Duration()) if type(a) is type(b):
            return Duration(integer(a.nanoseconds - b.nanoseconds))
    raise overload_fault()


@declare("_*_", *(f"({a}, {a}) -> {a}" for a in ("double", "int", "uint")), generic=True)
def times(a: Value, b: Value) -> Value:
    if type(a) is type(b):
        if type(a) is int:
            return integer(a * b)  # type: ignore[operator]
        if type(a) is UInt:
            return unsigned(int(a) * int(b))  # type: ignore[call-overload]
        if type(a) is float:
            return a * b  # type: ignore[operator]
    raise overload_fault()


@declare("_/_", *(f"({a}, {a}) -> {a}" for a in ("double", "int", "uint")), generic=True)
def divide(a: Value, b: Value) -> Value:
    match a, b:
        case (bool(), _) | (_, bool()):
            pass
        case (float(), float()):
            if b == 0:
                same = math.copysign(1, a) == math.copysign(1, b)
                return math.nan if a == 0 or math.isnan(a) else math.inf if same else -math.inf
            return a / b
        case (int(), int()) if type(a) is type(b):
            if b == 0:
                raise Fault("division by zero")
            quotient = abs(a) // abs(b)
            return unsigned(quotient) if type(a) is UInt else integer(quotient if (a < 0) == (b < 0) else -quotient)
    raise overload_fault()


@declare("_%_", *(f"({a}, {a}) -> {a}" for a in ("int", "uint")), generic=True)
def modulo(a: Value, b: Value) -> Value:
    if type(a) is type(b) and isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        if b == 0:
            raise Fault("modulus by zero")
        integer(a // b if type(a) is int else 0)  # the quotient has to fit, as where it is asked for
        rest = abs(a) % abs(b)
        return unsigned(rest) if type(a) is UInt else integer(-rest if a < 0 else rest)
    raise overload_fault()


@declare("-_", "(double) -> double", "(int) -> int", generic=True)
def negate(a: Value) -> Value:
    if type(a) is int:
        return integer(-a)
    if type(a) is float:
        return -a
    if isinstance(a, Duration):
        # No overload has it, so a checked one is refused; a value of unknown type takes it all the same.
        return Duration(integer(-a.nanoseconds))
    raise overload_fault()


@declare("!_", "(bool) -> bool", generic=True)
def invert(a: Value) -> Value:
    if a is True or a is False:
        return not a
    raise overload_fault()


def _entry(container: Value, key: Value) -> Value:
    if isinstance(container, dict):
        try:
            return container[key] if type(key) is str else container[held_key(container, key)]
        except KeyError:
            raise Missing(f"no such key: {key}") from None
    if isinstance(container, list):
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            raise overload_fault()
        if not 0 <= key < len(container):
            raise Missing(f"index out of bounds: {key}")
        return container[key]
    raise overload_fault()


@declare(
    "_[_]",
    "(list(A), int) -> A",
    "(map(A, B), A) -> B",
    "(optional(list(A)), int) -> optional(A)",
    "(optional(map(A, B)), A) -> optional(B)",
    generic=True,
)
def index(container: Value, key: Value) -> Value:
    if type(container) is dict and type(key) is str:
        try:
            return container[key]
        except KeyError:
            raise Fault(f"no such key: {key}") from None
    if isinstance(container, Optional):
        return optional_index(container, key)
    return _entry(container, key)


@declare(
    "_[?_]",
    "(list(A), int) -> optional(A)",
    "(optional(list(A)), int) -> optional(A)",
    "(map(A, B), A) -> optional(B)",
    "(optional(map(A, B)), A) -> optional(B)",
    generic=True,
)
def optional_index(container: Value, key: Value) -> Value:
    if isinstance(container, Optional):
        if not container.present:
            return NONE
        container = container.value
    if not isinstance(container, (dict, list)):
        return NONE
    try:
        return Optional(True, _entry(container, key))
    except Missing:
        return NONE


@declare("@in", "(A, list(A)) -> bool", "(A, map(A, B)) -> bool", generic=True)
def contained(item: Value, container: Value) -> Value:
    if isinstance(container, dict):
        try:
            held_key(container, item)
        except KeyError:
            return False
        except Fault:
            return OddKey(item) in container
        return True
    if not isinstance(container, list):
        raise overload_fault()
    return any(same(item, element) for element in container)


_SIZED: Final = ("bytes", "list(A)", "map(A, B)", "string")


@declare("size", *(f"({kind}) -> int" for kind in _SIZED), *(f"{kind}.() -> int" for kind in _SIZED), generic=True)
def size(value: Value) -> Value:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise overload_fault("size", value)


# --- the optional type ---------------------------------------------------------------------------------------------


@declare("optional.of", "(A) -> optional(A)")
def optional_of(value: Value) -> Optional:
    return Optional(True, value)


@declare("optional.none", "() -> optional(A)")
def optional_none() -> Optional:
    return NONE


@declare("optional.ofNonZeroValue", "(A) -> optional(A)")
def optional_of_non_zero(value: Value) -> Optional:
    zero = value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)
    return NONE if zero or value in (Duration(0), Timestamp(FIRST_MOMENT)) else Optional(True, value)


@declare("hasValue", "optional(A).() -> bool")
def has_value(optional: Optional) -> bool:
    return _optional("hasValue", optional).present


def _optional(function: str, value: Value) -> Optional:
    """The value, which may be another than its type says: see the compiler's attributes. Raises `Fault`."""
    if not isinstance(value, Optional):
        raise overload_fault(function, value)
    return value


@declare("value", "optional(A).() -> A")
def value_of(optional: Optional) -> Value:
    if not _optional("value", optional).present:
        raise Fault("optional.none() dereference")
    if isinstance(optional.value, Fault):
        raise optional.value
    return optional.value


# --- what looks at an argument only when it is needed ------------------------------------------------------------------

declare_form("_?_:_", "(bool, A, A) -> A")
declare_form("or", "optional(A).(optional(A)) -> optional(A)")
declare_form("orValue", "optional(A).(A) -> A")
