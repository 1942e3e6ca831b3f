"""What a call may cost, function by function, and how large its result may be: Kubernetes' table.

A tenth of a unit for a character that is looked at, a quarter for one of a pattern, one for whatever takes no longer for a larger
value. What is not in the table costs one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from modelplane.plan.cel.registry import Overload
from modelplane.plan.cel.sizes import LIMIT, ONE, UNKNOWN, Size, multiplied, scaled
from modelplane.plan.cel.types import QUANTITY, SEMVER, Type

CHARACTER: Final = 0.1
PATTERN: Final = 0.25
LIST: Final = 10
MAP: Final = 30
_FORMAT: Final = 64
_NAME_PATTERN: Final = 128
_ADDRESS: Final = Size(4, 16)
_FIXED: Final = frozenset({"net.IP", "net.CIDR", QUANTITY.name, SEMVER.name})
_TEXTS: Final = frozenset({"string", "bytes"})


class Argument(Protocol):
    """What an estimate knows of one argument of a call, or of its receiver."""

    @property
    def type(self) -> Type: ...
    @property
    def literal(self) -> object: ...
    @property
    def derived(self) -> Size | None:
        """As known when its own turn was."""

    def sought(self) -> Size | None:
        """Looked up, as far as that is possible, if it was not known then."""

    def items(self) -> Size | None:
        """Of one entry of a list."""


class Price(NamedTuple):
    cost: int
    result: Size | None = None


class Asked(NamedTuple):
    """A call: its overload, its receiver, and its other arguments."""

    overload: Overload
    target: Argument | None
    args: Sequence[Argument]


_Rule: TypeAlias = Callable[[Asked], Price]
_FREE: Final = Price(1)


def _size(of: Argument) -> Size:
    """For functions of the language; those that Kubernetes and libraries add look again."""
    return of.derived or UNKNOWN


def _sought(of: Argument) -> Size:
    return of.derived or of.sought() or UNKNOWN


def _first(asked: Asked) -> Argument:
    return asked.target if asked.target is not None else asked.args[0]


def _walk(factor: float, *, result: bool = False) -> _Rule:
    """A look at every character of the receiver, or else of the first argument."""

    def price(asked: Asked) -> Price:
        size = _sought(_first(asked))
        return Price(scaled(size.most, factor), size if result else None)

    return price


def _elements(asked: Asked) -> Price:
    """One comparison for each entry of a list; for a text, a look at each character."""
    of = _first(asked)
    if not of.type.params:
        return Price(scaled(_sought(of).most, CHARACTER))
    each = 1
    if of.type.params[0].name in _TEXTS:
        each = min(each + scaled((of.items() or UNKNOWN).most, CHARACTER), LIMIT)
    return Price(multiplied(_sought(of).most, each))


def _replace(asked: Asked) -> Price:
    text, old, new = _sought(_first(asked)), _sought(asked.args[0]), _sought(asked.args[1])
    longest, kept_most = _replaced(text.most, old.least, grows=new.most > old.least)
    shortest, kept_least = _replaced(text.least, old.most, grows=old.most > new.least)
    size = Size(shortest, longest).times(new).plus(Size(kept_least, kept_most))
    return Price(scaled(text.most, 2 * CHARACTER), size)


def _replaced(length: int, old: int, *, grows: bool) -> tuple[int, int]:
    """How often a piece of ``old`` characters is replaced in a text, and how many characters of it are kept."""
    if old == 0:
        return min(length + 1, LIMIT), length
    return (math.ceil(float(length) / float(old)), 0) if grows else (0, length)


def _split(asked: Asked) -> Price:
    size = _sought(_first(asked))
    limit = asked.args[1].literal if len(asked.args) > 1 else None
    most = limit % 2**64 if type(limit) is int else size.most
    return Price(scaled(size.most, 2 * CHARACTER), Size(0, most))


def _join(asked: Asked) -> Price:
    of = _first(asked)
    count = _sought(of)
    size = count.times(of.items() or UNKNOWN) if of.type.params else Size(0, 0)
    if asked.args:
        between = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(_sought(asked.args[0]).times(between))
    return Price(scaled(size.most, CHARACTER), size)


def _find(asked: Asked) -> Price:
    text = _sought(_first(asked))
    return Price(_searched(text, _sought(asked.args[0])), Size(0, text.most))


def _searched(text: Size, pattern: Size) -> int:
    """A pattern against a text: the product of both, and an empty text counts as one character."""
    return multiplied(scaled(text.plus(ONE).most, CHARACTER), scaled(pattern.most, PATTERN))


def _matches(asked: Asked) -> Price:
    return _FREE if asked.target is None else Price(_searched(_size(asked.target), _size(asked.args[0])))


def _contains(asked: Asked) -> Price:
    text, piece = (scaled(_size(each).most, CHARACTER) for each in (_first(asked), asked.args[0]))
    return Price(multiplied(text, piece))


def _within(extra: int) -> _Rule:
    """Whether an address or network lies in a network; given as a text it is read first."""

    def price(asked: Asked) -> Price:
        cost = scaled(_ADDRESS.plus(_ADDRESS).most, CHARACTER) + extra
        if asked.overload.params[1].name == "string":
            cost = min(cost + scaled(_sought(asked.args[0]).most, CHARACTER), LIMIT)
        return Price(cost)

    return price


def _address(asked: Asked) -> Price:
    """``ip(text)`` reads a text; ``network.ip()`` only looks."""
    return _FREE if asked.target is not None else Price(scaled(_sought(asked.args[0]).most, CHARACTER))


def _validate(asked: Asked) -> Price:
    text = scaled(_sought(asked.args[0]).most, CHARACTER)
    return Price(scaled(text, _NAME_PATTERN * PATTERN))


def _equal(asked: Asked) -> Price:
    one, other = asked.args
    if one.type == other.type:
        if one.type.name in _FIXED:
            return _FREE
        if one.type.name == "kubernetes.NamedFormat":
            return Price(scaled(_FORMAT, CHARACTER))
        if one.type.name == "kubernetes.URL":
            return Price(scaled((other.derived or ONE).most, CHARACTER))
    return _compare(asked)


def _compare(asked: Asked) -> Price:
    """The shorter one ends it. Of numbers nothing has a length, which makes some comparisons free."""
    return Price(scaled(min(_size(each).most for each in asked.args), CHARACTER))


def _order(asked: Asked) -> Price:
    same = asked.overload.params[0] == asked.overload.params[1]
    return _compare(asked) if same and asked.overload.params[0].name in _TEXTS else _FREE


def _plus(asked: Asked) -> Price:
    name = asked.overload.params[0].name
    if name not in ("string", "bytes", "list"):
        return _FREE
    size = _size(asked.args[0]).plus(_size(asked.args[1]))
    return Price(1 if name == "list" else scaled(size.most, CHARACTER), size)


def _contained(asked: Asked) -> Price:
    return Price(_size(asked.args[1]).most) if asked.overload.params[1].name == "list" else _FREE


def _part(asked: Asked) -> Price:
    """The beginning or end of a text: as long as what is sought there."""
    return Price(scaled(_size(asked.args[0]).most, CHARACTER))


def _to_bytes(asked: Asked) -> Price:
    if asked.overload.params[0].name != "string":
        return _FREE
    size = _size(asked.args[0])
    return Price(scaled(size.most, CHARACTER), Size(size.least, size.most * 4 % 2**64))


def _to_string(asked: Asked) -> Price:
    if asked.overload.params[0].name != "bytes":
        return _FREE
    size = _size(asked.args[0])
    return Price(scaled(size.most, CHARACTER), Size(size.least // 4, size.most))


def _quote(asked: Asked) -> Price:
    size = _size(asked.args[0])
    return Price(scaled(size.most, CHARACTER), Size(size.least + 2, (size.most * 2 + 2) % 2**64))


def _sets(factor: float) -> _Rule:
    def price(asked: Asked) -> Price:
        return Price(
            min(scaled(multiplied(_sought(asked.args[0]).most, _sought(asked.args[1]).most), factor) + 1, LIMIT)
        )

    return price


def _made(factor: float, size: Size) -> Price:
    """A list made of another one."""
    return Price(min(scaled(size.most, factor) + 1 + LIST, LIMIT), size)


def _number(of: Argument, otherwise: int) -> int:
    return max(of.literal, 0) if type(of.literal) is int else otherwise


def _slice(asked: Asked) -> Price:
    start, end = _number(asked.args[0], 0), _number(asked.args[1], _sought(_first(asked)).most)
    count = (end - start) % 2**64
    return _made(1, Size(count, count))


def _range(asked: Asked) -> Price:
    count = _number(asked.args[0], LIMIT)
    return _made(1, Size(count, count))


def _flatten(asked: Asked) -> Price:
    depth = _number(asked.args[0], LIMIT) if asked.args else 1
    return _made(depth, _sought(_first(asked)))


def _squared(asked: Asked) -> Price:
    """Every entry against every other."""
    keys = asked.args[0] if asked.args else _first(asked)
    size = _sought(keys)
    kind = asked.overload.params[-1].params[0].name
    return _made(2 + CHARACTER if kind in _TEXTS else 2, size.times(size))


_TABLE: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _walk(CHARACTER, result=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _walk(CHARACTER)),
    "format": lambda asked: Price(scaled(_size(_first(asked)).most, CHARACTER)),
    "_==_": _equal,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _order),
    **dict.fromkeys(("startsWith", "endsWith"), _part),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("sort", "distinct", "@sortByAssociatedKeys"), _squared),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "ip": _address,
    "ip.isCanonical": _walk(2 * CHARACTER),
    "containsIP": _within(0),
    "containsCIDR": _within(scaled(_ADDRESS.most, CHARACTER) + 1),
    "validate": _validate,
    "_!=_": _compare,
    "_+_": _plus,
    "@in": _contained,
    "matches": _matches,
    "contains": _contains,
    "bytes": _to_bytes,
    "string": _to_string,
    "strings.quote": _quote,
    "slice": _slice,
    "lists.range": _range,
    "flatten": _flatten,
    "reverse": lambda asked: _made(1, _sought(_first(asked))),
}


def price(function: str, asked: Asked) -> Price:
    """What one call costs beside its arguments, and the size of its result where it is known."""
    rule = _TABLE.get(function)
    return _FREE if rule is None else rule(asked)
