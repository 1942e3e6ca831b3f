"""ModelService: one address over the endpoints of a model: one route on the front door.

The address depends on the front door alone, so a service keeps it while it has no endpoint, and its conditions say why it does
not answer. Endpoints count in the service's own namespace only, in the order of their names, so that weights never churn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.labels import IDLE_TIMEOUT
from modelplane.api.meta import SYSTEM_NAMESPACE, Condition, Object
from modelplane.api.model_endpoint import InvalidUrl, ModelEndpoint, Target
from modelplane.api.model_endpoint import parse as parse_endpoint
from modelplane.api.model_service import (
    KIND as KIND,
)
from modelplane.api.model_service import (
    ConditionType,
    Entry,
    ModelService,
    Reason,
    parse,
)
from modelplane.compose.conditions import AVAILABLE, READY, false, not_read, true, unknown
from modelplane.compose.contract import (
    After,
    Answer,
    Cel,
    Child,
    Composition,
    Event,
    Found,
    FoundAll,
    Pending,
    Read,
    Unavailable,
    World,
)
from modelplane.compose.inference_gateway import FRONT_DOOR
from modelplane.compose.kinds import GATEWAY, HTTP_ROUTE, INFERENCE_GATEWAY, MODEL_ENDPOINT, manifest
from modelplane.compose.names import childname
from modelplane.compose.routing.address import address_type, url_to
from modelplane.compose.routing.weights import spread
from modelplane.errors import InvalidObject

ROUTE_KEY: Final = "httproute"


ACCEPTED: Final = Cel(
    "has(object.status) && has(object.status.parents) && object.status.parents.exists(p, has(p.conditions)"
    " && p.conditions.exists(c, c.type == 'Accepted' && c.status == 'True'"
    " && (!has(c.observedGeneration) || c.observedGeneration >= object.metadata.generation)))"
)


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with the endpoints that it matches and no earlier entry does."""

    entry: Entry
    endpoints: tuple[ModelEndpoint, ...]

    @property
    def routable(self) -> list[ModelEndpoint]:
        return [endpoint for endpoint in self.endpoints if endpoint.status.routing.backend_name]


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    service = parse(xr)
    return frozenset({_GATEWAY, *(_endpoints(service, entry) for entry in service.spec.endpoints)})


def compose(xr: Object, world: World) -> Composition:
    service = parse(xr)
    answers = [world.answer(_endpoints(service, entry)) for entry in service.spec.endpoints]
    gateway = world.answer(_GATEWAY)
    if any(isinstance(answer, Pending | Unavailable) for answer in (*answers, gateway)):
        # The route stays as it is: endpoints that cannot be seen have not gone.
        message = not_read("the service's endpoints and front door have", *answers, gateway)
        return Composition.hold(
            (unknown(ConditionType.ROUTING_READY, Reason.CONFIGURING, message),),
            ready=unknown(READY, Reason.CONFIGURING, message),
        )
    matched = _match(service, answers)
    backends = _backend_refs(matched)
    address = _gateway_address(gateway)
    resolved = _resolved(service, matched)
    routing = _routing(world, address, backends, resolved)
    return Composition(
        children=(Child(key=ROUTE_KEY, manifest=_route(service, backends), ready=ACCEPTED),),
        status=_status(service, address),
        conditions=(resolved, routing),
        events=()
        if resolved.status == "True"
        else (Event(type="Warning", reason=resolved.reason, message=resolved.message),),
        ready=_ready(resolved, routing),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    return ()


# --- reads ------------------------------------------------------------------------------------------------------

_GATEWAY = Read(kind=INFERENCE_GATEWAY, name=DEFAULT_NAME, project=("status.address",))


def _endpoints(service: ModelService, entry: Entry) -> Read:
    return Read(
        kind=MODEL_ENDPOINT,
        namespace=service.metadata.namespace,
        labels=tuple(sorted(entry.selector.match_labels.items())),
        project=("metadata.labels", "spec", "status.routing"),
    )


def _gateway_address(answer: Answer) -> str | None:
    if not isinstance(answer, Found):
        return None
    return (answer.object.get("status") or {}).get("address") or None


# --- the route --------------------------------------------------------------------------------------------------


def _match(service: ModelService, answers: Sequence[Answer]) -> list[Matched]:
    """Endpoints by entry; one that several entries match belongs to the first."""
    taken: set[str] = set()
    matched = []
    for entry, answer in zip(service.spec.endpoints, answers, strict=True):
        mine = []
        for obj in answer if isinstance(answer, FoundAll) else ():
            name = obj["metadata"]["name"]
            if name in taken or obj["metadata"].get("deletionTimestamp"):
                continue
            taken.add(name)
            try:
                mine.append(parse_endpoint(obj))
            except InvalidObject:
                # One stored endpoint that no longer fits its type must not take the others down.
                continue
        mine.sort(key=lambda endpoint: endpoint.metadata.name)
        matched.append(Matched(entry=entry, endpoints=tuple(mine)))
    return matched


def _backend_refs(matched: Sequence[Matched]) -> list[Object]:
    """One reference per endpoint that can be routed to, of the most preferred priority that has any."""
    live = [group for group in matched if group.routable]
    if not live:
        return []
    preferred = min(group.entry.priority for group in live)
    groups = [group for group in live if group.entry.priority == preferred]
    weights = spread([(group.entry.weight, len(group.routable)) for group in groups])
    return [
        reference
        for group, weight in zip(groups, weights, strict=True)
        for endpoint in group.routable
        if (reference := _backend_ref(endpoint, weight)) is not None
    ]


def _backend_ref(endpoint: ModelEndpoint, weight: int) -> Object | None:
    try:
        target = endpoint.spec.target
    except InvalidUrl:
        return None
    reference: Object = {
        "group": "",
        "kind": "Service",
        "name": endpoint.status.routing.backend_name,
        "port": target.port,
        "weight": weight,
    }
    rewrite = _rewrite(target)
    if rewrite:
        reference["filters"] = [{"type": "URLRewrite", "urlRewrite": rewrite}]
    return reference


def _rewrite(target: Target) -> Object:
    rewrite: Object = {}
    if target.rewrite_path is not None:
        rewrite["path"] = {"type": "ReplacePrefixMatch", "replacePrefixMatch": target.rewrite_path}
    if address_type(target.host) == "FQDN":
        # A provider serves many names from one address; the caller's Host header would mean nothing to it.
        rewrite["hostname"] = target.host.removesuffix(".")
    return rewrite


def _route(service: ModelService, backends: list[Object]) -> Object:
    namespace, name = service.metadata.namespace, service.metadata.name
    request = service.spec.timeouts.request if service.spec.timeouts else None
    rule: Object = {
        "matches": [{"path": {"type": "PathPrefix", "value": f"/{namespace}/{name}/"}}],
        # A gateway's own default would cut long answers off; 0s means no limit.
        "timeouts": {"request": request or "0s"},
    }
    if backends:
        rule["backendRefs"] = backends
    parent = {"group": GATEWAY.group, "kind": GATEWAY.kind, "name": FRONT_DOOR, "namespace": SYSTEM_NAMESPACE}
    # Gateway API has no word for silence between bytes; the front door reads it from the annotation.
    idle = service.spec.timeouts.idle if service.spec.timeouts else None
    return manifest(
        HTTP_ROUTE,
        childname(name, "httproute"),
        namespace,
        annotations={IDLE_TIMEOUT: idle} if idle else None,
        spec={"parentRefs": [parent], "rules": [rule]},
    )


# --- what is said about it --------------------------------------------------------------------------------------


def _status(service: ModelService, address: str | None) -> dict[str, str]:
    name = f"{service.metadata.namespace}/{service.metadata.name}"
    status = {"model": name}
    if address:
        status["address"] = url_to(address, f"/{name}")
    elif service.status.address:
        status["address"] = service.status.address
    return status


def _resolved(service: ModelService, matched: Sequence[Matched]) -> Condition:
    total = sum(len(group.endpoints) for group in matched)
    if not total:
        wanted = "; ".join(
            ",".join(f"{key}={value}" for key, value in sorted(entry.selector.match_labels.items()))
            for entry in service.spec.endpoints
        )
        message = (
            f"no ModelEndpoint in {service.metadata.namespace} has labels {wanted}; a deployment's endpoints appear when its "
            "replicas answer, see kubectl get modelreplicas, or correct the selector"
        )
        return false(ConditionType.ENDPOINTS_RESOLVED, Reason.NO_ENDPOINTS, message)
    waiting = total - sum(len(group.routable) for group in matched)
    message = f"Matched {total} endpoint(s)" + (f", {waiting} waiting for a backend" if waiting else "")
    return true(ConditionType.ENDPOINTS_RESOLVED, Reason.RESOLVED, message)


def _routing(world: World, address: str | None, backends: Sequence[Object], resolved: Condition) -> Condition:
    type_ = ConditionType.ROUTING_READY
    if address is None:
        message = f"the front door has no address yet; see kubectl describe inferencegateway {DEFAULT_NAME}"
        return false(type_, Reason.WAITING_FOR_GATEWAY, message)
    if resolved.status != "True":
        return false(type_, Reason.CONFIGURING, resolved.message)
    if not backends:
        return false(
            type_, Reason.CONFIGURING, "no matched endpoint can be routed to yet; see kubectl get modelendpoints"
        )
    route = world.observed.get(ROUTE_KEY)
    if route is None or not route.ready:
        return false(type_, Reason.CONFIGURING, "the front door has not accepted the route yet")
    return true(type_, Reason.ROUTE_CONFIGURED)


def _ready(resolved: Condition, routing: Condition) -> Condition:
    """True when the front door carries the route; else what stands in the way first."""
    if routing.status == "True":
        return true(READY, AVAILABLE)
    first = routing if routing.reason == Reason.WAITING_FOR_GATEWAY or resolved.status == "True" else resolved
    return false(READY, first.reason, first.message)
