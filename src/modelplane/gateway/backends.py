"""From a backendRef to addresses: a Service through its EndpointSlices, an InferencePool through its ready pods.

A pool is resolved here and not by its endpoint picker: the simulated clusters run no picker, and fewest requests in
flight is the picker's own fallback. An endpoint without a `ready` condition counts as ready, as Kubernetes says.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from modelplane.api.labels import HEALTH_PATH, HOST_PORT
from modelplane.api.meta import Key, Object, Status, condition_of
from modelplane.gateway.model import Balance, Endpoint

POOL_GROUP: Final = "inference.networking.k8s.io"
SERVICE_NAME: Final = "kubernetes.io/service-name"


class Unresolved(msgspec.Struct, frozen=True):
    """Why a reference leads nowhere: a reason of Gateway API's ResolvedRefs, and words for its author."""

    reason: str
    message: str


class Resolved(msgspec.Struct, frozen=True):
    endpoints: tuple[Endpoint, ...]
    balance: Balance = Balance.ROUND_ROBIN
    health: str = ""
    tls: bool = False


class Backends:
    """Services, slices, pools and pods of one cluster, indexed for resolving references. Build it per pass."""

    def __init__(
        self,
        services: Iterable[Object] = (),
        slices: Iterable[Object] = (),
        pools: Iterable[Object] = (),
        pods: Iterable[Object] = (),
    ) -> None:
        self._services = {Key.of(service): service for service in services}
        self._pools = {Key.of(pool): pool for pool in pools}
        self._slices: dict[Key, list[Object]] = {}
        for entry in slices:
            owner = (entry["metadata"].get("labels") or {}).get(SERVICE_NAME)
            if owner:
                self._slices.setdefault(Key(entry["metadata"]["namespace"], owner), []).append(entry)
        self._pods: dict[str, list[Object]] = {}
        self._moved: dict[tuple[str, str], Endpoint] = {}
        for pod in pods:
            self._pods.setdefault(pod["metadata"]["namespace"], []).append(pod)
            moved = _moved(pod)
            if moved is not None:
                self._moved[pod["metadata"]["namespace"], pod["metadata"]["name"]] = moved

    def resolve(self, ref: Mapping[str, object], namespace: str) -> Resolved | Unresolved:
        """The endpoints behind one backendRef of a route in `namespace`."""
        group, kind, name = ref.get("group") or "", ref.get("kind") or "Service", str(ref["name"])
        if ref.get("namespace") not in (None, "", namespace):
            return Unresolved(
                "RefNotPermitted",
                f"{kind} {ref['namespace']}/{name} is in another namespace; keep the route beside its backends",
            )
        key = Key(namespace, name)
        if (group, kind) == ("", "Service"):
            port = ref.get("port")
            if not isinstance(port, int):
                return Unresolved("BackendNotFound", f"the reference to Service {key} needs a port")
            return self._service(key, port)
        if (group, kind) == (POOL_GROUP, "InferencePool"):
            return self._pool(key)
        return Unresolved("InvalidKind", f"a backend is a Service or an InferencePool, not {kind} of group {group!r}")

    def _service(self, key: Key, port: int) -> Resolved | Unresolved:
        service = self._services.get(key)
        if service is None:
            return Unresolved("BackendNotFound", f"there is no Service {key}")
        ports = (service.get("spec") or {}).get("ports") or ()
        entry = next((entry for entry in ports if entry.get("port") == port), None)
        if entry is None:
            have = ", ".join(str(entry.get("port")) for entry in ports) or "none"
            return Unresolved("BackendNotFound", f"Service {key} has no port {port}; it has {have}")
        found: dict[Endpoint, None] = {}
        for item in sorted(self._slices.get(key, ()), key=lambda item: str(item["metadata"]["name"])):
            found.update(dict.fromkeys(self._of_slice(item, entry.get("name") or "")))
        named = any(endpoint.named for endpoint in found)
        return Resolved(
            endpoints=tuple(found),
            health=(service["metadata"].get("annotations") or {}).get(HEALTH_PATH, ""),
            tls=entry.get("appProtocol") == "https" or (named and port == 443),
        )

    def _of_slice(self, item: Object, port_name: str) -> Iterable[Endpoint]:
        ports = [
            entry["port"]
            for entry in item.get("ports") or ()
            if (entry.get("name") or "") == port_name and entry.get("port")
        ]
        named = item.get("addressType") == "FQDN"
        for endpoint in item.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            target = endpoint.get("targetRef") or {}
            moved = self._moved.get((item["metadata"]["namespace"], target.get("name") or ""))
            for address in endpoint["addresses"][:1]:
                for port in ports:
                    yield moved or Endpoint(address, port, named)

    def _pool(self, key: Key) -> Resolved | Unresolved:
        pool = self._pools.get(key)
        if pool is None:
            return Unresolved("BackendNotFound", f"there is no InferencePool {key}")
        wanted = ((pool["spec"].get("selector") or {}).get("matchLabels") or {}).items()
        found: dict[Endpoint, None] = {}
        for pod in sorted(self._pods.get(key.namespace, ()), key=lambda pod: str(pod["metadata"]["name"])):
            labels = pod["metadata"].get("labels") or {}
            if wanted and wanted <= labels.items() and serving(pod):
                moved = self._moved.get((key.namespace, pod["metadata"]["name"]))
                for entry in pool["spec"].get("targetPorts") or ():
                    found[moved or Endpoint(pod["status"]["podIP"], entry["number"])] = None
        return Resolved(endpoints=tuple(found), balance=Balance.LEAST_REQUEST)


def serving(pod: Object) -> bool:
    """Whether a pod should get new requests: it has an address, is Ready, and is not being deleted."""
    if pod["metadata"].get("deletionTimestamp") or not (pod.get("status") or {}).get("podIP"):
        return False
    ready = condition_of(pod, "Ready")
    return ready is not None and ready.status is Status.TRUE


def _moved(pod: Object) -> Endpoint | None:
    """Where a pod that shares its host's address is reached. Anybody may annotate a pod: nonsense counts as nothing."""
    text = (pod["metadata"].get("annotations") or {}).get(HOST_PORT) or ""
    host, _, port = text.rpartition(":")
    try:
        address, number = ipaddress.ip_address(host.strip("[]")), int(port)
    except ValueError:
        return None
    return Endpoint(str(address), number) if 0 < number < 65536 else None
