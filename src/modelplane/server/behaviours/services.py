"""Services: a cluster IP for each that wants one, node ports, and an address that never changes."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import refusals
from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.objects import read
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store

RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS: Final = range(30000, 32768)
DRAWS: Final = 64
_T = TypeVar("_T")


@dataclass(frozen=True)
class Services(Behaviour):
    """The strategy of services; addresses are drawn from the stored ones, so nothing can leak or disagree."""

    creates_on_update: bool = True
    serial: bool = True

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
        _drop_what_the_type_has_not(spec, before)
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
        if old is None and spec.get("clusterIPs") and spec.get("clusterIPs") != [spec.get("clusterIP")]:
            errors.append(
                FieldError(path="spec.clusterIPs", type=ErrorType.INVALID, bad_value=spec["clusterIPs"],
                           message="must be empty when `clusterIP` is not specified"),
            )  # fmt: skip
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            errors.append(FieldError(path="spec.ports", type=ErrorType.REQUIRED))
        return errors


def _drop_what_the_type_has_not(spec: Object, before: Object) -> None:
    """Fields that the old type needed and the new one may not have go, unless this update is about them."""
    kind, was = spec.get("type"), before.get("type")
    exposed = ("NodePort", "LoadBalancer")
    if kind == "ExternalName" != was:
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    if was in exposed and kind not in exposed:
        after_ports, before_ports = spec.get("ports") or [], before.get("ports") or []
        if {port.get("nodePort") for port in after_ports} == {port.get("nodePort") for port in before_ports}:
            spec["ports"] = [{k: v for k, v in port.items() if k != "nodePort"} for port in after_ports]
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    if was == "LoadBalancer" != kind:
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)


def _keep_node_ports(spec: Object, before: Object) -> None:
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        return
    known = {(p.get("protocol", "TCP"), p.get("port")): p.get("nodePort") for p in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        kept = known.get((port.get("protocol", "TCP"), port.get("port")))
        if not port.get("nodePort") and kept:
            port["nodePort"] = kept


def _allocate(obj: Object, old: Object | None, store: Store) -> None:
    """Draw what the service wants and has not. Raises a 422 when it asks for what another has, or what nobody may have.

    Nothing else is written between the look at what is taken and the write: writes of services wait for each other.
    """
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    if kind == "ExternalName":
        return
    wants_node_ports = kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )
    ports = spec.get("ports") or []
    open_ports = [port for port in ports if wants_node_ports and not port.get("nodePort")]
    before = (old or {}).get("spec") or {}
    asked = spec.get("clusterIP") not in (None, "", "None", before.get("clusterIP"))
    kept = {port.get("nodePort") for port in before.get("ports") or ()}
    asked_ports = [(at, port) for at, port in enumerate(ports) if port.get("nodePort") and port["nodePort"] not in kept]
    if not spec.get("clusterIP") or open_ports or asked or asked_ports:
        used, used_ports = _taken(store, obj["metadata"])
        if asked:
            _check_address(obj, used)
        if not spec.get("clusterIP"):
            spec["clusterIP"] = _free_address(used)
        for at, port in asked_ports:
            _check_port(obj, at, port["nodePort"], used_ports)
        used_ports |= {port["nodePort"] for port in ports if port.get("nodePort")}
        for port in open_ports:
            port["nodePort"] = _free_port(used_ports)
            used_ports.add(port["nodePort"])
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    headless = spec["clusterIP"] == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if headless and old is None else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless and old is None else "SingleStack")


def _taken(store: Store, own: Object) -> tuple[set[str], set[int]]:
    """Addresses and node ports of all other services."""
    addresses: set[str] = set()
    ports: set[int] = set()
    for entry in store.scan("services"):
        if (entry.key.namespace, entry.key.name) == (own.get("namespace"), own.get("name")):
            continue
        spec = read(entry).get("spec") or {}
        addresses.add(spec.get("clusterIP", ""))
        ports.update(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    return addresses, ports


def _check_address(obj: Object, used: set[str]) -> None:
    address = obj["spec"]["clusterIP"]
    try:
        inside = ipaddress.ip_address(address) in RANGE
    except ValueError:
        return  # the schema says so
    why = "" if address not in used else "provided IP is already allocated"
    if not inside:
        why = "the provided network does not match the current range"
    if why:
        shown = f'["{address}"]'
        raise _refused(obj, "spec.clusterIPs", f"Invalid value: {shown}: failed to allocate IP {address}: {why}")


def _check_port(obj: Object, at: int, port: int, used: set[int]) -> None:
    why = "" if port not in used else "provided port is already allocated"
    if port not in NODE_PORTS:
        last = NODE_PORTS.stop - 1
        why = f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS.start}-{last}"
    if why:
        raise _refused(obj, f"spec.ports[{at}].nodePort", f"Invalid value: {port}: {why}")


def _refused(obj: Object, path: str, why: str) -> Refusal:
    return refusals.invalid_field("Service", "", obj["metadata"].get("name", ""), path, why)


def _free_address(used: set[str]) -> str:
    # The first addresses are kept for well-known services, as the lower band of a real allocator is.
    first, last = int(RANGE.network_address) + 257, int(RANGE.broadcast_address)
    for _ in range(DRAWS):
        address = str(ipaddress.IPv4Address(random.randrange(first, last)))
        if address not in used:
            return address
    free = (str(ipaddress.IPv4Address(number)) for number in range(first, last))
    return _first(free, used, f"no address of {RANGE} is free; delete services that nobody needs")


def _free_port(used: set[int]) -> int:
    return _first(random.sample(NODE_PORTS, len(NODE_PORTS)), used, "no node port is free; delete services")


def _first(drawn: Iterable[_T], used: set[_T], without: str) -> _T:
    for one in drawn:
        if one not in used:
            return one
    raise refusals.internal(without)
