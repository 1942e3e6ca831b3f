"""Selectors and attribute names are judged when an object is written, with path and position."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.plan.cel.admission import complaints

PREFIX = "spec.template.spec.engines[0].members[0].nodeSelector.devices[0].selectors"


def deployment(*selectors: str) -> dict[str, Any]:
    asks = [{"name": "gpu", "selectors": [{"cel": text} for text in selectors]}]
    member = {"nodeSelector": {"devices": asks}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "spec": {"template": {"spec": {"engines": [{"name": "e", "members": [member]}]}}},
    }


def replica(text: str) -> dict[str, Any]:
    member = {"deviceRequests": [{"name": "gpu", "selectors": [{"cel": text}]}]}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "spec": {"engines": [{"name": "e", "members": [member]}]},
    }


def hardware(**blocks: Any) -> dict[str, Any]:
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", "spec": {"devices": [blocks]}}


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        ('device.drivr == "x"', "line 1, column 7: undefined field 'drivr'", "a misspelt field"),
        ('devise.driver == "x"', "undeclared reference to 'devise'", "a misspelt variable"),
        ("device.driver", "must evaluate to bool", "not a condition"),
        (
            'device.capacity["a"].b.compareTo(1) >= 0',
            "column 33: found no matching overload for 'compareTo'",
            "a wrong type",
        ),
        ("1 +", "Syntax error", "not an expression"),
        (
            'device.driver == "a" &&\n  foo(device)',
            "line 2, column 6: undeclared reference to 'foo'",
            "on the second line",
        ),
        ('device.driver.matches("(")', "invalid matches argument", "not a pattern"),
        ("x" * 10241, "no longer than 10240 bytes", "too long for Kubernetes"),
    ],
)
def test_a_selector_that_does_not_compile_is_refused_with_its_position(text: str, message: str, reason: str) -> None:
    (said,) = complaints(deployment('device.driver == "a"', text))
    assert said.path == f"{PREFIX}[1].cel", reason
    assert message in said.message, reason
    assert "\n" not in said.message
    assert said.value == text


def test_a_selector_of_another_kind_is_left_to_the_schema() -> None:
    asked = deployment("device.x")
    device = asked["spec"]["template"]["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"][0]
    device["selectors"].insert(0, {"label": "a=b"})
    assert [said.path for said in complaints(asked)] == [f"{PREFIX}[1].cel"]


def test_every_bad_selector_is_named_not_only_the_first() -> None:
    assert [said.path for said in complaints(deployment("1 +", "true", "2 +"))] == [
        f"{PREFIX}[0].cel",
        f"{PREFIX}[2].cel",
    ]


def test_replicas_are_judged_too() -> None:
    (said,) = complaints(replica("device.x"))
    assert said.path == "spec.engines[0].members[0].deviceRequests[0].selectors[0].cel"


def test_an_update_is_judged_by_what_it_changes() -> None:
    stored = deployment("device.x")
    assert complaints(deployment("device.x"), stored) == []
    assert [said.path for said in complaints(deployment("device.x", "device.y"), stored)] == [f"{PREFIX}[1].cel"]


@pytest.mark.parametrize(
    ("name", "good", "reason"),
    [
        ("memory", True, "a bare name"),
        ("gpu.example.com/memory_2", True, "a domain and a name"),
        ("product-name", False, "a dash could not be published"),
        ("2fast", False, "begins with a digit"),
        ("a" * 33, False, "too long"),
        ("", False, "empty"),
        ("Example.com/a", False, "a domain is in lower case"),
        ("a/b/c", False, "two slashes"),
        ("/a", False, "an empty domain"),
        ("x" * 64 + "/a", False, "a domain that is too long"),
    ],
)
@pytest.mark.parametrize("block", ["attributes", "capacity"])
def test_names_that_no_driver_could_publish_are_refused(block: str, name: str, good: bool, reason: str) -> None:
    found = complaints(hardware(**{block: {name: {}}}))
    assert [said.path for said in found] == ([] if good else [f"spec.devices[0].{block}[{name}]"]), reason


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"engines": [{"members": [{"deviceRequests": 1}]}]}},
        {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "spec": None},
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "spec": {"template": {"spec": {"engines": [3, {"members": {}}]}}},
        },
        {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", "spec": {"devices": [{"attributes": []}]}},
    ],
)
def test_malformed_objects_are_left_to_the_schema(obj: dict[str, Any]) -> None:
    assert complaints(obj) == []
