"""RE2 matching. The library is loaded when an expression first needs it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from modelplane.plan.cel.registry import declare
from modelplane.plan.cel.syntax import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator


@lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    """The compiled pattern. Raises `Fault` when it is none."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        raise Fault(f"error parsing regexp: {error}") from None


@declare("matches", "(string, string) -> bool", "string.(string) -> bool")
def matches(text: str, expression: str) -> bool:
    return pattern(expression).search(text) is not None


@declare("find", "string.(string) -> string")
def find(text: str, expression: str) -> str:
    match = pattern(expression).search(text)
    return match.group() if match is not None else ""


@declare("findAll", "string.(string) -> list(string)", "string.(string, int) -> list(string)")
def find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    matched: Iterator[Any] = pattern(expression).finditer(text)
    for match in matched:
        if 0 <= limit <= len(found):
            break
        found.append(match.group())
    return found
