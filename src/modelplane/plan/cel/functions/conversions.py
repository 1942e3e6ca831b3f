"""Type conversions, with Go's spelling of numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from modelplane.plan.cel.functions.operators import integer, unsigned
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Duration, Timestamp, TypeValue, UInt, Value, kind, type_name

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII)
_DIGITS: Final = "[0-9](?:_?[0-9])*"
_FLOAT: Final = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX]_?(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII
)
_NAMED: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _go_number(text: str) -> float | None:
    """A number as Go reads it: digits may be parted by ``_``, hexadecimal needs an exponent, and nothing may overflow."""
    if _NAMED.fullmatch(text):
        return float(text)
    try:
        if _FLOAT.fullmatch(text):
            number = float(text)
        elif _HEXADECIMAL.fullmatch(text):
            number = float.fromhex(text.replace("_", ""))
        else:
            return None
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def conversion_fault(value: Value, target: str) -> Fault:
    """The error of a conversion that fails for this value."""
    return Fault(f"type conversion error from '{kind(value)}' to '{target}'")


@declare("int", *(f"({kind}) -> int" for kind in ("int", "double", "duration", "string", "timestamp", "uint")))
def to_int(value: Value) -> Value:
    if isinstance(value, float):
        if not math.isfinite(value) or not -(2.0**63) < value < 2.0**63:
            raise Fault("integer overflow")
        return int(value)
    if isinstance(value, int):
        return integer(int(value))
    if isinstance(value, Timestamp):
        return value.nanoseconds // 10**9
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, str) and len(value) < 40 and _INTEGER.fullmatch(value):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return number
    raise conversion_fault(value, "int")


@declare("uint", "(uint) -> uint", "(double) -> uint", "(int) -> uint", "(string) -> uint")
def to_uint(value: Value) -> Value:
    if isinstance(value, float):
        if not math.isfinite(value) or not 0 <= value < 2.0**64:
            raise Fault("unsigned integer overflow")
        return UInt(int(value))
    if isinstance(value, int):
        return unsigned(int(value))
    if isinstance(value, str) and len(value) < 40 and _UNSIGNED.fullmatch(value) and int(value) < 2**64:
        return UInt(int(value))
    raise conversion_fault(value, "uint")


@declare("double", "(double) -> double", "(int) -> double", "(string) -> double", "(uint) -> double")
def to_double(value: Value) -> Value:
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and (number := _go_number(value)) is not None:
        return number
    raise conversion_fault(value, "double")


@declare("bool", "(bool) -> bool", "(string) -> bool")
def to_bool(value: Value) -> Value:
    if isinstance(value, str):
        if value in _TRUTH:
            return _TRUTH[value]
        raise conversion_fault(value, "bool")
    return value


@declare("bytes", "(bytes) -> bytes", "(string) -> bytes")
def to_bytes(value: Value) -> Value:
    return value.encode() if isinstance(value, str) else value


@declare(
    "string",
    *(f"({kind}) -> string" for kind in ("string", "bool", "bytes", "double", "duration", "int", "timestamp", "uint")),
)
def to_string(value: Value) -> Value:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return go_float(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise Fault("invalid UTF-8 in bytes, cannot convert to string") from None
        case Timestamp():
            seconds, rest = divmod(value.nanoseconds, 10**9)
            text = Timestamp(seconds * 10**9).local(None).strftime("%Y-%m-%dT%H:%M:%S")
            return f"{text}{f'.{rest:09}'.rstrip('0') if rest else ''}Z"
        case Duration():
            seconds, rest = divmod(abs(value.nanoseconds), 10**9)
            fraction = f".{rest:09}".rstrip("0") if rest else ""
            return f"{'-' if value.nanoseconds < 0 else ''}{seconds}{fraction}s"
    return value


@declare("dyn", "(A) -> dyn", generic=True)
def to_dyn(value: Value) -> Value:
    return value


@declare("type", "(A) -> type(A)", generic=True)
def type_of(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


def go_float(value: float) -> str:
    """The shortest text, with an exponent from 10^6 on and below 10^-4, as Go prints a double."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if value != 0 and not -4 <= power < 6:
        tail = "".join(map(str, digits[1:]))
        mantissa = f"{digits[0]}{'.' if tail else ''}{tail}"
        return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"
    return f"{Decimal(repr(value)).normalize():f}"
