"""The walks of structured merge over values and their schema: comparison, merge, removal, and what cannot be applied."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from modelplane.api.meta import Object
from modelplane.server.equality import same
from modelplane.server.fieldmanager import fieldset
from modelplane.server.fieldmanager.claims import gained
from modelplane.server.fieldmanager.fieldset import FieldSet, Path
from modelplane.server.fieldmanager.shapes import (
    LIST,
    MAP,
    SCALAR,
    below,
    dict_of,
    element_of,
    elements,
    grouped,
    hollow,
    list_of,
    shape,
)
from modelplane.server.schema.node import ANYTHING, MISSING, Node
from modelplane.server.schema.sound import sound


@dataclass
class Comparison:
    """What became of the fields of one object on its way to another."""

    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)


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
        found.added.attach(path, FieldSet.decode(gained(node, new)))
        return
    before_kind = "" if old is None else shape(node, old)
    after_kind = "" if new is None or new is MISSING else shape(node, new)
    if before_kind and after_kind and before_kind != after_kind:
        _half(node, old, path, found, gone=True)
        _half(node, new, path, found, gone=False)
        return
    kind = before_kind or after_kind or SCALAR
    if kind == SCALAR or (hollow(old) and hollow(new)):
        _leaf(old, new, path, found)
        return
    if kind == MAP:
        before, after = dict_of(old), dict_of(new)
        fresh: FieldSet | None = None
        for name, item in after.items():
            former = before.get(name, MISSING)
            if former is MISSING:
                if fresh is None:
                    fresh = found.added.place(path)
                _gain(below(node, name), name, item, fresh)
            elif former is not item:
                _compare(below(node, name), former, item, (*path, fieldset.field(name)), found)
        for name in before.keys() - after.keys():
            _compare(below(node, name), before[name], MISSING, (*path, fieldset.field(name)), found)
    else:
        _compare_items(node, list_of(old), list_of(new), path, found)
    if new is MISSING:
        found.removed.insert(path)


def _gain(node: Node, name: str, value: object, found: FieldSet) -> None:
    """Add a field that was not there before, and everything below it."""
    element = fieldset.field(name)
    found.members.add(element)
    if isinstance(value, dict | list) and (deeper := FieldSet.decode(gained(node, value))):
        found.children[element] = deeper


def _half(node: Node, value: object, path: Path, found: Comparison, *, gone: bool) -> None:
    """One side of a value that was of one shape and is of another."""
    if shape(node, value) == SCALAR or hollow(value):
        found.modified.insert(path)
        return
    children = (
        [(fieldset.field(name), below(node, name), child) for name, child in value.items()]
        if isinstance(value, dict)
        else [(element, node.items or ANYTHING, item) for element, item in elements(node, list_of(value))]
    )
    for element, child, item in children:
        _compare(child, item if gone else MISSING, MISSING if gone else item, (*path, element), found)


def _leaf(old: object, new: object, path: Path, found: Comparison) -> None:
    if new is MISSING:
        found.removed.insert(path)
    elif not same(old, new):
        found.modified.insert(path)


def _compare_items(node: Node, old: list[object], new: list[object], path: Path, found: Comparison) -> None:
    before, after = grouped(node, old), grouped(node, new)
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


def merge(node: Node, live: object, applied: object) -> object:
    """The live value with an applied configuration laid over it."""
    if applied is MISSING:
        return live
    if live is MISSING:
        return applied
    kind = shape(node, applied if applied is not None else live)
    if (live is not None and applied is not None and shape(node, live) != kind) or (hollow(live) and hollow(applied)):
        return applied
    if kind == MAP:
        before, after = dict_of(live), dict_of(applied)
        return {
            name: merge(below(node, name), before.get(name, MISSING), after.get(name, MISSING))
            for name in {**before, **after}
        }
    if kind == LIST:
        return _merge_items(node, list_of(live), list_of(applied))
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
    if kind == MAP:
        assert isinstance(value, dict)
        kept: Object = {}
        for name, child in value.items():
            element = fieldset.field(name)
            if element in gone.members:
                continue
            deeper = gone.below(element)
            kept[name] = remove(below(node, name), child, deeper) if deeper else child
        return kept
    if kind == LIST:
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
    elif isinstance(value, list) and shape(node, value) == LIST:
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
