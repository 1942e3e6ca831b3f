"""Conditions are read from everybody's objects, also where they say less than ours."""

from __future__ import annotations

from modelplane.api.meta import Status, condition_of, is_true


def test_a_pods_condition_without_reason_is_read() -> None:
    pod = {
        "metadata": {"generation": 1},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]},
    }
    condition = condition_of(pod, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == (Status.TRUE, "")
    assert is_true(pod, "Ready")
    assert condition_of(pod, "ContainersReady") is None
