"""No rule may cost an API server more than it allows, nor all rules of a definition together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.schema import root_schema
from modelplane.api.shape import Definition
from tests.api.cost import PER_DEFINITION, PER_RULE, Estimate, Unbounded, most


def costs(schema: dict[str, Any], path: str, times: float) -> Iterator[tuple[str, str, float]]:
    """Every rule with its place and its cost, over all values that may stand there."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule["rule"], times * Estimate(schema).cost(rule["rule"])
    for name, inner in schema.get("properties", {}).items():
        yield from costs(inner, f"{path}.{name}", times)
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        inner = schema.get(key)
        if isinstance(inner, dict) and "x-kubernetes-validations" in str(inner):
            yield from costs(inner, path + step, times * most(schema, path))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.gvk.kind)
def test_rules_stay_within_their_budgets(definition: Definition) -> None:
    found = list(costs(root_schema(definition), "", 1))
    assert [(path, rule, cost) for path, rule, cost in found if cost > PER_RULE] == []
    assert sum(cost for _, _, cost in found) < PER_DEFINITION


def test_a_rule_over_something_unbounded_is_found() -> None:
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    with pytest.raises(Unbounded, match="maxProperties"):
        Estimate({"type": "object", "properties": {"labels": labels}}).cost("self.labels.all(k, k != '')")


def test_nested_loops_and_patterns_are_multiplied() -> None:
    names = {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 1000}}
    once = Estimate(names).cost("self.all(a, a.matches('^[a-z]{1,40}$'))")
    twice = Estimate(names).cost("self.all(a, self.all(b, a.matches('^[a-z]{1,40}$')))")
    assert once > 100 * 1000 * 0.1
    assert twice > 100 * once
