"""Selectors over every function of the dialect have the answer that real Kubernetes gave.

Drawn at random from the table of functions and kept where they went a way through the evaluator that none before them had gone, and
written by hand for what is left; put to Kubernetes 1.36.3's own compiler and evaluator. The file is data, not ours to adapt.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plan.test_vectors import DATA, judge, require_equal

VECTORS = [json.loads(line) for line in (DATA / "functions.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("vector", VECTORS, ids=[str(number) for number in range(1, len(VECTORS) + 1)])
def test_a_selector_of_any_function_answers_as_kubernetes_does(vector: dict[str, Any]) -> None:
    require_equal(vector["expression"], vector["base"], judge(vector["expression"], lists=False))
