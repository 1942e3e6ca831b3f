"""What a Deployment does to its ReplicaSets, step by step, and what it says about itself."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.controllers import progress, replicas, rollout
from modelplane.local.controllers.owners import controlled

from .objects import pod, ready

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deployment(replicas_: int = 4, image: str = "v2", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "uid": "uid-d", "generation": 1},
        "spec": {"replicas": replicas_, "selector": {"matchLabels": {"app": "a"}}, "template": template, **spec},
    }


def existing(image: str, size: int, available: int | None = None, revision: int = 1, desired: int = 4) -> Object:
    """A set of the deployment as the API would return it."""
    owner = deployment(desired, image)
    made = rollout.plan(owner, [], []).create
    assert made is not None
    result = copy.deepcopy(made)
    result["metadata"] |= {"uid": f"uid-{image}", "creationTimestamp": f"2026-01-01T00:00:0{revision}Z"}
    result["metadata"]["annotations"][rollout.REVISION] = str(revision)
    result["spec"]["replicas"] = size
    ok = size if available is None else available
    result["status"] = {"replicas": size, "readyReplicas": ok, "availableReplicas": ok, "observedGeneration": 1}
    return result


def rolling(surge: Any, unavailable: Any) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def step(owner: Object, *sets: Object, pods: Any = ()) -> dict[str, int]:
    """Image to new size; a new set counts too."""
    plan = rollout.plan(owner, list(sets), list(pods))
    names = {s["metadata"]["name"]: s["spec"]["template"]["spec"]["containers"][0]["image"] for s in sets}
    sizes = {names[name]: size for name, size in plan.sizes.items()}
    if plan.create is not None:
        sizes[plan.create["spec"]["template"]["spec"]["containers"][0]["image"]] = plan.create["spec"]["replicas"]
    return sizes


STEPS = [
    ("a first set has the full size", deployment(3, "v1"), [], {"v1": 3}),
    ("25 % surge of 4 is one more", deployment(4), [existing("v1", 4)], {"v2": 1}),
    ("maxSurge 0, maxUnavailable 1: first the old one goes", deployment(4, strategy=rolling(0, 1)),
     [existing("v1", 4), existing("v2", 0, revision=2)], {"v1": 3}),
    ("and the new one comes in its place", deployment(4, strategy=rolling(0, 1)),
     [existing("v1", 3), existing("v2", 0, revision=2)], {"v2": 1}),
    ("no old one goes while the new one is not available", deployment(4, strategy=rolling(0, 1)),
     [existing("v1", 3), existing("v2", 1, 0, revision=2)], {}),
    ("an old pod that is not available goes first", deployment(4, strategy=rolling(1, 1)),
     [existing("v1", 4, 3), existing("v2", 1, 0, revision=2)], {"v1": 3}),
    ("a single replica with maxSurge 0 is replaced in place", deployment(1, strategy=rolling(0, 1)),
     [existing("v1", 1, desired=1), existing("v2", 0, revision=2, desired=1)], {"v1": 0}),
    ("a rolled back deployment takes the old set again", deployment(4, "v1", strategy=rolling(1, 0)),
     [existing("v1", 0), existing("v2", 4, revision=2)], {"v1": 1}),
    ("Recreate removes the old ones first", deployment(4, strategy={"type": "Recreate"}), [existing("v1", 4)], {"v1": 0}),
    ("a new size is one step", deployment(6, "v1"), [existing("v1", 4)], {"v1": 6}),
    ("scaled to zero", deployment(0, "v1"), [existing("v1", 4)], {"v1": 0}),
    ("a new size in the middle of a rollout is shared in proportion, the newer gets the rest",
     deployment(8, strategy=rolling(0, 1)),
     [existing("v1", 2), existing("v2", 2, revision=2)], {"v1": 3, "v2": 5}),
    ("paused: the template does not roll", deployment(4, paused=True), [existing("v1", 4)], {}),
    ("paused: the size still follows", deployment(5, paused=True), [existing("v1", 4)], {"v1": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "owner", "sets", "want"), STEPS, ids=[s[0] for s in STEPS])
def test_one_step_of_a_rollout(reason: str, owner: Object, sets: list[Object], want: dict[str, int]) -> None:
    assert step(owner, *sets) == want, reason


@pytest.mark.parametrize(("surge", "unavailable"), [(0, 1), (1, 0), ("25%", "25%"), (2, 1), ("100%", 0)])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_rollout_ends_and_never_leaves_its_bounds(surge: Any, unavailable: Any, size: int) -> None:
    owner = deployment(size, strategy=rolling(surge, unavailable))
    limits = rollout.bounds(owner)
    sets = [existing("v1", size, desired=size)]
    for _ in range(60):
        plan = rollout.plan(owner, sets, [])
        if plan.create is not None:
            sets.append({**copy.deepcopy(plan.create), "status": {}})
            sets[-1]["metadata"] |= {"uid": "uid-v2", "creationTimestamp": "2026-01-01T00:00:09Z"}
        for found in sets:
            found["spec"]["replicas"] = plan.sizes.get(found["metadata"]["name"], found["spec"]["replicas"])
        total = sum(s["spec"]["replicas"] for s in sets)
        serving = sum(min(s["spec"]["replicas"], s["status"].get("availableReplicas", 0)) for s in sets)
        assert total <= limits.most
        assert serving >= limits.fewest_available
        for found in sets:
            now = found["spec"]["replicas"]
            found["status"] = {"replicas": now, "availableReplicas": now, "readyReplicas": now}
    current, old = rollout.split(owner, sets)
    assert current is not None
    assert current["spec"]["replicas"] == size
    assert [s["spec"]["replicas"] for s in old] == [0] * len(old)


def test_recreate_waits_for_the_last_old_pod() -> None:
    owner = deployment(2, strategy={"type": "Recreate"})
    old = existing("v1", 0, 0, desired=2)
    leaving = ready(pod("old"))
    leaving["metadata"]["ownerReferences"] = controlled(old)
    assert step(owner, old, pods=[leaving]) == {}
    assert step(owner, old) == {"v2": 2}


def test_the_revision_counts_on_and_history_is_bounded() -> None:
    sets = [existing(f"v{n}", 0, 0, revision=n) for n in range(1, 5)] + [existing("v9", 4, revision=5)]
    owner = deployment(4, "v9", revisionHistoryLimit=2)
    plan = rollout.plan(owner, sets, [])
    assert plan.revision == "5"
    assert plan.delete == [sets[0]["metadata"]["name"], sets[1]["metadata"]["name"]]
    assert rollout.plan(deployment(4, "v10"), sets, []).revision == "6"


def annotated(owner: Object, *sets: Object) -> dict[str, dict[str, str]]:
    """Image to the annotations that are written, revisions and what was copied."""
    plan = rollout.plan(owner, list(sets), [])
    images = {s["metadata"]["name"]: s["spec"]["template"]["spec"]["containers"][0]["image"] for s in sets}
    return {images[name]: changed for name, changed in plan.annotations.items()}


def test_a_set_that_is_taken_again_remembers_its_former_revisions() -> None:
    again, last = existing("v1", 0, revision=1), existing("v2", 4, revision=2)
    assert annotated(deployment(4, "v1"), again, last)["v1"] == {rollout.REVISION: "3", rollout.HISTORY: "1"}
    again["metadata"]["annotations"] |= {rollout.REVISION: "3", rollout.HISTORY: "1"}
    last["metadata"]["annotations"][rollout.REVISION] = "4"
    assert annotated(deployment(4, "v1"), again, last)["v1"][rollout.HISTORY] == "1,3"


def test_a_history_that_gets_too_long_forgets_its_beginning() -> None:
    again, last = existing("v1", 0, revision=1), existing("v2", 4, revision=2)
    again["metadata"]["annotations"][rollout.HISTORY] = ",".join(["7"] * 1000)
    history = annotated(deployment(4, "v1"), again, last)["v1"][rollout.HISTORY]
    assert history == ",".join([*["7"] * 999, "1"])
    assert len(history) <= rollout.LONGEST_HISTORY


def test_annotations_of_the_deployment_come_to_its_current_set_alone_and_are_not_taken_off() -> None:
    owner = deployment(4, "v2")
    owner["metadata"]["annotations"] = {"note": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    old, current = existing("v1", 0, revision=1), existing("v2", 4, revision=2)
    current["metadata"]["annotations"] |= {"note": "x", "former": "z"}
    assert annotated(owner, old, current) == {"v2": {"note": "y"}}


def test_a_set_that_is_sized_to_nothing_says_for_which_size() -> None:
    assert annotated(deployment(0, "v1"), existing("v1", 4))["v1"] == {rollout.DESIRED: "0", rollout.MAXIMUM: "0"}


def test_min_ready_seconds_reach_a_set_that_is_there() -> None:
    current = existing("v1", 4)
    plan = rollout.plan(deployment(4, "v1", minReadySeconds=5), [current], [])
    assert plan.min_ready == {current["metadata"]["name"]: 5}
    current["spec"]["minReadySeconds"] = 5
    assert rollout.plan(deployment(4, "v1", minReadySeconds=5), [current], []).min_ready == {}
    assert rollout.plan(deployment(4, "v1"), [current], []).min_ready == {current["metadata"]["name"]: 0}


def test_a_paused_deployment_still_forgets_its_oldest_sets() -> None:
    sets = [existing("v1", 0, 0, revision=1), existing("v2", 4, revision=2)]
    plan = rollout.plan(deployment(4, "v2", paused=True, revisionHistoryLimit=0), sets, [])
    assert plan.delete == [sets[0]["metadata"]["name"]]


def conditions(owner: Object, *sets: Object, at: datetime = NOW) -> dict[str, tuple[str, str]]:
    status, _ = progress.status(owner, list(sets), at)
    owner["status"] = status
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_conditions_follow_a_rollout_from_creation_to_availability() -> None:
    owner = deployment(2, "v1")
    fresh = existing("v1", 2, 0, desired=2)
    fresh["status"] = {}
    assert conditions(owner, fresh) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "NewReplicaSetCreated"),
    }
    assert conditions(owner, existing("v1", 2, 1, desired=2))["Progressing"] == ("True", "ReplicaSetUpdated")
    done = conditions(owner, existing("v1", 2, 2, desired=2))
    assert done == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert owner["status"]["readyReplicas"] == owner["status"]["updatedReplicas"] == 2
    assert "unavailableReplicas" not in owner["status"]


def test_a_rollout_that_stands_still_passes_its_deadline_and_recovers() -> None:
    owner = deployment(2, "v1", progressDeadlineSeconds=60)
    stuck = existing("v1", 2, 0, desired=2)
    conditions(owner, stuck)
    _, again = progress.status(owner, [stuck], NOW + timedelta(seconds=20))
    assert again == 40
    late = conditions(owner, stuck, at=NOW + timedelta(seconds=61))
    assert late["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert conditions(owner, existing("v1", 2, 2, desired=2))["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_a_second_rollout_reports_its_own_set() -> None:
    owner = deployment(4, "v1")
    conditions(owner, existing("v1", 4))
    owner["spec"] = deployment(4, "v2")["spec"]
    second = existing("v2", 1, 0, revision=2)
    second["status"] = {}
    assert conditions(owner, existing("v1", 4), second)["Progressing"] == ("True", "NewReplicaSetCreated")


def test_a_set_that_is_made_while_there_are_no_pods_is_reported_all_the_same() -> None:
    owner = deployment(0, "v1")
    conditions(owner, existing("v1", 0, desired=0))
    conditions(owner, existing("v1", 0, desired=0))
    assert owner["status"]["conditions"][1]["reason"] == "NewReplicaSetAvailable"
    owner["spec"] = deployment(0, "v2")["spec"]
    second = existing("v2", 0, revision=2, desired=0)  # seen by its own controller already: reports may come late
    assert conditions(owner, existing("v1", 0, desired=0), second)["Progressing"] == ("True", "NewReplicaSetCreated")
    conditions(owner, existing("v1", 0, desired=0), second)
    assert second["metadata"]["name"] in owner["status"]["conditions"][1]["message"]


def test_a_resumed_deployment_says_so_before_it_gets_on() -> None:
    owner, later = deployment(4, "v1", paused=True), NOW + timedelta(seconds=60)
    assert conditions(owner, existing("v1", 4), at=later)["Progressing"] == ("Unknown", "DeploymentPaused")
    del owner["spec"]["paused"]
    assert conditions(owner, existing("v1", 4), at=later)["Progressing"] == ("Unknown", "DeploymentResumed")
    assert conditions(owner, existing("v1", 4), at=later)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_pods_that_no_set_is_to_have_are_not_unavailable() -> None:
    owner = deployment(3, "v1", paused=True)
    conditions(owner)
    assert "unavailableReplicas" not in owner["status"]
    emptied = existing("v1", 3, 0, desired=3)
    emptied["status"] = {"observedGeneration": 1, "replicas": 0}
    conditions(owner, emptied)
    assert owner["status"]["unavailableReplicas"] == 3


def test_pods_that_stop_are_counted_up_to_the_deployment() -> None:
    stopping = ready(pod("a"))
    stopping["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = existing("v1", 4)
    found["status"] = replicas.count(found, [stopping, ready(pod("b"))], NOW).status
    assert (found["status"]["replicas"], found["status"]["terminatingReplicas"]) == (1, 1)
    assert progress.status(deployment(4, "v1"), [found], NOW)[0]["terminatingReplicas"] == 1


SCALE: list[tuple[str, int, list[Object], int, list[str]]] = [
    ("missing pods are made", 3, [ready(pod("a"))], 2, []),
    ("a finished pod does not count", 1, [pod("a", status={"phase": "Failed"})], 1, []),
    ("an unscheduled pod is deleted before a ready one", 1, [ready(pod("a", nodeName="n")), pod("b")], 0, ["b"]),
    ("a pod that is not ready goes before a ready one", 1,
     [ready(pod("a", nodeName="n")), pod("b", nodeName="n", status={"phase": "Running"})], 0, ["b"]),
    ("of two ready pods the younger goes", 1,
     [ready(pod("a", nodeName="n"), "2026-01-01T00:00:00Z"), ready(pod("b", nodeName="n"), "2026-01-02T00:00:00Z")], 0, ["b"]),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "size", "pods", "create", "delete"), SCALE, ids=[s[0] for s in SCALE])
def test_a_replica_set_scales(reason: str, size: int, pods: list[Object], create: int, delete: list[str]) -> None:
    got = replicas.scaling(existing("v1", size), pods)
    assert (got.create, [p["metadata"]["name"] for p in got.delete]) == (create, delete), reason


def test_min_ready_seconds_delays_availability() -> None:
    found = existing("v1", 1)
    found["spec"]["minReadySeconds"] = 30
    counted = replicas.count(found, [ready(pod("a"), "2026-01-01T00:00:00Z")], NOW + timedelta(seconds=10))
    assert (counted.status["readyReplicas"], counted.status["availableReplicas"], counted.again) == (1, 0, 20)
