"""Built-in kinds: every schema compiles, and the defaults are those that kubectl users see."""

import pytest

from modelplane.api.meta import GVK
from modelplane.server.builtin import builtin_schema, resource_types

KINDS = {kind.gvk: kind for kind in resource_types()}


@pytest.mark.parametrize("gvk", KINDS, ids=str)
def test_every_kind_has_a_schema_with_metadata_as_far_as_it_is_stored(gvk: GVK) -> None:
    schema = KINDS[gvk].schema
    assert schema.node.type == "object"
    assert "kind" in schema.node.properties
    if KINDS[gvk].stored:
        assert "name" in schema.node.properties["metadata"].properties


def test_no_two_kinds_answer_to_one_path() -> None:
    paths = [kind.resource.path() for kind in resource_types()]
    assert len(set(paths)) == len(paths)


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "ghcr.io:443/a/web:1",
                        "ports": [{"containerPort": 80}],
                        "readinessProbe": {"httpGet": {"port": 80}},
                    }
                ]
            },
        },
    },
}


def test_a_deployment_gets_the_defaults_of_its_spec_template_containers_and_probes() -> None:
    spec = KINDS[GVK("apps", "v1", "Deployment")].schema.default(DEPLOYMENT)["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["dnsPolicy"], pod["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert "enableServiceLinks" not in pod, "only pods get it, templates do not"
    container = pod["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent", "the registry's port is no tag"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_defaulting_leaves_its_input_alone_and_is_idempotent() -> None:
    schema = KINDS[GVK("apps", "v1", "Deployment")].schema
    once = schema.default(DEPLOYMENT)
    assert "replicas" not in DEPLOYMENT["spec"]
    assert schema.default(once) == once


@pytest.mark.parametrize(
    ("image", "policy", "reason"),
    [
        ("nginx", "Always", "no tag means the newest"),
        ("nginx:latest", "Always", "so does latest"),
        ("nginx:1.27", "IfNotPresent", "a tag names one image"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent", "a digest does too"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str, reason: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": image}]}}
    assert builtin_schema(GVK("", "v1", "Pod")).default(pod)["spec"]["containers"][0]["imagePullPolicy"] == policy, (
        reason
    )


def test_a_pods_requests_default_to_its_limits() -> None:
    limits = {"cpu": "2", "nvidia.com/gpu": "1"}
    container = {"name": "a", "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    resources = builtin_schema(GVK("", "v1", "Pod")).default(pod)["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1", "nvidia.com/gpu": "1"}


def test_service_ports_and_policies_are_filled_in() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    spec = builtin_schema(GVK("", "v1", "Service")).default(service)["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")


def test_a_secrets_plain_strings_become_data_and_are_not_kept() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eQ=="}}
    stored = builtin_schema(GVK("", "v1", "Secret")).default(secret)
    assert stored["data"] == {"a": "Yg==", "c": "eQ=="}
    assert "stringData" not in stored
    assert stored["type"] == "Opaque"


def test_unknown_fields_are_pruned_with_their_paths() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "lables": {}},
        "spec": {"containers": [{"name": "a", "imagePolicy": "x"}], "nodeSelector": {"any": "thing"}},
    }
    kept, unknown = builtin_schema(GVK("", "v1", "Pod")).prune(pod)
    assert unknown == ["metadata.lables", "spec.containers[0].imagePolicy"]
    assert kept["spec"] == {"containers": [{"name": "a"}], "nodeSelector": {"any": "thing"}}
    assert kept["metadata"] == {"name": "a"}


def test_what_is_all_known_is_returned_as_it_came() -> None:
    kept, unknown = builtin_schema(GVK("apps", "v1", "Deployment")).prune(DEPLOYMENT)
    assert kept is DEPLOYMENT
    assert unknown == []


def test_free_form_values_are_kept() -> None:
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {"any": {"thing": [1]}}, "revision": 1}
    assert builtin_schema(GVK("apps", "v1", "ControllerRevision")).prune(revision) == (revision, [])
