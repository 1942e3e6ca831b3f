"""The golden set: at least three accepted and five refused objects of every kind, with path and words of the refusal."""

from __future__ import annotations

from typing import Any, Final

from tests.api.admission import GONE
from tests.api.bases import BASES
from tests.api.test_rules import ACCEPTED as RULED_ACCEPTED
from tests.api.test_rules import BARE_METAL
from tests.api.test_rules import REFUSED as RULED_REFUSED

_POOL: Final = "nodePools.0"
ACCEPTED: Final[list[tuple[str, dict[str, Any], str]]] = [
    *RULED_ACCEPTED,
    ("ModelReplica", {"serving": {"mode": "Unified"}}, "the default, written down"),
    ("ModelReplica", {"modelCacheRef": {"name": "c"}}, "with a cache"),
    ("ModelRoute", {"endpoints.0.priority": 63}, "the last priority"),
    ("ModelRoute", {"timeouts.idle": "0s"}, "no limit"),
    ("ModelCache", {"clusterSelector": {}}, "an empty selector is every cluster"),
    ("ModelCache", {"huggingFace.authSecret": {"name": "t"}}, "with a token"),
    ("ServingStack", {"stack": "Dynamo"}, "the other serving layer"),
    ("ServingStack", {"gateway.clientCAs": [{"name": "g", "certificate": "PEM"}]}, "with an authority"),
    ("GKECluster", {"networking": {}}, "default ranges"),
    ("EKSCluster", {f"{_POOL}.fabric": "EFA"}, "with EFA"),
    ("EKSCluster", {f"{_POOL}.capacityBlock": {"capacityReservationId": "cr-0a"}}, "a purchased block"),
    ("AKSCluster", {f"{_POOL}.fabric": "InfiniBand"}, "with InfiniBand"),
    ("AKSCluster", {f"{_POOL}.zones": ["1", "2"]}, "zones"),
    ("NebiusCluster", {f"{_POOL}.nodeCount": 0}, "no node yet"),
    ("VultrCluster", {f"{_POOL}.minNodeCount": 1, f"{_POOL}.maxNodeCount": 2}, "a growing pool"),
    ("VultrCluster", {"credentials": {}}, "default credentials"),
    ("VultrBaremetalCluster", {}, "the smallest one"),
    ("VultrBaremetalCluster", {f"{_POOL}.osId": 1743, f"{_POOL}.nodeCount": 64}, "a pool with an image of its own"),
    ("VultrBaremetalCluster", {"management": {"plan": "p"}, "k3s": {"channel": "v1.35"}}, "another server and release"),
    ("VultrBaremetalCluster", {"ssh.username": "ops", "credentials": {"type": "ProviderConfig"}}, "another user"),
    ("K3sCluster", {}, "one machine is a cluster"),
    ("K3sCluster", {"version": {"version": "v1.34.2+k3s1"}}, "an exact release"),
    ("K3sCluster", {"version": {"channel": "stable"}, "auth.username": "ops"}, "a channel"),
    (
        "K3sCluster",
        {"workers": [{"name": "a", "host": "b", "taints": [{"key": "c", "effect": "PreferNoSchedule"}]}]},
        "a worker with a taint",
    ),
    ("MetricMapping", {}, "one metric"),
    ("MetricMapping", {"selector": {"matchLabels": {"modelplane.ai/engine": "vllm"}}}, "pods of one engine"),
    ("MetricMapping", {"labels": {"add": {"team": "ml"}}, "rename": {}}, "a label and no other name"),
    (
        "InferenceCluster",
        {"cluster": BARE_METAL},
        "bare metal, pools of a fixed size",
    ),
    (
        "InferenceClass",
        {
            "provisioning": {
                "provider": "VultrBaremetal",
                "vultrBaremetal": {"plan": "p", "accelerator": {"type": "amd-mi300x", "count": 8}},
            }
        },
        "bare metal",
    ),
    ("PoolObservation", {"poolName": "x" * 63}, "the longest label value"),
    ("PoolObservation", {"poolName": "a.b"}, "with a dot"),
    ("ReplicaObservation", {"podSelector": {}}, "every pod with the label"),
    ("ReplicaObservation", {"podSelector.matchLabels": {"a": ""}}, "an empty value"),
]


REFUSED: Final[list[tuple[str, dict[str, Any], str, str]]] = [
    *RULED_REFUSED,
    ("InferenceClass", {"devices": []}, "spec.devices", "at least 1 items"),
    ("InferenceClass", {"devices.0.count": 65}, "spec.devices[0].count", "less than or equal to 64"),
    ("InferenceCluster", {"cluster.source": "OnPrem"}, "spec.cluster.source", 'supported values: "GKE"'),
    (
        "InferenceCluster",
        {f"{_POOL}.nodeCount": -1},
        f"spec.{_POOL}".replace(".0", "[0]") + ".nodeCount",
        "greater than or equal to 0",
    ),
    ("InferenceGateway", {"backend": "Nginx"}, "spec.backend", 'supported values: "Traefik"'),
    ("ModelDeployment", {"replicas": "two"}, "spec.replicas", "must be of type integer"),
    ("ModelService", {"endpoints": []}, "spec.endpoints", "at least 1 items"),
    ("ModelService", {"endpoints.0.weight": 0}, "spec.endpoints[0].weight", "greater than or equal to 1"),
    (
        "ModelService",
        {"endpoints.0.selector.matchLabels": {}},
        "spec.endpoints[0].selector.matchLabels",
        "at least 1 properties",
    ),
    ("ModelEndpoint", {"url": ""}, "spec.url", "at least 1 chars long"),
    ("ModelReplica", {"clusterName": ""}, "spec.clusterName", "at least 1 chars long"),
    ("ModelRoute", {"gatewayName": ""}, "spec.gatewayName", "at least 1 chars long"),
    ("ModelRoute", {"endpoints": []}, "spec.endpoints", "at least 1 items"),
    ("ModelRoute", {"endpoints.0.name": "Upper"}, "spec.endpoints[0].name", "should match"),
    ("ModelRoute", {"endpoints.0.priority": 64}, "spec.endpoints[0].priority", "less than or equal to 63"),
    ("ModelRoute", {"timeouts.request": "soon"}, "spec.timeouts.request", "should match"),
    ("ModelCache", {"source": "S3"}, "spec.source", 'supported values: "HuggingFace"'),
    ("ModelCache", {"huggingFace.sizeGiB": 0}, "spec.huggingFace.sizeGiB", "greater than or equal to 1"),
    ("ModelCache", {"huggingFace.sizeGiB": 100001}, "spec.huggingFace.sizeGiB", "less than or equal to 100000"),
    ("ModelCache", {"huggingFace.repo": ""}, "spec.huggingFace.repo", "at least 1 chars long"),
    ("ServingStack", {"secrets": []}, "spec.secrets", "at least 1 items"),
    ("ServingStack", {"cloud": "OnPrem"}, "spec.cloud", "supported values"),
    ("ServingStack", {"gateway.hostname": ""}, "spec.gateway.hostname", "at least 1 chars long"),
    ("ServingStack", {"gateway.className": "x" * 64}, "spec.gateway.className", "may not be more than 63"),
    ("VultrBaremetalCluster", {"nodePools": []}, "spec.nodePools", "at least 1 items"),
    ("VultrBaremetalCluster", {f"{_POOL}.nodeCount": 65}, "spec.nodePools[0].nodeCount", "less than or equal to 64"),
    ("VultrBaremetalCluster", {f"{_POOL}.gpu": GONE}, "spec.nodePools[0].gpu", "Required"),
    ("VultrBaremetalCluster", {"ssh": GONE}, "spec.ssh", "Required"),
    ("VultrBaremetalCluster", {"region": "x" * 33}, "spec.region", "may not be more than 32"),
    ("VultrBaremetalCluster", {"management": {"osId": "ubuntu"}}, "spec.management.osId", "must be of type integer"),
    (
        "VultrBaremetalCluster",
        {"nodePools.1": BASES["VultrBaremetalCluster"]["nodePools"][0]},
        "spec.nodePools[1]",
        "Duplicate",
    ),
    ("K3sCluster", {"controlPlane.host": ""}, "spec.controlPlane.host", "at least 1 chars long"),
    ("K3sCluster", {"controlPlane.port": 65536}, "spec.controlPlane.port", "less than or equal to 65535"),
    ("K3sCluster", {"auth.secretRef": GONE}, "spec.auth.secretRef", "Required"),
    (
        "K3sCluster",
        {"workers": [{"name": "a", "host": "b", "taints": [{"key": "c", "effect": "Never"}]}]},
        "spec.workers[0].taints[0].effect",
        'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
    ),
    ("K3sCluster", {"workers": [{"name": "a", "host": "b"}] * 2}, "spec.workers[1]", "Duplicate"),
    ("MetricMapping", {"rename": {"a": 1}}, "spec.rename.a", "must be of type string"),
    ("MetricMapping", {"rename": ["a"]}, "spec.rename", "must be of type object"),
    ("MetricMapping", {"selector": "a=b"}, "spec.selector", "must be of type object"),
    (
        "MetricMapping",
        {"selector": {"matchLabels": {"a": True}}},
        "spec.selector.matchLabels.a",
        "must be of type string",
    ),
    ("MetricMapping", {"labels": {"add": ["a"]}}, "spec.labels.add", "must be of type object"),
    ("PoolObservation", {"poolName": ""}, "spec.poolName", "at least 1 chars long"),
    ("PoolObservation", {"poolName": "x" * 64}, "spec.poolName", "may not be more than 63"),
    ("PoolObservation", {"poolName": 1}, "spec.poolName", "must be of type string"),
    ("PoolObservation", {"poolName": ["a"]}, "spec.poolName", "must be of type string"),
    ("PoolObservation", {"poolName": True}, "spec.poolName", "must be of type string"),
    ("ReplicaObservation", {"podSelector": "a=b"}, "spec.podSelector", "must be of type object"),
    (
        "ReplicaObservation",
        {"podSelector.matchLabels": ["a"]},
        "spec.podSelector.matchLabels",
        "must be of type object",
    ),
    (
        "ReplicaObservation",
        {"podSelector.matchLabels": {"a": 1}},
        "spec.podSelector.matchLabels.a",
        "must be of type string",
    ),
    (
        "ReplicaObservation",
        {"podSelector.matchLabels": {"a": "x" * 64}},
        "spec.podSelector.matchLabels.a",
        "may not be more than 63",
    ),
    (
        "ReplicaObservation",
        {"podSelector.matchLabels": {str(number): "a" for number in range(17)}},
        "spec.podSelector.matchLabels",
        "at most 16 items",
    ),
]

for _kind in ("GKECluster", "EKSCluster", "AKSCluster", "NebiusCluster", "VultrCluster"):
    REFUSED += [
        (_kind, {"nodePools": []}, "spec.nodePools", "at least 1 items"),
        (_kind, {f"{_POOL}.role": "CPU"}, "spec.nodePools[0].role", 'supported values: "System", "GPU"'),
        (_kind, {f"{_POOL}.nodeCount": 1001}, "spec.nodePools[0].nodeCount", "less than or equal to 1000"),
        (_kind, {"kubernetesVersion": "x" * 17}, "spec.kubernetesVersion", "may not be more than 16"),
        (_kind, {"credentials": {"type": "Secret"}}, "spec.credentials.type", "supported values"),
        (_kind, {"nodePools.1": BASES[_kind]["nodePools"][0]}, "spec.nodePools[1]", "Duplicate"),
    ]
