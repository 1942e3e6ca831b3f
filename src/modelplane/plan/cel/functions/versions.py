"""Quantities and semantic versions, with the members that Kubernetes gives them."""

from __future__ import annotations

from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Reckoned, Value
from modelplane.plan.quantity import Quantity, QuantityError, is_quantity, parse_quantity
from modelplane.plan.semver import Semver, SemverError, is_semver, parse_semver

declare("isQuantity", "(string) -> bool")(is_quantity)
declare("isSemver", "(string) -> bool", "(string, bool) -> bool")(is_semver)


@declare("quantity", "(string) -> Quantity")
def quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        raise Fault(str(error)) from None


@declare("semver", "(string) -> Semver", "(string, bool) -> Semver")
def semver(text: str, lenient: bool = False) -> Semver:
    try:
        return parse_semver(text, lenient)
    except SemverError as error:
        raise Fault(str(error)) from None


@declare("compareTo", "Quantity.(Quantity) -> int")
def compare_quantities(a: Quantity, b: Quantity) -> int:
    return a.compare(b)


@declare("isGreaterThan", "Quantity.(Quantity) -> bool")
def quantity_is_greater(a: Quantity, b: Quantity) -> bool:
    return a.compare(b) > 0


@declare("isLessThan", "Quantity.(Quantity) -> bool")
def quantity_is_less(a: Quantity, b: Quantity) -> bool:
    return a.compare(b) < 0


@declare("compareTo", "Semver.(Semver) -> int")
def compare_semvers(a: Semver, b: Semver) -> int:
    return a.compare(b)


@declare("isGreaterThan", "Semver.(Semver) -> bool")
def semver_is_greater(a: Semver, b: Semver) -> bool:
    return a.key > b.key


@declare("isLessThan", "Semver.(Semver) -> bool")
def semver_is_less(a: Semver, b: Semver) -> bool:
    return a.key < b.key


declare("sign", "(Quantity) -> int")(Quantity.sign)
declare("asApproximateFloat", "Quantity.() -> double")(Quantity.as_approximate_float)


@declare("isInteger", "Quantity.() -> bool")
def is_integer(a: Quantity) -> bool:
    return a.as_integer() is not None


@declare("asInteger", "Quantity.() -> int")
def as_integer(a: Quantity) -> int:
    value = a.as_integer()
    if value is None:
        raise Fault("cannot convert value to integer")
    return value


def _operand(value: Value) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(int(value))  # type: ignore[call-overload]


def _reckoned(found: Quantity) -> Reckoned:
    return Reckoned(found.unscaled, found.exponent, compact=found.compact)


@declare("add", "Quantity.(Quantity) -> Quantity", "Quantity.(int) -> Quantity")
def add(a: Quantity, b: Value) -> Quantity:
    try:
        return _reckoned(a.add(_operand(b)))
    except QuantityError as error:
        raise Fault(str(error)) from None


@declare("sub", "Quantity.(Quantity) -> Quantity", "Quantity.(int) -> Quantity")
def sub(a: Quantity, b: Value) -> Quantity:
    try:
        return _reckoned(a.sub(_operand(b)))
    except QuantityError as error:
        raise Fault(str(error)) from None


def _signed(number: int) -> int:
    """As Go converts an unsigned number to a signed one."""
    return number - 2**64 if number >= 2**63 else number


declare("major", "Semver.() -> int")(lambda version: _signed(version.major))
declare("minor", "Semver.() -> int")(lambda version: _signed(version.minor))
declare("patch", "Semver.() -> int")(lambda version: _signed(version.patch))
