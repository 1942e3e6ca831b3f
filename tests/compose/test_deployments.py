"""ModelDeployment: replicas where the planner puts them, endpoints for those that answer, and what is said about both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.compose.contract import After, Unavailable
from modelplane.compose.kinds import (
    INFERENCE_CLUSTER,
    MODEL_CACHE,
    MODEL_DEPLOYMENT,
    MODEL_ENDPOINT,
    MODEL_REPLICA,
    SERVING_STACK,
)
from modelplane.compose.registry import COMPOSERS
from modelplane.plan.names import replica_name
from tests.compose.fleet import Fleet
from tests.compose.objects import NAMESPACE
from tests.compose.two_regions import applied, settled

EU, US = "mock-demo-be445", "mock-demo-49b71"
DRAIN = {"key": "modelplane.ai/drain", "effect": "NoExecute"}


def deployment_of(fleet: Fleet) -> Object:
    return fleet.get(MODEL_DEPLOYMENT, "mock-demo", NAMESPACE)


def change(fleet: Fleet, *, replicas: int | None = None, **template: Any) -> None:
    """Edit the deployment: its replicas, or fields of its template's spec."""
    stored = deployment_of(fleet)
    spec = stored["spec"]
    pods = spec["template"] | {"spec": spec["template"]["spec"] | template}
    wanted = spec["replicas"] if replicas is None else replicas
    fleet.apply({**stored, "spec": {**spec, "replicas": wanted, "template": pods}})


def taint(fleet: Fleet, cluster: str, *taints: Object) -> None:
    stored = fleet.get(INFERENCE_CLUSTER, cluster)
    fleet.apply({**stored, "spec": {**stored["spec"], "taints": list(taints)}})


def replicas_of(fleet: Fleet) -> list[str]:
    return [obj["metadata"]["name"] for obj in fleet.all(MODEL_REPLICA)]


def endpoints_of(fleet: Fleet) -> list[str]:
    return [obj["metadata"]["name"] for obj in fleet.all(MODEL_ENDPOINT)]


def selector(text: str) -> list[Object]:
    """The example's engines, asking for something else."""
    stored = deployment_of(applied())
    (engine,) = stored["spec"]["template"]["spec"]["engines"]
    (member,) = engine["members"]
    asks = {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": text}]}]}
    return [engine | {"members": [member | {"nodeSelector": asks}]}]


# --- places -----------------------------------------------------------------------------------------------------


def test_one_replica_lands_in_each_region_and_both_serve() -> None:
    fleet = settled()
    assert replicas_of(fleet) == [US, EU]
    assert endpoints_of(fleet) == [US, EU]
    deployment = deployment_of(fleet)
    assert deployment["status"]["replicas"] == {"total": 2, "ready": 2}
    assert deployment["status"]["labelSelector"] == "modelplane.ai/deployment=mock-demo"
    assert fleet.condition(deployment, "ReplicasScheduled") == ("True", "ReplicasCreated", "2 of 2 replicas placed.")
    assert fleet.condition(deployment, "ReplicasReady") == ("True", "AllReplicasReady", "2 of 2 ready")
    assert fleet.condition(deployment, "Ready")[0] == "True"


def test_why_a_replica_is_where_it_is_stays_with_it_and_with_the_deployment() -> None:
    fleet = settled()
    verdict = json.loads(fleet.get(MODEL_REPLICA, EU, NAMESPACE)["metadata"]["annotations"]["modelplane.ai/placement"])
    assert verdict["code"] == "Placed"
    assert "gpu-eu-west" in verdict["message"]
    placed = {entry["replica"]: entry for entry in deployment_of(fleet)["status"]["placement"] if entry.get("replica")}
    assert placed[EU]["cluster"] == "gpu-eu-west"
    assert placed[EU]["message"] == verdict["message"]


def test_a_verdict_stays_as_it_was_when_the_fleet_changes() -> None:
    fleet = settled()
    before = fleet.get(MODEL_REPLICA, EU, NAMESPACE)["metadata"]["annotations"]
    change(fleet, replicas=1)
    change(fleet, replicas=3)
    fleet.settle()
    assert fleet.get(MODEL_REPLICA, EU, NAMESPACE)["metadata"]["annotations"] == before


def test_a_shortfall_is_false_and_names_the_figures() -> None:
    fleet = settled()
    change(fleet, replicas=3)
    fleet.settle()
    deployment = deployment_of(fleet)
    status, reason, message = fleet.condition(deployment, "ReplicasScheduled")
    assert (status, reason) == ("False", "PartiallyScheduled")
    assert message.startswith("2 of 3 replicas placed")
    assert "gpu-eu-west" in message
    assert "gpu-us-east" in message
    assert len(message) < 1024
    assert fleet.condition(deployment, "Ready")[:2] == ("False", "PartiallyScheduled")
    assert deployment["status"]["replicas"] == {"total": 2, "ready": 2}
    refused = [entry for entry in deployment["status"]["placement"] if not entry.get("replica")]
    assert {entry["cluster"] for entry in refused} == {"gpu-eu-west", "gpu-us-east"}


def test_a_drained_region_loses_its_replica_and_gets_it_back_under_its_name() -> None:
    fleet = settled()
    change(fleet, replicas=1)
    fleet.settle()
    (kept,) = replicas_of(fleet)
    home, other = ("gpu-eu-west", US) if kept == EU else ("gpu-us-east", EU)
    taint(fleet, home, DRAIN)
    fleet.settle()
    assert replicas_of(fleet) == [other]
    assert endpoints_of(fleet) == [other]
    change(fleet, replicas=2)
    fleet.settle()
    assert fleet.condition(deployment_of(fleet), "ReplicasScheduled")[:2] == ("False", "PartiallyScheduled")
    taint(fleet, home)
    fleet.settle()
    assert replicas_of(fleet) == [US, EU]


def test_scaled_to_zero_is_scheduled_and_ready_and_says_so() -> None:
    fleet = settled()
    change(fleet, replicas=0)
    fleet.settle()
    deployment = deployment_of(fleet)
    assert not replicas_of(fleet)
    assert not endpoints_of(fleet)
    for type_ in ("ReplicasScheduled", "Ready"):
        assert fleet.condition(deployment, type_)[:2] == ("True", "ScaledToZero")
    assert deployment["status"]["replicas"] == {"total": 0, "ready": 0}


def test_no_matching_cluster_is_said_in_words() -> None:
    fleet = applied()
    change(fleet, clusterSelector={"matchLabels": {"modelplane.ai/region": "mars"}})
    fleet.settle()
    deployment = deployment_of(fleet)
    assert fleet.condition(deployment, "ReplicasScheduled")[:2] == ("False", "NoClusters")
    assert fleet.condition(deployment, "ReplicasReady")[:2] == ("False", "NoReplicasScheduled")
    assert fleet.condition(deployment, "Ready")[0] == "False"


def test_a_request_that_no_device_meets_is_insufficient_capacity() -> None:
    fleet = applied()
    change(fleet, engines=selector('device.driver == "other.example.com"'))
    fleet.settle()
    status, reason, message = fleet.condition(deployment_of(fleet), "ReplicasScheduled")
    assert (status, reason) == ("False", "InsufficientCapacity")
    assert "gpu-eu-west" in message


def test_a_selector_that_does_not_compile_is_quoted_and_moves_nothing() -> None:
    fleet = settled()
    change(fleet, engines=selector("device.drivr =="))
    fleet.settle()
    deployment = deployment_of(fleet)
    status, reason, message = fleet.condition(deployment, "ReplicasScheduled")
    assert (status, reason) == ("False", "InvalidNodeSelector")
    assert "engines[0].members[0].nodeSelector" in message
    assert fleet.condition(deployment, "Ready")[:2] == ("False", "InvalidNodeSelector")
    assert replicas_of(fleet) == [US, EU]
    assert endpoints_of(fleet) == [US, EU]


def test_what_was_placed_and_not_seen_yet_is_scheduling() -> None:
    fleet = applied()
    for kind in (INFERENCE_CLUSTER, SERVING_STACK):
        for parent in fleet.all(kind):
            fleet.reconcile(parent)
    fleet.make_healthy()
    for kind in (SERVING_STACK, INFERENCE_CLUSTER):
        for parent in fleet.all(kind):
            fleet.reconcile(parent)
    for cluster in fleet.all(INFERENCE_CLUSTER):
        cluster["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "Available"}]
    fleet.reconcile(deployment_of(fleet))
    status, reason, message = fleet.condition(deployment_of(fleet), "ReplicasScheduled")
    assert (status, reason) == ("False", "Scheduling")
    assert "2 not created yet" in message


def test_a_replica_that_leaves_serves_as_it_is_until_its_replacement_does() -> None:
    fleet = settled()
    change(fleet, replicas=1)
    fleet.settle()
    (old,) = fleet.all(MODEL_REPLICA)
    other = "us-east" if old["spec"]["clusterName"] == "gpu-eu-west" else "eu-west"
    before = old["spec"]
    engines = deployment_of(fleet)["spec"]["template"]["spec"]["engines"]
    image = {"name": "engine", "image": "new"}
    member = engines[0]["members"][0] | {"template": {"spec": {"containers": [image]}}}
    change(
        fleet,
        engines=[engines[0] | {"members": [member]}],
        clusterSelector={"matchLabels": {"modelplane.ai/region": other}},
    )
    fleet.reconcile(deployment_of(fleet))
    replicas = {obj["spec"]["clusterName"]: obj["spec"] for obj in fleet.all(MODEL_REPLICA)}
    assert replicas[before["clusterName"]] == before
    assert replicas[f"gpu-{other}"]["engines"][0]["members"][0]["template"]["spec"]["containers"] == [image]
    assert endpoints_of(fleet) == [old["metadata"]["name"]]
    fleet.settle()
    assert [obj["spec"]["clusterName"] for obj in fleet.all(MODEL_REPLICA)] == [f"gpu-{other}"]


def test_a_replica_without_room_for_what_its_deployment_became_serves_on_as_it_is() -> None:
    fleet = settled()
    before = {name: fleet.get(MODEL_REPLICA, name, NAMESPACE)["spec"] for name in (US, EU)}
    (engine,) = deployment_of(fleet)["spec"]["template"]["spec"]["engines"]
    change(fleet, engines=[engine | {"copies": 9}])
    fleet.settle()
    assert {name: fleet.get(MODEL_REPLICA, name, NAMESPACE)["spec"] for name in (US, EU)} == before
    assert endpoints_of(fleet) == [US, EU]
    deployment = deployment_of(fleet)
    status, reason, message = fleet.condition(deployment, "ReplicasScheduled")
    assert (status, reason) == ("False", "PartiallyScheduled")
    assert message.startswith("2 of 2 replicas placed, 2 of them at an earlier size: ")
    assert deployment["status"]["replicas"] == {"total": 2, "ready": 2}
    assert {one["code"] for one in deployment["status"]["placement"] if one.get("replica")} == {"Held"}
    change(fleet, engines=[engine])
    fleet.settle()
    assert fleet.condition(deployment_of(fleet), "ReplicasScheduled")[0] == "True"


# --- replicas ---------------------------------------------------------------------------------------------------


def test_a_replica_carries_the_users_the_clusters_and_our_labels() -> None:
    fleet = applied()
    stored = deployment_of(fleet)
    template = stored["spec"]["template"] | {"metadata": {"labels": {"team": "a"}}}
    fleet.apply({**stored, "spec": {**stored["spec"], "template": template}})
    cluster = fleet.get(INFERENCE_CLUSTER, "gpu-eu-west")
    placement = {"metadata": {"labels": {"region": "eu", "team": "platform"}}}
    fleet.apply({**cluster, "spec": {**cluster["spec"], "placement": placement}})
    fleet.settle()
    want = {
        "team": "platform",
        "region": "eu",
        "modelplane.ai/deployment": "mock-demo",
        "modelplane.ai/cluster": "gpu-eu-west",
        "modelplane.ai/replica-index": "0",
    }
    assert fleet.get(MODEL_REPLICA, EU, NAMESPACE)["metadata"]["labels"] == want
    assert fleet.get(MODEL_ENDPOINT, EU, NAMESPACE)["metadata"]["labels"] == want


def test_a_name_that_another_deployment_has_is_not_taken_from_it() -> None:
    fleet = applied()
    other = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": EU, "namespace": NAMESPACE, "labels": {"modelplane.ai/deployment": "other"}},
        "spec": {
            "clusterName": "elsewhere",
            "engines": [{"name": "e", "members": [{"nodePoolName": "p", "template": {}}]}],
        },
    }
    fleet.apply(other)
    fleet.settle()
    assert fleet.get(MODEL_REPLICA, EU, NAMESPACE)["spec"]["clusterName"] == "elsewhere"
    longer = replica_name("mock-demo", "gpu-eu-west", 0, digits=10)
    assert set(replicas_of(fleet)) == {EU, US, longer}


def test_an_edited_template_is_not_ready_until_its_replicas_are() -> None:
    fleet = settled()
    engines = selector('device.driver == "gpu.example.com"')
    engines[0]["members"][0]["template"]["spec"]["containers"][0]["image"] = "new"
    change(fleet, engines=engines)
    fleet.reconcile(deployment_of(fleet))
    assert fleet.condition(deployment_of(fleet), "Ready")[:2] == ("False", "ModelStarting")
    assert replicas_of(fleet) == [US, EU], "an edit is in place"
    assert endpoints_of(fleet) == [US, EU], "old engines go on serving"
    fleet.settle()
    assert fleet.condition(deployment_of(fleet), "Ready")[0] == "True"


def test_traffic_stops_before_a_replica_goes() -> None:
    assert COMPOSERS[MODEL_DEPLOYMENT].deletion_order({}) == (After("endpoint-*", "replica-*"),)


# --- endpoints --------------------------------------------------------------------------------------------------


def test_a_replica_that_names_no_model_gets_no_endpoint() -> None:
    fleet = applied()
    fleet.mute = {EU}
    fleet.settle()
    assert endpoints_of(fleet) == [US]
    deployment = deployment_of(fleet)
    assert deployment["status"]["replicas"] == {"total": 2, "ready": 1}
    status, reason, message = fleet.condition(deployment, "ReplicasReady")
    assert (status, reason) == ("False", "ModelStarting")
    assert message == f"1 of 2 ready: {EU} on gpu-eu-west is NoAnswer"
    fleet.mute = set()
    fleet.settle()
    assert endpoints_of(fleet) == [US, EU]


def test_a_replica_that_nobody_has_asked_yet_gets_no_endpoint() -> None:
    fleet = applied()
    fleet.models = []
    fleet.settle()
    assert fleet.condition(fleet.get(MODEL_REPLICA, EU, NAMESPACE), "Ready")[0] == "True"
    assert endpoints_of(fleet) == []
    assert deployment_of(fleet)["status"]["replicas"] == {"total": 2, "ready": 0}


def test_a_replica_that_stops_answering_loses_its_endpoint() -> None:
    fleet = settled()
    fleet.mute = {EU}
    fleet.settle()
    assert endpoints_of(fleet) == [US]
    assert replicas_of(fleet) == [US, EU]


def test_a_lost_cluster_keeps_its_replica_and_its_endpoint() -> None:
    fleet = settled()
    fleet.unavailable["gpu-eu-west"] = Unavailable("Unreachable", "2026-01-01T00:00:00Z")
    fleet.settle()
    assert replicas_of(fleet) == [US, EU]
    assert endpoints_of(fleet) == [US, EU]
    replica = fleet.get(MODEL_REPLICA, EU, NAMESPACE)
    assert fleet.condition(replica, "Ready")[:2] == ("Unknown", "Unreachable")
    status, reason, message = fleet.condition(deployment_of(fleet), "ReplicasReady")
    assert (status, reason) == ("False", "ModelStarting")
    assert message == f"1 of 2 ready: {EU} on gpu-eu-west is Unreachable"


def test_an_endpoint_follows_the_clusters_address_and_outlives_a_moment_without() -> None:
    fleet = settled()
    cluster = fleet.get(INFERENCE_CLUSTER, "gpu-eu-west")
    cluster["status"] = cluster["status"] | {"gateway": {"address": "[fd00::5]:8080"}}
    fleet.reconcile(deployment_of(fleet))
    url = fleet.get(MODEL_ENDPOINT, EU, NAMESPACE)["spec"]["url"]
    assert url == f"http://[fd00::5]:8080/{NAMESPACE}/{EU}/v1"
    cluster["status"] = cluster["status"] | {"gateway": {}}
    fleet.reconcile(deployment_of(fleet))
    assert fleet.get(MODEL_ENDPOINT, EU, NAMESPACE)["spec"]["url"] == url


# --- caches -----------------------------------------------------------------------------------------------------

CACHE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelCache",
    "metadata": {"name": "qwen", "namespace": NAMESPACE},
    "spec": {"source": "HuggingFace", "huggingFace": {"repo": "q/q", "sizeGiB": 1}},
}


def test_a_cache_that_does_not_exist_holds_new_replicas_and_keeps_old_ones() -> None:
    fleet = settled()
    change(fleet, replicas=1)
    fleet.settle()
    (kept,) = replicas_of(fleet)
    change(fleet, replicas=2, modelCacheRef={"name": "qwen"})
    fleet.settle()
    assert replicas_of(fleet) == [kept]
    status, reason, message = fleet.condition(deployment_of(fleet), "ModelCacheResolved")
    assert (status, reason) == ("False", "ModelCacheNotFound")
    assert f"{NAMESPACE}/qwen" in message


@pytest.mark.parametrize("unread", [True, False])
def test_a_cache_is_resolved_once_it_was_read(unread: bool) -> None:
    fleet = settled()
    fleet.apply(CACHE)
    change(fleet, modelCacheRef={"name": "qwen"})
    if unread:
        fleet.unread.add(MODEL_CACHE)
    fleet.reconcile(deployment_of(fleet))
    want = ("False", "ModelCacheUnresolved") if unread else ("True", "ModelCacheResolved")
    assert fleet.condition(deployment_of(fleet), "ModelCacheResolved")[:2] == want
