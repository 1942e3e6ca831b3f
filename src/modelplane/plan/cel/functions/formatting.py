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


def misfit(text: str, arguments: Sequence[Node]) -> str:
    """Why a format cannot take these (checked) arguments, before anything runs; empty when it can."""
    used = 0
    for found in _CLAUSE.finditer(text):
        if found[1]:
            continue
        if used >= len(arguments) and found[3]:
            return f"index {used} out of range"
        if fault := _clause_fault(found):
            return fault
        used += 1
        if not _taken(_TAKES[found[3].lower()], arguments[used - 1]):
            return f"error during formatting: {arguments[used - 1].type} is nothing for %{found[3]}"
    if len(arguments) > used:
        return f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
    return ""


def _clause_fault(found: re.Match[str]) -> str:
    if found[3] is None:
        return "could not parse formatting clause: unexpected end of string"
    if found[2] == "":
        return "could not parse formatting clause: error while converting precision to integer"
    if found[3] not in "sdfebxXo":
        return f'could not parse formatting clause: unrecognized formatting clause "{found[3]}"'
    return ""


def _taken(kinds: frozenset[str], node: Node) -> bool:
    assert node.type is not None
    if node.type.name != "dyn" and node.type.name not in kinds:
        return False
    if "list" not in kinds:
        return True
    if isinstance(node, ListExpr):
        return all(_taken(kinds, element) for element in node.elements)
    if isinstance(node, MapExpr):
        return all(_taken(kinds, entry.key) and _taken(kinds, entry.value) for entry in node.entries)
    return True


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
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            pairs = sorted((_text(key_value(key)), _text(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
        case TypeValue():
            return value.name
    raise Fault(f"error during formatting: no text for a value of type {type_name(value)}")
