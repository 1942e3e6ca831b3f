"""Services: a cluster IP for each that wants one, node ports, and an address that never changes."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.objects import read
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store

RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS: Final = range(30000, 32768)


@dataclass(frozen=True)
class Services(Behaviour):
    """The strategy of services; addresses are drawn from the stored ones, so nothing can leak or disagree."""

    returns_deleted: bool = True
    creates_on_update: bool = True

    def prepare_create(self, obj: Object, store: Store) -> None:
        obj["status"] = {"loadBalancer": {}}
        _allocate(obj, None, store)

    def prepare_update(self, new: Object, old: Object, store: Store) -> None:
        spec, before = new.setdefault("spec", {}), old.get("spec") or {}
        external = spec.get("type") == "ExternalName"
        if not external and before.get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not spec.get(name) and before.get(name):
                    spec[name] = before[name]
            _keep_node_ports(spec, before)
        _allocate(new, old, store)

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        spec = new.get("spec") or {}
        errors: list[FieldError] = []
        if old is not None and spec.get("type") != "ExternalName":
            before = (old.get("spec") or {}).get("clusterIP", "")
            if before and spec.get("clusterIP") != before:
                errors += [
                    FieldError(path="spec.clusterIPs[0]", type=ErrorType.INVALID, bad_value=[spec.get("clusterIP")],
                               message="may not change once set"),
                ]  # fmt: skip
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            errors.append(FieldError(path="spec.ports", type=ErrorType.REQUIRED))
        names = [port.get("name", "") for port in spec.get("ports") or ()]
        if len(names) > 1:
            errors += [
                FieldError(path=f"spec.ports[{i}].name", type=ErrorType.REQUIRED)
                for i, name in enumerate(names)
                if not name
            ]
        return errors


def _keep_node_ports(spec: Object, before: Object) -> None:
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        return
    known = {(p.get("protocol", "TCP"), p.get("port")): p.get("nodePort") for p in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        kept = known.get((port.get("protocol", "TCP"), port.get("port")))
        if not port.get("nodePort") and kept:
            port["nodePort"] = kept


def _allocate(obj: Object, old: Object | None, store: Store) -> None:
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    if kind == "ExternalName":
        return
    wants_node_ports = kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )
    open_ports = [p for p in spec.get("ports") or () if wants_node_ports and not p.get("nodePort")]
    if not spec.get("clusterIP") or open_ports:
        used, used_ports = _taken(store)
        if not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(used)
        for port in open_ports:
            port["nodePort"] = next(p for p in random.sample(NODE_PORTS, len(NODE_PORTS)) if p not in used_ports)
            used_ports.add(port["nodePort"])
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    headless = spec["clusterIP"] == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if headless and old is None else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless and old is None else "SingleStack")


def _taken(store: Store) -> tuple[set[str], set[int]]:
    addresses: set[str] = set()
    ports: set[int] = set()
    for entry in store.scan("services"):
        spec = read(entry).get("spec") or {}
        addresses.add(spec.get("clusterIP", ""))
        ports.update(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    return addresses, ports


def _free_address(used: set[str]) -> str:
    # The first addresses are kept for well-known services, as the lower band of a real allocator is.
    first = int(RANGE.network_address) + 257
    while True:
        address = str(ipaddress.IPv4Address(random.randrange(first, int(RANGE.broadcast_address))))
        if address not in used:
            return address
