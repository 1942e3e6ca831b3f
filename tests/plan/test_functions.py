"""Selectors over every function of the dialect have the answer that real Kubernetes gave.

Drawn at random from the table of functions and kept where they went a way through the evaluator that none before them had gone, and
written by hand for what is left; put to Kubernetes 1.36.3's own compiler and evaluator. The file is data, not ours to adapt.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelplane.plan.cel import BoundDevice, Error, Match, compile_selector
from modelplane.plan.cel.program import Program
from modelplane.plan.cel.syntax import Fault
from modelplane.plan.cel.types import DYN
from tests.plan.test_vectors import DATA, judge, require_equal

VECTORS = [json.loads(line) for line in (DATA / "functions.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("vector", VECTORS, ids=[str(number) for number in range(1, len(VECTORS) + 1)])
def test_a_selector_of_any_function_answers_as_kubernetes_does(vector: dict[str, Any]) -> None:
    require_equal(vector["expression"], vector["base"], judge(vector["expression"], lists=False))


@pytest.mark.parametrize(
    ("attribute", "expression", "reason"),
    [
        ({"versions": ["1.2.3", "2.0.0"]}, 'size(A) == 2 && semver("2.0.0") in A', "versions in a list are versions"),
        ({"ints": [1, 2]}, "2 in A", "numbers"),
        ({"bools": [True]}, "true in A", "truths"),
        ({"strings": ["a"]}, '"a" in A', "texts"),
        ({"ints": [1, 2]}, "A == [1, 2] && [1] != A", "a list is equal to one that was written"),
    ],
)
def test_an_attribute_of_several_values_is_a_list(attribute: dict[str, Any], expression: str, reason: str) -> None:
    device = BoundDevice("d", {"links": attribute}, {}, list_attributes=True)
    selector = compile_selector(expression.replace("A", 'device.attributes["d"].links'), list_attributes=True)
    assert isinstance(selector.evaluate(device), Match), reason


@pytest.mark.parametrize("function", ["add", "sub"])
def test_a_sum_whose_digits_would_not_fit_into_memory_is_an_error_and_not_worked_out(function: str) -> None:
    """Kubernetes writes all of its digits: an API server that is asked for this one stops answering."""
    selector = compile_selector(f"quantity('1e2000000000').{function}(quantity('1')).isGreaterThan(quantity('1'))")
    outcome = selector.evaluate(BoundDevice("d", {}, {}))
    assert isinstance(outcome, Error)
    assert "too many orders of magnitude" in outcome.reason


def test_values_that_are_nested_beyond_the_interpreters_stack_are_an_error_and_no_crash() -> None:
    one: list[Any] = []
    other: list[Any] = []
    for _ in range(20_000):
        one, other = [one], [other]
    with pytest.raises(Fault, match="nested too deeply"):
        Program("a == b", {"a": DYN, "b": DYN}).run([one, other])


def test_an_attribute_of_no_known_kind_is_an_error_of_its_device_alone() -> None:
    selector = compile_selector("true", list_attributes=True)
    outcome = selector.evaluate(BoundDevice("d", {"links": {"floats": [1.5]}}, {}, list_attributes=True))
    assert isinstance(outcome, Error)
    assert outcome.reason == "attribute links: unsupported attribute value"
