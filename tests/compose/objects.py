"""The objects that cases are made of, as short as they can be."""

from __future__ import annotations

from typing import Any

from modelplane.api.meta import Object

NAMESPACE = "ml-team"
SYSTEM = "modelplane-system"


def inference_class(name: str = "synthetic-gpu", **device: Any) -> Object:
    gpu = {
        "name": "gpu",
        "claim": "DRA",
        "driver": "gpu.example.com",
        "deviceClassName": "gpu.example.com",
        "count": 1,
        "capacity": {"memory": {"value": "80Gi"}},
    } | device
    return _object("InferenceClass", name, spec={"devices": [gpu]})


def inference_cluster(name: str = "eu", *, source: str = "Existing", **spec: Any) -> Object:
    settings = {"secretRef": {"name": f"{name}-kubeconfig", "key": "kubeconfig"}} | spec.pop("existing", {})
    block = {"existing": settings} if source == "Existing" else {source.lower(): {"region": "r"}}
    pools = [{"name": "pool", "className": "synthetic-gpu", "nodeCount": 1}]
    return _object("InferenceCluster", name, spec={"cluster": {"source": source, **block}, "nodePools": pools} | spec)


def kubeconfig(cluster: str = "eu", key: str = "kubeconfig") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{cluster}-kubeconfig", "namespace": SYSTEM},
        "data": {key: "e30="},
    }


def node(pool: str = "pool", name: str = "node-0") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelplane.ai/pool": pool}},
    }


def resource_slice(driver: str = "gpu.example.com") -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"node-0-{driver}"},
        "spec": {"driver": driver},
    }


def device_class(name: str = "gpu.example.com") -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


def inference_gateway(name: str = "default", **spec: Any) -> Object:
    return _object("InferenceGateway", name, spec={"backend": "Traefik", "traefik": {"version": "40.2.0"}} | spec)


def model_endpoint(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    body = spec or {"url": f"http://10.0.0.1/{NAMESPACE}/{name}/v1", "rewritePath": f"/{NAMESPACE}/{name}/"}
    return _object("ModelEndpoint", name, NAMESPACE, labels=labels, spec=body)


def model_service(name: str = "mock", *entries: Object, **spec: Any) -> Object:
    selects = entries or (entry("mock-demo"),)
    return _object("ModelService", name, NAMESPACE, spec={"endpoints": list(selects)} | spec)


def entry(deployment: str, **fields: Any) -> Object:
    return {"selector": {"matchLabels": {"modelplane.ai/deployment": deployment}}} | fields


def container(**fields: Any) -> Object:
    return {"name": "engine", "image": "python:3.12-slim"} | fields


def member(role: str = "Standalone", *, claims: bool = True, **fields: Any) -> Object:
    """A placed member; ``container`` and ``metadata`` go into its template."""
    template: Object = {"spec": {"containers": [fields.pop("container", container())]}}
    if "pull" in fields:
        template["spec"]["imagePullSecrets"] = [{"name": name} for name in fields.pop("pull")]
    if "metadata" in fields:
        template["metadata"] = fields.pop("metadata")
    request = {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 1}
    body: Object = {"role": role, "nodePoolName": "pool", "template": template}
    if claims:
        body["deviceRequests"] = [request]
    return body | fields


def engine(name: str = "main", *members: Object, **fields: Any) -> Object:
    return {"name": name, "members": list(members or (member(),))} | fields


def model_replica(name: str = "mock-demo-be445", *engines: Object, cluster: str = "eu", **spec: Any) -> Object:
    labels = {
        "modelplane.ai/deployment": "mock-demo",
        "modelplane.ai/cluster": cluster,
        "modelplane.ai/replica-index": "0",
    }
    body = {"clusterName": cluster, "engines": list(engines or (engine(),))} | spec
    return _object("ModelReplica", name, NAMESPACE, labels=labels, spec=body)


def _object(
    kind: str, name: str, namespace: str | None = None, *, labels: dict[str, str] | None = None, spec: Object
) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
