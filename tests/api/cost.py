"""A careful estimate of what a rule may cost an API server: Kubernetes refuses definitions whose rules could cost too much.

Kubernetes' estimator counts one unit per step, a tenth per character that is walked, and multiplies by the bounds of every
list and map around it. This one follows it and errs on the high side (both branches are paid, keys of maps are 317 characters
long).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from modelplane.plan.cel.parser import parse
from modelplane.plan.cel.syntax import Call, Fold, Ident, ListExpr, Literal, Node, Select, Source

PER_RULE: Final = 10_000_000
PER_DEFINITION: Final = 100_000_000
REQUEST: Final = 3 * 1024 * 1024
KEY: Final[dict[str, Any]] = {"type": "string", "maxLength": 317}
CHEAP: Final = {"_&&_", "_||_", "!_", "_?_:_", "_[_]", "size", "_<=_"}
STEP: Final = 1.0
PER_CHARACTER: Final = 0.1
Schema = Mapping[str, Any]


class Unbounded(Exception):
    """A rule touches something that has no bound; the text names it."""


def most(schema: Schema, what: str = "the value") -> int:
    """Most characters, entries or keys of a value."""
    type_ = schema.get("type")
    key = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}.get(str(type_))
    if type_ == "string" and "enum" in schema:
        return max(len(value) for value in schema["enum"])
    if key is None:
        return 1
    if key not in schema:
        raise Unbounded(f"{what} has no {key}")
    return int(schema[key])


class Estimate:
    """The cost of one rule at one place."""

    def __init__(self, schema: Schema) -> None:
        self._names: dict[str, Schema] = {"self": schema, "oldSelf": schema}

    def cost(self, text: str) -> float:
        return self._cost(parse(Source(text)))

    def _cost(self, node: Node) -> float:
        match node:
            case Literal():
                return 0
            case Ident():
                return STEP
            case Select():
                return STEP + self._cost(node.operand)
            case ListExpr():
                return 10 + sum(map(self._cost, node.elements))
            case Fold():
                over = self._schema(node.range)
                rounds = len(node.range.elements) if isinstance(node.range, ListExpr) else most(over, node.kind)
                item = KEY if over.get("type") == "object" else over.get("items", {})
                before = self._names.get(node.item)
                self._names[node.item] = item
                inside = self._cost(node.body)
                if before is None:
                    del self._names[node.item]
                else:
                    self._names[node.item] = before
                return self._cost(node.range) + rounds * (inside + 3 * STEP)
            case Call():
                arguments = [*([node.target] if node.target else []), *node.args]
                return sum(map(self._cost, arguments)) + self._call(node, arguments)
        raise NotImplementedError(f"{type(node).__name__}: teach the estimate what it costs")

    def _call(self, node: Call, arguments: list[Node]) -> float:
        if node.function in ("_==_", "_!=_"):
            return STEP + min(map(self._bounded, arguments)) * PER_CHARACTER  # it stops at the end of the shorter one
        if node.function in ("matches", "split", "startsWith"):
            subject = self._characters(arguments[0])
            if node.function == "matches":
                pattern = arguments[1]
                assert isinstance(pattern, Literal)
                return subject * PER_CHARACTER * max(1.0, len(str(pattern.value)) * 0.25)
            return STEP + subject * PER_CHARACTER
        if node.function not in CHEAP:
            # Text that a function makes has no bound for Kubernetes' estimator: it refuses `join` and `+` over map keys.
            raise NotImplementedError(f"{node.function}: see what a real API server says, and teach the estimate")
        return STEP

    def _bounded(self, node: Node) -> float:
        try:
            return self._characters(node)
        except Unbounded:
            return REQUEST

    def _characters(self, node: Node) -> float:
        if isinstance(node, Literal):
            return len(node.value) if isinstance(node.value, str) else 1
        schema = self._schema(node)
        return most(schema, "text") if schema.get("type") == "string" else 1

    def _schema(self, node: Node) -> Schema:
        """The schema of what a node yields; empty where it is no part of the object."""
        match node:
            case Ident():
                return self._names.get(node.name, {})
            case Select():
                found: Schema = self._schema(node.operand).get("properties", {}).get(node.field, {})
                return found
            case Call() if node.function == "_[_]":
                over = self._schema(node.args[0])
                inner: Schema = over.get("items") or over.get("additionalProperties") or KEY
                return inner
            case Call() if node.function == "split":
                return {"type": "array", "items": KEY, "maxItems": 317}
        return {}
