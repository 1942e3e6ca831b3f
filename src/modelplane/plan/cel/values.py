"""CEL's values as Python sees them.

bool, int, float, str, bytes, list and dict stand for themselves; the rest has a class here. A key of a map that is a bool, an
unsigned integer or a double is kept with its kind, ``("uint", value)``: True, 1 and 1.0 are one key to Python and three to CEL.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from modelplane.plan.cel.syntax import Fault
from modelplane.plan.quantity import Quantity
from modelplane.plan.semver import Semver

Value: TypeAlias = object

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1
_OFFSET: Final = re.compile(r"([+-]?[0-9]{1,6}):([+-]?[0-9]{1,6})")


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class Reckoned(Quantity):
    """A quantity that was added up. On the right of ``==`` Kubernetes does not know it for one."""

    __slots__ = ()


class DefaultMap(dict[str, Value]):
    """A map whose unknown keys read as an empty map, though they are not ``in`` it: the domains of a device."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        return {}


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``, or ``optional.none()`` when not ``present``."""

    present: bool
    value: Value = None


NONE: Final = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What ``type(x)`` gives."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970 in UTC."""

    nanoseconds: int

    def local(self, zone: str | None) -> datetime.datetime:
        """The moment in a zone, an IANA name or an offset such as ``-07:30``; UTC when None."""
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            microseconds=self.nanoseconds // 1000
        )
        if zone is None:
            return moment
        offset = _offset(zone)
        return moment.astimezone(_zone(zone)) if offset is None else moment + offset


def _offset(name: str) -> datetime.timedelta | None:
    """What a zone such as ``-07:30`` is away from UTC. Kubernetes takes any number of hours and minutes."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return None
    hours, minutes = int(found[1]), int(found[2])
    return datetime.timedelta(hours=hours, minutes=-minutes if name[0] == "-" else minutes)


def _zone(name: str) -> datetime.tzinfo:
    if name in ("", "UTC", "Local"):
        return datetime.UTC  # where control planes are
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Fault(f"unknown time zone {name}") from error


KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    Quantity: "kubernetes.Quantity",
    Reckoned: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Optional: "optional_type",
    TypeValue: "type",
    Duration: "duration",
    Timestamp: "timestamp",
}
_RUNTIME_NAMES: Final = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}
_NUMBERS: Final = frozenset({int, UInt, float})
_OPAQUE: Final = (Quantity, Semver)


def kind(value: Value) -> str:
    """The short name of a value's kind, as declarations spell it."""
    return KINDS.get(type(value)) or type(value).__name__


def type_name(value: Value) -> str:
    """The name that messages and ``type()`` give."""
    found = kind(value)
    return _RUNTIME_NAMES.get(found, found)


def overload_fault(function: str = "", *args: Value) -> Fault:
    """The error of a function that has no variant for these arguments."""
    if not function:
        return Fault("no such overload")
    return Fault(f"no such overload: {function}({', '.join(type_name(argument) for argument in args)})")


class Missing(Fault):
    """Nothing is there under a key or index. What is asked for with ``[?...]`` is then empty."""


def map_key(value: Value) -> Value:
    """A value as a key of a dict. Raises `Fault` for what CEL does not take as a key."""
    if type(value) is str or type(value) is int:
        return value
    if type(value) in _KEPT:
        return (kind(value), value)
    raise Fault(f"unsupported key type: {type_name(value)}")


def held_key(container: dict[Value, Value], value: Value) -> Value:
    """The key of a dict under which something is looked up: its own, or the same number of another kind, a double as an
    integer and integers as each other. Raises `Fault` for what CEL does not take as a key, and `KeyError`."""
    own = map_key(value)
    if own in container:
        return own
    for other in _same_number(value):
        if other in container:
            return other
    raise KeyError(own)


def _same_number(value: Value) -> Iterator[Value]:
    if type(value) is float:
        if INT_MIN < value < INT_MAX and value.is_integer():
            yield int(value)
        if 0 <= value < UINT_MAX and value.is_integer():
            yield ("uint", int(value))
    elif type(value) is UInt and value <= INT_MAX:
        yield int(value)
    elif type(value) is int and value >= 0:
        yield ("uint", value)


_KEPT: Final = frozenset({bool, UInt, float})
_FOUND: Final = frozenset({"net.IP", "net.CIDR", "duration", "timestamp", "type", "null"})


class OddKey:
    """A key in a map literal that is no key in CEL. It can be met in a loop; Kubernetes finds only those of some kinds again."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value) if kind(self.value) in _FOUND else id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OddKey) and (
            self.value is other.value
            or (type(self.value) is type(other.value) and kind(self.value) in _FOUND and self.value == other.value)
        )


def literal_key(value: Value) -> Value:
    """A value as a key of a map literal. Raises `Fault` for what Kubernetes falls over."""
    try:
        return map_key(value)
    except Fault:
        if isinstance(value, bytes | Semver):
            raise
        return OddKey(value)


def key_value(key: Value) -> Value:
    """A dict's key as a value."""
    return key[1] if type(key) is tuple else key.value if type(key) is OddKey else key


def equal(a: Value, b: Value) -> bool:
    """CEL's equality: numbers by value whatever their type, other types apart are unequal. Raises `Fault` for an opaque value
    with anything else."""
    ta, tb = type(a), type(b)
    if ta is tb:
        if ta is list:
            return len(a) == len(b) and all(map(_not_unequal, a, b))  # type: ignore[arg-type,call-overload]
        if ta is dict or ta is DefaultMap:
            return _equal_maps(a, b)  # type: ignore[arg-type]
        if ta is Optional:
            return a.present == b.present and equal(a.value, b.value)  # type: ignore[attr-defined]
        if ta is Reckoned:
            raise overload_fault("_==_", a, b)
        return bool(a == b)
    if ta is Reckoned and tb is Quantity:
        return bool(a == b)
    if ta in _NUMBERS and tb in _NUMBERS:
        return bool(_alike(a, b) == _alike(b, a))
    if isinstance(a, _OPAQUE):
        raise overload_fault("_==_", a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return _equal_maps(a, b)
    return False


def _equal_maps(a: dict[Value, Value], b: dict[Value, Value]) -> bool:
    return len(a) == len(b) and all(_has_alike(b, key, value) for key, value in a.items())


def _has_alike(other: dict[Value, Value], key: Value, value: Value) -> bool:
    if key in other:
        return _not_unequal(value, other[key])
    held = next((one for one in _same_number(key_value(key)) if one in other), None)
    return held is not None and _not_unequal(value, other[held])


def same(a: Value, b: Value) -> bool:
    """Whether two values are equal for certain."""
    try:
        return equal(a, b)
    except Fault:
        return False


def _not_unequal(a: Value, b: Value) -> bool:
    """Within lists and maps Kubernetes asks only whether two values are known to differ."""
    try:
        return equal(a, b)
    except Fault:
        return True


def _alike(a: Value, b: Value) -> Value:
    """A number beside a double as a double, with what that loses."""
    return float(a) if type(b) is float and type(a) is not float else a  # type: ignore[arg-type]


def less(a: Value, b: Value) -> bool:
    """Whether a comes before b. Raises `Fault` where CEL has no order."""
    ta, tb = type(a), type(b)
    if (ta is tb and ta in _ORDERED) or (ta in _NUMBERS and tb in _NUMBERS):
        if a != a or b != b:
            raise Fault("NaN values cannot be ordered")
        return bool(_alike(a, b) < _alike(b, a))  # type: ignore[operator]
    raise overload_fault()


_ORDERED: Final = frozenset({bool, int, UInt, float, str, bytes, Duration, Timestamp})


def register_kind(type_: type, name: str) -> None:
    """Give a library's class the name that declarations and messages use."""
    KINDS[type_] = name
