"""The two-regions example through typed API objects: what the control plane really hands to the planner."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api import inference_cluster, model_deployment, model_replica
from modelplane.api.meta import Object
from modelplane.plan import InvalidNodeSelector, Plan, fleet_of, plan, request_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-regions"


def manifests(name: str) -> list[Object]:
    return [document for document in yaml.safe_load_all((EXAMPLE / name).read_text()) if document]


def clusters(*, taint: str = "", **status: Any) -> list[Object]:
    (class_,) = manifests("20-inference-class.yaml")
    found = manifests("30-inference-clusters.yaml")
    for one in found:
        (entry,) = one["spec"]["nodePools"]
        one["status"] = {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
            "gateway": {"address": "127.0.0.1:8080"},
            "gpuPools": [
                {
                    "name": entry["name"],
                    "nodes": entry["nodeCount"],
                    "devices": class_["spec"]["devices"],
                    "capacity": {"source": "Declared", "growNodes": 0},
                }
            ],
        } | status
        if one["metadata"]["name"] == taint:
            one["spec"]["taints"] = [{"key": "modelplane.ai/drain", "effect": "NoExecute"}]
    return found


def deployment(replicas: int = 2) -> Object:
    (found,) = manifests("40-model-deployment.yaml")
    found["metadata"]["uid"] = "d-uid"
    found["spec"]["replicas"] = replicas
    return found


def placed(request: Object, cluster_objects: list[Object], replica_objects: list[Object]) -> Plan:
    world = fleet_of(map(inference_cluster.parse, cluster_objects), map(model_replica.parse, replica_objects))
    return plan(world, request_of(model_deployment.parse(request)))


def replicas_of(answer: Plan, request: Object) -> list[Object]:
    """The ModelReplicas that a composer makes of the plan."""
    template = request["spec"]["template"]["spec"]
    objects = []
    for one in answer.placements:
        engines = []
        for engine in template["engines"]:
            place = next(found for found in one.engines if found.name == engine["name"])
            members = []
            for member, seat in zip(engine["members"], place.members, strict=True):
                body = {key: value for key, value in member.items() if key != "nodeSelector"}
                body["nodePoolName"] = seat.pool
                body["deviceRequests"] = [
                    {
                        "name": r.name,
                        "deviceClassName": r.device_class,
                        "count": r.count,
                        "selectors": [{"cel": s} for s in r.selectors],
                    }
                    for r in seat.requests or ()
                ]
                members.append(body)
            engines.append({**engine, "members": members})
        objects.append(
            {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "ModelReplica",
                "metadata": {
                    "name": one.name,
                    "namespace": "ml-team",
                    "labels": {"modelplane.ai/deployment": "mock-demo", "modelplane.ai/replica-index": str(one.index)},
                    "annotations": {"modelplane.ai/placement": one.annotation},
                    "ownerReferences": [
                        {
                            "apiVersion": "modelplane.ai/v1alpha1",
                            "kind": "ModelDeployment",
                            "name": "mock-demo",
                            "uid": "d-uid",
                        }
                    ],
                },
                "spec": {"clusterName": one.cluster, "engines": engines},
            }
        )
    return objects


def test_one_replica_goes_to_each_region_under_its_published_name() -> None:
    found = placed(deployment(), clusters(), [])
    assert [(one.cluster, one.name) for one in found.placements] == [
        ("gpu-eu-west", "mock-demo-be445"),
        ("gpu-us-east", "mock-demo-49b71"),
    ]
    (member,) = found.placements[0].engines[0].members
    assert member.pool == "gpu-eu-west"
    assert member.requests is not None
    assert [(r.name, r.device_class, r.count) for r in member.requests] == [("gpu", "gpu.example.com", 1)]
    assert found.condition().message == "2 of 2 replicas placed."


def test_the_life_of_the_example() -> None:
    """Scale to one, drain its region, scale to two, undrain: the demo's own course."""
    both = replicas_of(placed(deployment(), clusters(), []), deployment())
    one = placed(deployment(1), clusters(), both)
    assert [(p.cluster, str(p.state)) for p in one.placements] == [("gpu-eu-west", "Retained")]
    kept = replicas_of(one, deployment(1))

    moved = placed(deployment(1), clusters(taint="gpu-eu-west"), kept)
    assert [(p.cluster, p.name) for p in moved.placements] == [("gpu-us-east", "mock-demo-49b71")]
    assert [r.name for r in moved.removed] == ["mock-demo-be445"]
    there = replicas_of(moved, deployment(1))

    short = placed(deployment(2), clusters(taint="gpu-eu-west"), there)
    assert (short.condition().status, short.condition().reason) == ("False", "PartiallyScheduled")
    assert short.condition().message == (
        "1 of 2 replicas placed; 1 without a place: gpu-eu-west Tainted (modelplane.ai/drain:NoExecute); gpu-us-east Full "
        "(engine mock needs 1 node of pool gpu-us-east, 0 of 1 free, cannot grow)."
    )

    whole = placed(deployment(2), clusters(), there)
    assert sorted(p.name for p in whole.placements) == ["mock-demo-49b71", "mock-demo-be445"]
    assert whole.condition().reason == "ReplicasCreated"


def test_an_unreachable_cluster_keeps_its_replica_and_says_why_it_takes_no_other() -> None:
    both = replicas_of(placed(deployment(), clusters(), []), deployment())
    lost = clusters()
    lost[0]["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "Creating"},
        {"type": "Reachable", "status": "False", "reason": "Unreachable"},
    ]
    found = placed(deployment(3), lost, both)
    assert found.placed == 2
    assert "gpu-eu-west NotReady (Unreachable)" in found.summary()


def test_growth_and_observation_are_read_from_the_status() -> None:
    growing = clusters()
    growing[0]["spec"]["nodePools"][0]["maxNodeCount"] = 3
    growing[0]["status"]["gpuPools"][0] |= {"nodes": 3, "capacity": {"source": "Declared", "growNodes": 2}}
    assert placed(deployment(5), growing, []).placed == 4
    assert placed(deployment(5), growing, []).waiting == 2
    fixed = copy.deepcopy(growing)
    fixed[0]["status"]["gpuPools"][0]["capacity"]["growNodes"] = 0
    assert placed(deployment(5), fixed, []).placed == 2
    older = copy.deepcopy(growing)
    del older[0]["status"]["gpuPools"][0]["capacity"]
    assert placed(deployment(5), older, []).placed == 4
    observed = clusters()
    observed[0]["status"]["gpuPools"][0]["capacity"] = {
        "source": "Observed",
        "observedTime": "2026-11-29T12:00:00Z",
        "nodesByFreeDevices": [
            {"free": {"gpu.example.com": 1}, "nodes": 2},
            {"free": {"gpu.example.com": 0}, "nodes": 4},
        ],
    }
    assert placed(deployment(5), observed, []).placed == 3


def test_a_selector_that_does_not_compile_names_its_field_and_position() -> None:
    broken = deployment()
    (request,) = broken["spec"]["template"]["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"]
    request["selectors"].append({"cel": "device.drivr == 'x'"})
    with pytest.raises(InvalidNodeSelector) as refusal:
        request_of(model_deployment.parse(broken))
    assert refusal.value.path == "spec.template.spec.engines[0].members[0].nodeSelector.devices[0].selectors[1].cel"
    assert (refusal.value.error.line, refusal.value.error.column) == (1, 7)
    assert "undefined field 'drivr'" in str(refusal.value)


def test_the_labels_of_deployment_and_cache_both_have_to_match() -> None:
    wanted = deployment()
    wanted["spec"]["template"]["spec"]["clusterSelector"] = {"matchLabels": {"modelplane.ai/region": "eu-west"}}
    world = fleet_of(map(inference_cluster.parse, clusters()))
    typed = model_deployment.parse(wanted)
    assert [p.cluster for p in plan(world, request_of(typed)).placements] == ["gpu-eu-west"]
    disjoint = request_of(typed, cache_labels={"modelplane.ai/region": "us-east"})
    assert plan(world, disjoint).condition().reason == "NoClusters"
    unstored = plan(world, request_of(typed, needs_cache_storage=True))
    assert unstored.condition().reason == "NoCacheStorage"


@pytest.mark.parametrize(("label", "index"), [("x", 0), ("-3", -3), ("", 0), ("7", 7)])
def test_an_index_label_that_is_no_number_reads_as_zero(label: str, index: int) -> None:
    (one, _) = replicas_of(placed(deployment(), clusters(), []), deployment())
    one["metadata"]["labels"]["modelplane.ai/replica-index"] = label
    world = fleet_of([], [model_replica.parse(one)])
    assert world.replicas[0].index == index


def test_a_placement_annotation_that_cannot_be_read_is_passed_over() -> None:
    (one, _) = replicas_of(placed(deployment(), clusters(), []), deployment())
    for text in ("{", "[]", json.dumps({"code": 3})):
        one["metadata"]["annotations"]["modelplane.ai/placement"] = text
        assert fleet_of([], [model_replica.parse(one)]).replicas[0].code == ""
