"""InferenceGateway: the front door on the control cluster.

Traefik is the one that can rewrite each backend of a weighted split on its own. Everything has a fixed name, so one object,
`default`, is the front door; a second one would fight it and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from modelplane.api.inference_gateway import (
    DEFAULT_NAME,
    ConditionType,
    LoadBalancer,
    Reason,
    Traefik,
    parse,
)
from modelplane.api.inference_gateway import (
    KIND as KIND,
)
from modelplane.api.meta import SYSTEM_NAMESPACE, Condition, Object
from modelplane.compose.conditions import (
    AVAILABLE,
    CREATING,
    READY,
    false,
    first_address,
    true,
)
from modelplane.compose.contract import After, Answer, Chart, Child, Composition, Event, Host, Read, World
from modelplane.compose.kinds import (
    GATEWAY,
    GATEWAY_CLASS,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    NAMESPACE,
    manifest,
)
from modelplane.compose.stack.gateway import HAS_ADDRESS

FRONT_DOOR: Final = "modelplane"
GATEWAY_CLASS_NAME: Final = "traefik"
CONTROLLER: Final = "traefik.io/gateway-controller"
METALLB_NAMESPACE: Final = "metallb-system"


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    return frozenset()


def compose(xr: Object, world: World) -> Composition:
    gateway = parse(xr)
    traefik = gateway.spec.traefik
    if traefik is None:
        return _refused(
            ConditionType.GATEWAY_READY,
            "a front door on an inference cluster (spec.clusterName) is not made by this version: use backend Traefik",
        )
    if gateway.metadata.name != DEFAULT_NAME:
        return _refused(
            ConditionType.CONTROLLER_READY,
            f"the front door of the control cluster is the InferenceGateway named {DEFAULT_NAME}; give it these settings "
            f"and delete {gateway.metadata.name}",
        )
    children: list[Child | Chart] = [*_charts(traefik), *_objects(traefik, world.host)]
    observed = world.observed.get("gateway")
    address = (first_address(observed.manifest) if observed else None) or gateway.status.address
    controller = world.observed.get("traefik")
    healthy = controller is not None and controller.ready
    return Composition(
        children=children,
        status={"address": address} if address else {},
        conditions=(_controller(healthy, traefik, world.host),),
        events=_notes(traefik, world.host),
        ready=_ready(world, [child.key for child in children]),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    """The Gateway and its class before the controller that has to clear their finalizers."""
    return (
        After("gateway", "gateway-class"),
        After("gateway-class", "traefik"),
        After("gateway", "metallb-l2"),
        After("metallb-l2", "metallb-pool"),
        After("metallb-pool", "metallb"),
    )


def _address_pool(traefik: Traefik) -> str | None:
    if traefik.load_balancer is LoadBalancer.METALLB and traefik.metallb:
        return traefik.metallb.address_pool or None
    return None


def _charts(traefik: Traefik) -> list[Chart]:
    door = Chart(
        key="traefik",
        repository="https://traefik.github.io/charts",
        name="traefik",
        version=traefik.version,
        release="mp-traefik",
        namespace="traefik-system",
        values={
            "providers": {
                "kubernetesGateway": {
                    "enabled": True,
                    "statusAddress": {"service": {"namespace": "traefik-system", "name": "traefik"}},
                },
                "kubernetesIngress": {"enabled": False},
            },
            # The default Service name embeds the release's; the status address above needs one that is known.
            "service": {"nameOverride": "traefik"},
            "gateway": {"enabled": False},
            "gatewayClass": {"enabled": False},
        },
    )
    if _address_pool(traefik) is None:
        return [door]
    balancer = Chart(
        key="metallb",
        repository="https://metallb.github.io/metallb",
        name="metallb",
        version="0.14.9",
        release="mp-metallb",
        namespace=METALLB_NAMESPACE,
    )
    return [balancer, door]


def _objects(traefik: Traefik, host: Host) -> list[Child]:
    everywhere = {"namespaces": {"from": "All"}}
    listener = {"name": "web", "port": host.front_door_port, "protocol": "HTTP", "allowedRoutes": everywhere}
    children = [
        Child(
            key="gateway-class",
            manifest=manifest(GATEWAY_CLASS, GATEWAY_CLASS_NAME, spec={"controllerName": CONTROLLER}),
        ),
        Child(
            key="gateway",
            manifest=manifest(
                GATEWAY,
                FRONT_DOOR,
                SYSTEM_NAMESPACE,
                spec={"gatewayClassName": GATEWAY_CLASS_NAME, "listeners": [listener]},
            ),
            ready=HAS_ADDRESS,
        ),
    ]
    pool = _address_pool(traefik)
    if pool is not None and not host.simulated:
        children += _metallb(pool)
    return children


def _metallb(pool: str) -> list[Child]:
    # Its speaker needs host networking, which the default Pod Security level refuses.
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    bodies = {
        "namespace-metallb": manifest(NAMESPACE, METALLB_NAMESPACE, labels=privileged),
        "metallb-pool": manifest(IP_ADDRESS_POOL, FRONT_DOOR, METALLB_NAMESPACE, spec={"addresses": [pool]}),
        "metallb-l2": manifest(L2_ADVERTISEMENT, FRONT_DOOR, METALLB_NAMESPACE, spec={"ipAddressPools": [FRONT_DOOR]}),
    }
    # What a person installed in the namespace, and serves others too, outlives the front door.
    return [Child(key=key, manifest=body, retain=key == "namespace-metallb") for key, body in bodies.items()]


def _notes(traefik: Traefik, host: Host) -> tuple[Event, ...]:
    pool = _address_pool(traefik)
    if pool is None or not host.simulated:
        return ()
    message = (
        f"the address pool {pool} has no meaning on this host: the front door listens on this machine alone, at the address in"
        " the status"
    )
    return (Event(type="Normal", reason="BuiltIn", message=message),)


def _refused(type_: ConditionType, message: str) -> Composition:
    return Composition.hold(
        (false(type_, Reason.UNSUPPORTED, message),),
        ready=false(READY, Reason.UNSUPPORTED, message),
        events=(Event(type="Warning", reason=Reason.UNSUPPORTED, message=message),),
    )


def _controller(healthy: bool, traefik: Traefik, host: Host) -> Condition:
    if healthy:
        return true(ConditionType.CONTROLLER_READY, Reason.CONTROLLER_HEALTHY)
    chart = f"chart traefik {traefik.version}"
    message = (
        f"{chart} is being installed in traefik-system"
        if host.installs_charts
        else f"{chart} is not installed in traefik-system, which is yours to do: the event ChartMissing has the command"
    )
    return false(ConditionType.CONTROLLER_READY, Reason.INSTALLING, message)


def _ready(world: World, keys: Sequence[str]) -> Condition:
    waiting = [key for key in keys if key not in world.observed or not world.observed[key].ready]
    if not waiting:
        return true(READY, AVAILABLE)
    hint = "; the gateway gets no address without a load balancer" if waiting == ["gateway"] else ""
    return false(READY, CREATING, f"unready: {', '.join(waiting)}{hint}")
