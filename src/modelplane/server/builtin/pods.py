"""Defaults of pods and pod templates: the part of every workload kind that is the same."""

from __future__ import annotations

import copy
from typing import Final

from modelplane.api.meta import Object

_MODE: Final = 420
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def fill(target: Object, **defaults: object) -> None:
    """Set what is absent, null or an empty string. Containers among the defaults are copied."""
    for key, value in defaults.items():
        if target.get(key) in (None, ""):
            target[key] = copy.deepcopy(value)


def pod_defaults(pod: Object) -> None:
    """A Pod: what a template gets, service links, and requests from limits."""
    spec = pod.setdefault("spec", {})
    spec_defaults(spec)
    fill(spec, enableServiceLinks=True)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container["resources"]
        if resources.get("limits"):
            requests = resources["requests"] = resources.get("requests") or {}
            for name, quantity in resources["limits"].items():
                requests.setdefault(name, quantity)
    status = pod.setdefault("status", {})
    fill(status, phase="Pending")


def template_defaults(template: Object | None) -> None:
    """A pod template, absent or not."""
    if template is not None:
        template.setdefault("metadata", {})
        spec_defaults(template.setdefault("spec", {}))


def spec_defaults(spec: Object) -> None:
    """What a PodSpec gets anywhere."""
    fill(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler")
    fill(spec, securityContext={}, terminationGracePeriodSeconds=30)
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for role in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(role) or ():
            _container(container, bool(spec.get("hostNetwork")))


def _container(container: Object, host_network: bool) -> None:
    image = container.get("image") or ""
    fill(container, imagePullPolicy="Always" if _latest(image) else "IfNotPresent", resources={})
    fill(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    for port in container.get("ports") or ():
        fill(port, protocol="TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field:
            fill(field, apiVersion="v1")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            _handler(probe)
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _handler(handler)


def _handler(handler: Object) -> None:
    if handler.get("httpGet") is not None:
        fill(handler["httpGet"], path="/", scheme="HTTP")
    if isinstance(handler.get("grpc"), dict):
        handler["grpc"].setdefault("service", "")


def _latest(image: str) -> bool:
    """Whether an image reference means whatever is newest: no tag and no digest, or the tag latest."""
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _volume(volume: Object) -> None:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(kind) is not None:
            fill(volume[kind], defaultMode=_MODE)
    _fields(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken"):
            fill(source["serviceAccountToken"], expirationSeconds=3600)
        _fields(source.get("downwardAPI"))
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template:
        fill(template.setdefault("spec", {}), volumeMode="Filesystem")
    if volume.get("image") is not None:
        pull = "Always" if _latest(volume["image"].get("reference") or "") else "IfNotPresent"
        fill(volume["image"], pullPolicy=pull)


def _fields(downward: Object | None) -> None:
    for item in (downward or {}).get("items") or ():
        if item.get("fieldRef"):
            fill(item["fieldRef"], apiVersion="v1")
