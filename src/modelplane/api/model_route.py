"""ModelRoute: a ModelService on one front door that stands on an inference cluster.

Composed alone, one per gateway that serves the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.children import Children
from modelplane.api.cloud import Name
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.model_service import DURATION, EndpointSelector
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, formatted, keyed, number, read, text

KIND: Final = GVK(GROUP, VERSION, "ModelRoute")
RESOURCE: Final = Resource(KIND, "modelroutes", True)


class ConditionType(StrEnum):
    """Condition types of a ModelRoute."""

    ROUTING_READY = "RoutingReady"
    """The gateway carries the route."""


class Reason(StrEnum):
    """Condition reasons of a ModelRoute."""

    ROUTE_ACCEPTED = "RouteAccepted"
    """The route is accepted on the gateway's cluster."""
    WAITING_FOR_RESOURCES = "WaitingForResources"
    """Endpoints or their credentials are not known yet."""
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    """The InferenceGateway is missing or has no client authority yet."""
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    """The gateway's cluster cannot be reached yet."""
    NO_READY_ENDPOINTS = "NoReadyEndpoints"
    """Nothing that the entries select can take requests."""
    WAITING_FOR_ROUTE = "WaitingForRoute"
    """The route is written and not accepted yet."""


class Entry(Shape, frozen=True, kw_only=True):
    """A share of the traffic, copied from the service."""

    name: Annotated[str, text(1, 63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    """Name of the entry."""
    priority: Annotated[int, number(0, 63), formatted("int32")] = 0
    """Lower is preferred; higher numbers take over as lower ones lose healthy endpoints."""
    weight: Annotated[int, number(1, 1000000), formatted("int32")] = 1
    """Share among the entries of the same priority."""
    selector: EndpointSelector
    """ModelEndpoints in the service's namespace."""


class Timeouts(Shape, frozen=True, kw_only=True):
    """How long the gateway waits, copied from the service; 0s is no limit."""

    request: Annotated[str, text(pattern=DURATION)]
    """From end to end, retries included."""
    idle: Annotated[str, text(pattern=DURATION)]
    """Silence that is put up with."""


class Spec(Shape, frozen=True, kw_only=True):
    """The route that is wanted."""

    gateway_name: Name
    """The InferenceGateway that the route is pinned to."""
    service_name: Name
    """The ModelService that it belongs to."""
    endpoints: Annotated[tuple[Entry, ...], keyed("name", least=1, most=32)]
    """The service's entries, copied."""
    timeouts: Timeouts
    """The service's timeouts, copied."""


class EndpointCounts(Shape, frozen=True, kw_only=True):
    """Numbers of endpoints."""

    total: Annotated[int, number(0), formatted("int32")] | None = None
    """Endpoints that the entries select."""
    ready: Annotated[int, number(0), formatted("int32")] | None = None
    """Of those, the ones that can take requests."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    model: str = ""
    """NAMESPACE/SERVICE: what a caller passes as model."""
    address: str = ""
    """Address of the gateway."""
    endpoints: EndpointCounts | None = None
    """Numbers of endpoints."""
    children: Children = ()
    """Objects of ours on the gateway's cluster, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """RoutingReady, Ready and Synced."""


class ModelRoute(Root, frozen=True, kw_only=True):
    """A ModelService on one front door. Composed; do not write it yourself."""

    spec: Spec
    """The route that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelRoute,
    owner=Owner.COMPOSED,
    short_names=("mrt",),
    categories=("crossplane", "modelplane", "models"),
    columns=(
        Column(name="SERVICE", path=".spec.serviceName"),
        Column(name="GATEWAY", path=".spec.gatewayName"),
        Column(name="ADDRESS", path=".status.address"),
        Column(name="ENDPOINTS", path=".status.endpoints.ready", type="integer"),
    ),
    conditions=ConditionType,
    reasons=Reason,
)


def parse(obj: Mapping[str, Any]) -> ModelRoute:
    """A stored route as its type. Raises InvalidObject."""
    return read(ModelRoute, obj)
