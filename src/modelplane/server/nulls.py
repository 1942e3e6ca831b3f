"""Null in objects of built-in kinds: Go reads it as absent, and in a list as the empty value of the list's type.

Custom kinds keep their nulls for their schema to judge; a built-in kind has none once its body was read, so that nothing
after this has to expect one.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import Object
from modelplane.server.schema.node import Node

_ZERO: Final[dict[str, object]] = {"string": "", "integer": 0, "number": 0, "boolean": False, "int-or-string": 0}


def without_nulls(node: Node, obj: Object) -> Object:
    """The object without null; shared with the input where it has none."""
    cleaned = _clean(node, obj)
    assert isinstance(cleaned, dict)
    return cleaned


def _clean(node: Node | None, value: object) -> object:
    if isinstance(value, dict):
        kept = {
            name: _clean(None if node is None else node.field(name), item)
            for name, item in value.items()
            if item is not None
        }
        return value if len(kept) == len(value) and all(kept[name] is value[name] for name in kept) else kept
    if isinstance(value, list):
        below = None if node is None else node.items
        items = [_zero(below) if item is None else _clean(below, item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _zero(node: Node | None) -> object:
    return {} if node is None else _ZERO.get(node.type, {})
