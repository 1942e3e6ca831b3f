"""The four walks of structured merge over a value and its schema: its field set, comparison, merge, removal.

Maps and structs are granular unless marked atomic; lists are atomic unless they are sets or list maps. Where a custom
kind keeps unknown fields, maps are granular and lists atomic, as the value itself suggests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.equality import same
from modelplane.server.fieldmanager import fieldset
from modelplane.server.fieldmanager.fieldset import FieldSet, Path
from modelplane.server.schema.node import ANYTHING, MISSING, Node
from modelplane.server.schema.sound import sound

_SCALAR: Final = "scalar"
_MAP: Final = "map"
_LIST: Final = "list"


@dataclass
class Comparison:
    """What became of the fields of one object on its way to another."""

    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)


def below(node: Node, name: str) -> Node:
    """The schema of a field; anything for one that is not declared."""
    return node.field(name) or ANYTHING


def shape(node: Node, value: object) -> str:
    """Whether a value is walked into as map or list, or stands as one."""
    if isinstance(value, dict):
        return _SCALAR if node.atomic else _MAP
    if isinstance(value, list):
        merges = node.list_type in ("set", "map") or (not node.list_type and "merge" in node.strategies)
        return _LIST if merges else _SCALAR
    return _SCALAR


def element_of(node: Node, item: object) -> str:
    """The path element of a list item. Raises ValueError for an item that cannot have one."""
    key_names = node.map_keys or ((node.merge_key,) if node.merge_key else ())
    if not key_names:
        if isinstance(item, dict | list) or item is None:
            raise ValueError("associative list without keys has an element that's a map, a list or an explicit null")
        return fieldset.item(item)
    if not isinstance(item, dict):
        raise ValueError("associative list with keys may not have non-map elements")
    found: Object = {}
    for name in key_names:
        declared = below(node.items or ANYTHING, name).default
        if name in item:
            found[name] = item[name]
        elif declared is not MISSING:
            found[name] = declared
    if not found:
        told = ", ".join(f'"{name}"' for name in key_names)
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{told}] "
            "(and doesn't have default values for any key fields)"
        )
    return fieldset.keys(found)


def elements(node: Node, items: Sequence[object]) -> list[tuple[str, object]]:
    """The items with their elements, leaving out those that have none: a stored object may be from older rules."""
    found = []
    for item in items:
        try:
            found.append((element_of(node, item), item))
        except ValueError:
            continue
    return found


def field_set(node: Node, value: object) -> FieldSet:
    """The paths that a configuration claims."""
    found = FieldSet()
    kind = shape(node, value)
    if kind == _MAP:
        assert isinstance(value, dict)
        for name, child in value.items():
            node_below = below(node, name)
            whole = child is None or child == {} or name not in node.properties
            _claim(node_below, child, fieldset.field(name), found, whole=whole)
    elif kind == _LIST:
        assert isinstance(value, list)
        for element, item in elements(node, value):
            if element not in found.members:
                _claim(node.items or ANYTHING, item, element, found, whole=True)
    return found


def _claim(node: Node, value: object, element: str, found: FieldSet, *, whole: bool) -> None:
    """Add what one field or item claims; a ``whole`` one itself besides what is below it."""
    if whole or shape(node, value) == _SCALAR:
        found.members.add(element)
    if isinstance(value, dict | list):
        deeper = field_set(node, value)
        if deeper:
            found.children[element] = deeper


def all_below(node: Node, value: object) -> FieldSet:
    """All paths below a value that was not there before."""
    found = FieldSet()
    if _hollow(value):
        return found
    kind = shape(node, value)
    if kind == _MAP:
        assert isinstance(value, dict)
        for name, child in value.items():
            _gain(node, name, child, found)
    elif kind == _LIST:
        for element, items in _grouped(node, _list(value)).items():
            found.members.add(element)
            if len(items) == 1 and (deeper := all_below(node.items or ANYTHING, items[0])):
                found.children[element] = deeper
    return found


def _gain(node: Node, name: str, value: object, found: FieldSet) -> None:
    """Add a field that was not there before, and everything below it."""
    element = fieldset.field(name)
    found.members.add(element)
    if isinstance(value, dict | list) and (deeper := all_below(below(node, name), value)):
        found.children[element] = deeper


def compare(node: Node, old: object, new: object) -> Comparison:
    """Added, modified and removed paths; either side may be absent (``MISSING``)."""
    found = Comparison()
    _compare(node, old, new, (), found)
    return found


def _compare(node: Node, old: object, new: object, path: Path, found: Comparison) -> None:
    if old is new or (type(old) is type(new) and old == new):
        return
    if old is MISSING:
        found.added.insert(path)
        found.added.attach(path, all_below(node, new))
        return
    before_kind = "" if old is None else shape(node, old)
    after_kind = "" if new is None or new is MISSING else shape(node, new)
    if before_kind and after_kind and before_kind != after_kind:
        _half(node, old, path, found, gone=True)
        _half(node, new, path, found, gone=False)
        return
    kind = before_kind or after_kind or _SCALAR
    if kind == _SCALAR or (_hollow(old) and _hollow(new)):
        _leaf(old, new, path, found)
        return
    if kind == _MAP:
        before, after = _dict(old), _dict(new)
        gained: FieldSet | None = None
        for name, item in after.items():
            former = before.get(name, MISSING)
            if former is MISSING:
                if gained is None:
                    gained = found.added.place(path)
                _gain(node, name, item, gained)
            elif former is not item:
                _compare(below(node, name), former, item, (*path, fieldset.field(name)), found)
        for name in before.keys() - after.keys():
            _compare(below(node, name), before[name], MISSING, (*path, fieldset.field(name)), found)
    else:
        _compare_items(node, _list(old), _list(new), path, found)
    if new is MISSING:
        found.removed.insert(path)


def _half(node: Node, value: object, path: Path, found: Comparison, *, gone: bool) -> None:
    """One side of a value that was of one shape and is of another."""
    if shape(node, value) == _SCALAR or _hollow(value):
        found.modified.insert(path)
        return
    children = (
        [(fieldset.field(name), below(node, name), child) for name, child in value.items()]
        if isinstance(value, dict)
        else [(element, node.items or ANYTHING, item) for element, item in elements(node, _list(value))]
    )
    for element, child, item in children:
        _compare(child, item if gone else MISSING, MISSING if gone else item, (*path, element), found)


def _hollow(value: object) -> bool:
    return value is MISSING or value is None or value == {} or value == []


def _dict(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _leaf(old: object, new: object, path: Path, found: Comparison) -> None:
    if new is MISSING:
        found.removed.insert(path)
    elif not same(old, new):
        found.modified.insert(path)


def _compare_items(node: Node, old: list[object], new: list[object], path: Path, found: Comparison) -> None:
    before, after = _grouped(node, old), _grouped(node, new)
    child = node.items or ANYTHING
    for element in {**before, **after}:
        lefts, rights = before.get(element, []), after.get(element, [])
        at = (*path, element)
        if len(lefts) <= 1 and len(rights) <= 1:
            _compare(child, lefts[0] if lefts else MISSING, rights[0] if rights else MISSING, at, found)
        elif len(lefts) > 1 and len(rights) > 1:
            if not same(lefts, rights):
                found.modified.insert(at)
        elif len(lefts) > 1:
            if rights:
                _compare(child, MISSING, rights[0], at, found)
            found.removed.insert(at)
        else:
            if lefts:
                _compare(child, lefts[0], MISSING, at, found)
            found.added.insert(at)


def _grouped(node: Node, items: list[object]) -> dict[str, list[object]]:
    groups: dict[str, list[object]] = {}
    for element, item in elements(node, items):
        groups.setdefault(element, []).append(item)
    return groups


def merge(node: Node, live: object, applied: object) -> object:
    """The live value with an applied configuration laid over it."""
    if applied is MISSING:
        return live
    if live is MISSING:
        return applied
    kind = shape(node, applied if applied is not None else live)
    if (live is not None and applied is not None and shape(node, live) != kind) or (_hollow(live) and _hollow(applied)):
        return applied
    if kind == _MAP:
        before, after = _dict(live), _dict(applied)
        return {
            name: merge(below(node, name), before.get(name, MISSING), after.get(name, MISSING))
            for name in {**before, **after}
        }
    if kind == _LIST:
        return _merge_items(node, _list(live), _list(applied))
    return applied


def _merge_items(node: Node, live: list[object], applied: list[object]) -> list[object]:
    """Applied items in their order; live items that nobody applied keep their place between them."""
    old, new = elements(node, live), elements(node, applied)
    old_values: dict[str, object] = {}
    for element, item in old:
        old_values[element] = MISSING if element in old_values else item
    new_values = dict(new)
    shared = [element for element, _ in new if element in old_values]
    child = node.items or ANYTHING
    out: list[object] = []
    merged: set[str] = set()
    left = right = 0

    def take() -> None:
        nonlocal right
        element = new[right][0]
        merged.add(element)
        out.append(merge(child, old_values.get(element, MISSING), new_values[element]))
        right += 1
        if shared and shared[0] == element:
            shared.pop(0)

    while left < len(old) or right < len(new):
        if left < len(old) and right < len(new):
            element = old[left][0]
            if element == new[right][0]:
                left += 1
                take()
                continue
            if element in new_values and shared and shared[0] != element:
                left += 1
                continue
        if left < len(old):
            element, item = old[left]
            if element not in new_values:
                out.append(item)
                left += 1
                continue
            if element in merged:
                left += 1
        if right < len(new):
            take()
    return out


def remove(node: Node, value: object, gone: FieldSet) -> object:
    """The value without the fields and items of a set; emptied maps and lists stay, empty."""
    kind = shape(node, value)
    if kind == _MAP:
        assert isinstance(value, dict)
        kept: Object = {}
        for name, child in value.items():
            element = fieldset.field(name)
            if element in gone.members:
                continue
            deeper = gone.below(element)
            kept[name] = remove(below(node, name), child, deeper) if deeper else child
        return kept
    if kind == _LIST:
        assert isinstance(value, list)
        items = []
        for item in value:
            try:
                element = element_of(node, item)
            except ValueError:
                items.append(item)
                continue
            if element not in gone.members:
                deeper = gone.below(element)
                items.append(remove(node.items or ANYTHING, item, deeper) if deeper else item)
        return items
    return value


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    """The set, and every declared field on the way to its paths: owning ``a.b.c`` owns the structs around it."""
    made = FieldSet()
    made.members = set(fields.members)
    for element, deeper in fields.children.items():
        name = element[2:]
        if element.startswith("f:"):
            if name in node.properties:
                made.members.add(element)
            child = below(node, name)
        else:
            child = node.items or ANYTHING
        made.children[element] = with_named_fields(child, deeper)
    return made


def undeclared(node: Node, value: object) -> list[str]:
    """What keeps a configuration from being applied: undeclared fields, bad or repeated list items, wrong types."""
    return [] if sound(node, value) else _undeclared(node, value, ())


def _undeclared(node: Node, value: object, path: Path) -> list[str]:
    if value is None or node is ANYTHING:
        return []
    where = fieldset.readable(path)
    wanted = {"object": dict, "array": list, "string": str, "boolean": bool}.get(node.type)
    if node.type in ("integer", "number") and (isinstance(value, bool) or not isinstance(value, int | float)):
        return [f"{where}: expected numeric (int or float), got {_go(value)}"]
    if wanted is not None and not isinstance(value, wanted):
        word = {"object": "map", "array": "list", "string": "string", "boolean": "boolean"}[node.type]
        return [f"{where}: expected {word}, got {_go(value)}"]
    found: list[str] = []
    if isinstance(value, dict) and not node.atomic:
        for name, child in value.items():
            at = (*path, fieldset.field(name))
            declared = node.field(name)
            if declared is not None:
                found += _undeclared(declared, child, at)
            elif not node.preserve and not (node.embedded and name in ("apiVersion", "kind", "metadata")):
                found.append(f"{fieldset.readable(at)}: field not declared in schema")
    elif isinstance(value, list) and shape(node, value) == _LIST:
        seen: set[str] = set()
        for position, item in enumerate(value):
            try:
                element = element_of(node, item)
            except ValueError as error:
                found.append(f"{where}: element {position}: {error}")
                continue
            if element in seen:
                found.append(f"{where}: duplicate entries for key {fieldset.readable((element,))}")
            seen.add(element)
            found += _undeclared(node.items or ANYTHING, item, (*path, element))
    elif isinstance(value, list) and node.items is not None:
        for position, item in enumerate(value):
            found += _undeclared(node.items, item, (*path, f"i:{position}"))
    return found


def _go(value: object, outer: bool = True) -> str:
    """A value as kube-apiserver prints it in such a sentence: in the syntax of its programming language."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_go(key, False)}:{_go(value[key], False)}" for key in sorted(value))
        text = f"map[string]interface {{}}{{{inner}}}"
    elif isinstance(value, list):
        text = f"[]interface {{}}{{{', '.join(_go(item, False) for item in value)}}}"
    elif value is None:
        text = "interface {}(nil)"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return f"&value.valueUnstructured{{Value:{text}}}" if outer else text
