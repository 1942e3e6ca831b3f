"""The rule engine of the server: CEL over values of a schema.

What a schema gives a format that CEL has a type for is converted first: date-times, durations, bytes, and numbers,
which JSON writes like integers. Compiled rules are shared by expression.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from modelplane.plan.cel import compile_rule
from modelplane.plan.cel.functions.times import to_duration, to_timestamp
from modelplane.plan.cel.values import Optional
from modelplane.server.schema.node import Node
from modelplane.server.schema.rules import Evaluate

_FORMATS: Mapping[str, Callable[[str], object]] = {
    "date-time": to_timestamp,
    "datetime": to_timestamp,
    "duration": to_duration,
    "byte": lambda text: base64.b64decode(text),
}


class CelEngine:
    """Compiles ``x-kubernetes-validations``. One engine serves all schemas of a process."""

    def compile(self, expression: str, node: Node, *, result: str = "bool", optional_old: bool = False) -> Evaluate:
        transition = "oldSelf" in expression
        rule = compile_rule(expression, ("self", "oldSelf") if transition else ("self",), result)
        converts = _converts(node, {})

        def evaluate(values: Mapping[str, object]) -> object:
            own = _converted(node, values["self"]) if converts else values["self"]
            if not transition:
                return rule.evaluate(self=own)
            old: object = values.get("oldSelf")
            before = _converted(node, old) if converts and old is not None else old
            if optional_old:
                before = Optional(old is not None, before)
            # `self` is a name of the language here; the mapping keeps it apart from Python's.
            return rule.evaluate(self=own, oldSelf=before)

        return evaluate


def _converts(node: Node, seen: dict[int, bool]) -> bool:
    """Whether anything in a schema needs conversion."""
    if id(node) not in seen:
        seen[id(node)] = False
        below = [*node.properties.values(), node.additional, node.items]
        seen[id(node)] = (
            node.type == "number"
            or node.constraints.get("format") in _FORMATS
            or any(child is not None and _converts(child, seen) for child in below)
        )
    return seen[id(node)]


def _converted(node: Node, value: object) -> object:
    if isinstance(value, dict):
        return {
            name: item if (child := node.field(name)) is None else _converted(child, item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return value if node.items is None else [_converted(node.items, item) for item in value]
    if node.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    convert = _FORMATS.get(node.constraints.get("format", ""))
    return convert(value) if convert is not None and isinstance(value, str) else value
