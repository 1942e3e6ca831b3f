"""Strategic merge patch: a merge patch whose lists merge by key, told by the schema of built-in kinds.

Directives: ``$patch`` (replace, delete), ``$retainKeys``, ``$setElementOrder/<list>`` and
``$deleteFromPrimitiveList/<list>``. The order of merged lists is the API server's, down to new items coming first
when the patch does not say where they belong.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from modelplane.api.meta import Object
from modelplane.errors import BadBody, BadPatchItem
from modelplane.server.schema.node import ANYTHING, Node

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(obj: Object, patch: object, node: Node) -> Object:
    """The object with the patch merged in, by the merge keys and strategies of ``node`` (``schema.node``)."""
    if not isinstance(patch, dict):
        raise BadBody("a strategic merge patch is a JSON object; this body is something else")
    return _maps(copy.deepcopy(obj), copy.deepcopy(patch), node)


def _maps(original: Object, patch: Object, node: Node) -> Object:
    directive = patch.pop(_PATCH, None)
    if directive == "replace":
        return patch  # with its nulls: where the schema has text, they become empty text
    if directive == "delete":
        return {}
    if directive is not None:
        raise BadBody(f"unknown patch type: {directive} in map: {_go(patch)}")
    original = _retain(original, patch)
    orders = {key[len(_ORDER) :]: patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    removals = {key[len(_DELETE) :]: patch.pop(key) for key in list(patch) if key.startswith(_DELETE)}
    before = {}
    for key, order in orders.items():
        merge_key = (node.field(key) or ANYTHING).merge_key
        _same_order(patch.get(key), order, merge_key, key)
        before[key] = _order_before(original.get(key), patch.get(key), merge_key)
    for key, gone in removals.items():
        if not isinstance(gone, list):
            raise BadBody(f"{_DELETE}{key} is a list of the values to delete")
        if isinstance(original.get(key), list):
            original[key] = [item for item in original[key] if item not in gone]
    for key, value in patch.items():
        child = node.field(key) or ANYTHING
        if value is None:
            original.pop(key, None)
        elif key not in original or original[key] is None:
            if _is_directive(value):
                original.pop(key, None)
            else:
                original[key] = _clean(value)
        else:
            original[key] = _values(original[key], value, child)
    for key, order in orders.items():
        child = node.field(key) or ANYTHING
        if isinstance(original.get(key), list) and isinstance(order, list):
            original[key] = _ordered(original[key], order, before[key], child.merge_key)
    return original


def _same_order(items: object, order: object, merge_key: str, key: str) -> None:
    """Refuse a patch whose list has items in another order than the order that it asks for."""
    if not isinstance(items, list) or not isinstance(order, list):
        return
    wanted = [_identity(item, merge_key) for item in order]
    kept = [item for item in items if not (isinstance(item, dict) and _PATCH in item)]
    places = [_position(wanted, _identity(item, merge_key)) for item in kept]
    if -1 in places or places != sorted(places):
        raise BadBody(f"The order in patch list:\n{items}\n doesn't match {_ORDER}{key} list:\n{order}\n")


def _order_before(items: object, patch: object, merge_key: str) -> list[object]:
    """The order that the rest of a list keeps beside one that a patch asks for.

    Where the patch deletes items, new ones count as standing in their places: so a renamed container stays behind an
    injected one, as on a real server.
    """
    before = items if isinstance(items, list) else []
    if not merge_key or not isinstance(patch, list):
        return before
    named = [item for item in patch if isinstance(item, dict)]
    gone = [item.get(merge_key) for item in named if item.get(_PATCH) == "delete"]
    kept = [item for item in before if _identity(item, merge_key) not in gone]
    present = [_identity(item, merge_key) for item in kept]
    added = [item for item in named if _PATCH not in item and item.get(merge_key) not in present]
    return [*kept, *added][: len(before)]


def _values(original: object, patch: object, node: Node) -> object:
    if isinstance(original, dict) and isinstance(patch, dict) and "replace" not in node.strategies:
        return _maps(original, patch, node)
    if isinstance(original, list) and isinstance(patch, list) and "merge" in node.strategies:
        return _lists(original, patch, node)
    return _clean(patch)


def _retain(original: Object, patch: Object) -> Object:
    retain = patch.pop(_RETAIN, None)
    if retain is None:
        return original
    fields = [key for key, value in patch.items() if value is not None and not key.startswith("$")]
    if not isinstance(retain, list) or any(field not in retain for field in fields):
        raise BadBody("invalid patch format of retainKeys: $retainKeys lists every field that the patch sets beside it")
    return {key: value for key, value in original.items() if key in retain}


def _lists(original: list[object], patch: list[object], node: Node) -> list[object]:
    if not node.merge_key:
        merged = list(original)
        for item in patch:
            if item not in merged:
                merged.append(item)
        return _ordered(merged, patch, original, "")
    key = node.merge_key
    items: list[object] = []
    gone: list[object] = []
    replace = False
    for item in patch:
        if not isinstance(item, dict):
            raise BadBody(f"an item of a list that merges by {key} is an object, got {item!r}")
        directive = item.pop(_PATCH, None)
        if directive == "replace":
            replace = True
        elif directive == "delete":
            gone.append(_key(item, key))
        elif directive is None:
            items.append(item)
        else:
            raise BadPatchItem(f"unknown patch type: {directive} in map: {_go({**item, _PATCH: directive})}")
    if replace:
        return [_clean(item) for item in items]
    server = [item for item in original if not (isinstance(item, dict) and item.get(key) in gone)]
    merged = list(server)
    for item in items:
        assert isinstance(item, dict)
        wanted = _key(item, key)
        for position, existing in enumerate(merged):
            if isinstance(existing, dict) and existing.get(key) == wanted:
                merged[position] = _maps(existing, dict(item), node.items or ANYTHING)
                break
        else:
            merged.append(_clean(item))
    return _ordered(merged, items, server, key)


def _key(item: Object, key: str) -> object:
    if key not in item:
        raise BadPatchItem(f"map: {_go(item)} does not contain declared merge key: {key}")
    return item[key]


def _ordered(merged: list[object], wanted: Sequence[object], server: Sequence[object], key: str) -> list[object]:
    """``merged`` with what the patch names in the patch's order, and the rest where the server had it."""
    order = [_identity(item, key) for item in wanted]
    before = [_identity(item, key) for item in server]
    named = sorted((i for i in merged if _identity(i, key) in order), key=lambda i: order.index(_identity(i, key)))
    rest = [item for item in merged if _identity(item, key) not in order]
    rest.sort(key=lambda item: _position(before, _identity(item, key)))
    result: list[object] = []
    while named and rest:
        left, right = _position(before, _identity(rest[0], key)), _position(before, _identity(named[0], key))
        result.append(rest.pop(0) if 0 <= left < right else named.pop(0))
    return [*result, *named, *rest]


def _identity(item: object, key: str) -> object:
    return item.get(key) if key and isinstance(item, dict) else item


def _position(items: list[object], wanted: object) -> int:
    return items.index(wanted) if wanted in items else -1


def _clean(value: object) -> object:
    """A new value without the nulls and directives that only mean something against an old one.

    A map or an item that carries ``$patch`` is nothing but a directive here, and goes.
    """
    if isinstance(value, dict):
        return _clean_map(value)
    if isinstance(value, list):
        return [_clean(item) for item in value if not _is_directive(item)]
    return value


def _clean_map(value: Object) -> Object:
    return {
        key: _clean(item)
        for key, item in value.items()
        if item is not None
        and not _is_directive(item)
        and key not in (_PATCH, _RETAIN)
        and not key.startswith((_ORDER, _DELETE))
    }


def _is_directive(value: object) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _go(value: object) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return str(value)
