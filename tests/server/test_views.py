"""Kinds that are two views of one stored object, and answers in other shapes than plain JSON."""

from __future__ import annotations

import yaml

from tests.server.api import Api


def test_an_event_is_the_same_in_both_groups(api: Api, namespace: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": about,
        "note": "started",
        "reason": "Started",
        "type": "Normal",
        "action": "Start",
        "eventTime": "2026-11-29T12:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
    }
    made = api.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)
    assert made["note"] == "started"
    core = api.get(f"/api/v1/namespaces/{namespace}/events/e")
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "started", about)
    assert core["metadata"]["uid"] == made["metadata"]["uid"]
    listed = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector=regarding.name%3Dp")
    assert [item["note"] for item in listed["items"]] == ["started"]


def test_an_autoscaler_is_the_same_in_both_versions(api: Api, namespace: str) -> None:
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "targetCPUUtilizationPercentage": 70,
        },
    }
    path = f"namespaces/{namespace}/horizontalpodautoscalers"
    api.create(f"/apis/autoscaling/v1/{path}", body)
    newer = api.get(f"/apis/autoscaling/v2/{path}/h")
    assert newer["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    older = api.get(f"/apis/autoscaling/v1/{path}/h")
    assert older["spec"]["targetCPUUtilizationPercentage"] == 70
    assert "metrics" not in older["spec"]


def test_yaml_goes_in_and_out(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n  a: 'yes'\n"
    reply = api.call("POST", path, body, type_="application/yaml", accept="application/yaml")
    assert reply.code == 201
    assert yaml.safe_load(reply.body)["data"] == {"a": "yes"}


def test_metadata_alone_is_answered_to_those_who_ask_for_it(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = api.get(path, accept=accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in listed["items"]] == [{"kind", "apiVersion", "metadata"}]


def test_nothing_that_the_server_can_write_is_acceptable(api: Api) -> None:
    reply = api.call("GET", "/api/v1/namespaces", accept="application/vnd.kubernetes.protobuf")
    assert (reply.code, reply.body["reason"]) == (406, "NotAcceptable")


def test_cbor_is_refused(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/c?fieldManager=x"
    reply = api.call("PATCH", path, b"\xa0", type_="application/apply-patch+cbor")
    assert (reply.code, reply.body["reason"]) == (415, "UnsupportedMediaType")


def test_an_unknown_path_is_a_plain_page(api: Api) -> None:
    for path in (
        "/apis/nothing.example.com/v1/things",
        "/openapi/v1",
        "/openapi/v2/",
        "/openapi/v3/apis/nothing.example.com/v1",
        "/metrics",
    ):
        reply = api.call("GET", path)
        assert (reply.code, reply.body) == (404, "404 page not found\n")


def test_a_selector_that_does_not_compile_is_refused_with_its_position(api: Api) -> None:
    device = {"name": "gpu", "count": 1, "selectors": [{"cel": "device.driver =="}]}
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [device]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
    }
    spec = {"replicas": 1, "template": {"spec": {"engines": [{"name": "e", "members": [member]}]}}}
    body = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "bad"},
        "spec": spec,
    }
    reply = api.call("POST", "/apis/modelplane.ai/v1alpha1/namespaces/default/modeldeployments", body)
    assert reply.code == 422
    cause = reply.body["details"]["causes"][0]
    assert cause["field"] == "spec.template.spec.engines[0].members[0].nodeSelector.devices[0].selectors[0].cel"
    assert "line 1, column" in cause["message"]


def test_a_kind_that_is_stored_and_not_enforced_says_so(api: Api, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    reply = api.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)
    assert reply.code == 201
    assert reply.warnings == ['299 - "resourcequotas: stored, but this API server does not enforce quotas"']
