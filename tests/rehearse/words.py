"""Manifests for rehearsals, so that a case fits a line or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelplane.api.meta import Object

GROUP = "modelplane.ai/v1alpha1"
GPU = "gpu.nvidia.com"
MADE = "2026-11-29T12:00:00Z"


def device(name: str = "gpu", architecture: str = "Hopper", count: int = 1, memory: str = "80Gi") -> Object:
    return {
        "name": name,
        "claim": "DRA",
        "driver": GPU,
        "deviceClassName": GPU,
        "count": count,
        "attributes": {"architecture": {"string": architecture}},
        "capacity": {"memory": {"value": memory}},
    }


def inference_class(name: str, *devices: Object) -> Object:
    return {
        "apiVersion": GROUP,
        "kind": "InferenceClass",
        "metadata": {"name": name},
        "spec": {"devices": list(devices) or [device()]},
    }


def inference_cluster(
    name: str,
    *,
    pools: Mapping[str, int] | None = None,
    devices: Sequence[Object] = (),
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    ready: bool = True,
) -> Object:
    """A cluster with its published pools, ``{"default": 2}`` unless told otherwise; taints as ``key:effect``."""
    pools = {"default": 2} if pools is None else pools
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "Available" if ready else "Creating",
        "lastTransitionTime": MADE,
    }
    return {
        "apiVersion": GROUP,
        "kind": "InferenceCluster",
        "metadata": {"name": name, "labels": dict(labels or {}), "creationTimestamp": MADE, "uid": f"uid-{name}"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"{name}-kubeconfig"}}},
            "nodePools": [{"name": pool, "className": "h100", "nodeCount": nodes} for pool, nodes in pools.items()],
            "taints": [{"key": key, "effect": effect} for key, _, effect in (one.partition(":") for one in taints)],
        },
        "status": {
            "gateway": {"address": "10.0.0.1"},
            "conditions": [condition],
            "gpuPools": [
                {
                    "name": pool,
                    "nodes": nodes,
                    "devices": list(devices) or [device()],
                    "capacity": {"source": "Declared", "growNodes": 0},
                }
                for pool, nodes in pools.items()
            ],
        },
    }


def deployment(
    name: str,
    replicas: int = 1,
    *,
    namespace: str = "ml",
    selector: str = f'device.driver == "{GPU}"',
    count: int = 1,
    made: str = MADE,
    labels: Mapping[str, str] | None = None,
    tolerations: Sequence[Object] = (),
    cache: str = "",
) -> Object:
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "gpu", "count": count, "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    spec: dict[str, Any] = {"engines": [{"name": "main", "members": [member]}]}
    if labels:
        spec["clusterSelector"] = {"matchLabels": dict(labels)}
    if tolerations:
        spec["tolerations"] = list(tolerations)
    if cache:
        spec["modelCacheRef"] = {"name": cache}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": made, "uid": f"uid-{namespace}-{name}"}
    return {
        "apiVersion": GROUP,
        "kind": "ModelDeployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": {"spec": spec}},
    }


def replica(
    of: Object, cluster: str, index: int = 0, *, ready: bool = True, name: str = "", code: str = "Placed"
) -> Object:
    """A replica of the deployment as our composer stamps it."""
    from modelplane.api.model_deployment import parse
    from modelplane.plan import request_of
    from modelplane.plan.names import replica_name

    metadata = of["metadata"]
    template = of["spec"]["template"]["spec"]
    ask = template["engines"][0]["members"][0]["nodeSelector"]["devices"][0]
    digest = request_of(parse(of)).constraints()
    members = [
        {
            "role": "Standalone",
            "nodePoolName": "default",
            "template": template["engines"][0]["members"][0]["template"],
            "deviceRequests": [{**ask, "deviceClassName": GPU}],
        }
    ]
    return {
        "apiVersion": GROUP,
        "kind": "ModelReplica",
        "metadata": {
            "name": name or replica_name(metadata["name"], cluster, index),
            "namespace": metadata["namespace"],
            "labels": {
                "modelplane.ai/deployment": metadata["name"],
                "modelplane.ai/cluster": cluster,
                "modelplane.ai/replica-index": str(index),
            },
            "annotations": {
                "modelplane.ai/placement": (
                    f'{{"code":"{code}","constraints":"{digest}","message":"fits pool default, '
                    'the first of this deployment there"}'
                )
            },
            "ownerReferences": [
                {"apiVersion": GROUP, "kind": "ModelDeployment", "name": metadata["name"], "uid": metadata["uid"]}
            ],
        },
        "spec": {"clusterName": cluster, "engines": [{"name": "main", "members": members}]},
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "reason": "Available" if ready else "Starting",
                    "lastTransitionTime": MADE,
                }
            ]
        },
    }
