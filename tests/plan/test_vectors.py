"""Every device selector of the vectors has the answer that real Kubernetes gave.

The files under ``data`` were made by Kubernetes 1.36.3's own selector compiler and evaluator: they are data, not ours to adapt.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelplane.plan.cel import BoundDevice, Error, Match, NoMatch, SelectorError, compile_selector

DATA = Path(__file__).parent / "data"
VECTORS = [json.loads(line) for line in (DATA / "selectors.jsonl").read_text().splitlines()]
DEVICES = json.loads((DATA / "devices.json").read_text())
LIMITS = re.compile(r"recursion|cost limit|exceeded")


@cache
def bound(lists: bool) -> dict[str, BoundDevice]:
    return {
        name: BoundDevice(
            device["driver"], device.get("attributes", {}), device.get("capacity", {}), list_attributes=lists
        )
        for name, device in DEVICES.items()
    }


def judge(expression: str, lists: bool) -> dict[str, Any]:
    try:
        selector = compile_selector(expression, list_attributes=lists)
    except SelectorError as error:
        return {"compile_error": str(error)}
    outcomes = {name: selector.evaluate(device) for name, device in bound(lists).items()}
    shown: dict[type, Any] = {Match: True, NoMatch: False}
    return {
        "results": {
            name: f"error: {outcome.reason}" if isinstance(outcome, Error) else shown[type(outcome)]
            for name, outcome in outcomes.items()
        }
    }


def position(message: str) -> str | None:
    found = re.search(r"<input>:\d+:\d+", message)
    return found.group() if found else None


def words(message: str) -> str:
    """The message of the first issue without position, kind and source lines."""
    line = message.split("\n |")[0]
    return re.sub(r"^(compilation failed: )?(ERROR: )?(<input>:\d+:\d+: )?", "", line)


def require_equal(expression: str, wanted: dict[str, Any], got: dict[str, Any]) -> None:
    if "compile_error" in wanted:
        assert "compile_error" in got, f"Kubernetes refuses it: {wanted['compile_error']}"
        assert position(got["compile_error"]) == position(wanted["compile_error"])
        assert words(got["compile_error"]) == words(wanted["compile_error"])
        return
    assert "results" in got, f"Kubernetes accepts it: {got['compile_error']}"
    for name, result in wanted["results"].items():
        mine = got["results"][name]
        if isinstance(result, str):
            assert isinstance(mine, str), f"{name}: Kubernetes says {result}"
        else:
            assert mine is result, f"{name}: Kubernetes says {result}"


@pytest.mark.parametrize(
    "vector", VECTORS, ids=[f"{index}-{vector['category']}" for index, vector in enumerate(VECTORS, 1)]
)
def test_selectors_answer_as_kubernetes_does(vector: dict[str, Any]) -> None:
    require_equal(vector["expression"], vector["base"], judge(vector["expression"], lists=False))


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS if "gates" in vector],
    ids=[f"{index}-{vector['category']}" for index, vector in enumerate(VECTORS, 1) if "gates" in vector],
)
def test_selectors_answer_as_kubernetes_does_with_list_attributes(vector: dict[str, Any]) -> None:
    wanted = vector["gates"]
    if "compile_error" not in wanted and "results" in vector["base"]:
        wanted = {"results": vector["base"]["results"] | wanted.get("results", {})}
    require_equal(vector["expression"], wanted, judge(vector["expression"], lists=True))


def test_there_are_as_many_vectors_as_were_made() -> None:
    assert len(VECTORS) == 439
