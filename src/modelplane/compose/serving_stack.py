"""ServingStack: what a cluster needs to serve models. Charts and the cluster's gateway objects, on the cluster itself.

The cluster is the stack's owner. Nothing here looks at the cluster but through the stack's own children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelplane.api.meta import Condition, Object
from modelplane.api.serving_stack import KIND as KIND
from modelplane.api.serving_stack import ServingStack, parse
from modelplane.compose.conditions import AVAILABLE, CREATING, READY, false, first_address, lost, true
from modelplane.compose.contract import (
    After,
    Answer,
    Chart,
    Child,
    Composition,
    Found,
    Read,
    Unavailable,
    World,
)
from modelplane.compose.kinds import INFERENCE_CLUSTER, NAMESPACE
from modelplane.compose.stack.components import charts
from modelplane.compose.stack.gateway import NAMESPACE_KEY, critical_pods_quota, gateway_objects

ORPHANED = "Orphaned"
"""The stack has no InferenceCluster as its owner, so there is nowhere to install it."""


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    cluster = _cluster(parse(xr))
    return frozenset() if cluster is None else frozenset({_sight(cluster)})


def compose(xr: Object, world: World) -> Composition:
    stack = parse(xr)
    cluster = _cluster(stack)
    if cluster is None:
        message = "no InferenceCluster owns this stack; stacks are composed, so delete it and let its cluster make one"
        return Composition.hold((), ready=false(READY, ORPHANED, message))
    listeners = [{"name": "http", "port": world.host.gateway_port(cluster), "protocol": "HTTP"}]
    gateways = gateway_objects(cluster, stack.spec.gateway.class_name, listeners)
    # In the order in which a host should begin: placement waits for the gateway's address, and for nothing else here.
    children: list[Child | Chart] = [*gateways, *charts(cluster, stack.spec.cloud), critical_pods_quota(cluster)]
    gateway = world.observed.get("gateway")
    address = (first_address(gateway.manifest) if gateway else None) or stack.status.gateway.address
    return Composition(
        children=children,
        status={"gateway": {"address": address}} if address else {},
        ready=_ready(world, cluster, [child.key for child in children]),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    """Gateways before their controllers, which have finalizers to clear; certificates and drivers last."""
    return (
        After("gateway", "gateway-class"),
        After("gateway-class", "gateway-proxy"),
        After("gateway-class", "envoy-gateway"),
        After("gateway-proxy", "envoy-gateway"),
        After("envoy-gateway", "ai-gateway"),
        After("ai-gateway", "ai-gateway-crds"),
        After("envoy-gateway", "cert-manager"),
        After("dra-driver-critical-pods-quota", "dra-driver"),
    )


def _cluster(stack: ServingStack) -> str | None:
    owners = stack.metadata.owner_references
    return next((owner.name for owner in owners if owner.kind == INFERENCE_CLUSTER.kind), None)


def _sight(cluster: str) -> Read:
    """The system namespace on the cluster: whether we can see the cluster at all."""
    return Read(kind=NAMESPACE, name="modelplane-system", cluster=cluster, project=("metadata.name",))


def _ready(world: World, cluster: str, keys: Sequence[str]) -> Condition:
    answer = world.answer(_sight(cluster))
    if isinstance(answer, Unavailable):
        return lost(READY, answer, f"cluster {cluster}")
    # The system namespace of somebody else is as good as one of ours, and is no child that could be observed.
    there = {NAMESPACE_KEY} if isinstance(answer, Found) else set()
    waiting = [key for key in keys if key not in there and (key not in world.observed or not world.observed[key].ready)]
    if not waiting:
        return true(READY, AVAILABLE)
    hint = "; the gateway gets no address without a load balancer on the cluster" if waiting == ["gateway"] else ""
    return false(READY, CREATING, f"unready on {cluster}: {', '.join(waiting)}{hint}")
