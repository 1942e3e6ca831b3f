"""Which container of a pod a mock engine answers for, and what the pod's volumes and claims need to be there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api.meta import Object

ENGINE: Final = "engine"
DEFAULT_PORT: Final = 8000
WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, slots=True)
class Served:
    """The container that a mock engine stands for, and the port that it listens on."""

    container: str
    port: int


def served(pod: Object) -> Served | None:
    """The container named `engine`, else the first with a port that one of its HTTP probes asks; None for an idle pod, as a gang's
    workers are: their leader answers for all."""
    containers = pod["spec"].get("containers") or ()
    gang_worker = (pod["metadata"].get("labels") or {}).get(WORKER, "0") != "0"
    for container in containers:
        if container["name"] == ENGINE and not (gang_worker and not container.get("ports")):
            port = _probed(container) or next((p["containerPort"] for p in container.get("ports") or ()), DEFAULT_PORT)
            return Served(ENGINE, port)
    for container in containers:
        port = _probed(container)
        if port is not None and any(p["containerPort"] == port for p in container.get("ports") or ()):
            return Served(container["name"], port)
    return None


def _probed(container: Mapping[str, Any]) -> int | None:
    for kind in PROBES:
        action = (container.get(kind) or {}).get("httpGet")
        if action:
            return port_number(container, action["port"])
    return None


def port_number(container: Mapping[str, Any], port: int | str) -> int | None:
    """A port by number or by the name of a container port."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    return next((int(p["containerPort"]) for p in container.get("ports") or () if p.get("name") == port), None)


def completes(pod: Object) -> bool:
    """Whether the pod is one that ends by itself: not restarted for ever, and no engine in it."""
    return pod["spec"].get("restartPolicy", "Always") != "Always" and served(pod) is None


def mounted(pod: Object) -> Iterator[tuple[str, str, str, bool]]:
    """(volume, kind, name, optional) of the ConfigMaps and Secrets that the pod's volumes need."""
    for volume in pod["spec"].get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            if "configMap" in source:
                reference = source["configMap"]
                yield volume["name"], "ConfigMap", reference["name"], bool(reference.get("optional"))
            if "secret" in source:
                reference = source["secret"]
                name = reference.get("secretName") or reference.get("name") or ""
                yield volume["name"], "Secret", name, bool(reference.get("optional"))


def claim_names(pod: Object) -> dict[str, str | None]:
    """The pod's claims by their name in the pod: the ResourceClaim, or None while it has not been made."""
    made = {s["name"]: s.get("resourceClaimName") for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    names: dict[str, str | None] = {}
    for reference in pod["spec"].get("resourceClaims") or ():
        if reference.get("resourceClaimName"):
            names[reference["name"]] = reference["resourceClaimName"]
        elif reference["name"] not in made:
            names[reference["name"]] = None
        elif made[reference["name"]]:
            names[reference["name"]] = made[reference["name"]]
    return names
