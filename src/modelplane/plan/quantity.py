"""Kubernetes quantities, read, compared and added exactly as ``resource.Quantity`` does.

The original keeps a value either as a 64-bit integer with a decimal scale or as an arbitrary decimal, and its CEL library shows
which (``isInteger`` of ``1Pi`` is false). So this class keeps the same two forms. The trade: more code than a
``Decimal`` needs, and answers that are Kubernetes' own even where they surprise.
"""

from __future__ import annotations

from typing import Final

_FORMAT: Final = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX: Final = "unable to parse quantity's suffix"
_NUMERIC: Final = "unable to parse numeric part of quantity"

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")

_NANO: Final = -9
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_LONGEST: Final = 4_000
"""Characters of a quantity; Kubernetes has no bound."""
_LARGEST_SHIFT: Final = 20_000
"""Decimal places by which two values may differ in an addition; Kubernetes has no such bound and would run out of memory."""


class QuantityError(ValueError):
    """The text is not a quantity, or the operation has no answer."""


class Quantity:
    """An exact decimal: ``unscaled`` times ten to the power ``exponent``.

    ``compact`` says that Kubernetes would hold it as a scaled 64-bit integer.
    """

    __slots__ = ("compact", "exponent", "unscaled")

    def __init__(self, unscaled: int, exponent: int = 0, *, compact: bool = True) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.compact = compact

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1, as the value is less, equal or greater."""
        a, b = self.unscaled, other.unscaled
        if self.exponent != other.exponent and a and b and (a < 0) == (b < 0):
            shift = self.exponent - other.exponent
            if abs(shift) > _LARGEST_SHIFT:
                # The larger exponent decides unless the digits make up for it.
                difference = (_digits(a) + self.exponent) - (_digits(b) + other.exponent)
                if difference:
                    return 1 if (difference > 0) == (a > 0) else -1
            if shift > 0:
                a *= 10**shift
            else:
                b *= 10**-shift
        return (a > b) - (a < b)

    def add(self, other: Quantity) -> Quantity:
        """The exact sum. Raises `QuantityError` when the two are too far apart to be added."""
        if self.compact and other.compact:
            if other.unscaled == 0:
                return self
            if self.unscaled == 0:
                return other
            exponent = min(self.exponent, other.exponent)
            left, right = _scaled(self, exponent), _scaled(other, exponent)
            if left is not None and right is not None and _INT64_MIN <= left + right <= _INT64_MAX:
                return Quantity(left + right, exponent)
        exponent = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - exponent > _LARGEST_SHIFT:
            raise QuantityError("the two quantities differ by too many orders of magnitude to be added")
        total = self.unscaled * 10 ** (self.exponent - exponent) + other.unscaled * 10 ** (other.exponent - exponent)
        return Quantity(total, exponent, compact=False)

    def negate(self) -> Quantity:
        return Quantity(-self.unscaled, self.exponent, compact=self.compact)

    def sub(self, other: Quantity) -> Quantity:
        """The exact difference. Raises `QuantityError` as `add` does."""
        if other.compact and other.unscaled == -(2**63):
            # Go's smallest number is its own negative, except where the sum does not fit and is worked out at length.
            wrapped = self.add(other)
            return wrapped if wrapped.compact else self.add(Quantity(2**63, other.exponent, compact=False))
        return self.add(other.negate())

    def sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    def as_integer(self) -> int | None:
        """The value as Kubernetes' ``AsInt64`` gives it: None unless it is held as an integer without a negative scale."""
        if not self.compact or self.exponent < 0:
            return None
        return _scaled(self, 0)

    def as_approximate_float(self) -> float:
        try:
            base = float(self.unscaled)
            return base * 10.0**self.exponent if self.exponent else base
        except OverflowError:
            return float("inf") if self.unscaled > 0 else float("-inf") if self.unscaled else 0.0

    def whole(self) -> int:
        """The value rounded up to a whole number, for counting bytes and cores. Raises `QuantityError` beyond 10^1000."""
        if self.exponent >= 0:
            if self.exponent > 1000:
                raise QuantityError("the quantity is too large to count with")
            return int(self.unscaled * 10**self.exponent)
        return int(-(-self.unscaled // 10 ** min(-self.exponent, _LARGEST_SHIFT)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        unscaled, exponent = self.unscaled, self.exponent
        if not unscaled:
            return hash((0, 0))
        while unscaled % 10 == 0:
            unscaled //= 10
            exponent += 1
        return hash((unscaled, exponent))

    def __repr__(self) -> str:
        return f"Quantity({self.unscaled}e{self.exponent})"


def is_quantity(text: str) -> bool:
    """Whether `parse_quantity` would accept the text."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def parse_quantity(text: str) -> Quantity:
    """Read a quantity. Raises `QuantityError` with Kubernetes' own words."""
    if not text:
        raise QuantityError(_FORMAT)
    if len(text) > _LONGEST:
        raise QuantityError(f"{_NUMERIC}: it is longer than {_LONGEST} characters")
    positive, value, whole, fraction, suffix = _split(text)
    binary = suffix in _BINARY
    if binary:
        exponent = _BINARY[suffix]
        precision = 15 - len(whole) - int(exponent * 3 / 10) - 1 if not fraction else -1
        scale = 0
    else:
        exponent = scale = _decimal_exponent(suffix)
        precision = 18 - (len(whole) + len(fraction))
    if precision >= 0:
        scale -= len(fraction)
        number = int(whole + fraction) << (exponent if binary else 0)
        if scale >= _NANO and number <= _INT64_MAX:
            return Quantity(number if positive else -number, scale)
    digits = value.lstrip("+-").replace(".", "")
    if not digits:
        raise QuantityError(_NUMERIC)
    number, scale = int(digits), -len(fraction)
    if binary:
        number <<= exponent
    else:
        scale += exponent
    number, scale = _round_up_to_nano(number, scale)
    if binary and Quantity(number, scale).compare(Quantity(_INT64_MAX)) > 0:
        number, scale = _INT64_MAX, 0
    return Quantity(number if positive else -number, scale, compact=False)


def _scaled(quantity: Quantity, exponent: int) -> int | None:
    """The unscaled value at a smaller exponent, or None beyond 64 bits."""
    shift = quantity.exponent - exponent
    if quantity.unscaled == 0:
        return 0
    if shift > 19:
        return None
    value = quantity.unscaled * 10**shift
    return value if _INT64_MIN <= value <= _INT64_MAX else None


def _digits(number: int) -> int:
    """Decimal digits, without writing the number out."""
    number = abs(number)
    estimate = number.bit_length() * 30_103 // 100_000 + 1
    return estimate - 1 if estimate > 1 and number < 10 ** (estimate - 1) else estimate


def _round_up_to_nano(number: int, scale: int) -> tuple[int, int]:
    if scale >= _NANO:
        return number, scale
    drop = _NANO - scale
    if drop > _digits(number):
        return (1 if number else 0), _NANO
    divisor = 10**drop
    return -(-number // divisor), _NANO


def _decimal_exponent(suffix: str) -> int:
    known = _DECIMAL.get(suffix)
    if known is not None:
        return known
    if len(suffix) > 1 and suffix[0] in "eE":
        digits = suffix[2:] if suffix[1] in "+-" else suffix[1:]
        if digits and _DIGITS.issuperset(digits) and len(digits) < 20:
            exponent = -int(digits) if suffix[1] == "-" else int(digits)
            if _INT64_MIN <= exponent <= _INT64_MAX:
                return (exponent + 2**31) % 2**32 - 2**31  # Go converts to a 32-bit number without a look
    raise QuantityError(_SUFFIX)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Sign, the numeric text, whole digits without leading zeros (at least ``0``), fraction digits, suffix."""
    end = len(text)
    positive, at = True, 0
    if text[0] in "+-":
        positive, at = text[0] == "+", 1
    while at < end and text[at] == "0":
        at += 1
    if at == end:
        # A sign alone counts too: Kubernetes reads it as zero.
        return positive, "0", "0", "", ""
    start = at
    while at < end and text[at] in _DIGITS:
        at += 1
    whole = text[start:at] or "0"
    fraction = ""
    if at < end and text[at] == ".":
        start = at = at + 1
        while at < end and text[at] in _DIGITS:
            at += 1
        fraction = text[start:at]
    value, start = text[:at], at
    while at < end and text[at] in _SUFFIX_LETTERS:
        at += 1
    if at < end and text[at] in "+-":
        at += 1
    while at < end and text[at] in _DIGITS:
        at += 1
    if at < end:
        raise QuantityError(_FORMAT)
    return positive, value, whole, fraction, text[start:]
