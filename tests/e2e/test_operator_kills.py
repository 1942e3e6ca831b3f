"""The operator, killed ten times in the middle of its work, leaves what it leaves undisturbed: nothing twice, nothing lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from modelplane.api.meta import is_true
from tests.e2e.conftest import EXAMPLE, Fleet
from tests.e2e.traffic import Outcome, answering_pods, constant_rate, replica_of
from tests.kubernetes.tally import count

EU, US = "mock-demo-be445", "mock-demo-49b71"
HOME = {EU: "gpu-eu-west", US: "gpu-us-east"}
CONTEXTS = ("modelplane", *HOME.values())
OPERATOR = "modelplane"
"""The operator's field manager."""

Inventory = dict[tuple[str, str, str, str], Any]
"""Metadata of all that the operator wrote, by cluster, kind, namespace and name."""


def inventory(fleet: Fleet) -> Inventory:
    return {
        (context, *place): found for context in CONTEXTS for place, found in fleet.written_by(OPERATOR, context).items()
    }


def uids(found: Inventory) -> dict[tuple[str, str, str, str], str]:
    return {place: metadata["uid"] for place, metadata in found.items()}


def pods(fleet: Fleet) -> dict[str, list[tuple[str, int]]]:
    """UID and restarts of every engine's pod, by cluster."""
    found = {}
    for context in HOME.values():
        listed = json.loads(
            fleet.kubectl("--context", context, "get", "pods", "-A", "-l", "modelplane.ai/replica", "-o", "json")
        )
        found[context] = [
            (item["metadata"]["uid"], sum(c["restartCount"] for c in item["status"]["containerStatuses"]))
            for item in listed["items"]
        ]
    return found


class Story:
    """The example on a fleet, and the kills."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.kills = 0

    def kill_once(self, what: str, seen: Callable[[], object]) -> None:
        """Kill the operator as soon as this is seen, and have it running again."""
        self.fleet.until(what, seen, within=60)
        killed = self.fleet.record("operator")
        os.kill(killed.pid, signal.SIGKILL)
        self.kills += 1
        record = self.fleet.name("operator")
        self.fleet.until("the operator again", lambda: self.fleet.sessions().get(record) not in (None, killed))

    def replicas(self) -> dict[str, Any]:
        return {r["metadata"]["name"]: r for r in self.fleet.get("modelreplicas", "-n", "ml-team")["items"]}

    def workload(self, replica: str) -> bool:
        """Whether its cluster has been given the Deployment of a replica."""
        shown = self.fleet.kubectl("--context", HOME[replica], "get", "deployments", "-A", "-o", "name")
        return f"/{replica}-" in shown

    def serving(self, *names: str) -> None:
        """Wait until these replicas, and no others, are there, ready and routed to."""

        def seen() -> bool:
            endpoints = self.fleet.get("modelendpoints", "-n", "ml-team")["items"]
            service = self.fleet.get("modelservice", "mock", "-n", "ml-team")
            replicas = self.replicas()
            return (
                set(replicas) == {e["metadata"]["name"] for e in endpoints} == set(names)
                and all(is_true(obj, "Ready") for obj in (*replicas.values(), *endpoints, service))
                and {replica_of(pod) for pod in answering_pods(service["status"]["address"], 2 * len(names))}
                == {*names}
            )

        self.fleet.until(f"{' and '.join(names)} serving", seen, within=90)

    @contextmanager
    def traffic(self) -> Iterator[Outcome]:
        """Requests all the time, none of which may fail."""
        address = self.fleet.get("modelservice", "mock", "-n", "ml-team")["status"]["address"]
        with constant_rate(address, rate=20) as outcome:
            self.fleet.until("load", lambda: outcome.answered >= 10)
            yield outcome
            seen = outcome.answered
            self.fleet.until("load afterwards", lambda: outcome.answered >= seen + 20)
        assert not outcome.failures, outcome.failures[:5]


@pytest.mark.timeout(400)
def test_ten_kills_of_the_operator_leave_nothing_twice_and_lose_nothing(two_regions: Fleet) -> None:
    fleet, story = two_regions, Story(two_regions)
    undisturbed = inventory(fleet)
    assert {place[0] for place in undisturbed} == set(CONTEXTS)
    fleet.kubectl("delete", "-f", str(EXAMPLE), "--timeout=90s")
    clusters = "inferenceclusters"

    # It comes up.
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    story.kill_once("a cluster seen", lambda: any("status" in c for c in fleet.get(clusters)["items"]))
    story.kill_once(
        "a gateway composed",
        lambda: (
            "/" in fleet.kubectl("--context", HOME[EU], "get", "gateways.gateway.networking.k8s.io", "-A", "-o", "name")
        ),
    )
    story.kill_once("a placement", story.replicas)
    placed = {name: replica["metadata"]["uid"] for name, replica in story.replicas().items()}
    story.kill_once("a workload", lambda: any(story.workload(name) for name in HOME))
    story.kill_once("an endpoint", lambda: fleet.get("modelendpoints", "-n", "ml-team")["items"])
    story.serving(EU, US)
    up = inventory(fleet)
    assert set(up) == set(undisturbed)
    assert placed.items() <= {n: r["metadata"]["uid"] for n, r in story.replicas().items()}.items()

    # It is scaled, under traffic.
    with story.traffic():
        fleet.kubectl("scale", "modeldeployment/mock-demo", "--replicas=1", "-n", "ml-team")
        story.kill_once(
            "a replica leaving",
            lambda: (
                "deletionTimestamp" in story.replicas().get(US, {"metadata": {"deletionTimestamp": ""}})["metadata"]
            ),
        )
        story.serving(EU)

    # It is moved: the only replica, so that nobody serves in between.
    fleet.modelplane("drain", HOME[EU])
    story.kill_once("a place elsewhere", lambda: US in story.replicas())
    story.kill_once("a workload there", lambda: story.workload(US))
    story.serving(US)
    moved, engine = inventory(fleet), pods(fleet)
    assert engine[HOME[EU]] == [], "what was moved is no longer there"

    # It is scaled up again, under traffic.
    with story.traffic():
        fleet.modelplane("undrain", HOME[EU])
        fleet.kubectl("scale", "modeldeployment/mock-demo", "--replicas=2", "-n", "ml-team")
        story.kill_once("the second placement", lambda: EU in story.replicas())
        story.kill_once("the second workload", lambda: story.workload(EU))
        story.serving(EU, US)
    assert story.kills == 10

    end = inventory(fleet)
    assert set(end) == set(undisturbed), "the same objects as without any kill: no orphan, none twice, none missing"
    kept = {place for place in up if not any(name in place[3] for name in HOME)}
    assert {p: uids(end)[p] for p in kept} == {p: uids(up)[p] for p in kept}, (
        "what belongs to no replica is never replaced"
    )
    assert uids(moved).items() <= uids(end).items(), "what served when the second replica came was not replaced"
    deployments = [place for place in moved if place[1] == "Deployment"]
    assert deployments
    assert {p: end[p]["generation"] for p in deployments} == {p: moved[p]["generation"] for p in deployments}
    last = pods(fleet)
    assert last[HOME[US]] == engine[HOME[US]], "its engine is the same pod, never restarted"
    assert [len(of) for of in last.values()] == [1, 1]
    assert len(fleet.engines()) == 2, "an engine for each pod, and no other"
    count("kills of the operator", story.kills)
    count("objects of the operator found again", len(end))
