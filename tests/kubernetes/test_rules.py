"""Random rules of random schemas are taken or refused as Kubernetes would, with its words and its figure for what they cost."""

from __future__ import annotations

import os
import re
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from modelplane.plan.cel.judging import judge as judged
from modelplane.plan.cel.rules import RuleError
from modelplane.plan.cel.types import STRING, optional_of
from modelplane.server.schema.declared import declared
from tests.kubernetes.library import asked
from tests.kubernetes.rules import Grammar, schema
from tests.kubernetes.tally import count

RULES: Final = int(os.environ.get("MODELPLANE_RULES", "2400"))
"""For each seed."""
SEEDS: Final = [int(seed) for seed in os.environ.get("MODELPLANE_RULE_SEEDS", "20261129 20261130").split()]
EACH: Final = 8
"""Rules of one schema."""
LONGEST: Final = 3000


def question(random: Random) -> dict[str, Any]:
    root: dict[str, Any] = {"type": "object", "properties": {name: schema(random) for name in ("spec", "list", "any")}}
    grammar = Grammar(random, root)
    rules: list[dict[str, Any]] = []
    while len(rules) < EACH:
        rule: dict[str, Any] = {"rule": grammar.rule()}
        if random.random() < 0.2:
            rule["messageExpression"] = grammar.rule(STRING)
        if random.random() < 0.1:
            rule = {"rule": f"oldSelf.hasValue() || {rule['rule']}", "optionalOldSelf": True}
        if len(rule["rule"]) < LONGEST:
            rules.append(rule)
    return {"schema": {**root, "x-kubernetes-validations": rules}, "root": True}


def answer(root: dict[str, Any]) -> list[dict[str, Any]]:
    """What we say about each rule, as the library does."""
    found = declared(root, root=True)
    assert found is not None
    own = found.named("selfType")
    answers = []
    for rule in root["x-kubernetes-validations"]:
        one: dict[str, Any] = {"cost": 0, "cardinality": 0, "old": False, "messageCost": 0}
        answers.append(one)
        variables = {"self": own, "oldSelf": optional_of(own) if rule.get("optionalOldSelf") else own}
        what = "error"
        try:
            cost, names = judged(rule["rule"], variables, found.size, "bool")
            one |= {"cost": cost, "cardinality": found.times, "old": "oldSelf" in names}
            if rule.get("messageExpression"):
                what = "messageError"
                one["messageCost"] = judged(rule["messageExpression"], variables, found.size, "string").cost
        except RuleError as error:
            one[what] = str(error)
            one["old"] = one["old"] or "oldSelf" in error.names
    return answers


def comparable(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the first of several mistakes: what follows from one is not always told alike."""
    found = [dict(one) for one in answers]
    for one in found:
        for what in ("error", "messageError"):
            if what in one:
                one[what] = re.sub(r"selfType\d+", "selfType", one[what]).split("\nERROR: ")[0]
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_random_rule_is_judged_differently_than_in_kubernetes(judge: Path, seed: int) -> None:
    random = Random(seed)
    judged("true", {}, lambda _: None, "bool")  # the grammar is made from the table of functions
    questions = [question(random) for _ in range(RULES // EACH)]
    differing, refused, taken = [], 0, 0
    for each, real in zip(questions, asked(judge, questions, "schemas"), strict=True):
        if "fell" in real:  # the library itself falls over some texts
            continue
        rules = each["schema"]["x-kubernetes-validations"]
        for rule, ours, theirs in zip(
            rules, comparable(answer(each["schema"])), comparable(real["rules"]), strict=True
        ):
            refused, taken = refused + ("error" in theirs), taken + ("error" not in theirs)
            if ours != theirs:
                differing.append(f"{rule}\n  ours: {ours}\n  real: {theirs}")
    assert not differing, f"seed {seed}, {len(differing)} rules differ:\n" + "\n".join(sorted(differing, key=len)[:10])
    assert taken > 0.8 * RULES
    assert refused > 0.02 * RULES
    count("rules with their costs", taken + refused)
