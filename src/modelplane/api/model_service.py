"""ModelService: one address over the endpoints of a model, in shares and priorities.

Entries of the older shape have no name; `parse` gives each one the name of its position, so everybody else sees named entries.
There is no total timeout unless the service asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from modelplane.api.children import Children
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import (
    Column,
    Definition,
    Owner,
    Root,
    Rule,
    Shape,
    atomic,
    entries,
    formatted,
    keyed,
    number,
    read,
    text,
)

KIND: Final = GVK(GROUP, VERSION, "ModelService")
RESOURCE: Final = Resource(KIND, "modelservices", True)


class ConditionType(StrEnum):
    """Condition types of a ModelService."""

    ENDPOINTS_RESOLVED = "EndpointsResolved"
    """At least one endpoint matches."""
    ROUTING_READY = "RoutingReady"
    """The front doors carry the service's route."""


class Reason(StrEnum):
    """Condition reasons of a ModelService."""

    NO_ENDPOINTS = "NoEndpoints"
    """No ModelEndpoint in the namespace matches; the message says whether a deployment is still starting."""
    RESOLVED = "Resolved"
    """Endpoints match; the message has their number and how many cannot be routed to yet."""
    ROUTE_CONFIGURED = "RouteConfigured"
    """The front door carries the route, and at least one endpoint can take requests."""
    CONFIGURING = "Configuring"
    """The front door does not carry the route yet."""
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    """There is no InferenceGateway yet, or it has no address."""
    ROUTES_ACCEPTED = "RoutesAccepted"
    """Every front door that is up and serves it carries the route, and there is at least one."""
    WAITING_FOR_GATEWAYS = "WaitingForGateways"
    """The front doors are not known, or none is up."""
    NO_GATEWAY_SERVES_THIS_SERVICE = "NoGatewayServesThisService"
    """No serviceSelector of an InferenceGateway matches the service's labels."""
    WAITING_FOR_ROUTES = "WaitingForRoutes"
    """Some front doors do not carry the route yet; the message lists them."""


class EndpointSelector(Shape, frozen=True, kw_only=True):
    """ModelEndpoints of the service's namespace by label."""

    match_labels: Annotated[Mapping[str, Annotated[str, text(most=63)]], entries(1, 16)]
    """Labels that all have to match."""


class Entry(Shape, frozen=True, kw_only=True):
    """A share of the traffic. An endpoint that several entries match belongs to the first."""

    name: Annotated[str, text(1, 63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] | None = None
    """Stable name of the entry; derived from its position when unset."""
    priority: Annotated[int, number(0, 63), formatted("int32")] = 0
    """Lower is preferred; higher numbers take over as lower ones lose healthy endpoints."""
    weight: Annotated[int, number(1, 1000000), formatted("int32")] = 1
    """Share among the entries of the same priority, divided evenly over the endpoints that the entry matches."""
    selector: EndpointSelector
    """ModelEndpoints in the service's namespace."""


DURATION: Final = "^([0-9]{1,5}(h|m|s|ms)){1,4}$"


class Timeouts(Shape, frozen=True, kw_only=True):
    """How long front doors wait."""

    request: Annotated[str, text(pattern=DURATION)] | None = None
    """From end to end, retries included; unlimited when unset."""
    idle: Annotated[str, text(pattern=DURATION)] = "60s"
    """Silence that is put up with. Before the first byte it causes a retry, after it the stream ends; 0s turns it off."""


class Spec(Shape, frozen=True, kw_only=True):
    """The service that is wanted."""

    endpoints: Annotated[tuple[Entry, ...], atomic(1, 32)]
    """Traffic entries; the service is the union of what they match."""
    timeouts: Timeouts | None = None
    """How long front doors wait; without the block there is no limit."""

    RULES = (
        Rule(
            rule="self.endpoints.all(a, !has(a.name) || self.endpoints.exists_one(b, has(b.name) && b.name == a.name))",
            message="names of endpoints entries must be unique",
            field=".endpoints",
        ),
    )


class RouteCounts(Shape, frozen=True, kw_only=True):
    """Numbers of front doors."""

    total: Annotated[int, number(0), formatted("int32")] | None = None
    """Front doors that serve the service."""
    ready: Annotated[int, number(0), formatted("int32")] | None = None
    """Front doors that carry its traffic."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    address: str = ""
    """Base URL: http://GATEWAY/NAMESPACE/SERVICE."""
    model: str = ""
    """NAMESPACE/SERVICE: what a caller passes as model."""
    routes: RouteCounts | None = None
    """Numbers of front doors."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """EndpointsResolved, RoutingReady, Ready and Synced."""


class ModelService(Root, frozen=True, kw_only=True):
    """One address over the endpoints of a model."""

    spec: Spec
    """The service that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelService,
    owner=Owner.DEVELOPER,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("ms",),
    categories=("crossplane", "modelplane", "models"),
    columns=(
        Column(name="ADDRESS", path=".status.address"),
        Column(name="MODEL", path=".status.model", priority=1),
    ),
)


def _named(given: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Every entry with a name; a derived one never takes a name that is given elsewhere in the list."""
    taken = {entry.name for entry in given}
    named = []
    for position, entry in enumerate(given):
        if entry.name is None:
            name = f"entry-{position}"
            while name in taken:
                name += "-unnamed"
            taken.add(name)
            entry = msgspec.structs.replace(entry, name=name)
        named.append(entry)
    return tuple(named)


def parse(obj: Mapping[str, Any]) -> ModelService:
    """A stored service as its type, every entry named. Raises InvalidObject."""
    service = read(ModelService, obj)
    spec = msgspec.structs.replace(service.spec, endpoints=_named(service.spec.endpoints))
    return msgspec.structs.replace(service, spec=spec)
