"""Groups of a LeaderWorkerSet are made, restarted, rolled and removed as one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.controllers import gangs

from .objects import ready


def lws(replicas: int = 1, size: int = 3, image: str = "v1", **spec: Any) -> Object:
    def template(name: str) -> Object:
        env = [{"name": "RANK", "value": "$(LWS_WORKER_INDEX)"}]
        container = {"name": "engine", "image": image, "env": env}
        return {"metadata": {"labels": {"role": name}}, "spec": {"containers": [container]}}

    templates = {"size": size, "leaderTemplate": template("leader"), "workerTemplate": template("worker")}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": templates, **spec},
    }


def existing(owner: Object, group: int, *, is_ready: bool = True, restarts: int = 0) -> list[Object]:
    """A whole group as the API would return it."""
    leader = {**gangs.member(owner, group, 0, None)}
    leader["metadata"] = {**leader["metadata"], "uid": f"uid-g-{group}"}
    pods = [leader] + [gangs.member(owner, group, index, leader) for index in range(1, gangs.size_of(owner))]
    for pod in pods:
        pod["metadata"].setdefault("uid", f"uid-{pod['metadata']['name']}")
        pod["status"] = ready(pod)["status"] if is_ready else {"phase": "Running"}
    pods[-1]["status"]["containerStatuses"] = [{"restartCount": restarts}]
    return pods


def names(pods: list[Object]) -> list[str]:
    return sorted(p["metadata"]["name"] for p in pods)


def leaving(pods: list[Object], *indices: int) -> list[Object]:
    for index in indices:
        pods[index]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return pods


ALL = ["g-0", "g-0-1", "g-0-2"]
STEPS = [
    ("leaders come first", lws(2), [], ["g-0", "g-1"], []),
    ("then their workers", lws(), existing(lws(), 0)[:1], ["g-0-1", "g-0-2"], []),
    ("workers wait for a ready leader where they are told to",
     lws(startupPolicy="LeaderReady"), existing(lws(), 0, is_ready=False)[:1], [], []),
    ("a whole group is left alone", lws(), existing(lws(), 0), [], []),
    ("workers without a leader go", lws(), existing(lws(), 0)[1:], [], ["g-0-1", "g-0-2"]),
    ("a restarted member takes the whole group with it", lws(), existing(lws(), 0, restarts=1), [], ALL),
    ("nothing is made while a group leaves", lws(), leaving(existing(lws(), 0), 0, 1, 2), [], []),
    ("a deleted worker takes the others with it", lws(), leaving(existing(lws(), 0), 1), [], ["g-0", "g-0-2"]),
    ("groups beyond the size go", lws(0), existing(lws(), 0), [], ALL),
    ("a lone leader of size one", lws(size=1), [], ["g-0"], []),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "owner", "pods", "create", "delete"), STEPS, ids=[s[0] for s in STEPS])
def test_one_step_of_a_gang(
    reason: str, owner: Object, pods: list[Object], create: list[str], delete: list[str]
) -> None:
    step = gangs.decide(owner, copy.deepcopy(pods))
    assert (names(step.create), names(step.delete)) == (create, delete), reason


def test_with_restart_policy_none_a_restarted_member_stays() -> None:
    owner = lws()
    owner["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
    assert gangs.decide(owner, existing(owner, 0, restarts=1)).delete == []


def test_a_new_template_replaces_one_ready_group_at_a_time_from_the_last() -> None:
    old = lws(2)
    pods = existing(old, 0) + existing(old, 1)
    step = gangs.decide(lws(2, image="v2"), pods)
    assert names(step.delete) == ["g-1", "g-1-1", "g-1-2"]
    half = existing(old, 0) + existing(lws(2, image="v2"), 1, is_ready=False)
    assert gangs.decide(lws(2, image="v2"), half).delete == []
    done = existing(old, 0) + existing(lws(2, image="v2"), 1)
    assert names(gangs.decide(lws(2, image="v2"), done).delete) == ALL


def test_members_know_their_leader_their_rank_and_their_group() -> None:
    owner = lws()
    leader, first, _ = existing(owner, 0)
    assert leader["metadata"]["ownerReferences"][0]["kind"] == "LeaderWorkerSet"
    assert first["metadata"]["ownerReferences"][0]["uid"] == leader["metadata"]["uid"]
    assert first["metadata"]["labels"]["role"] == "worker"
    assert first["metadata"]["labels"][gangs.KEY] == leader["metadata"]["labels"][gangs.KEY]
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("g-0-1", "g")
    env = [(e["name"], e["value"]) for e in first["spec"]["containers"][0]["env"]]
    assert env == [
        ("LWS_LEADER_ADDRESS", "g-0.g.default"),
        ("LWS_GROUP_SIZE", "3"),
        ("LWS_WORKER_INDEX", "1"),
        ("RANK", "$(LWS_WORKER_INDEX)"),
    ]


def test_available_means_that_every_group_is_ready_in_its_newest_form() -> None:
    owner = lws(2)
    half = gangs.decide(owner, existing(owner, 0) + existing(owner, 1, is_ready=False)).status
    assert (half["replicas"], half["readyReplicas"], half["updatedReplicas"]) == (2, 1, 2)
    assert {c["type"]: c["status"] for c in half["conditions"]} == {"Available": "False", "Progressing": "True"}
    whole = gangs.decide(owner, existing(owner, 0) + existing(owner, 1)).status
    assert {c["type"]: c["status"] for c in whole["conditions"]} == {"Available": "True", "Progressing": "False"}
