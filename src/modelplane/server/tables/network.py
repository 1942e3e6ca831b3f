"""Tables of services, endpoints, routes and network policies."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server.tables.cells import (
    NONE,
    Table,
    column,
    comma,
    labels,
    selector,
    spec,
    status,
    table,
    wide,
)  # fmt: skip


def _ports(service: Object) -> str:
    ports = spec(service).get("ports") or ()
    return comma(
        f"{p.get('port')}{':' + str(p['nodePort']) if p.get('nodePort') else ''}/{p.get('protocol', 'TCP')}"
        for p in ports
    )


def _addresses(obj: Object) -> list[object]:
    entries = (status(obj).get("loadBalancer") or {}).get("ingress") or ()
    return [entry.get("ip") or entry.get("hostname") for entry in entries]


def _external(service: Object) -> str:
    kind, external = spec(service).get("type"), spec(service).get("externalIPs") or []
    if kind == "ExternalName":
        return str(spec(service).get("externalName", ""))
    if kind == "LoadBalancer":
        found = [*_addresses(service), *external]
        return comma(found) if found else "<pending>"
    return comma(external)


def _endpoints(obj: Object) -> str:
    found = [
        f"{_host(address.get('ip'))}:{port.get('port')}" if port else str(address.get("ip"))
        for subset in obj.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or (None,)
    ]
    return comma(found, limit=3)


def _host(ip: object) -> str:
    return f"[{ip}]" if ":" in str(ip) else str(ip)


def _slice_ports(obj: Object) -> str:
    ports = [port.get("port") for port in obj.get("ports") or () if port.get("port") is not None]
    return comma(ports, limit=3) if ports else "<unset>"


def _slice_endpoints(obj: Object) -> str:
    found = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return comma(found, limit=3) if found else "<unset>"


def _hosts(ingress: Object) -> str:
    found = [rule["host"] for rule in spec(ingress).get("rules") or () if rule.get("host")]
    return comma(found, limit=3) if found else "*"


TABLES: dict[tuple[str, str], Table] = {
    ("", "Service"): table(
        column("Type", lambda obj: spec(obj).get("type", "")),
        column("Cluster-IP", lambda obj: spec(obj).get("clusterIP") or NONE),
        column("External-IP", _external),
        column("Port(s)", _ports),
        wide=(wide("Selector", lambda obj: labels(spec(obj).get("selector"))),),
    ),
    ("", "Endpoints"): table(column("Endpoints", _endpoints)),
    ("discovery.k8s.io", "EndpointSlice"): table(
        column("AddressType", lambda obj: obj.get("addressType", "")),
        column("Ports", _slice_ports),
        column("Endpoints", _slice_endpoints),
    ),
    ("networking.k8s.io", "Ingress"): table(
        column("Class", lambda obj: spec(obj).get("ingressClassName") or NONE),
        column("Hosts", _hosts),
        column("Address", lambda obj: ",".join(str(a) for a in _addresses(obj))),
        column("Ports", lambda obj: "80, 443" if spec(obj).get("tls") else "80"),
    ),
    ("networking.k8s.io", "IngressClass"): table(
        column("Controller", lambda obj: spec(obj).get("controller", "")),
        column("Parameters", lambda obj: _parameters(spec(obj).get("parameters"))),
    ),
    ("networking.k8s.io", "NetworkPolicy"): table(
        column("Pod-Selector", lambda obj: selector(spec(obj).get("podSelector"))),
    ),
}


def _parameters(reference: Object | None) -> str:
    if not reference:
        return NONE
    kind = ".".join(part for part in (reference.get("kind"), reference.get("apiGroup")) if part)
    return f"{kind}/{reference.get('name', '')}"
