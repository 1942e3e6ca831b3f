"""``format`` of strings: the clauses %s %d %f %e %b %o %x %X, with a precision for %f and %e."""

from __future__ import annotations

import math
import re
from typing import Final

from modelplane.plan.cel.functions.conversions import go_float, to_string
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Duration, Timestamp, TypeValue, Value, key_value, type_name

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]+))?([a-zA-Z]))|%")


def format_string(text: str, arguments: list[Value]) -> str:
    """The text with its clauses replaced by the arguments, in order. Raises `Fault` for a wrong clause or too few arguments."""
    remaining = iter(arguments)

    def clause(match: re.Match[str]) -> str:
        if match[1]:
            return "%"
        if match[3] is None:
            raise Fault("could not parse formatting clause: unexpected end of string")
        try:
            argument = next(remaining)
        except StopIteration:
            raise Fault(f"index {len(arguments)} out of range") from None
        return _formatted(match[3], int(match[2]) if match[2] else None, argument)

    return _CLAUSE.sub(clause, text)


def _formatted(verb: str, precision: int | None, value: Value) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match verb:
        case "s":
            return _text(value)
        case "d" if number:
            return str(int(value)) if isinstance(value, int) else go_float(value)  # type: ignore[arg-type]
        case "f" | "e" if number:
            assert isinstance(value, (int, float))
            if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
            return f"{float(value):.{6 if precision is None else min(precision, 1000)}{verb}}"
        case "b" if isinstance(value, int):
            return f"{int(value):b}"
        case "o" if number and isinstance(value, int):
            return f"{int(value):o}"
        case "x" | "X" if number and isinstance(value, int):
            return f"{int(value):{verb}}"
        case "x" | "X" if isinstance(value, (str, bytes)):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
        case "d" | "f" | "e" | "b" | "o" | "x" | "X":
            raise Fault(f"error during formatting: %{verb} clause does not take a value of type {type_name(value)}")
    raise Fault(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


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
