"""Small builders of Kubernetes objects for tests."""

from __future__ import annotations

from typing import Any

from modelplane.api.meta import Object


def node(
    name: str = "n1", *, cpu: str = "8", memory: str = "32Gi", pods: str = "10", taints: Any = None, **labels: str
) -> Object:
    spec = {"taints": taints} if taints else {}
    status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def pod(name: str = "p", *, requests: dict[str, str] | None = None, status: Any = None, **spec: Any) -> Object:
    container: Object = {"name": "engine", "image": "x"}
    if requests:
        container["resources"] = {"requests": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {}},
        "spec": {"containers": [container], **spec},
        "status": status or {},
    }


def ready(pod: Object, since: str = "2026-01-01T00:00:00Z") -> Object:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    return {**pod, "status": {"phase": "Running", "podIP": "127.64.0.9", "conditions": [condition]}}


def device_class(name: str = "gpu.example.com", *expressions: str) -> Object:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def slice_(node: str, *devices: Object, driver: str = "gpu.example.com", name: str = "", **pool: Any) -> Object:
    described = {"name": node, "generation": 1, "resourceSliceCount": 1, **pool}
    spec = {"driver": driver, "nodeName": node, "pool": described, "devices": list(devices)}
    return {"metadata": {"name": name or f"{node}-{driver}-{described['generation']}"}, "spec": spec}


def device(name: str, memory: str = "80Gi", **attributes: Any) -> Object:
    return {"name": name, "capacity": {"memory": {"value": memory}}, "attributes": attributes}


def claim(
    name: str = "c", *requests: Object, allocated: list[tuple[str, str, str]] | None = None, **devices: Any
) -> Object:
    status: Object = {}
    if allocated is not None:
        results = [{"request": "gpu", "driver": d, "pool": p, "device": n} for d, p, n in allocated]
        status = {"allocation": {"devices": {"results": results}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": status,
    }


def request(count: int = 1, *expressions: str, name: str = "gpu", **exactly: Any) -> Object:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {
        "name": name,
        "exactly": {
            "deviceClassName": "gpu.example.com",
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": selectors,
            **exactly,
        },
    }
