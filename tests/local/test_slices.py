"""EndpointSlices say which pods a Service reaches, on which port, and in which state."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local.controllers import slices

from .objects import pod, ready


def service(**spec: Any) -> Object:
    spec = {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": 8000}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default", "uid": "uid-s", "labels": {"team": "ml"}},
        "spec": spec,
    }


def backend(name: str, *, is_ready: bool = True, deleting: bool = False, ports: Any = ()) -> Object:
    made = pod(name, nodeName="n1")
    made["metadata"]["labels"] = {"app": "a"}
    made["spec"]["containers"][0]["ports"] = list(ports)
    made = ready(made)
    if not is_ready:
        made["status"]["conditions"][0]["status"] = "False"
    if deleting:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


STATES = [
    ("a ready pod", {}, {}, (True, True, False)),
    ("a pod that is not ready", {"is_ready": False}, {}, (False, False, False)),
    (
        "a ready pod that is being deleted still serves but takes nothing new",
        {"deleting": True},
        {},
        (False, True, True),
    ),
    ("published although not ready", {"is_ready": False}, {"publishNotReadyAddresses": True}, (True, False, False)),
]


@pytest.mark.parametrize(("reason", "state", "spec", "want"), STATES, ids=[s[0] for s in STATES])
def test_conditions_of_an_endpoint(reason: str, state: Any, spec: Any, want: tuple[bool, bool, bool]) -> None:
    [made] = slices.desired(service(**spec), [backend("p", **state)], {})
    conditions = made["endpoints"][0]["conditions"]
    assert (conditions["ready"], conditions["serving"], conditions["terminating"]) == want, reason


def test_a_slice_is_labelled_owned_and_points_to_its_pod() -> None:
    [made] = slices.desired(service(clusterIP="None"), [backend("p")], {})
    assert made["metadata"]["labels"] == {
        "team": "ml",
        "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-s"
    assert made["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]
    assert made["endpoints"][0]["targetRef"] == {"kind": "Pod", "name": "p", "namespace": "default", "uid": "uid-p"}
    assert made["endpoints"][0]["nodeName"] == "n1"


def test_pods_whose_named_port_differs_are_in_slices_of_their_own() -> None:
    named = service(ports=[{"port": 80, "targetPort": "web"}])
    made = slices.desired(
        named,
        [
            backend("a", ports=[{"name": "web", "containerPort": 8000}]),
            backend("b", ports=[{"name": "web", "containerPort": 9000}]),
        ],
        {},
    )
    assert sorted(s["ports"][0]["port"] for s in made) == [8000, 9000]


def test_finished_pods_and_pods_without_address_are_left_out() -> None:
    finished = backend("done")
    finished["status"]["phase"] = "Succeeded"
    homeless = pod("new")
    homeless["metadata"]["labels"] = {"app": "a"}
    [made] = slices.desired(service(), [finished, homeless], {})
    assert made["endpoints"] == []


def test_more_than_a_hundred_endpoints_are_split() -> None:
    made = slices.desired(service(), [backend(f"p{n:03}") for n in range(250)], {})
    assert [len(s["endpoints"]) for s in made] == [100, 100, 50]


def test_an_endpoint_is_in_the_zone_of_its_node() -> None:
    [made] = slices.desired(service(), [backend("p")], {"n1": "a"})
    assert made["endpoints"][0]["zone"] == "a"
    [made] = slices.desired(service(), [backend("p")], {"n2": "a"})
    assert "zone" not in made["endpoints"][0]
    assert slices.zone({"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}}) == "a"
    assert slices.zone(None) is slices.zone({"metadata": {}}) is None
