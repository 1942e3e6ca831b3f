"""Jobs end when enough pods have succeeded, or when too many have failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.controllers.jobs import decide

from .objects import pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(**spec: Any) -> Object:
    return {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": {"spec": {}}, **spec}, "status": {}}


def pods(succeeded: int = 0, failed: int = 0, active: int = 0) -> list[Object]:
    phases = ["Succeeded"] * succeeded + ["Failed"] * failed + ["Running"] * active
    return [pod(f"p{n}", status={"phase": phase}) for n, phase in enumerate(phases)]


CASES = [
    ("one pod for a plain job", job(), pods(), 1, None),
    ("parallelism at once", job(completions=5, parallelism=3), pods(), 3, None),
    ("no more than what is missing", job(completions=5, parallelism=3), pods(succeeded=4), 1, None),
    ("a failed pod is replaced", job(completions=1), pods(failed=2), 1, None),
    ("enough have succeeded", job(completions=2), pods(succeeded=2), 0, ("Complete", "CompletionsReached")),
    ("a work queue is done when one succeeded and none runs",
     job(parallelism=2), pods(succeeded=1), 0, ("Complete", "CompletionsReached")),
    ("a work queue waits for its running pods", job(parallelism=2), pods(succeeded=1, active=1), 0, None),
    ("a work queue that failed too often stops its pods first",
     job(parallelism=2, backoffLimit=0), pods(failed=1, active=1), 0, ("Failed", "BackoffLimitExceeded")),
    ("too many failures", job(backoffLimit=1), pods(failed=2), 0, ("Failed", "BackoffLimitExceeded")),
    ("a suspended job makes nothing", job(suspend=True), pods(), 0, ("Suspended", "JobSuspended")),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "asked", "there", "create", "want"), CASES, ids=[c[0] for c in CASES])
def test_one_step_of_a_job(reason: str, asked: Object, there: list[Object], create: int, want: Any) -> None:
    step = decide(asked, there, NOW)
    told = {"Complete": ["SuccessCriteriaMet"], "Failed": ["FailureTarget"]}
    made = {c["type"]: c["reason"] for c in step.status.get("conditions") or ()}
    wanted = dict.fromkeys((*told.get(want[0], ()), want[0]), want[1]) if want else {}
    if want and any(p["status"]["phase"] == "Running" for p in there):
        wanted.pop(want[0])
    assert (step.create, made) == (create, wanted), reason


def test_a_work_queue_lets_pods_run_on_after_the_first_success() -> None:
    """kube-controller-manager leaves them alone; ours stopped them."""
    assert decide(job(parallelism=3), pods(succeeded=1, active=2), NOW).delete == []


def test_a_verdict_is_final_when_the_last_pod_has_stopped() -> None:
    failing = job(backoffLimit=0, parallelism=2, completions=2)
    there = pods(failed=1, active=1)
    failing["status"] = decide(failing, there, NOW).status
    there[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    still = decide(failing, there, NOW)
    assert [c["type"] for c in still.status["conditions"]] == ["FailureTarget"]
    assert still.status["terminating"] == 1
    failing["status"] = still.status
    over = decide(failing, there[:1], NOW)
    assert [c["type"] for c in over.status["conditions"]] == ["FailureTarget", "Failed"]


def test_a_resumed_job_begins_anew() -> None:
    paused = job(suspend=True)
    paused["status"] = decide(paused, pods(active=1), NOW).status
    assert paused["status"]["startTime"] is None
    resumed = {**paused, "spec": {"template": {"spec": {}}}}
    step = decide(resumed, [], NOW)
    assert [(c["status"], c["reason"]) for c in step.status["conditions"]] == [("False", "JobResumed")]
    assert (step.create, step.status["startTime"]) == (1, "2026-01-01T00:00:00Z")


def test_a_deadline_ends_the_job_and_its_pods() -> None:
    late = job(activeDeadlineSeconds=60)
    late["status"] = {"startTime": "2026-01-01T00:00:00Z"}
    waiting = decide(late, pods(active=1), NOW + timedelta(seconds=20))
    assert (waiting.again, waiting.delete) == (40, [])
    over = decide(late, pods(active=1), NOW + timedelta(seconds=60))
    assert over.status["conditions"][0]["reason"] == "DeadlineExceeded"
    assert len(over.delete) == 1


def test_a_finished_job_is_left_alone() -> None:
    done = job()
    done["status"] = decide(done, pods(succeeded=1), NOW).status
    step = decide(done, pods(), NOW + timedelta(days=1))
    assert (step.create, step.status["conditions"]) == (0, done["status"]["conditions"])
