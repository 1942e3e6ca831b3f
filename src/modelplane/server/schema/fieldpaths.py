"""Where a rule says that its message belongs: ``.spec.name`` or ``.labels['a.b']``, below the place of the rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_TOKEN: Final = re.compile(r"'(?:\\'|[^'])*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_SIMPLE: Final = dict(zip("abfnrtv'\\", "\a\b\f\n\r\t\v'\\", strict=True))


def field_path(schema: Mapping[str, Any], text: str) -> str | None:
    """The path as errors write it, None if the schema has no such place."""
    tokens = iter([*_TOKEN.findall(text), ""])
    found = schema
    path = ""
    while (token := next(tokens)) != "":
        name: str | None = next(tokens, "")
        if token == "[":
            name = _unquoted(name or "")
            if name is None or next(tokens, "") != "]":
                return None
        elif token != "." or not name:
            return None
        properties, values = found.get("properties"), found.get("additionalProperties")
        if properties:
            path += f".{name}" if path else name
            below = properties.get(name)
        else:
            path += f"[{name}]"
            below = values
        if not isinstance(below, dict):
            return None
        found = below
    return path


def _unquoted(text: str) -> str | None:
    if len(text) < 2 or text[0] != "'" or text[-1] != "'":
        return None
    inner = text[1:-1]
    if any(found[1] not in _SIMPLE for found in _ESCAPE.findall(inner)):
        return None
    return _ESCAPE.sub(lambda found: _SIMPLE[found[0][1]], inner)
