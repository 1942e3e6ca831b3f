"""No rule of ours may cost an API server much of what it allows, nor all rules of a definition together."""

from __future__ import annotations

import pytest

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.schema import root_schema
from modelplane.api.shape import Definition
from modelplane.server.builtin import crdrules

HEADROOM = 10
"""What another version of Kubernetes may count more."""


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.gvk.kind)
def test_rules_compile_and_stay_far_within_their_budgets(definition: Definition) -> None:
    found = crdrules.judged(root_schema(definition), "")
    assert [str(error) for error in found.errors] == []
    assert [(path, cost) for path, cost in found.costs.items() if cost * HEADROOM > crdrules.PER_RULE] == []
    assert sum(found.costs.values()) * HEADROOM < crdrules.PER_DEFINITION
