"""The charts of a serving stack, as data: what is installed on every registered cluster, with which values.

Versions are fixed per release of ours. Release names carry the prefix `mp-`, so that a release of the cluster's owner is never
adopted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelplane.api.cloud import Source
from modelplane.compose.contract import Chart

_GPU_TOLERATION: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
DRIVER_ROOTS: Final = {Source.GKE: "/home/kubernetes/bin/nvidia"}
"""Where the NVIDIA driver is on the host, for clouds that do not have it at the root."""


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One chart."""

    key: str
    chart: str
    repository: str
    version: str
    namespace: str
    values: Mapping[str, Any] = {}

    def release(self, cluster: str, values: Mapping[str, Any]) -> Chart:
        return Chart(
            key=self.key,
            repository=self.repository,
            name=self.chart,
            version=self.version,
            release=f"mp-{self.chart}",
            namespace=self.namespace,
            values={**self.values, **values},
            target=cluster,
        )


_ENVOY_GATEWAY_VALUES: Final = {
    "config": {
        "envoyGateway": {
            "extensionApis": {"enableBackend": True},
            "extensionManager": {
                "hooks": {
                    "xdsTranslator": {
                        "translation": {
                            kind: {"includeAll": True} for kind in ("listener", "route", "cluster", "secret")
                        },
                        "post": ["Translation", "Cluster", "Route"],
                    }
                },
                "service": {
                    "fqdn": {
                        "hostname": "ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local",
                        "port": 1063,
                    }
                },
                "backendResources": [
                    {"group": "inference.networking.k8s.io", "kind": "InferencePool", "version": "v1"}
                ],
            },
        }
    }
}

_ENVOY_SCRAPE_JOB: Final = {
    "job_name": "envoy-gateway-proxy",
    "metrics_path": "/stats/prometheus",
    "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": ["envoy-gateway-system"]}}],
    "relabel_configs": [
        {
            "source_labels": ["__meta_kubernetes_pod_label_app_kubernetes_io_component"],
            "action": "keep",
            "regex": "proxy",
        },
        {
            "source_labels": ["__meta_kubernetes_pod_ip"],
            "action": "replace",
            "target_label": "__address__",
            "replacement": "$1:19001",
        },
    ],
}

_PROMETHEUS_VALUES: Final = {
    "fullnameOverride": "prometheus",
    "grafana": {"enabled": False},
    "alertmanager": {"enabled": False},
    "prometheus": {
        "prometheusSpec": {
            "podMonitorSelectorNilUsesHelmValues": False,
            "podMonitorNamespaceSelector": {},
            "additionalScrapeConfigs": [_ENVOY_SCRAPE_JOB],
        }
    },
}

COMPONENTS: Final = (
    Component(
        key="cert-manager",
        chart="cert-manager",
        repository="https://charts.jetstack.io",
        version="v1.17.1",
        namespace="cert-manager",
        values={"crds": {"enabled": True, "keep": False}},
    ),
    Component(
        key="envoy-gateway",
        chart="gateway-helm",
        repository="oci://docker.io/envoyproxy",
        version="v1.8.1",
        namespace="envoy-gateway-system",
        values=_ENVOY_GATEWAY_VALUES,
    ),
    Component(
        key="ai-gateway-crds",
        chart="ai-gateway-crds-helm",
        repository="oci://docker.io/envoyproxy",
        version="v0.7.0",
        namespace="envoy-ai-gateway-system",
    ),
    Component(
        key="ai-gateway",
        chart="ai-gateway-helm",
        repository="oci://docker.io/envoyproxy",
        version="v0.7.0",
        namespace="envoy-ai-gateway-system",
    ),
    Component(
        key="prometheus",
        chart="kube-prometheus-stack",
        repository="https://prometheus-community.github.io/helm-charts",
        version="72.6.2",
        namespace="monitoring",
        values=_PROMETHEUS_VALUES,
    ),
    Component(
        key="leader-worker-set",
        chart="lws",
        repository="oci://registry.k8s.io/lws/charts",
        version="v0.8.0",
        namespace="lws-system",
    ),
    Component(
        key="node-feature-discovery",
        chart="node-feature-discovery",
        repository="oci://registry.k8s.io/nfd/charts",
        version="0.18.3",
        namespace="node-feature-discovery",
        # Without it GPU nodes never get their PCI labels, the DRA plugin never schedules there, and every claim waits.
        values={"worker": {"tolerations": [_GPU_TOLERATION]}},
    ),
    Component(
        key="dra-driver",
        chart="dra-driver-nvidia-gpu",
        repository="oci://registry.k8s.io/dra-driver-nvidia/charts",
        version="0.4.0",
        namespace="dra-driver-nvidia-gpu",
        values={"gpuResourcesEnabledOverride": True, "resources": {"computeDomains": {"enabled": False}}},
    ),
)


def charts(cluster: str, cloud: Source) -> list[Chart]:
    """Every chart of the stack for one cluster, in table order."""
    own: dict[str, Mapping[str, Any]] = {}
    if cloud in DRIVER_ROOTS:
        own["dra-driver"] = {"nvidiaDriverRoot": DRIVER_ROOTS[cloud]}
    return [component.release(cluster, own.get(component.key, {})) for component in COMPONENTS]
