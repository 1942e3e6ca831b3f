"""Identities of the kinds that composers read and write, and the one constructor of a foreign manifest.

Other projects' objects stay plain JSON: typing all of Gateway API or apps/v1 would buy nothing that the API server's own
schemas do not already judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from modelplane.api.meta import GROUP, GVK, INFRASTRUCTURE_GROUP, VERSION, Object

INFERENCE_CLASS: Final = GVK(GROUP, VERSION, "InferenceClass")
INFERENCE_CLUSTER: Final = GVK(GROUP, VERSION, "InferenceCluster")
INFERENCE_GATEWAY: Final = GVK(GROUP, VERSION, "InferenceGateway")
MODEL_CACHE: Final = GVK(GROUP, VERSION, "ModelCache")
MODEL_DEPLOYMENT: Final = GVK(GROUP, VERSION, "ModelDeployment")
MODEL_ENDPOINT: Final = GVK(GROUP, VERSION, "ModelEndpoint")
MODEL_REPLICA: Final = GVK(GROUP, VERSION, "ModelReplica")
MODEL_SERVICE: Final = GVK(GROUP, VERSION, "ModelService")
SERVING_STACK: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "ServingStack")

CONFIG_MAP: Final = GVK("", "v1", "ConfigMap")
NAMESPACE: Final = GVK("", "v1", "Namespace")
NODE: Final = GVK("", "v1", "Node")
RESOURCE_QUOTA: Final = GVK("", "v1", "ResourceQuota")
SECRET: Final = GVK("", "v1", "Secret")
SERVICE: Final = GVK("", "v1", "Service")
SERVICE_ACCOUNT: Final = GVK("", "v1", "ServiceAccount")
DEVICE_CLASS: Final = GVK("resource.k8s.io", "v1", "DeviceClass")
DEPLOYMENT: Final = GVK("apps", "v1", "Deployment")
ENDPOINT_SLICE: Final = GVK("discovery.k8s.io", "v1", "EndpointSlice")
ROLE: Final = GVK("rbac.authorization.k8s.io", "v1", "Role")
ROLE_BINDING: Final = GVK("rbac.authorization.k8s.io", "v1", "RoleBinding")
RESOURCE_CLAIM_TEMPLATE: Final = GVK("resource.k8s.io", "v1", "ResourceClaimTemplate")
RESOURCE_SLICE: Final = GVK("resource.k8s.io", "v1", "ResourceSlice")
STORAGE_CLASS: Final = GVK("storage.k8s.io", "v1", "StorageClass")

GATEWAY: Final = GVK("gateway.networking.k8s.io", "v1", "Gateway")
GATEWAY_CLASS: Final = GVK("gateway.networking.k8s.io", "v1", "GatewayClass")
HTTP_ROUTE: Final = GVK("gateway.networking.k8s.io", "v1", "HTTPRoute")
INFERENCE_POOL: Final = GVK("inference.networking.k8s.io", "v1", "InferencePool")
ENVOY_PROXY: Final = GVK("gateway.envoyproxy.io", "v1alpha1", "EnvoyProxy")
LEADER_WORKER_SET: Final = GVK("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
IP_ADDRESS_POOL: Final = GVK("metallb.io", "v1beta1", "IPAddressPool")
L2_ADVERTISEMENT: Final = GVK("metallb.io", "v1beta1", "L2Advertisement")


def manifest(
    kind: GVK,
    name: str,
    namespace: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **body: Any,
) -> Object:
    """A manifest with its identity; ``body`` holds the top-level fields such as ``spec``. Empty metadata is left out."""
    metadata: Object = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}
