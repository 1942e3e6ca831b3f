"""The overview says what is there, and why something is not ready."""

from __future__ import annotations

import pytest

from modelplane.api.meta import Object
from modelplane.local.overview import Snapshot, render


def cluster(**spec: object) -> Object:
    return {
        "metadata": {"name": "gpu-eu-west", "generation": 1},
        "spec": spec,
        "status": {
            "gateway": {"address": "127.0.0.1:4000"},
            "gpuPools": [
                {
                    "name": "gpu-eu-west",
                    "nodes": 1,
                    "devices": [{"name": "gpu", "count": 1}],
                    "capacity": {"freeNodes": 0},
                }
            ],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
        },
    }


def test_an_empty_fleet_gets_a_hint() -> None:
    assert "kubectl apply" in render(Snapshot())


@pytest.mark.parametrize(
    ("spec", "shows", "reason"),
    [
        ({}, "gpu-eu-west (1 node, 0 free; each 1 gpu)", "a pool shows what it has and what is left"),
        (
            {"taints": [{"key": "modelplane.ai/drain", "effect": "NoExecute"}]},
            "draining",
            "a drain is a word, not a taint",
        ),
        (
            {"taints": [{"key": "a/b", "effect": "NoSchedule"}, {"key": "c", "value": "d", "effect": "NoExecute"}]},
            "taint a/b:NoSchedule; taint c=d:NoExecute",
            "other taints are shown as they are",
        ),
    ],
)
def test_a_cluster_is_one_line(spec: dict[str, object], shows: str, reason: str) -> None:
    assert shows in render(Snapshot(clusters=[cluster(**spec)])), reason


def test_what_was_observed_has_its_time() -> None:
    seen = cluster()
    seen["status"]["gpuPools"][0]["capacity"]["observedTime"] = "2026-11-29T12:00:00Z"
    assert "(1 node, 0 free at 2026-11-29T12:00:00Z; each 1 gpu)" in render(Snapshot(clusters=[seen]))


def test_a_deployment_that_is_not_placed_says_why() -> None:
    deployment: Object = {
        "metadata": {"name": "demo", "namespace": "ml-team"},
        "spec": {"replicas": 2},
        "status": {
            "replicas": {"total": 1, "ready": 1},
            "conditions": [
                {
                    "type": "ReplicasScheduled",
                    "status": "False",
                    "reason": "PartiallyScheduled",
                    "message": "1 of 2 placed",
                }
            ],
        },
    }
    shown = render(Snapshot(deployments=[deployment]))
    assert "ml-team/demo  2       1       1      PartiallyScheduled: 1 of 2 placed" in shown


def test_what_has_no_place_is_counted_by_code_and_the_verb_that_explains_is_named() -> None:
    refused = [{"cluster": f"c{number}", "code": "Full", "message": "x" * 900} for number in range(40)]
    placed = {"cluster": "c0", "replica": "demo-1", "code": "Retained"}
    deployment: Object = {
        "metadata": {"name": "demo", "namespace": "ml-team"},
        "spec": {"replicas": 3},
        "status": {
            "replicas": {"total": 1, "ready": 1},
            "placement": [placed, *refused, {"cluster": "d", "code": "Tainted"}],
            "conditions": [
                {
                    "type": "ReplicasScheduled",
                    "status": "False",
                    "reason": "PartiallyScheduled",
                    "message": "1 of 3 replicas placed; 2 without a place: " + "x" * 900,
                }
            ],
        },
    }
    (row,) = (line for line in render(Snapshot(deployments=[deployment])).splitlines() if "ml-team/demo" in line)
    assert row.endswith(
        "PartiallyScheduled: 2 without a place (clusters: 40 Full, 1 Tainted); "
        "see modelplane explain modeldeployment/demo -n ml-team"
    )


def test_a_long_message_is_cut_between_words() -> None:
    one = cluster()
    one["status"]["conditions"].append(
        {"type": "Reachable", "status": "False", "reason": "Unreachable", "message": "no answer " * 100}
    )
    (row,) = (line for line in render(Snapshot(clusters=[one])).splitlines() if "Unreachable" in line)
    assert row.endswith("no answer no ...")
    assert len(row) < 340


def test_a_narrow_terminal_folds_the_notes() -> None:
    text = render(Snapshot(clusters=[cluster(taints=[{"key": f"k{n}", "effect": "NoSchedule"} for n in range(9)])]), 80)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("condition", "note", "reason"),
    [
        (
            {"type": "PoolsLabelled", "status": "False", "reason": "NodesMissing", "message": "m"},
            "NodesMissing: m",
            "fewer",
        ),
        (
            {"type": "PoolsLabelled", "status": "True", "reason": "Labelled", "message": "more nodes"},
            "more nodes",
            "more",
        ),
        ({"type": "PoolsLabelled", "status": "True", "reason": "Labelled"}, "0", "as many nodes as declared: no note"),
        ({"type": "Reachable", "status": "False", "reason": "Unauthorized", "message": "m"}, "Unauthorized: m", "lost"),
        (
            {"type": "Ready", "status": "False", "reason": "WaitingForClasses", "message": "m"},
            "WaitingForClasses: m",
            "class",
        ),
    ],
)
def test_what_is_wrong_with_a_cluster_is_its_note(condition: Object, note: str, reason: str) -> None:
    one = cluster()
    one["status"]["conditions"] = [condition]
    row = render(Snapshot(clusters=[one])).splitlines()[1]
    assert row.endswith(f" {note}"), reason


def test_a_service_that_is_not_ready_is_never_without_a_note() -> None:
    service: Object = {
        "metadata": {"name": "mock", "namespace": "ml-team"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Creating", "message": "route m"}]},
    }
    assert render(Snapshot(services=[service])).endswith("ml-team/mock  False  -        Creating: route m")
