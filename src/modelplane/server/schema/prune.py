"""Dropping fields that a schema does not know, with their paths: warnings by default, errors under strict validation."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server.schema.node import Node

_ALWAYS = ("apiVersion", "kind", "metadata")


def prune(node: Node, obj: Object, metadata: Node | None) -> tuple[Object, list[str]]:
    """The object without unknown fields, and their paths (``spec.foo``, ``spec.list[2].foo``) in the order of the text.

    What was pruned nowhere is shared with the input. ``metadata`` is the schema of ObjectMeta at the root and of
    embedded objects.
    """
    unknown: list[str] = []
    kept = _object(node, obj, "", unknown, metadata, True)
    return kept, unknown


def _value(node: Node, value: object, path: str, unknown: list[str], metadata: Node | None) -> object:
    if isinstance(value, dict):
        return _object(node, value, path, unknown, metadata, node.embedded)
    if isinstance(value, list) and node.items is not None:
        items = node.items
        kept = [_value(items, item, f"{path}[{i}]", unknown, metadata) for i, item in enumerate(value)]
        return kept if any(new is not old for new, old in zip(kept, value, strict=True)) else value
    return value


def _object(node: Node, value: Object, path: str, unknown: list[str], metadata: Node | None, whole: bool) -> Object:
    kept: Object = {}
    changed = False
    for name, child in value.items():
        below = node.properties.get(name) or node.additional
        if whole and name in _ALWAYS:
            below = metadata if name == "metadata" else None
            new = child if below is None else _value(below, child, _join(path, name), unknown, metadata)
        elif below is not None:
            new = _value(below, child, _join(path, name), unknown, metadata)
        elif node.preserve:
            new = child
        else:
            unknown.append(_join(path, name))
            changed = True
            continue
        changed = changed or new is not child
        kept[name] = new
    return kept if changed else value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
