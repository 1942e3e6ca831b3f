"""Whether there is nothing to say about a value: the common case, found in one pass.

Decoding, pruning and validation each walk a value beside its schema, and most of the time all three only find that it is
right. A node's check is made of closures when it is first needed, and is true only for a value that each of them would
leave as it is, whatever was stored before. Where it is false the walks decide and have the words; it may be false for a
value that they pass as well.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Final

from modelplane.server.schema.decode import type_mismatch
from modelplane.server.schema.errors import FieldError
from modelplane.server.schema.formats import RANGES, conforms, is_quantity, pattern
from modelplane.server.schema.node import Node, Sound
from modelplane.server.schema.validate import constraints, key_of

_TEXTS: Final = frozenset({str})
_TYPES: Final = {"string": str, "integer": int, "boolean": bool}
_SIZES: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def sound(node: Node, value: object) -> bool:
    """True: known fields, right types, nothing null, all that is required, within limits, no item twice."""
    return _check(node)(value)


def _check(node: Node) -> Sound:
    made = node.sound
    if made is None:
        made = node.sound = _limited(node, _shape(node))
    return made


def _shape(node: Node) -> Sound:
    if node.embedded:
        return _nothing
    if node.type == "array":
        return _list(node)
    if node.type == "object":
        if node.properties or node.required:
            return _struct(node)
        if node.additional is not None:
            return _map(node.additional)
        return _any_object if node.preserve else _empty_object
    if node.type == "":
        bare = not node.properties and node.additional is None and node.items is None
        return _anything if node.preserve and bare else _nothing
    return _LEAVES[node.type]


def _limited(node: Node, shape: Sound) -> Sound:
    """A shape with the limits of its node. Those that are usual are compared here, the others where they have words."""
    rules = node.constraints
    if not rules:
        return shape
    if node.type == "string" and rules.keys() <= {"minLength", "maxLength"}:
        least, most = rules.get("minLength", 0), rules.get("maxLength", sys.maxsize)
        return lambda value: type(value) is str and least <= len(value) <= most
    if (
        node.type == "integer"
        and rules.keys() <= {"minimum", "maximum", "format"}
        and rules.get("format", "int64") in RANGES
    ):
        low, high = RANGES[rules.get("format", "int64")] if "format" in rules else (-math.inf, math.inf)
        low, high = max(low, rules.get("minimum", low)), min(high, rules.get("maximum", high))
        return lambda value: type(value) is int and low <= value <= high
    tests = [test for name, test in _limits(node) if name in rules]
    if len(tests) < len(rules):

        def passes(value: object) -> bool:
            errors: list[FieldError] = []
            constraints(node, value, "", errors)
            return not errors

        tests = [passes]
    for test in tests:
        shape = _both(shape, test)
    return shape


def _both(first: Sound, second: Sound) -> Sound:
    return lambda value: first(value) and second(value)


def _limits(node: Node) -> list[tuple[str, Sound]]:
    """The usual limits by name, for values that have the node's shape."""
    rules = node.constraints
    low, high = rules.get("minimum", 0), rules.get("maximum", 0)
    least, most = (rules.get(name, 0) for name in _SIZES.get(node.type, ("", "")))
    format_, expression = rules.get("format", ""), rules.get("pattern", "")
    found: list[tuple[str, Sound]] = []
    if node.type in ("integer", "number") and not rules.get("exclusiveMinimum") and not rules.get("exclusiveMaximum"):
        found += [("minimum", lambda value: value >= low), ("maximum", lambda value: value <= high)]
    if node.type in _SIZES:
        shortest, longest = _SIZES[node.type]
        found += [(shortest, lambda value: len(value) >= least), (longest, lambda value: len(value) <= most)]  # type: ignore[arg-type]
    if node.type == "string" and expression:
        found.append(("pattern", lambda value: pattern(expression).search(value) is not None))  # type: ignore[arg-type]
    if format_ == "byte":
        found.append(("format", lambda value: conforms(format_, value) and not type_mismatch(node, value)))
    else:
        found.append(("format", lambda value: conforms(format_, value)))
    return found


def _struct(node: Node) -> Sound:
    properties, additional, required, preserve = (
        node.properties,
        node.additional,
        frozenset(node.required),
        node.preserve,
    )

    plain = {
        name: _TYPES[below.type] for name, below in properties.items() if below.type in _TYPES and not below.constraints
    }

    def check(value: object) -> bool:
        if type(value) is not dict:
            return False
        for name, item in value.items():
            if type(item) is plain.get(name):
                continue
            below = properties.get(name) or additional
            if below is None:
                if not preserve:
                    return False
            elif not (below.sound or _check(below))(item):
                return False
        return required <= value.keys()

    return check


def _map(values: Node) -> Sound:
    if values.type == "string" and not values.constraints:
        return lambda value: type(value) is dict and _TEXTS.issuperset(map(type, value.values()))

    def check(value: object) -> bool:
        return type(value) is dict and all(map(_check(values), value.values()))

    return check


def _list(node: Node) -> Sound:
    items, keyed = node.items, node.list_type == "map"
    if not node.list_type and "merge" in node.strategies:
        return lambda value: value == [] and type(value) is list

    def check(value: object) -> bool:
        if type(value) is not list or (items is not None and not all(map(_check(items), value))):
            return False
        if keyed and not all(type(item) is dict and all(key in item for key in node.map_keys) for item in value):
            return False
        if node.list_type == "set" and any(type(item) in (dict, list) for item in value):
            return False
        unique = keyed or node.list_type == "set"
        return not unique or len({key_of(node, item) for item in value}) == len(value)

    return check


def _nothing(_: object) -> bool:
    return False


def _anything(_: object) -> bool:
    return True


def _any_object(value: object) -> bool:
    return type(value) is dict


def _empty_object(value: object) -> bool:
    return type(value) is dict and not value


_LEAVES: Final[Mapping[str, Sound]] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "int-or-string": lambda value: type(value) is str or type(value) is int,
    "quantity": is_quantity,
}
