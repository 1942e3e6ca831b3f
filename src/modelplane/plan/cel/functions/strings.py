"""String functions: the standard four and those of CEL's strings extension as Kubernetes offers it (no ``reverse``)."""

from __future__ import annotations

from modelplane.plan.cel.functions.formatting import format_string
from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.values import Value, overload_fault

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# Go's unicode.IsSpace, which knows other characters than Python's strip.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


@declare("contains", "string.(string) -> bool")
def contains(text: str, part: str) -> bool:
    return part in text


@declare("startsWith", "string.(string) -> bool")
def starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


@declare("endsWith", "string.(string) -> bool")
def ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@declare("charAt", "string.(int) -> string")
def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise Fault(f"index out of range: {index}")
    return text[index : index + 1]


@declare("indexOf", "string.(string) -> int", "string.(string, int) -> int")
def index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise Fault(f"index out of range: {start}")
    return text.find(part, start)


@declare("lastIndexOf", "string.(string) -> int", "string.(string, int) -> int")
def last_index_of(text: str, part: str, last: int | None = None) -> int:
    if last is None:
        return text.rfind(part)
    if not part:
        return last
    if last < 0:
        raise Fault(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part)) if last < len(text) else -1


@declare("lowerAscii", "string.() -> string")
def lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


@declare("upperAscii", "string.() -> string")
def upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


@declare("replace", "string.(string, string) -> string", "string.(string, string, int) -> string")
def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


@declare("split", "string.(string) -> list(string)", "string.(string, int) -> list(string)")
def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    return list(text) if limit < 0 or limit > len(text) else [*text[: limit - 1], text[limit - 1 :]]


@declare("substring", "string.(int) -> string", "string.(int, int) -> string")
def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
        if not 0 <= start <= end:
            raise Fault(f"index out of range: {start}")
    if start > end:
        raise Fault(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise Fault(f"index out of range: {index}")
    return text[start:end]


@declare("trim", "string.() -> string")
def trim(text: str) -> str:
    return text.strip(_SPACE)


@declare("join", "list(string).() -> string", "list(string).(string) -> string")
def join(parts: list[Value], separator: str = "") -> str:
    strings = [part for part in parts if isinstance(part, str)]
    if len(strings) != len(parts):
        raise overload_fault("join", parts)
    return separator.join(strings)


@declare("strings.quote", "(string) -> string")
def quote(text: str) -> str:
    for raw, escaped in zip('\\\a\b\f\n\r\t\v"', ("\\\\", *(f"\\{char}" for char in 'abfnrtv"')), strict=True):
        text = text.replace(raw, escaped)
    return f'"{text}"'


declare("format", "string.(list(dyn)) -> string")(format_string)
