"""Names that several pieces of the Envoy configuration agree on."""

from __future__ import annotations

from typing import Final

TYPE: Final = "type.googleapis.com/"

CLUSTER: Final = "envoy.config.cluster.v3.Cluster"
ENDPOINTS: Final = "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER: Final = "envoy.config.listener.v3.Listener"
ROUTES: Final = "envoy.config.route.v3.RouteConfiguration"

METADATA: Final = "modelplane"
"""The metadata namespace of endpoints: `rewrite`, `health` and `address`."""

PATH_HEADER: Final = "x-modelplane-path"
"""Length of the matched prefix and the path as it came, from the route to the rewrite that runs once per try."""

REWRITE_HEADER: Final = "x-modelplane-rewrite"
"""The chosen endpoint's `rewrite`; never leaves the proxy."""

HEALTH_HEADER: Final = "x-modelplane-health"
"""The path of a health check, for the loopback listener that forwards it."""

HEALTH_CLUSTER: Final = "health"
HEALTH_LISTENER: Final = "health"
ADS_CLUSTER: Final = "ads"
"""Fixed resources of a proxy; a rule's cluster always has slashes in its name."""
