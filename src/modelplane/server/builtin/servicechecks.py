"""Rules of services and of the endpoints behind them: ports, addresses and names that work on a network."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.builtin.podchecks import Errors, duplicate, forbidden, invalid, one_of, port, required
from modelplane.server.schema import names
from modelplane.server.schema.errors import ErrorType, FieldError, supported

_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def service(obj: Object, old: Object | None) -> Errors:
    spec = obj.get("spec") or {}
    yield from one_of(spec, "spec", "type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    yield from one_of(spec, "spec", "sessionAffinity", ("ClientIP", "None"))
    seen: set[object] = set()
    several = len(spec.get("ports") or ()) > 1
    for position, entry in enumerate(spec.get("ports") or ()):
        path = f"spec.ports[{position}]"
        yield from _service_port(entry.get("port"), f"{path}.port")
        yield from one_of(entry, path, "protocol", ("SCTP", "TCP", "UDP"))
        name = entry.get("name")
        if several and not name:
            yield required(f"{path}.name")
        if entry.get("nodePort") and spec.get("type") not in ("NodePort", "LoadBalancer"):
            kind = spec.get("type")
            yield forbidden(f"{path}.nodePort", f"may not be used when `type` is '{kind}'")
        if name:
            yield from (invalid(f"{path}.name", name, words) for words in names.dns_label(name))
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
        if isinstance(entry.get("targetPort"), int):
            yield from _service_port(entry["targetPort"], f"{path}.targetPort")
    yield from _same_ports(spec.get("ports") or ())
    yield from _service_addresses(obj)
    yield from names.labels(spec.get("selector") or {}, "spec.selector")
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")


def _same_ports(ports: Sequence[Object]) -> Errors:
    used: set[tuple[object, object]] = set()
    for position, entry in enumerate(ports):
        both = (entry.get("port"), entry.get("protocol"))
        if both in used:
            shown = {
                "Name": "",
                "Protocol": both[1],
                "AppProtocol": None,
                "Port": both[0],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield duplicate(f"spec.ports[{position}]", shown)
        used.add(both)


def _service_addresses(obj: Object) -> Errors:
    """The service's own address and those of its load balancer are addresses."""
    first = (obj.get("spec") or {}).get("clusterIP")
    if first and first != "None" and not _is_address(str(first)):
        yield invalid("spec.clusterIPs[0]", first, _NO_ADDRESS)
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    for position, entry in enumerate(balancer.get("ingress") or ()):
        if entry.get("ip") and not _is_address(str(entry["ip"])):
            yield invalid(f"status.loadBalancer.ingress[{position}].ip", entry["ip"], _NO_ADDRESS)


def _service_port(value: object, path: str) -> Errors:
    """Zero is a wrong port here; only containers have it mean that none was given."""
    yield from [invalid(path, 0, "must be between 1 and 65535, inclusive")] if value == 0 else port(value, path)


def endpoint_slice(obj: Object, old: Object | None) -> Errors:
    kinds = ("FQDN", "IPv4", "IPv6")
    if not obj.get("addressType"):
        yield required("addressType")
    else:
        yield from ([] if obj["addressType"] in kinds else [supported("addressType", obj["addressType"], kinds)])
    if old is not None and obj.get("addressType") != old.get("addressType"):
        yield invalid("addressType", obj.get("addressType"), "field is immutable")
    for position, endpoint in enumerate(obj.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            path = f"endpoints[{position}].addresses"
            yield FieldError(path=path, type=ErrorType.REQUIRED, message="must contain at least 1 address")
        for place, address in enumerate(endpoint.get("addresses") or ()):
            if obj.get("addressType") in ("IPv4", "IPv6") and not _is_address(address):
                yield invalid(f"endpoints[{position}].addresses[{place}]", address, _NO_ADDRESS)
            if obj.get("addressType") == "FQDN":
                yield from _domain_name(f"endpoints[{position}].addresses[{place}]", address)


def _domain_name(path: str, name: str) -> Errors:
    """A fully qualified name: at least two labels, a dot at its end or not."""
    name = name.removesuffix(".")
    if wrong := names.dns_subdomain(name):
        yield invalid(path, name, ",".join(wrong))
    elif "." not in name:
        yield invalid(path, name, "should be a domain with at least two segments separated by dots")
    else:
        wrong_labels = [(label, wrong) for label in name.split(".") if (wrong := names.dns_label(label))]
        yield from [invalid(path, label, ",".join(wrong)) for label, wrong in wrong_labels[:1]]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
