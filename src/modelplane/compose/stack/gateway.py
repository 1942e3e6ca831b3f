"""The objects that a serving stack puts on its cluster beside charts: the cluster's gateway, and room for critical pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.compose.contract import Cel, Child, OnCreate
from modelplane.compose.kinds import (
    ENVOY_PROXY,
    GATEWAY,
    GATEWAY_CLASS,
    NAMESPACE,
    RESOURCE_QUOTA,
    manifest,
)

CLUSTER_GATEWAY: Final = "inference-gateway"
NAMESPACE_KEY: Final = "gateway-namespace"
CONTROLLER: Final = "gateway.envoyproxy.io/gatewayclass-controller"

HAS_ADDRESS: Final = Cel("has(object.status) && has(object.status.addresses) && size(object.status.addresses) > 0")
"""A Gateway is of use once it has an address; clusters without a load balancer never give one, and then it never is."""


def gateway_objects(cluster: str, class_name: str, listeners: Sequence[Object]) -> list[Child]:
    """Namespace, proxy settings, class and gateway, in the order in which they can be applied."""
    children = {
        NAMESPACE_KEY: manifest(NAMESPACE, SYSTEM_NAMESPACE),
        "gateway-proxy": _proxy(),
        "gateway-class": _gateway_class(class_name),
        "gateway": _gateway(class_name, listeners),
    }
    return [
        Child(
            key=key,
            manifest=body,
            target=cluster,
            # Engines of a stack that goes still have routes and secrets of replicas in this namespace's gateway.
            retain=key == NAMESPACE_KEY,
            ready=HAS_ADDRESS if key == "gateway" else OnCreate(),
        )
        for key, body in children.items()
    ]


def critical_pods_quota(cluster: str) -> Child:
    """Room for the device driver's pods, in the namespace that the driver's chart creates."""
    # GKE refuses pods of these priority classes outside kube-system without a quota; elsewhere it only grants headroom.
    spec = {
        "hard": {"pods": "1000"},
        "scopeSelector": {
            "matchExpressions": [
                {
                    "operator": "In",
                    "scopeName": "PriorityClass",
                    "values": ["system-node-critical", "system-cluster-critical"],
                }
            ]
        },
    }
    quota = manifest(RESOURCE_QUOTA, "allow-critical-pods", "dra-driver-nvidia-gpu", spec=spec)
    return Child(key="dra-driver-critical-pods-quota", manifest=quota, target=cluster)


def _proxy() -> Object:
    # Envoy Gateway's own default, Local, keeps some clouds from ever assigning an address.
    service = {"externalTrafficPolicy": "Cluster"}
    provider = {"type": "Kubernetes", "kubernetes": {"envoyService": service}}
    return manifest(ENVOY_PROXY, CLUSTER_GATEWAY, SYSTEM_NAMESPACE, spec={"provider": provider})


def _gateway_class(name: str) -> Object:
    parameters = {
        "group": ENVOY_PROXY.group,
        "kind": ENVOY_PROXY.kind,
        "name": CLUSTER_GATEWAY,
        "namespace": SYSTEM_NAMESPACE,
    }
    return manifest(GATEWAY_CLASS, name, spec={"controllerName": CONTROLLER, "parametersRef": parameters})


def _gateway(class_name: str, listeners: Sequence[Object]) -> Object:
    everywhere = {"namespaces": {"from": "All"}}
    spec = {
        "gatewayClassName": class_name,
        "listeners": [{**listener, "allowedRoutes": everywhere} for listener in listeners],
    }
    return manifest(GATEWAY, CLUSTER_GATEWAY, SYSTEM_NAMESPACE, spec=spec)
