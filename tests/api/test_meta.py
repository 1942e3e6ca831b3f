"""The shared vocabulary reads other projects' objects as they are."""

from __future__ import annotations

from modelplane.api.meta import condition_of, is_true


def test_a_condition_without_a_reason_is_read() -> None:
    """A pod's Ready condition has none."""
    pod = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    condition = condition_of(pod, "Ready")
    assert condition is not None
    assert condition.reason == ""
    assert is_true(pod, "Ready")


def test_a_true_about_an_older_generation_is_not_true() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 1}
    assert not is_true({"metadata": {"generation": 2}, "status": {"conditions": [condition]}}, "Ready")
