"""Filling in defaults of a structural schema, as kube-apiserver does on requests and when it reads from the store."""

from __future__ import annotations

import copy

from modelplane.api.meta import Object
from modelplane.server.schema.node import ANYTHING, MISSING, Node
from modelplane.server.schema.nothing import may_have_null


def default(node: Node, obj: Object) -> Object:
    """The object with defaults; shared with the input where nothing was filled in."""
    filled = _value(node, obj)
    assert isinstance(filled, dict)
    return filled


def drop_nulls(node: Node, obj: Object) -> Object:
    """Without the nulls of fields that are not nullable: a null there means that the field is not set, or its default."""
    if not may_have_null(obj):
        return obj
    dropped = _without_nulls(node, obj)
    assert isinstance(dropped, dict)
    return dropped


def _value(node: Node, value: object) -> object:
    if not node.has_default_below:
        return value
    if isinstance(value, dict):
        new: Object = {}
        for name, item in value.items():
            child = node.field(name)
            if child is not None and child.has_default_below and (filled := _value(child, item)) is not item:
                new[name] = filled
        for name, child in node.defaulted:
            if name not in value:
                new[name] = _value(child, copy.deepcopy(child.default))
        return {**value, **new} if new else value
    if isinstance(value, list) and node.items is not None:
        below = node.items
        instead = None if below.nullable or below.default is MISSING else below.default
        items = [_value(below, copy.deepcopy(instead) if item is None else item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _without_nulls(node: Node, value: object) -> object:
    if isinstance(value, dict):
        kept: Object = {}
        for name, child in value.items():
            below = node.field(name)
            if child is None and below is not None and below is not ANYTHING and not below.nullable:
                if below.default is not MISSING:
                    kept[name] = copy.deepcopy(below.default)
                continue
            kept[name] = child if below is None else _without_nulls(below, child)
        same = len(kept) == len(value) and all(kept[name] is value[name] for name in kept)
        return value if same else kept
    if isinstance(value, list) and node.items is not None:
        items = [_without_nulls(node.items, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
