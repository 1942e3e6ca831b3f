"""What a definition's ``scale`` subresource asks of its objects: whole counts that fit into 32 bits, and a selector in one line.

Kubernetes asks it beside the schema, with the paths as the definition writes them, so a count may be complained about twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.schema.errors import ErrorType, FieldError

_MOST: Final = 2**31 - 1
_NAMES: Final = {str: "string", bool: "bool", int: "int64", float: "float64", type(None): "<nil>"}


def scale_check(spec: str, status: str, selector: str = "") -> Callable[[Object], list[FieldError]]:
    """Complaints about an object whose counts and selector are at these paths (``.spec.replicas``); selector may be empty."""

    def check(obj: Object) -> list[FieldError]:
        errors = [error for path in (spec, status) for error in _count(obj, path)]
        if selector:
            value, wrong = _read(obj, selector, str)
            errors += [_invalid(selector, value, wrong)] if wrong else []
        return errors

    return check


def _count(obj: Object, path: str) -> list[FieldError]:
    value, wrong = _read(obj, path, int)
    if wrong:
        return [_invalid(path, value, wrong)]
    assert isinstance(value, int)
    if value < 0:
        return [_invalid(path, value, "should be a non-negative integer")]
    if value > _MOST:
        return [_invalid(path, value, f"should be less than or equal to {_MOST}")]
    return []


def _invalid(path: str, value: object, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, bad_value=value, message=message)


def _read(obj: Object, path: str, wanted: type[int] | type[str]) -> tuple[int | str, str]:
    """The value at a path, or the empty one and what is wrong; what is not there is the empty one."""
    parts = path.removeprefix(".").split(".")
    value: object = obj
    for depth, part in enumerate(parts):
        if value is None:
            return wanted(), ""
        if not isinstance(value, dict):
            return wanted(), _other(parts[: depth + 1], value, "map[string]interface{}")
        if part not in value:
            return wanted(), ""
        value = value[part]
    if type(value) is not wanted:
        return wanted(), _other(parts, value, "int64" if wanted is int else "string")
    return value, ""


def _other(parts: list[str], value: object, expected: str) -> str:
    found = _NAMES.get(type(value)) or ("map[string]interface {}" if isinstance(value, dict) else "[]interface {}")
    return f".{'.'.join(parts)} accessor error: {_shown(value)} is of the type {found}, expected {expected}"


def _shown(value: object) -> str:
    """A value as Go prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case dict():
            return f"map[{' '.join(f'{key}:{_shown(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_shown, value))}]"
        case float():
            return f"{value:g}"
    return str(value)
