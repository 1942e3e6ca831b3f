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
            {"taints": [{"key": "a/b", "effect": "NoSchedule"}]},
            "taint a/b:NoSchedule",
            "other taints are shown as they are",
        ),
    ],
)
def test_a_cluster_is_one_line(spec: dict[str, object], shows: str, reason: str) -> None:
    assert shows in render(Snapshot(clusters=[cluster(**spec)])), reason


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
