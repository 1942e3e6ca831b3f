"""``format`` of strings: the clauses %s %d %f %e %b %o %x %X, with a precision for %f and %e."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from modelplane.plan.cel.functions.conversions import to_string
from modelplane.plan.cel.syntax import Fault, ListExpr, MapExpr, Node
from modelplane.plan.cel.values import Duration, Timestamp, TypeValue, Value, key_value, type_name

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.)?)", re.DOTALL)
_SPECIAL: Final = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "-∞"}
_RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_NUMBERS: Final = frozenset({"int", "uint"})
_TAKES: Final = {
    "s": _NUMBERS | {"list", "map", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"},
    "d": _NUMBERS,
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": _NUMBERS | {"bool"},
    "x": _NUMBERS | {"string", "bytes"},
    "o": _NUMBERS,
}
_ONLY: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_PRECISION: Final = "could not parse formatting clause: error while parsing precision"
_WELL_KNOWN: Final = {
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "null_type",
}
_ESCAPED: Final = dict(zip('\\\a\b\f\n\r\t\v"', ("\\\\", *(f"\\{char}" for char in 'abfnrtv"')), strict=True))


def misfit(text: str, call: Node, arguments: Sequence[Node]) -> tuple[Node, str] | None:
    """Where and why a format cannot take these (checked) arguments, before anything runs."""
    used = 0
    for found in _CLAUSE.finditer(text):
        if found[1]:
            continue
        if used >= len(arguments) and found[0] != "%":
            return call, f"index {used} out of range"
        if fault := _clause_fault(found):
            return call, fault
        used += 1
        odd = _odd(found[3].lower(), arguments[used - 1])
        if odd is not None:
            return odd, f"error during formatting: {_ONLY[found[3].lower()]}, was given {_shown(odd)}"
    if len(arguments) > used:
        return call, f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
    return None


def _clause_fault(found: re.Match[str]) -> str:
    if found[3] is None:
        return (
            "unexpected end of string"
            if found[2] is None
            else f"{_PRECISION}: could not find end of precision specifier"
        )
    if found[2] == "":
        return f'{_PRECISION}: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    if found[3] not in "sdfebxXo":
        return f'could not parse formatting clause: unrecognized formatting clause "{found[3]}"'
    return ""


def _odd(verb: str, node: Node) -> Node | None:
    """The argument, or the part of it, that a clause does not take."""
    assert node.type is not None
    if node.type.name != "dyn" and node.type.name not in _TAKES[verb]:
        return node
    parts: list[Node] = []
    if isinstance(node, ListExpr):
        parts = node.elements
    elif isinstance(node, MapExpr):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((odd for part in parts if (odd := _odd(verb, part)) is not None), None)


def _shown(node: Node) -> str:
    assert node.type is not None
    return _WELL_KNOWN.get(node.type.name, node.type.name)


def format_string(text: str, arguments: list[Value]) -> str:
    """The text with its clauses replaced by the arguments, in order. Raises `Fault` for a wrong clause or too few arguments."""
    remaining = iter(arguments)

    def clause(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        if match[3] is None:
            raise Fault(_clause_fault(match))
        try:
            argument = next(remaining)
        except StopIteration:
            raise Fault(f"index {len(arguments)} out of range") from None
        if fault := _clause_fault(match):
            raise Fault(fault)
        return _formatted(match[3], int(match[2]) if match[2] else None, argument)

    return _CLAUSE.sub(clause, text)


def _formatted(verb: str, precision: int | None, value: Value) -> str:
    number = isinstance(value, int) and not isinstance(value, bool)
    match verb:
        case "s":
            return _text(value)
        case "d" if number:
            return str(int(value))  # type: ignore[call-overload]
        case "f" | "e" if isinstance(value, float) or (isinstance(value, str) and value in _SPECIAL):
            if isinstance(value, str) or not math.isfinite(value):
                named = (
                    value if isinstance(value, str) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
                )
                return _SPECIAL[named].rjust(0 if verb == "f" else 6 if precision is None else min(precision, 1000))
            if verb == "f":
                return f"{value:,.{6 if precision is None else min(precision, 1000)}f}"
            return _scientific(value).rjust(6 if precision is None else min(precision, 1000))
        case "b" if isinstance(value, int):
            return f"{int(value):b}"
        case "o" if number:
            return f"{int(value):o}"  # type: ignore[call-overload]
        case "x" | "X" if number:
            return f"{int(value):{verb}}"  # type: ignore[call-overload]
        case "x" | "X" if isinstance(value, (str, bytes)):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
    raise Fault(f"error during formatting: %{verb} clause does not take a value of type {type_name(value)}")


def _scientific(value: float) -> str:
    """As Kubernetes prints it, where the precision is the least width."""
    mantissa, exponent = f"{value:.6e}".split("e")
    raised = f"{'⁻' if exponent[0] == '-' else ''}{exponent[1:].translate(_RAISED)}"
    return f"{mantissa}×10{raised}"


def _text(value: Value) -> str:
    match value:
        case None:
            return "null"
        case str() | bool() | int() | float() | bytes() | Timestamp() | Duration():
            return str(to_string(value))
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            pairs = sorted((_key(key_value(key)), _literal(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}:{item}' for key, item in pairs)}}}"
        case TypeValue():
            return value.name
    raise Fault(f"error during formatting: no text for a value of type {type_name(value)}")


def _literal(value: Value) -> str:
    """A part of a list or map, as it would stand in an expression."""
    match value:
        case str():
            return _quoted(value)
        case bytes():
            return f"b{_quoted(_text(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _quoted(_text(value))
        case Timestamp():
            return f"timestamp({_quoted(_text(value))})"
        case Duration():
            return f"duration({_quoted(_text(value))})"
    return _text(value)


def _key(value: Value) -> str:
    if not isinstance(value, (str, int)):
        raise Fault(f"no formatting function for map key of type {type_name(value)}")
    return _literal(value)


def _quoted(text: str) -> str:
    """As Go quotes a text."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPED or char.isprintable():
        return _ESCAPED.get(char, char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
