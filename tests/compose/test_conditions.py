"""What composers conclude from observed objects."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.api.meta import Object, Status
from modelplane.compose.conditions import carries, first_address, lost, status_of
from modelplane.compose.contract import Cel, Unavailable
from modelplane.compose.stack.gateway import HAS_ADDRESS
from modelplane.compose.workloads import gang, picker, standalone
from modelplane.plan.cel import compile_rule

CARRIES: list[tuple[str, Any, Any, bool]] = [
    ("defaults of the server around it", {"a": 1, "b": 2}, {"a": 1}, True),
    ("another value", {"a": 1}, {"a": 2}, False),
    ("a missing field", {}, {"a": 1}, False),
    ("defaults inside a list's entries", [{"a": 1, "b": 2}], [{"a": 1}], True),
    ("one entry more", [1, 2], [1], False),
    ("another order", [1, 2], [2, 1], False),
    ("a text is no list", "ab", ["a", "b"], False),
    ("nothing where an empty list is wanted, as of an engine without arguments", {}, {"args": []}, True),
    ("nothing where an empty text is wanted, as of a variable set to nothing", {}, {"value": ""}, True),
    ("nothing where zero is wanted", {}, {"initialDelaySeconds": 0}, True),
    ("nothing where a list is wanted", {}, {"args": ["x"]}, False),
    ("arguments where none are wanted any more", {"args": ["x"]}, {"args": []}, False),
    ("a text where none is wanted any more", {"value": "x"}, {"value": ""}, False),
]


@pytest.mark.parametrize(("reason", "observed", "wanted", "want"), CARRIES, ids=[case[0] for case in CARRIES])
def test_an_object_carries_what_was_wanted(reason: str, observed: Any, wanted: Any, want: bool) -> None:
    assert carries(observed, wanted) is want, reason


STATES = [
    ("nobody said anything", None, 1, Status.UNKNOWN),
    ("about this generation", 2, 2, Status.TRUE),
    ("about yesterday's generation", 1, 2, Status.UNKNOWN),
]


@pytest.mark.parametrize(("reason", "seen", "generation", "want"), STATES, ids=[case[0] for case in STATES])
def test_a_condition_counts_for_the_generation_that_it_is_about(
    reason: str, seen: int | None, generation: int, want: Status
) -> None:
    entry = {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": seen}
    obj = {"metadata": {"generation": generation}, "status": {"conditions": [entry] if seen else []}}
    assert status_of(obj, "Ready") is want, reason


def deployment(replicas: int, generation: int = 1, **status: int) -> Object:
    body: Object = {"metadata": {"generation": generation}, "spec": {"replicas": replicas}}
    return body | ({"status": {"observedGeneration": 1} | status} if status else {})


def conditions(**status: str) -> Object:
    entries = [{"type": name, "status": value} for name, value in status.items()]
    return {"metadata": {"generation": 1}, "status": {"conditions": entries}}


READY = [
    ("no status yet", standalone.SERVING, deployment(1), False),
    ("one of one", standalone.SERVING, deployment(1, updatedReplicas=1, availableReplicas=1), True),
    ("none of one", standalone.SERVING, deployment(1, updatedReplicas=1), False),
    ("old pods alone", standalone.SERVING, deployment(1, availableReplicas=1), False),
    ("one rolls", standalone.SERVING, deployment(3, updatedReplicas=1, availableReplicas=2), True),
    ("two are missing", standalone.SERVING, deployment(3, updatedReplicas=3, availableReplicas=1), False),
    ("spec not seen", standalone.SERVING, deployment(1, 2, updatedReplicas=1, availableReplicas=1), False),
    ("a gang is available", gang.AVAILABLE, conditions(Progressing="False", Available="True"), True),
    ("a gang is not", gang.AVAILABLE, conditions(Available="False"), False),
    ("a picker without status", picker.AVAILABLE, {"metadata": {}}, False),
    ("a gateway without address", HAS_ADDRESS, {"status": {"addresses": []}}, False),
    ("a gateway with one", HAS_ADDRESS, {"status": {"addresses": [{"value": "10.0.0.1"}]}}, True),
]


@pytest.mark.parametrize(("reason", "rule", "obj", "want"), READY, ids=[case[0] for case in READY])
def test_a_child_is_ready_by_its_rule(reason: str, rule: Cel, obj: Object, want: bool) -> None:
    assert compile_rule(rule.expression, ("object",)).holds(object=obj) is want, reason


def test_the_first_address_that_is_set_counts() -> None:
    assert first_address({"status": {"addresses": [{"value": ""}, {"value": "10.0.0.1"}]}}) == "10.0.0.1"
    assert first_address({}) is None


@pytest.mark.parametrize(
    ("since", "said"),
    [
        pytest.param(
            "2026-11-29T10:00:00Z", "cluster a cannot be seen since 2026-11-29T10:00:00Z. do x", id="it was lost"
        ),
        pytest.param("", "cluster a cannot be seen. do x", id="it was never there, which has no time"),
    ],
)
def test_what_cannot_be_seen_says_since_when_where_that_is_known(since: str, said: str) -> None:
    assert lost("Ready", Unavailable("ClusterMissing", since, "do x"), "cluster a").message == said
