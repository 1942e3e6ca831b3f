"""Rules of schemas compile or not, and may cost, what Kubernetes says.

``data/rules.jsonl`` was made by Kubernetes 1.36.3's own compiler and estimator: the costs are data, not ours to adapt. Its first
schema has rules by hand, one for each price; the others are random.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.plan.cel import RuleError
from modelplane.plan.cel.judging import judge
from modelplane.plan.cel.types import Type, optional_of
from modelplane.server.schema.declared import Declared, declared

LINES = [json.loads(line) for line in (Path(__file__).parent / "data" / "rules.jsonl").read_text().splitlines()]


def place(schema: dict[str, Any]) -> tuple[Declared, Type]:
    found = declared(schema, root=True)
    assert found is not None
    return found, found.named("selfType")


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_rule_has_the_verdict_and_the_cost_that_kubernetes_gives_it(line: dict[str, Any]) -> None:
    found, own = place(line["schema"])
    for rule, wanted in zip(line["schema"]["x-kubernetes-validations"], line["answers"], strict=True):
        variables = {"self": own, "oldSelf": optional_of(own) if rule.get("optionalOldSelf") else own}
        said = {"error": wanted.get("error", ""), "messageError": wanted.get("messageError", "")}
        costs = {"cost": 0, "messageCost": 0}
        got = {"error": "", "messageError": ""}
        what = "error"
        try:
            judged = judge(rule["rule"], variables, found.size, "bool")
            costs["cost"] = judged.cost
            assert ("oldSelf" in judged.names) == wanted["old"], rule
            if rule.get("messageExpression"):
                what = "messageError"
                costs["messageCost"] = judge(rule["messageExpression"], variables, found.size, "string").cost
        except RuleError as error:
            got[what] = str(error)
        assert costs == {name: wanted[name] for name in costs}, rule
        # What follows from a first mistake is not always told alike.
        assert {k: v.split("\nERROR")[0] for k, v in got.items()} == {
            k: v.split("\nERROR")[0] for k, v in said.items()
        }, rule


def test_a_rule_that_was_read_and_cannot_run_still_tells_what_it_names() -> None:
    _, own = place({"type": "object"})
    with pytest.raises(RuleError, match="instantiation failed") as refused:
        judge("oldSelf == self && {[1]: 1}[[1]] == 1", {"self": own, "oldSelf": own}, lambda _: None, "bool")
    assert "oldSelf" in refused.value.names


def test_a_rule_that_is_nested_deeper_than_the_interpreter_reaches_is_refused() -> None:
    text = "1"
    for _ in range(50):
        text = f"({text}{' + 1' * 200})"
    with pytest.raises(RuleError, match="compilation failed: expression recursion limit exceeded"):
        judge(f"{text} == 1", {}, lambda _: None, "bool")
