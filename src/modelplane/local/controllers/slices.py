"""Which EndpointSlices a Service has: its pods' addresses grouped by the ports they resolve to. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
ZONE: Final = "topology.kubernetes.io/zone"
HEADLESS: Final = "service.kubernetes.io/headless"
MOST: Final = 100
"""Endpoints per slice, Kubernetes' default."""


def selects(service: Object, pod: Object) -> bool:
    """Whether the pod is behind the service, as far as labels go."""
    selector = service["spec"].get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def desired(service: Object, pods: Iterable[Object], zones: Mapping[str, str]) -> list[Object]:
    """Slices without names, in a stable order. A service whose pods have no address yet has one empty slice.

    `zones` are the nodes' where they have one.
    """
    groups: dict[tuple[str, tuple[tuple[str, int | None, str, str], ...]], list[Object]] = {}
    for pod in sorted(pods, key=lambda p: str(p["metadata"]["name"])):
        address = (pod.get("status") or {}).get("podIP")
        if not address or podlib.phase(pod) in ("Succeeded", "Failed"):
            continue
        family = "IPv6" if ipaddress.ip_address(address).version == 6 else "IPv4"
        groups.setdefault((family, _ports(service, pod)), []).append(_endpoint(service, pod, address, zones))
    if not groups:
        families = service["spec"].get("ipFamilies") or ["IPv4"]
        groups[(families[0], ())] = []
    slices = []
    for (family, ports), endpoints in sorted(groups.items(), key=lambda item: repr(item[0])):
        for at in range(0, max(1, len(endpoints)), MOST):
            slices.append(_slice(service, family, ports, endpoints[at : at + MOST]))
    return slices


def _slice(
    service: Object, family: str, ports: Sequence[tuple[str, int | None, str, str]], endpoints: Sequence[Object]
) -> Object:
    metadata = service["metadata"]
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k not in (SERVICE_NAME, MANAGED_BY, HEADLESS)}
    labels |= {SERVICE_NAME: metadata["name"], MANAGED_BY: CONTROLLER}
    if service["spec"].get("clusterIP") == "None":
        labels[HEADLESS] = ""
    written = []
    for name, port, protocol, app in ports:
        entry: Object = {"name": name, "protocol": protocol}
        if port is not None:
            entry["port"] = port
        if app:
            entry["appProtocol"] = app
        written.append(entry)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": controlled(service),
        },
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": written,
    }


def _endpoint(service: Object, pod: Object, address: str, zones: Mapping[str, str]) -> Object:
    metadata, spec = pod["metadata"], pod["spec"]
    terminating = bool(metadata.get("deletionTimestamp"))
    serving = podlib.is_ready(pod)
    ready = (serving and not terminating) or bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Object = {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }
    if spec.get("nodeName"):
        endpoint["nodeName"] = spec["nodeName"]
        if spec["nodeName"] in zones:
            endpoint["zone"] = zones[spec["nodeName"]]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    return endpoint


def _ports(service: Object, pod: Object) -> tuple[tuple[str, int | None, str, str], ...]:
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pod)
        if number is not None:
            found.append((port.get("name") or "", number, port.get("protocol") or "TCP", port.get("appProtocol") or ""))
    return tuple(found)


def _target(port: Mapping[str, Any], pod: Object) -> int | None:
    """The pod's port: a number, or the container port of that name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int) or str(target).isdigit():
        return int(target) or int(port["port"])
    for container in pod["spec"].get("containers") or ():
        for offered in container.get("ports") or ():
            same_protocol = offered.get("protocol", "TCP") == port.get("protocol", "TCP")
            if offered.get("name") == target and same_protocol:
                return int(offered["containerPort"])
    return None


def zone(node: Object | None) -> str | None:
    """The zone that a node says it is in."""
    labels: Mapping[str, str] = (node or {}).get("metadata", {}).get("labels") or {}
    return labels.get(ZONE)


def same(have: Object, want: Object) -> bool:
    """Whether an existing slice already says what is wanted."""
    return bool(
        have.get("addressType") == want["addressType"]
        and (have.get("ports") or []) == want["ports"]
        and (have.get("endpoints") or []) == want["endpoints"]
        and (have["metadata"].get("labels") or {}) == want["metadata"]["labels"]
    )
