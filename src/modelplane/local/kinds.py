"""The kinds that a simulated cluster's pieces watch and write, spelled for URLs."""

from __future__ import annotations

from typing import Final

from modelplane.kube.resources import known

POD: Final = known("", "v1", "Pod")
NODE: Final = known("", "v1", "Node")
SERVICE: Final = known("", "v1", "Service")
NAMESPACE: Final = known("", "v1", "Namespace")
SERVICE_ACCOUNT: Final = known("", "v1", "ServiceAccount")
CONFIG_MAP: Final = known("", "v1", "ConfigMap")
SECRET: Final = known("", "v1", "Secret")
EVENT: Final = known("", "v1", "Event")
DEPLOYMENT: Final = known("apps", "v1", "Deployment")
REPLICA_SET: Final = known("apps", "v1", "ReplicaSet")
JOB: Final = known("batch", "v1", "Job")
ENDPOINT_SLICE: Final = known("discovery.k8s.io", "v1", "EndpointSlice")
LEASE: Final = known("coordination.k8s.io", "v1", "Lease")
CLAIM: Final = known("resource.k8s.io", "v1", "ResourceClaim")
CLAIM_TEMPLATE: Final = known("resource.k8s.io", "v1", "ResourceClaimTemplate")
DEVICE_CLASS: Final = known("resource.k8s.io", "v1", "DeviceClass")
RESOURCE_SLICE: Final = known("resource.k8s.io", "v1", "ResourceSlice")
