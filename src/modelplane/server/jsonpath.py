"""The JSON paths of printer columns, scale paths and selectable fields, in kubectl's dialect.

Fields (``.a.b``, ``['a.b']``, ``.a\\.b``), indices and slices, ``[*]``, ``..name`` and filters
(``[?(@.type=="Ready")]``, with ``&&`` and ``||``). A path that leads nowhere gives no value; only a malformed path raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

Step = Callable[[object], Iterable[object]]

_TOKEN: Final = re.compile(
    r"""
      \.\.(?P<deep>\*|[A-Za-z_][\w-]*)
    | \.(?P<name>(?:\\.|[^.\[\]\\\s])+)
    | \[\s*(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*\]
    | \[\s*\*\s*\](?P<star>)
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?P<slice>-?\d*:-?\d*(?::\d+)?)\s*\]
    | \[\s*\?\s*\((?P<filter>(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'()])*)\)\s*\]
    """,
    re.VERBOSE,
)
_COMPARISON: Final = re.compile(
    r"""\s*(?P<left>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^=!<>"']+?)\s*(?:(?P<op>==|!=|>=|<=|>|<)\s*(?P<right>.+?))?\s*""",
    re.DOTALL,
)
_COMPARE: Final[dict[str, Callable[[object, object], bool]]] = {
    "==": lambda a, b: a == b and isinstance(a, bool) == isinstance(b, bool),
    "!=": lambda a, b: a != b,
    ">": lambda a, b: _ordered(a, b) and a > b,  # type: ignore[operator]
    "<": lambda a, b: _ordered(a, b) and a < b,  # type: ignore[operator]
    ">=": lambda a, b: _ordered(a, b) and a >= b,  # type: ignore[operator]
    "<=": lambda a, b: _ordered(a, b) and a <= b,  # type: ignore[operator]
}


def _ordered(left: object, right: object) -> bool:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return numbers or (isinstance(left, str) and isinstance(right, str))


class JSONPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _compile(text)

    def find(self, value: object) -> list[object]:
        """All values that the path leads to, in document order."""
        found = [value]
        for step in self._steps:
            found = [below for item in found for below in step(item)]
        return found

    def first(self, value: object) -> object:
        """The first value, None when there is none."""
        return next(iter(self.find(value)), None)


@lru_cache(maxsize=1024)
def parse(text: str) -> JSONPath:
    """Compile a path, with or without braces around it. Raises ValueError with what is wrong with it."""
    return JSONPath(text)


def _compile(text: str) -> list[Step]:
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$")
    if path and path[0] not in ".[":
        path = f".{path}"
    if path == ".":
        return []
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _TOKEN.match(path, at)
        if match is None:
            raise ValueError(f"JSON path {text!r} is not understood from {path[at:]!r} on")
        steps.append(_step(match))
        at = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    kind = match.lastgroup
    text = match.group(kind or 0)
    if kind == "name":
        return _all if text == "*" else _field(re.sub(r"\\(.)", r"\1", text))
    if kind == "quoted":
        return _field(re.sub(r"\\(.)", r"\1", text[1:-1]))
    if kind == "index":
        return _slice(int(text), int(text) + 1 or None, 1)
    if kind == "slice":
        bounds = [int(part) if part else None for part in text.split(":")]
        return _slice(bounds[0], bounds[1], (bounds[2] if len(bounds) > 2 else 1) or 1)
    if kind == "deep":
        return _deep(text)
    if kind == "filter":
        return _filter(text)
    return _all


def _field(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _all(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _slice(start: int | None, stop: int | None, step: int) -> Step:
    return lambda value: value[start:stop:step] if isinstance(value, list) else ()


def _deep(name: str) -> Step:
    def walk(value: object) -> Iterable[object]:
        if isinstance(value, dict):
            for key, item in value.items():
                if name in ("*", key):
                    yield item
                yield from walk(item)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item)

    return walk


def _filter(text: str) -> Step:
    choices = [[_condition(part) for part in choice.split("&&")] for choice in text.split("||")]
    return lambda value: [item for item in _all(value) if any(all(c(item) for c in choice) for choice in choices)]


def _condition(text: str) -> Callable[[object], bool]:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ValueError(f"filter {text!r} of a JSON path is not understood")
    left, op, right = _operand(match["left"]), match["op"], match["right"]
    if op is None:
        return lambda item: bool(left(item))
    other, compare = _operand(right), _COMPARE[op]
    return lambda item: any(compare(a, b) for a in left(item) for b in other(item))


def _operand(text: str) -> Callable[[object], list[object]]:
    text = text.strip()
    if text.startswith("@"):
        return JSONPath(text[1:] or ".").find
    if text[:1] in "'\"":
        literal: object = re.sub(r"\\(.)", r"\1", text[1:-1])
    else:
        try:
            literal = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{text!r} in a filter of a JSON path is neither a value nor a path from @") from error
    return lambda item: [literal]
