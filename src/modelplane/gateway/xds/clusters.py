"""One Envoy cluster per rule: all endpoints of all its backends, each with its weight, rewrite and health path.

One cluster rather than one per backend, because a retry, an ejection and a health check act inside a cluster: only so
can a request that one region failed be answered by another. Endpoints come over EDS, except where two of them share an
address (two replicas behind one cluster gateway), which EDS silently merges, or have a DNS name, which EDS refuses:
then they are written into the cluster itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import gcd, lcm
from typing import Final

from modelplane.api.meta import Object
from modelplane.gateway.model import Backend, Balance, Endpoint, Rewrite, RewriteKind, Rule
from modelplane.gateway.wire import Shared
from modelplane.gateway.xds.names import HEALTH_CLUSTER, HEALTH_HEADER, METADATA, TYPE

_NO_LIMIT: Final = 1_000_000
_MAX_WEIGHT: Final = 1_000_000


@lru_cache(maxsize=8192)
def cluster(rule: Rule, health_port: int, trust_store: str = "") -> tuple[Object, Object | None]:
    """The cluster of a rule and, where its endpoints come over EDS, their assignment. `trust_store` is a file of the
    authorities that TLS backends are checked against. Both are shared between callers: do not change them."""
    backends = [backend for backend in rule.backends if backend.weight > 0]
    assignment = _assignment(rule, backends, health_port)
    endpoints = [endpoint for backend in backends for endpoint in backend.endpoints]
    definition = _definition(
        rule.name,
        least=bool(backends) and all(backend.balance is Balance.LEAST_REQUEST for backend in backends),
        trust_store=trust_store if any(backend.tls for backend in backends) else None,
    )
    if any(endpoint.named for endpoint in endpoints):
        names = {"type": "STRICT_DNS", "dns_lookup_family": "V4_PREFERRED"}
        return {**definition, **names, "load_assignment": assignment}, None
    if len(set(endpoints)) < len(endpoints):
        return {**definition, "type": "STATIC", "load_assignment": assignment}, None
    source = {"eds_config": {"ads": {}, "resource_api_version": "V3"}}
    return {**definition, "type": "EDS", "eds_cluster_config": source}, assignment


def _definition(name: str, *, least: bool, trust_store: str | None) -> Object:
    """Everything of a cluster but its endpoints."""
    result: Object = {
        "name": name,
        "connect_timeout": "2s",
        "common_lb_config": _NO_PANIC,
        # A host that leaves EDS gets no new request at once; its streams in flight go on.
        "ignore_health_on_host_removal": True,
        "outlier_detection": _EJECTION,
        "circuit_breakers": _BREAKERS,
        "upstream_connection_options": _KEEPALIVE,
    }
    if least:
        result["load_balancing_policy"] = _LEAST_REQUEST
    else:
        result["lb_policy"] = "ROUND_ROBIN"
        # Also where no endpoint wants checks: the first that does must not find a cluster without them.
        result["health_checks"] = [_HEALTH_CHECK]
    if trust_store is not None:
        result["transport_socket_matches"] = _sockets(trust_store)
    return result


def health_cluster() -> Object:
    """Where the loopback health listener sends a check: to the address that the check names."""
    return {
        "name": HEALTH_CLUSTER,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True},
        "connect_timeout": "1s",
        "cleanup_interval": "10s",
        "circuit_breakers": _BREAKERS,
    }


def weights(backends: Sequence[Backend]) -> list[int]:
    """The weight of one endpoint of each backend, so that a backend's share does not depend on how many it has."""
    counts = [len(backend.endpoints) for backend in backends]
    whole = lcm(*(count for count in counts if count)) if any(counts) else 1
    shares = [backend.weight * whole // count if count else 0 for backend, count in zip(backends, counts, strict=True)]
    divisor = gcd(*shares) or 1
    shares = [share // divisor for share in shares]
    largest = max(shares, default=0)
    if largest > _MAX_WEIGHT:
        shares = [max(1, round(share * _MAX_WEIGHT / largest)) if share else 0 for share in shares]
    return shares


def late(rule: Rule) -> bool:
    """Whether the path depends on the endpoint, so that it is rewritten once per try rather than by the route. So it is
    taken to be while there is no backend, lest the route change in the moment in which the first one comes."""
    if rule.rewrite is not None:
        return False
    return not rule.backends or any(backend.rewrite is not None for backend in rule.backends)


def _assignment(rule: Rule, backends: Sequence[Backend], health_port: int) -> Object:
    endpoints = [
        _endpoint(backend, endpoint, weight, late(rule), health_port, rule.rewrite)
        for backend, weight in zip(backends, weights(backends), strict=True)
        for endpoint in backend.endpoints
    ]
    return {"cluster_name": rule.name, "endpoints": [{"lb_endpoints": endpoints}] if endpoints else []}


def _endpoint(
    backend: Backend, endpoint: Endpoint, weight: int, late_rewrite: bool, health_port: int, common: Rewrite | None
) -> Object:
    host: Object = {"address": _address(endpoint.address, endpoint.port)}
    rewrite = backend.rewrite
    if rewrite is not None and rewrite.hostname:
        host["hostname"] = rewrite.hostname
    elif endpoint.named:
        host["hostname"] = endpoint.address
    facts: dict[str, str] = {}
    if late_rewrite:
        facts["rewrite"] = f"{_LATE[rewrite.kind]} {rewrite.path}" if rewrite and rewrite.kind else "keep"
    if backend.health and not endpoint.named and not backend.tls:
        by = rewrite or common
        prefix = by.path.rstrip("/") if by and by.kind is RewriteKind.PREFIX else ""
        literal = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
        facts["health"] = f"{prefix}/{backend.health.lstrip('/')}"
        facts["address"] = f"{literal}:{endpoint.port}"
        host["health_check_config"] = {"address": _address("127.0.0.1", health_port)}
    else:
        host["health_check_config"] = {"disable_active_health_check": True}
    metadata: dict[str, Object] = {METADATA: facts}
    if backend.tls:
        metadata["envoy.transport_socket_match"] = {"tls": True}
    return {"endpoint": host, "load_balancing_weight": weight, "metadata": {"filter_metadata": metadata}}


_LATE: Final = {RewriteKind.PREFIX: "prefix", RewriteKind.FULL: "full"}


def _address(host: str, port: int) -> Object:
    return {"socket_address": {"address": host, "port_value": port}}


_LEAST_REQUEST: Final = Shared(
    {
        "policies": [
            {
                "typed_extension_config": {
                    "name": "envoy.load_balancing_policies.least_request",
                    "typed_config": {
                        "@type": f"{TYPE}envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
                        "selection_method": "FULL_SCAN",
                    },
                }
            }
        ]
    }
)

# Without this, Envoy asks unhealthy endpoints too once half of them are, and tells of changes up to a second late.
_NO_PANIC: Final = Shared({"healthy_panic_threshold": {"value": 0.0}, "update_merge_window": "0s"})

_KEEPALIVE: Final = Shared({"tcp_keepalive": {"keepalive_probes": 3, "keepalive_time": 10, "keepalive_interval": 5}})

_EJECTION: Final = Shared(
    {
        # One failed call ejects, so that the next request goes elsewhere; the last endpoint is never ejected by calls,
        # only by its health check: 99 percent is the largest share that leaves one.
        "interval": "1s",
        "base_ejection_time": "1s",
        "max_ejection_time": "10s",
        "max_ejection_percent": 99,
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 1,
        "enforcing_consecutive_local_origin_failure": 100,
        "consecutive_gateway_failure": 1,
        "enforcing_consecutive_gateway_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
    }
)

_BREAKERS: Final = Shared(
    {
        "thresholds": [
            {
                "max_connections": _NO_LIMIT,
                "max_pending_requests": _NO_LIMIT,
                "max_requests": _NO_LIMIT,
                "max_retries": _NO_LIMIT,
            }
        ]
    }
)

_HEALTH_CHECK: Final = Shared(
    {
        # The path differs per endpoint, and a health check has only one. So checks go to a listener of this proxy on
        # loopback, with the endpoint's path and address as headers, and are forwarded from there.
        "timeout": "1s",
        "interval": "1s",
        "unhealthy_interval": "0.25s",
        "no_traffic_interval": "0.1s",
        "no_traffic_healthy_interval": "1s",
        # An answer of an ill endpoint counts at once whatever this is; silence of a second may be that of a machine with
        # much to do.
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "http_health_check": {
            "host": "health-check",
            "path": "/health",
            "request_headers_to_add": [
                {"header": {"key": HEALTH_HEADER, "value": f"%UPSTREAM_METADATA({METADATA}:health)%"}},
                {"header": {"key": "x-envoy-original-dst-host", "value": f"%UPSTREAM_METADATA({METADATA}:address)%"}},
            ],
        },
    }
)


@cache
def _sockets(trust_store: str) -> list[Object]:
    """TLS for the endpoints that are marked so, plain bytes for the others; the name asked for is the endpoint's own."""
    tls: Object = {
        "@type": f"{TYPE}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "auto_host_sni": True,
        "auto_sni_san_validation": True,
        "common_tls_context": {"validation_context": {"trusted_ca": {"filename": trust_store}}},
    }
    raw = {"@type": f"{TYPE}envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"}
    return [
        Shared(
            name="tls",
            match={"tls": True},
            transport_socket={"name": "envoy.transport_sockets.tls", "typed_config": tls},
        ),
        Shared(
            name="plain",
            match={},
            transport_socket={"name": "envoy.transport_sockets.raw_buffer", "typed_config": raw},
        ),
    ]
