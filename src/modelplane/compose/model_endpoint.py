"""ModelEndpoint: one place that requests can go to, as a Service without selector and a slice of ours.

ExternalName Services are of no use, since gateways refuse them as backends; a slice can hold a host name as well as an address.
The backend's name is published only once both objects exist, so that no route ever names something that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelplane.api.labels import CLUSTER, DEPLOYMENT, HEALTH_PATH
from modelplane.api.meta import Object
from modelplane.api.model_endpoint import (
    KIND as KIND,
)
from modelplane.api.model_endpoint import (
    ApiSchema,
    ConditionType,
    InvalidUrl,
    ModelEndpoint,
    Reason,
    Target,
    parse,
)
from modelplane.compose.conditions import AVAILABLE, READY, false, true
from modelplane.compose.contract import After, Answer, Child, Composition, Event, Found, Read, World
from modelplane.compose.kinds import ENDPOINT_SLICE, MODEL_REPLICA, SERVICE, manifest
from modelplane.compose.names import childname, service_name
from modelplane.compose.routing.address import address_type, refusal


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    endpoint = parse(xr)
    return frozenset({_replica(endpoint)}) if _is_composed(endpoint) else frozenset()


def compose(xr: Object, world: World) -> Composition:
    endpoint = parse(xr)
    try:
        target = endpoint.spec.target
    except InvalidUrl as error:
        return _refused(ConditionType.ROUTING_READY, Reason.INVALID_URL, str(error))
    if why := refusal(target.host, loopback=world.host.simulated):
        return _refused(ConditionType.ROUTING_READY, Reason.INVALID_URL, f"the host {target.host!r} {why}")
    field = _field_beyond_this_version(endpoint)
    if field:
        message = f"{field} is not carried out by this version's front door; take it away, or put a proxy in front"
        return _refused(ConditionType.ENDPOINT_READY, Reason.UNSUPPORTED, message)

    service = service_name(childname(endpoint.metadata.name, "service"))
    children = (
        Child(key="service", manifest=_service(endpoint, target, service)),
        Child(key="endpointslice", manifest=_slice(endpoint, target, service), immutable=("addressType",)),
    )
    missing = [child.key for child in children if child.key not in world.observed]
    status: dict[str, Any] = {} if missing else {"routing": {"backendName": service}}
    models = _models(endpoint, world)
    if models:
        status["models"] = models
    if missing:
        message = f"waiting for the {' and the '.join(missing)} of {service}"
        return Composition(
            children=children,
            status=status,
            conditions=(false(ConditionType.ROUTING_READY, Reason.WAITING_FOR_BACKEND, message),),
            ready=false(READY, Reason.WAITING_FOR_BACKEND, message),
        )
    return Composition(
        children=children,
        status=status,
        conditions=(
            true(ConditionType.ROUTING_READY, Reason.BACKEND_CONFIGURED),
            true(ConditionType.ENDPOINT_READY, Reason.ENDPOINT_USABLE),
        ),
        ready=true(READY, AVAILABLE),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    return ()


def _is_composed(endpoint: ModelEndpoint) -> bool:
    return {CLUSTER, DEPLOYMENT} <= endpoint.metadata.labels.keys()


def _replica(endpoint: ModelEndpoint) -> Read:
    return Read(
        kind=MODEL_REPLICA,
        name=endpoint.metadata.name,
        namespace=endpoint.metadata.namespace,
        project=("status.models",),
    )


def _models(endpoint: ModelEndpoint, world: World) -> list[str]:
    """Names that the replica behind a composed endpoint answered with; those known before stay while it is not seen."""
    if _is_composed(endpoint):
        answer = world.answer(_replica(endpoint))
        if isinstance(answer, Found):
            models = (answer.object.get("status") or {}).get("models")
            if models:
                return list(models)
    return list(endpoint.status.models)


def _field_beyond_this_version(endpoint: ModelEndpoint) -> str | None:
    if endpoint.spec.credential is not None:
        return "spec.credential"
    if endpoint.spec.model is not None:
        return "spec.model"
    if endpoint.spec.api.schema is not ApiSchema.OPENAI:
        return f"spec.api.schema {endpoint.spec.api.schema}"
    return None


def _refused(type_: ConditionType, reason: str, message: str) -> Composition:
    return Composition.hold(
        (false(type_, reason, message),),
        ready=false(READY, reason, message),
        events=(Event(type="Warning", reason=str(reason), message=message),),
    )


def _service(endpoint: ModelEndpoint, target: Target, name: str) -> Object:
    port: Object = {"port": target.port, "protocol": "TCP"}
    if target.scheme == "https":
        # Tells the gateway to speak TLS to the backend, whatever the port's number.
        port["appProtocol"] = "https"
    # Behind our own replicas is an engine whose health a front door may ask for; of a provider we know no such path.
    annotations = {HEALTH_PATH: "/health"} if _is_composed(endpoint) else None
    return manifest(SERVICE, name, endpoint.metadata.namespace, annotations=annotations, spec={"ports": [port]})


def _slice(endpoint: ModelEndpoint, target: Target, service: str) -> Object:
    # An empty port name has to match the Service's unnamed port. Ready is written out: some gateways pass over an
    # endpoint whose readiness is unset.
    return manifest(
        ENDPOINT_SLICE,
        childname(endpoint.metadata.name, "endpointslice"),
        endpoint.metadata.namespace,
        labels={"kubernetes.io/service-name": service},
        addressType=address_type(target.host),
        ports=[{"name": "", "port": target.port, "protocol": "TCP"}],
        endpoints=[{"addresses": [target.host], "conditions": {"ready": True}}],
    )
