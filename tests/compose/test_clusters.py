"""InferenceClass, InferenceCluster, ServingStack: registering a cluster, and what is said when something is amiss."""

from __future__ import annotations

import pytest

from modelplane.api.meta import Object
from modelplane.api.metric_mapping import KIND as METRIC_MAPPING
from modelplane.compose.contract import Absent, After, Answer, Chart, Found, Observed, Unavailable
from modelplane.compose.inference_cluster import gateway_hostname
from modelplane.compose.kinds import GATEWAY, INFERENCE_CLASS, INFERENCE_CLUSTER, SERVING_STACK
from modelplane.compose.registry import COMPOSERS, HOLDERS
from tests.compose.fleet import FakeWorld, Fleet, identity
from tests.compose.objects import (
    SYSTEM,
    device_class,
    inference_class,
    inference_cluster,
    kubeconfig,
    node,
    resource_slice,
)

STACK = "eu-serving-stack-"


def registered(*, cluster: Object | None = None) -> Fleet:
    """A cluster with everything that it needs."""
    fleet = Fleet("eu")
    for obj in (inference_class(), cluster or inference_cluster(), kubeconfig()):
        fleet.apply(obj)
    for obj in (node(), resource_slice(), device_class()):
        fleet.apply(obj, "eu")
    return fleet


def stack_of(fleet: Fleet) -> Object:
    return fleet.all(SERVING_STACK)[0]


def test_a_class_is_ready_at_once_since_it_composes_nothing() -> None:
    fleet = Fleet()
    fleet.apply(inference_class())
    fleet.settle()
    stored = fleet.get(INFERENCE_CLASS, "synthetic-gpu")
    assert fleet.condition(stored, "Accepted")[:2] == ("True", "Available")
    assert fleet.condition(stored, "Ready")[:2] == ("True", "Available")


def test_a_registered_cluster_becomes_ready_and_publishes_what_placement_reads() -> None:
    fleet = registered()
    fleet.settle()
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    for type_, reason in (
        ("ClusterReady", "ClusterRunning"),
        ("BackendReady", "BackendHealthy"),
        ("Reachable", "Answering"),
        ("PoolsLabelled", "Labelled"),
        ("DevicesPublished", "Published"),
        ("Ready", "Available"),
    ):
        assert fleet.condition(cluster, type_)[:2] == ("True", reason)
    status = cluster["status"]
    assert status["gateway"] == {"address": "inference-gateway.eu"}
    assert status["gpuPools"][0]["nodes"] == 1
    assert status["gpuPools"][0]["devices"] == inference_class()["spec"]["devices"]
    assert status["providerConfigRef"]["name"].startswith("eu-cluster-kubeconfig-")
    assert status["namespace"] == SYSTEM


def test_a_stack_that_is_not_ready_is_named_by_its_cluster() -> None:
    fleet = registered()
    fleet.settle(healthy=False)
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    status, reason, message = fleet.condition(cluster, "BackendReady")
    assert (status, reason) == ("False", "Installing")
    assert message.startswith(f"ServingStack {SYSTEM}/{stack_of(fleet)['metadata']['name']} is not ready yet; kubectl")


def test_a_pool_that_grows_publishes_the_most_nodes_it_may_have() -> None:
    pools = [{"name": "pool", "className": "synthetic-gpu", "nodeCount": 1, "maxNodeCount": 4}]
    fleet = registered(cluster=inference_cluster(nodePools=pools))
    fleet.settle()
    assert fleet.get(INFERENCE_CLUSTER, "eu")["status"]["gpuPools"][0]["nodes"] == 4


def test_the_first_pass_is_not_ready_although_nothing_is_wrong() -> None:
    fleet = registered()
    fleet.reconcile(fleet.get(INFERENCE_CLUSTER, "eu"))
    assert fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "Ready")[:2] == ("False", "Creating")


def test_a_missing_class_is_named_and_takes_nothing_away() -> None:
    fleet = registered()
    fleet.settle()
    before = dict(fleet.get(INFERENCE_CLUSTER, "eu")["status"])
    del fleet.stores[None][(INFERENCE_CLASS, "", "synthetic-gpu")]
    fleet.settle()
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    status, reason, message = fleet.condition(cluster, "ClusterReady")
    assert (status, reason) == ("False", "WaitingForClasses")
    assert "synthetic-gpu" in message
    assert cluster["status"]["gpuPools"] == before["gpuPools"]
    assert fleet.all(SERVING_STACK)


CREDENTIALS = [
    ("the Secret does not exist", None, "CredentialMissing", f"Secret {SYSTEM}/eu-kubeconfig does not exist"),
    ("the Secret has another key", kubeconfig(key="config"), "CredentialMissing", "has no key kubeconfig"),
]


@pytest.mark.parametrize(("reason", "secret", "want", "words"), CREDENTIALS, ids=[case[0] for case in CREDENTIALS])
def test_a_bad_kubeconfig_secret_is_named_with_its_key(
    reason: str, secret: Object | None, want: str, words: str
) -> None:
    fleet = registered()
    fleet.settle()
    fleet.stores[None].pop(identity(kubeconfig()))
    if secret is not None:
        fleet.apply(secret)
    fleet.unavailable["eu"] = Unavailable("CredentialMissing", "2026-01-01T00:00:00Z", "no kubeconfig")
    fleet.settle()
    status, code, message = fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "Reachable")
    assert (status, code) == ("False", want)
    assert words in message
    assert "kubeconfig" in message


LOST = [
    (
        "the network is gone",
        "Unreachable",
        "check the network, and the server address in Secret modelplane-system/eu-kubeconfig",
    ),
    (
        "the token expired",
        "Unauthorized",
        "renew the credentials in Secret modelplane-system/eu-kubeconfig key kubeconfig",
    ),
    (
        "the kubeconfig runs a program",
        "CredentialRefused",
        "check Secret modelplane-system/eu-kubeconfig key kubeconfig",
    ),
]


@pytest.mark.parametrize(("reason", "code", "words"), LOST, ids=[case[0] for case in LOST])
def test_losing_a_cluster_changes_conditions_and_no_object(reason: str, code: str, words: str) -> None:
    fleet = registered()
    fleet.settle()
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    before = {key: value for key, value in cluster["status"].items() if key != "conditions"}
    remote = dict(fleet.stores["eu"])
    fleet.unavailable["eu"] = Unavailable(code, "2026-01-01T00:00:00Z", "it broke")
    fleet.settle()
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    status, seen, message = fleet.condition(cluster, "Reachable")
    assert (status, seen) == ("False", code)
    assert "it broke" in message
    assert words in message
    assert fleet.condition(cluster, "Ready")[:2] == ("False", code)
    assert fleet.condition(stack_of(fleet), "Ready")[:2] == ("Unknown", code)
    assert {key: value for key, value in cluster["status"].items() if key != "conditions"} == before
    assert fleet.stores["eu"] == remote
    del fleet.unavailable["eu"]
    fleet.settle()
    assert fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "Ready")[0] == "True"


LACKS = [
    ("no node has the pool's label", node(), "PoolsLabelled", "LabelMissing", "modelplane.ai/pool=pool"),
    ("nobody publishes devices", resource_slice(), "DevicesPublished", "DevicesMissing", "driver gpu.example.com"),
    (
        "the device class is missing",
        device_class(),
        "DevicesPublished",
        "DevicesMissing",
        "DeviceClass gpu.example.com",
    ),
]


@pytest.mark.parametrize(("reason", "absent", "type_", "code", "words"), LACKS, ids=[case[0] for case in LACKS])
def test_what_a_cluster_lacks_is_named(reason: str, absent: Object, type_: str, code: str, words: str) -> None:
    fleet = registered()
    fleet.stores["eu"].pop(identity(absent))
    fleet.settle()
    status, seen, message = fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), type_)
    assert (status, seen) == ("False", code)
    assert words in message


def test_a_pool_that_may_be_empty_needs_no_labelled_node() -> None:
    pools = [
        {"name": "pool", "className": "synthetic-gpu", "nodeCount": 1},
        {"name": "spare", "className": "synthetic-gpu", "nodeCount": 0, "maxNodeCount": 4},
    ]
    fleet = registered(cluster=inference_cluster(nodePools=pools))
    fleet.settle()
    assert fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "PoolsLabelled")[0] == "True"


@pytest.mark.parametrize(
    ("sizes", "nodes", "status", "code", "words", "reason"),
    [
        ({"nodeCount": 2}, 2, "True", "Labelled", "", "as declared"),
        (
            {"nodeCount": 3},
            1,
            "False",
            "NodesMissing",
            "pool pool declares 3 and 1 has its label",
            "fewer, so pods would wait",
        ),
        (
            {"nodeCount": 1},
            2,
            "True",
            "Labelled",
            "pool pool declares 1 and 2 have its label",
            "more, which nobody uses",
        ),
        ({"nodeCount": 0}, 1, "True", "Labelled", "declares 0 and 1 have", "a pool that is declared empty"),
        ({"nodeCount": 2, "maxNodeCount": 4}, 1, "True", "Labelled", "", "between its sizes"),
        (
            {"nodeCount": 2, "minNodeCount": 2, "maxNodeCount": 4},
            1,
            "False",
            "NodesMissing",
            "declares 2",
            "below the least",
        ),
        (
            {"nodeCount": 1, "maxNodeCount": 2},
            3,
            "True",
            "Labelled",
            "pool pool declares 2 and 3 have",
            "above the most",
        ),
        ({"nodeCount": 1, "minNodeCount": 0, "maxNodeCount": 2}, 0, "True", "Labelled", "", "shrunk to nothing"),
        (
            {"nodeCount": 2},
            0,
            "False",
            "LabelMissing",
            "kubectl label node NODE modelplane.ai/pool=pool",
            "none at all",
        ),
    ],
)
def test_nodes_that_exist_are_held_against_those_that_are_declared(
    sizes: Object, nodes: int, status: str, code: str, words: str, reason: str
) -> None:
    fleet = registered(cluster=inference_cluster(nodePools=[{"name": "pool", "className": "synthetic-gpu", **sizes}]))
    fleet.stores["eu"].pop(identity(node()))
    for number in range(nodes):
        one = node()
        one["metadata"]["name"] = f"node-{number}"
        fleet.apply(one, "eu")
    fleet.settle()
    cluster = fleet.get(INFERENCE_CLUSTER, "eu")
    seen = fleet.condition(cluster, "PoolsLabelled")
    assert seen[:2] == (status, code), reason
    assert words in seen[2], reason
    assert bool(seen[2]) is bool(words), reason
    assert fleet.condition(cluster, "Ready")[0] == "True", "what is there can be used"


def test_a_storage_class_that_does_not_exist_is_named() -> None:
    cluster = inference_cluster(existing={"cache": {"storageClassName": "fast"}})
    fleet = registered(cluster=cluster)
    fleet.settle()
    stored = fleet.get(INFERENCE_CLUSTER, "eu")
    status, reason, message = fleet.condition(stored, "CacheStorageReady")
    assert (status, reason) == ("False", "StorageClassMissing")
    assert "fast" in message
    assert stored["status"]["cache"] == {"storageClassName": "fast"}


def test_a_source_that_is_not_provisioned_yet_says_what_to_do_instead() -> None:
    fleet = registered(cluster=inference_cluster(source="GKE"))
    fleet.settle()
    status, reason, message = fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "Ready")
    assert (status, reason) == ("False", "Unsupported")
    assert "Existing" in message
    assert not fleet.all(SERVING_STACK)


def test_bare_metal_is_answered_the_same() -> None:
    block = {"region": "ord", "ssh": {"secretRef": {"name": "keys"}}}
    fleet = registered(cluster=inference_cluster(cluster={"source": "VultrBaremetal", "vultrBaremetal": block}))
    fleet.settle()
    status, reason, message = fleet.condition(fleet.get(INFERENCE_CLUSTER, "eu"), "Ready")
    assert (status, reason) == ("False", "Unsupported")
    assert message.startswith("spec.cluster.source VultrBaremetal is not provisioned by this version")
    assert not fleet.all(SERVING_STACK)


def test_an_identity_reaches_the_stack() -> None:
    fleet = registered(cluster=inference_cluster(existing={"identitySecretRef": {"name": "sa"}}))
    fleet.settle()
    assert stack_of(fleet)["spec"]["secrets"][1] == {
        "type": "GoogleApplicationCredentials",
        "name": "sa",
        "key": "private_key",
    }


def test_a_cluster_is_held_by_the_replicas_that_are_placed_on_it() -> None:
    (read,) = HOLDERS[INFERENCE_CLUSTER](inference_cluster("eu"))
    assert read.labels == (("modelplane.ai/cluster", "eu"),)
    assert read.namespace is None


def test_a_gateway_host_name_is_one_dns_label_below_the_system_namespace() -> None:
    assert gateway_hostname("gpu-us-east") == "gateway-gpu-us-east-67a82.modelplane-system.svc.cluster.local"
    assert gateway_hostname("a.b").startswith("gateway-a-b-3c1ad.")


# --- the stack --------------------------------------------------------------------------------------------------


def test_a_stack_installs_every_chart_on_its_cluster_under_a_prefixed_release() -> None:
    fleet = registered()
    fleet.settle()
    charts = [child for child in fleet.last[identity(stack_of(fleet))].children if isinstance(child, Chart)]
    assert [chart.key for chart in charts] == [
        "cert-manager",
        "envoy-gateway",
        "ai-gateway-crds",
        "ai-gateway",
        "prometheus",
        "leader-worker-set",
        "node-feature-discovery",
        "dra-driver",
    ]
    assert all(chart.target == "eu" and chart.release == f"mp-{chart.name}" for chart in charts)


def test_a_stack_waits_for_the_gateways_address_and_says_so() -> None:
    fleet = registered()
    fleet.settle(healthy=False)
    stack = stack_of(fleet)
    status, reason, message = fleet.condition(stack, "Ready")
    assert (status, reason) == ("False", "Creating")
    assert "load balancer" in message
    assert "gateway" not in stack["status"]


def test_a_gateway_address_that_vanishes_for_a_moment_stays_published() -> None:
    fleet = registered()
    fleet.settle()
    fleet.get(GATEWAY, "inference-gateway", SYSTEM, "eu")["status"] = {}
    fleet.settle(healthy=False)
    assert stack_of(fleet)["status"]["gateway"] == {"address": "inference-gateway.eu"}
    assert fleet.get(INFERENCE_CLUSTER, "eu")["status"]["gateway"] == {"address": "inference-gateway.eu"}


def test_a_gateway_address_outlives_the_stack_that_found_it() -> None:
    fleet = registered()
    fleet.settle()
    fleet.stores[None].pop(identity(stack_of(fleet)))
    fleet.reconcile(fleet.get(INFERENCE_CLUSTER, "eu"))
    assert fleet.get(INFERENCE_CLUSTER, "eu")["status"]["gateway"] == {"address": "inference-gateway.eu"}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(Found({"metadata": {"name": SYSTEM}}), "True", id="somebody else made it"),
        pytest.param(Absent(), "False", id="nobody has made it yet"),
    ],
)
def test_a_system_namespace_that_somebody_else_made_on_the_cluster_is_as_good(answer: Answer, status: str) -> None:
    fleet = registered()
    fleet.settle()
    stack = stack_of(fleet)
    composer = COMPOSERS[SERVING_STACK]
    [sight] = composer.reads(stack, {})
    children = composer.compose(stack, FakeWorld({sight: answer})).children
    seen = Observed(manifest={"metadata": {}}, ready=True)
    observed = {child.key: seen for child in children if child.key != "gateway-namespace"}
    ready = composer.compose(stack, FakeWorld({sight: answer}, observed=observed)).ready
    assert ready is not None
    assert ready.status == status


def test_a_stack_without_a_cluster_is_not_installed_anywhere() -> None:
    fleet = registered()
    fleet.settle()
    stack = dict(stack_of(fleet))
    stack["metadata"] = {**stack["metadata"], "ownerReferences": []}
    composition = COMPOSERS[SERVING_STACK].compose(stack, _Nothing())
    assert composition.held
    assert composition.ready is not None
    assert composition.ready.reason == "Orphaned"


class _Nothing(Fleet):
    """A world that must not be looked at."""

    def __init__(self) -> None:
        self.host = None  # type: ignore[assignment]


def test_gateways_go_before_the_controllers_that_clear_their_finalizers() -> None:
    edges = COMPOSERS[SERVING_STACK].deletion_order({})
    assert After("gateway", "gateway-class") in edges
    assert After("gateway-class", "envoy-gateway") in edges


def test_a_mapping_of_metrics_is_ready_at_once() -> None:
    fleet = Fleet()
    fleet.apply(
        {"apiVersion": "modelplane.ai/v1alpha1", "kind": "MetricMapping", "metadata": {"name": "vllm"}, "spec": {}}
    )
    fleet.settle()
    assert fleet.condition(fleet.get(METRIC_MAPPING, "vllm"), "Ready")[:2] == ("True", "Available")
