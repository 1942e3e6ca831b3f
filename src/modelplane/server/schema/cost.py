"""What a rule may cost: definitions whose rules walk over things without bound are refused, as Kubernetes refuses them.

The estimate stays on the low side of Kubernetes' own: loops count by the bounds around them, or by how many of the smallest
entries fit into a request where there is none, and text counts where a pattern is searched in it. What it lets pass, a real API
server may still refuse; what it refuses, no real one takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from modelplane.plan.cel.parser import parse
from modelplane.plan.cel.syntax import Bind, Call, CelError, Fold, Ident, ListExpr, Literal, Node, Select, Source

LIMIT: Final = 10_000_000
_REQUEST: Final = 3 * 1024 * 1024 - 2
_LOOPS: Final = re.compile(r"\.(all|exists|existsOne|exists_one|map|filter|transform\w+)\(")
_SMALLEST: Final = {"string": 2, "integer": 1, "number": 1, "boolean": 4, "array": 2, "object": 2}

Schema = Mapping[str, Any]


def most(schema: Schema) -> int:
    """Most entries of a list or map, most characters of a text."""
    match schema.get("type"):
        case "array":
            return int(schema.get("maxItems", _REQUEST // (_smallest(schema.get("items") or {}) + 1)))
        case "object" if "additionalProperties" in schema:
            return int(schema.get("maxProperties", _REQUEST // (_smallest(schema["additionalProperties"]) + 6)))
        case "string" if "enum" not in schema and "format" not in schema:
            return int(schema.get("maxLength", _REQUEST))
    return 1


def _smallest(schema: Any) -> int:
    """Bytes of the smallest value; an object with required fields is larger, which only lowers the estimate."""
    if not isinstance(schema, Mapping):
        return 2
    required = schema.get("required") or ()
    fields = schema.get("properties") or {}
    return _SMALLEST.get(str(schema.get("type")), 2) + sum(
        len(name) + 4 + _smallest(fields.get(name) or {}) for name in required
    )


def excess(rule: str, schema: Schema, times: int = 1) -> float:
    """By what factor a rule at a place that exists ``times`` times costs too much; 1 or less is within the limit."""
    if not _LOOPS.search(rule):
        return 0.0
    try:
        tree = parse(Source(rule))
    except CelError:
        return 0.0  # the compiler says it better
    return times * _cost(tree, {"self": schema, "oldSelf": schema}) / LIMIT


def told(factor: float) -> str:
    """The refusal, in Kubernetes' words."""
    much = "more than 100x" if factor > 100 else f"{factor:.1f}x"
    return (
        f"estimated rule cost exceeds budget by factor of {much} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _cost(node: Node, names: Mapping[str, Schema]) -> float:
    match node:
        case Select():
            return _cost(node.operand, names)
        case ListExpr():
            return sum(_cost(element, names) for element in node.elements)
        case Bind():
            return _cost(node.value, names) + _cost(node.body, {**names, node.name: _schema(node.value, names)})
        case Fold():
            over = _schema(node.range, names)
            rounds = len(node.range.elements) if isinstance(node.range, ListExpr) else most(over)
            key = {"type": "string", "maxLength": 0}
            value = over.get("items") or over.get("additionalProperties") or {}
            inside = dict(names)
            if node.key is None:
                inside[node.item] = value if over.get("type") == "array" else key
            else:
                inside |= {node.key: key, node.item: value}
            return _cost(node.range, names) + rounds * (1 + _cost(node.body, inside))
        case Call():
            parts = [*([node.target] if node.target else []), *node.args]
            spent = 1 + sum(_cost(part, names) for part in parts)
            if node.function == "matches" and len(parts) == 2 and isinstance(parts[1], Literal):
                spent += _characters(parts[0], names) * 0.1 * max(1.0, len(str(parts[1].value)) * 0.25)
            return spent
    return 0.0


def _characters(node: Node, names: Mapping[str, Schema]) -> int:
    schema = _schema(node, names)
    return most(schema) if schema.get("type") == "string" else 0


def _schema(node: Node, names: Mapping[str, Schema]) -> Schema:
    """The schema of what a node yields; empty where it is no part of the object."""
    match node:
        case Ident():
            return names.get(node.name, {})
        case Select() if not node.test:
            found: Schema = (_schema(node.operand, names).get("properties") or {}).get(node.field) or {}
            return found
        case Call() if node.function == "_[_]":
            over = _schema(node.args[0], names)
            inner = over.get("items") or over.get("additionalProperties")
            return inner if isinstance(inner, Mapping) else {}
    return {}
