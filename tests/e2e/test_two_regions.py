"""The main job, end to end: the five manifests of the example, and what has to happen to them."""

from __future__ import annotations

import itertools
import json
import urllib.error
from typing import Any

from modelplane.api.meta import condition_of
from tests.e2e.conftest import Fleet
from tests.e2e.traffic import answering_pods, replica_of

EU, US = "mock-demo-be445", "mock-demo-49b71"


def replicas(fleet: Fleet) -> dict[str, str]:
    """Name to cluster of the replicas that are not being deleted."""
    items = fleet.get("modelreplicas", "-n", "ml-team")["items"]
    return {r["metadata"]["name"]: r["spec"]["clusterName"] for r in items if "deletionTimestamp" not in r["metadata"]}


def condition(fleet: Fleet, type_: str) -> Any:
    """The deployment's condition, once it is about the present generation."""
    deployment = fleet.get("modeldeployment", "mock-demo", "-n", "ml-team")
    found = condition_of(deployment, type_)
    current = found is not None and found.observed_generation == deployment["metadata"]["generation"]
    return found if current else None


def address(fleet: Fleet) -> str:
    return str(fleet.get("modelservice", "mock", "-n", "ml-team")["status"]["address"])


def test_one_replica_lands_in_each_region_under_the_published_names(two_regions: Fleet) -> None:
    assert replicas(two_regions) == {EU: "gpu-eu-west", US: "gpu-us-east"}


def test_six_requests_are_answered_by_the_two_replicas_in_turn(two_regions: Fleet) -> None:
    pods = answering_pods(address(two_regions), 6)
    assert len(set(pods)) == 2, pods
    assert all(one != two for one, two in itertools.pairwise(pods)), f"not in turn: {pods}"
    assert {replica_of(pod) for pod in pods} == {EU, US}, "each names its own pod"


def test_a_drain_moves_a_replica_and_a_shortfall_is_told_honestly(two_regions: Fleet) -> None:
    fleet = two_regions
    before = address(fleet)
    fleet.kubectl("scale", "modeldeployment/mock-demo", "--replicas=1", "-n", "ml-team")
    fleet.until("one replica", lambda: len(replicas(fleet)) == 1)
    ((stayed, cluster),) = replicas(fleet).items()
    assert stayed == EU, "of two clusters that hold as many, the one with the later name gives its replica up"
    fleet.modelplane("drain", cluster)
    fleet.until("the replica on the other cluster", lambda: replicas(fleet) == {US: "gpu-us-east"})
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=30s")
    fleet.until("answers from there", lambda: set(_answers(fleet)) == {US})
    assert address(fleet) == before, "callers keep their address"

    # An operator that was started since keeps silent about what its predecessor said of the same deployment.
    fleet.kubectl("delete", "events", "--field-selector", "reason=PartiallyScheduled", "-n", "ml-team")
    fleet.kubectl("scale", "modeldeployment/mock-demo", "--replicas=2", "-n", "ml-team")
    shortfall = fleet.until("a verdict about two replicas", lambda: condition(fleet, "ReplicasScheduled"))
    assert (shortfall.status, shortfall.reason) == ("False", "PartiallyScheduled")
    assert "1 of 2" in shortfall.message, shortfall.message
    assert "gpu-eu-west" in shortfall.message, "the cluster that refuses is named"
    fleet.until("an event about it", lambda: _shortfalls(fleet) == 1)

    fleet.modelplane("undrain", cluster)
    fleet.until("both replicas", lambda: replicas(fleet) == {EU: "gpu-eu-west", US: "gpu-us-east"})
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=30s")
    scheduled = condition(fleet, "ReplicasScheduled")
    assert scheduled is not None
    assert scheduled.status == "True"
    assert _shortfalls(fleet) == 1, "one event, not one a pass"


def _shortfalls(fleet: Fleet) -> int:
    """How often events say that some replicas have no place."""
    events = fleet.get("events", "-n", "ml-team", "--field-selector", "reason=PartiallyScheduled")["items"]
    ask = "modelplane explain modeldeployment/mock-demo -n ml-team has every cluster."
    assert all(event["message"].endswith(ask) for event in events)
    return sum(event["count"] for event in events)


def _answers(fleet: Fleet) -> list[str]:
    """The replicas behind two answers; none while the only one moves. A deployment may be Ready still for the one that goes."""
    try:
        return [replica_of(pod) for pod in answering_pods(address(fleet), 2)]
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return []


def test_chat_streams_an_answer_through_the_front_door(two_regions: Fleet) -> None:
    assert two_regions.modelplane("chat", "ml-team/mock", "hello there").strip()


def test_status_shows_the_fleet(two_regions: Fleet) -> None:
    shown = two_regions.modelplane("status")
    for text in ("gpu-eu-west", "gpu-us-east", EU, US, "ml-team/mock", "http://"):
        assert text in shown


def test_nodes_are_of_the_version_of_the_api_server_that_they_join(two_regions: Fleet) -> None:
    """A kubelet is never newer than its API server, on either kind of cluster."""
    cluster = ("--context", "gpu-us-east")
    served = json.loads(two_regions.kubectl(*cluster, "version", "-o", "json"))["serverVersion"]["gitVersion"]
    nodes = json.loads(two_regions.kubectl(*cluster, "get", "nodes", "-o", "json"))["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {served}
    assert served in two_regions.kubectl(*cluster, "get", "nodes")
