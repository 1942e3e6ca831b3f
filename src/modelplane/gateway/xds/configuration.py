"""All resources of one proxy: what a Gateway becomes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from modelplane.api.meta import Object
from modelplane.gateway.model import Gateway
from modelplane.gateway.xds import clusters, listeners, routes
from modelplane.gateway.xds.names import CLUSTER, ENDPOINTS, HEALTH_CLUSTER, HEALTH_LISTENER, LISTENER, ROUTES


class Place(msgspec.Struct, frozen=True):
    """Where a proxy stands on this machine: its address, a port per listener name, one for health checks, and the file of
    authorities that TLS backends are checked against. Ports with a `Door` are shared; their listeners have a Unix socket each."""

    address: str
    ports: Mapping[str, int]
    health_port: int
    trust_store: str = ""
    doors: Mapping[str, str] = {}
    health_shared: bool = False


Configuration = dict[str, dict[str, Object]]
"""Resources by type and name."""


def configuration(gateway: Gateway, place: Place) -> Configuration:
    """The Envoy resources of a gateway. Deterministic: equal inputs give equal resources."""
    # The way for health checks is there before the first endpoint is, so that its first check finds it.
    result: Configuration = {
        CLUSTER: {HEALTH_CLUSTER: clusters.health_cluster()},
        ENDPOINTS: {},
        LISTENER: {HEALTH_LISTENER: listeners.health_listener(place.health_port, shared=place.health_shared)},
        ROUTES: {},
    }
    for listener in gateway.listeners:
        name = f"routes/{listener.name}"
        result[ROUTES][name] = routes.route_configuration(name, listener)
        result[LISTENER][f"listener/{listener.name}"] = listeners.listener(
            f"listener/{listener.name}",
            place.address,
            place.ports[listener.name],
            name,
            place.doors.get(listener.name, ""),
        )
        for route in listener.routes:
            for rule in route.rules:
                if rule.name in result[CLUSTER]:
                    continue
                cluster, assignment = clusters.cluster(rule, place.health_port, place.trust_store)
                result[CLUSTER][rule.name] = cluster
                if assignment is not None:
                    result[ENDPOINTS][rule.name] = assignment
    return result
