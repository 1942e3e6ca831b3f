"""Kubernetes objects as a user or a composer writes them, short."""

from __future__ import annotations

from modelplane.api.meta import Object

GROUP = "gateway.networking.k8s.io"
FRONT_DOOR = "traefik.io/gateway-controller"


def gateway_class(name: str = "traefik", controller: str = FRONT_DOOR) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": name, "generation": 1},
        "spec": {"controllerName": controller},
    }


def gateway(called: str = "modelplane", class_: str = "traefik", **listener: object) -> Object:
    entry = {
        "name": "web",
        "port": 8000,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
        **listener,
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gateway",
        "metadata": {"name": called, "namespace": "modelplane-system", "generation": 1},
        "spec": {"gatewayClassName": class_, "listeners": [entry]},
    }


def route(name: str, *rules: Object, namespace: str = "ml-team", gateway: str = "modelplane", **spec: object) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {
            "parentRefs": [{"group": GROUP, "kind": "Gateway", "name": gateway, "namespace": "modelplane-system"}],
            "rules": list(rules),
            **spec,
        },
    }


def rule(path: str, *refs: Object, **more: object) -> Object:
    return {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": list(refs), **more}


def rewrite(path: str) -> Object:
    return {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": path}}}


def ref(name: str, path: str = "", weight: int = 1, port: int = 80) -> Object:
    result: Object = {"group": "", "kind": "Service", "name": name, "port": port, "weight": weight}
    if path:
        result["filters"] = [rewrite(path)]
    return result


def service(name: str, *addresses: tuple[str, int], namespace: str = "ml-team", health: str = "") -> list[Object]:
    """A selectorless Service on port 80 and a slice for each address."""
    metadata: Object = {"name": name, "namespace": namespace}
    if health:
        metadata["annotations"] = {"modelplane.ai/health-path": health}
    made: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
        }
    ]
    for number, (address, port) in enumerate(addresses):
        made.append(endpoint_slice(f"{name}-{number}", name, address, port, namespace=namespace))
    return made


def endpoint_slice(
    name: str,
    service: str,
    address: str,
    port: int,
    *,
    namespace: str = "ml-team",
    kind: str = "IPv4",
    ready: bool = True,
) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind,
        "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    }


def pool(name: str, port: int = 8000, namespace: str = "ml-team", **labels: str) -> Object:
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {
            "selector": {"matchLabels": labels or {"modelplane.ai/serving": name}},
            "targetPorts": [{"number": port}],
            "endpointPickerRef": {"name": f"{name}-epp", "port": {"number": 9002}, "failureMode": "FailOpen"},
        },
    }


def pod(
    name: str,
    address: str = "127.0.0.1",
    *,
    ready: bool = True,
    namespace: str = "ml-team",
    host_port: str = "",
    **labels: str,
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels}
    if host_port:
        metadata["annotations"] = {"modelplane.ai/host-port": host_port}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": []},
        "status": {
            "podIP": address,
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "reason": "Ready" if ready else "NotReady"}
            ],
        },
    }
