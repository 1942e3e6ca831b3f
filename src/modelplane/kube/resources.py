"""Plurals and scopes of kinds that we meet every day, so that a start needs no discovery round trip.

Anything else is looked up on the server once. The table says how a kind is spelled, not that a server has it.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import AGENT_GROUP, GROUP, GVK, INFRASTRUCTURE_GROUP, VERSION, Resource

_TABLE: Final = {
    ("", "v1"): {
        True: "ConfigMap Secret Service Pod Event ServiceAccount Endpoints PersistentVolumeClaim ResourceQuota LimitRange",
        False: "Namespace Node PersistentVolume",
    },
    ("apps", "v1"): {True: "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"},
    ("batch", "v1"): {True: "Job CronJob"},
    ("discovery.k8s.io", "v1"): {True: "EndpointSlice"},
    ("coordination.k8s.io", "v1"): {True: "Lease"},
    ("resource.k8s.io", "v1"): {True: "ResourceClaim ResourceClaimTemplate", False: "DeviceClass ResourceSlice"},
    ("rbac.authorization.k8s.io", "v1"): {True: "Role RoleBinding", False: "ClusterRole ClusterRoleBinding"},
    ("storage.k8s.io", "v1"): {False: "StorageClass"},
    ("apiextensions.k8s.io", "v1"): {False: "CustomResourceDefinition"},
    ("policy", "v1"): {True: "PodDisruptionBudget"},
    ("gateway.networking.k8s.io", "v1"): {True: "Gateway HTTPRoute GRPCRoute BackendTLSPolicy", False: "GatewayClass"},
    ("gateway.networking.k8s.io", "v1beta1"): {True: "ReferenceGrant"},
    ("inference.networking.k8s.io", "v1"): {True: "InferencePool"},
    (GROUP, VERSION): {
        True: "ModelDeployment ModelReplica ModelEndpoint ModelService ModelCache",
        False: "InferenceClass InferenceCluster InferenceGateway MetricMapping",
    },
    (INFRASTRUCTURE_GROUP, VERSION): {True: "ServingStack"},
    (AGENT_GROUP, VERSION): {True: "ReplicaObservation", False: "PoolObservation"},
}


def plural(kind: str) -> str:
    """The plural that Kubernetes' own tools would choose for a kind."""
    lower = kind.lower()
    if lower == "endpoints":
        return lower
    if lower.endswith(("s", "x", "ch", "sh")):
        return lower + "es"
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return lower[:-1] + "ies"
    return lower + "s"


KNOWN: Final[dict[GVK, Resource]] = {
    GVK(group, version, name): Resource(GVK(group, version, name), plural(name), namespaced)
    for (group, version), scopes in _TABLE.items()
    for namespaced, names in scopes.items()
    for name in names.split()
}


def known(group: str, version: str, kind: str) -> Resource:
    """A row of the table; KeyError for a kind that needs discovery."""
    return KNOWN[GVK(group, version, kind)]
