"""How structured merge sees a value beside its schema: as a map, a list whose items have names, or a scalar.

Maps and structs are granular unless marked atomic; lists are atomic unless they are sets or list maps. Where a custom
kind keeps unknown fields, maps are granular and lists atomic, as the value itself suggests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.fieldmanager import fieldset
from modelplane.server.schema.node import ANYTHING, MISSING, Node

SCALAR: Final = "scalar"
MAP: Final = "map"
LIST: Final = "list"


def below(node: Node, name: str) -> Node:
    """The schema of a field; anything for one that is not declared."""
    return node.field(name) or ANYTHING


def shape(node: Node, value: object) -> str:
    """Whether a value is walked into as map or list, or stands as one."""
    if isinstance(value, dict):
        return SCALAR if node.atomic else MAP
    if isinstance(value, list):
        return LIST if merges(node) else SCALAR
    return SCALAR


def merges(node: Node) -> bool:
    """Whether a list is walked into: a set or list map."""
    return node.list_type in ("set", "map") or (not node.list_type and "merge" in node.strategies)


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


def grouped(node: Node, items: list[object]) -> dict[str, list[object]]:
    """The items by their elements."""
    groups: dict[str, list[object]] = {}
    for element, item in elements(node, items):
        groups.setdefault(element, []).append(item)
    return groups


def hollow(value: object) -> bool:
    """Whether a value is absent, or there is nothing in it."""
    return value is MISSING or value is None or value == {} or value == []


def dict_of(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []
