"""The smallest sensible spec of every kind, and the engines that cases are made of."""

from __future__ import annotations

from typing import Any, Final

TEMPLATE: Final = {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.11"}]}}
ASK: Final = {"devices": [{"name": "gpu", "selectors": [{"cel": "device.driver == 'gpu.nvidia.com'"}]}]}
MEMBER: Final = {"template": TEMPLATE, "nodeSelector": ASK}
ENGINE: Final = {"name": "e", "members": [MEMBER]}
GANG: Final = {
    "name": "gang",
    "members": [MEMBER | {"role": "Leader"}, MEMBER | {"role": "Worker", "worker": {"nodes": 3}}],
}
PREFILL: Final = ENGINE | {"name": "p", "phase": "Prefill"}
DECODE: Final = ENGINE | {"name": "d", "phase": "Decode"}

_POOL: Final = {"name": "gpu", "role": "GPU", "gpu": {"acceleratorType": "h100"}}

BASES: Final[dict[str, dict[str, Any]]] = {
    "InferenceClass": {"devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}]},
    "InferenceCluster": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
        "nodePools": [{"name": "gpu", "className": "h100"}],
    },
    "InferenceGateway": {
        "backend": "Traefik",
        "traefik": {
            "version": "40.2.0",
            "loadBalancer": "MetalLB",
            "metallb": {"addressPool": "172.18.255.200-172.18.255.250"},
        },
    },
    "ModelDeployment": {"replicas": 1, "template": {"spec": {"engines": [ENGINE]}}},
    "ModelReplica": {
        "clusterName": "c",
        "engines": [
            {
                "name": "e",
                "members": [
                    {
                        "template": TEMPLATE,
                        "nodePoolName": "gpu",
                        "deviceRequests": [
                            {
                                "name": "gpu",
                                "deviceClassName": "gpu.nvidia.com",
                                "selectors": [{"cel": "device.driver != ''"}],
                            }
                        ],
                    }
                ],
            }
        ],
    },
    "ModelService": {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "d"}}}]},
    "ModelEndpoint": {"url": "http://10.0.0.1/v1"},
    "ModelRoute": {
        "gatewayName": "g",
        "serviceName": "s",
        "endpoints": [{"name": "a", "selector": {"matchLabels": {"a": "b"}}}],
        "timeouts": {"request": "0s", "idle": "60s"},
    },
    "ModelCache": {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 10}},
    "ServingStack": {
        "cloud": "Existing",
        "secrets": [{"type": "Kubeconfig", "name": "s", "key": "kubeconfig"}],
        "gateway": {"hostname": "gateway.example"},
    },
    "GKECluster": {"region": "r", "nodePools": [_POOL | {"machineType": "a3", "zones": ["r-a"]}]},
    "EKSCluster": {"region": "r", "nodePools": [_POOL | {"instanceType": "p5", "zones": ["r-a"]}]},
    "AKSCluster": {"location": "r", "nodePools": [_POOL | {"vmSize": "nd"}]},
    "NebiusCluster": {"nodePools": [_POOL | {"platform": "p", "preset": "q"}]},
    "VultrCluster": {"region": "r", "nodePools": [_POOL | {"plan": "p"}]},
    "VultrBaremetalCluster": {
        "region": "r",
        "ssh": {"secretRef": {"name": "keys"}},
        "nodePools": [{"name": "gpu", "plan": "p", "gpu": {"acceleratorType": "nvidia-h100"}}],
    },
    "K3sCluster": {"controlPlane": {"host": "10.0.0.1"}, "auth": {"secretRef": {"name": "keys"}}},
    "MetricMapping": {"rename": {"vllm:num_requests_running": "modelplane_requests_running"}},
    "PoolObservation": {"poolName": "gpu"},
    "ReplicaObservation": {"podSelector": {"matchLabels": {"modelplane.ai/replica": "r"}}},
}
