"""ModelDeployment: its replicas where the planner puts them, and an endpoint for each that really answers.

The planner decides places and finds the words for what is missing; this module carries them out. An endpoint appears only for a
replica that is Ready and named a model, and goes only on a definite no: a replica that cannot be seen, or a cluster whose address
is gone for a moment, keeps it, since gateways take traffic away by health check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from modelplane.api.meta import Condition, Object, Status, condition_of
from modelplane.api.model_deployment import (
    KIND as KIND,
)
from modelplane.api.model_deployment import (
    ConditionType,
    ModelDeployment,
    Reason,
    parse,
)
from modelplane.compose.conditions import AVAILABLE, READY, false, not_read, true
from modelplane.compose.contract import (
    Absent,
    After,
    Answer,
    Child,
    Composition,
    Event,
    Found,
    FoundAll,
    Observed,
    Pending,
    Read,
    Unavailable,
    World,
)
from modelplane.compose.kinds import INFERENCE_CLUSTER, MODEL_CACHE, MODEL_REPLICA
from modelplane.compose.seats import endpoint_child, replica_child, replica_key, selector, serves, standing
from modelplane.plan.outcome import Placement, Plan, State
from modelplane.plan.request import InvalidNodeSelector
from modelplane.plan.snapshot import request_with_cache
from modelplane.plan.verdicts import Code, notice

NAMED: Final = 5
"""How many replicas a message names."""

# The planner decides by both and wakes those whom a change can affect; a thousand deployments do not look again at every replica.
_CLUSTERS: Final = Read(
    kind=INFERENCE_CLUSTER,
    wakes=False,
    project=(
        "metadata.labels",
        "metadata.deletionTimestamp",
        "spec.taints",
        "spec.placement",
        "status.gpuPools",
        "status.cache",
        "status.gateway.address",
        "status.conditions[Ready].status",
    ),
)
_REPLICAS: Final = Read(
    kind=MODEL_REPLICA, wakes=False, project=("metadata.deletionTimestamp", "spec.clusterName", "spec.engines")
)


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    return frozenset({_CLUSTERS, _REPLICAS, *_cache(parse(xr))})


def compose(xr: Object, world: World) -> Composition:
    deployment = parse(xr)
    clusters = world.answer(_CLUSTERS)
    replicas = world.answer(_REPLICAS)
    if not isinstance(clusters, FoundAll) or not isinstance(replicas, FoundAll):
        message = not_read("the fleet's clusters and replicas have", clusters, replicas)
        return _held(deployment, Reason.SCHEDULING, message, [])
    cache = next((world.answer(read) for read in _cache(deployment)), None)
    said = _cache_condition(deployment, cache)
    try:
        request = request_with_cache(deployment, cache.object if isinstance(cache, Found) else None)
    except InvalidNodeSelector as error:
        return _held(deployment, Reason.INVALID_NODE_SELECTOR, f"{error}; nothing moves until it is corrected", said)
    plan: Plan = world.place(request)

    fleet = {cluster["metadata"]["name"]: cluster for cluster in clusters}
    children: list[Child] = []
    unready: list[str] = []
    for seat in plan.placements:
        replica = replica_child(xr, seat, fleet.get(seat.cluster), world.observed)
        endpoint = endpoint_child(replica, seat, fleet.get(seat.cluster), world.observed)
        children += [replica] if endpoint is None else [replica, endpoint]
        if seat.state is not State.LEAVING and not serves(replica, world.observed):
            unready.append(f"{seat.name} on {seat.cluster} is {standing(replica, world.observed)}")
    scheduled = _scheduled(plan, world.observed)
    replicas_ready = _replicas_ready(plan, unready)
    return Composition(
        children=children,
        status=_status(deployment, plan, plan.placed - len(unready)),
        conditions=(scheduled, replicas_ready, *said),
        events=_events(
            deployment, plan, scheduled, said, condition_of(xr, ConditionType.REPLICAS_SCHEDULED), world.observed
        ),
        ready=_ready(plan, scheduled, replicas_ready),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    return (After("endpoint-*", "replica-*"),)


# --- the cache --------------------------------------------------------------------------------------------------


def _cache(deployment: ModelDeployment) -> tuple[Read, ...]:
    ref = deployment.spec.template.spec.model_cache_ref
    if ref is None:
        return ()
    where = deployment.metadata.namespace
    return (Read(kind=MODEL_CACHE, name=ref.name, namespace=where, project=("spec.clusterSelector",)),)


def _cache_condition(deployment: ModelDeployment, answer: Answer | None) -> list[Condition]:
    ref = deployment.spec.template.spec.model_cache_ref
    if ref is None or answer is None:
        return []
    type_, where = ConditionType.MODEL_CACHE_RESOLVED, f"ModelCache {deployment.metadata.namespace}/{ref.name}"
    if isinstance(answer, Pending | Unavailable):
        message = f"{not_read(f'{where} has', answer)}; new replicas wait for it"
        return [false(type_, Reason.MODEL_CACHE_UNRESOLVED, message)]
    if isinstance(answer, Absent):
        message = f"{where} does not exist; create it or correct modelCacheRef, new replicas wait for it"
        return [false(type_, Reason.MODEL_CACHE_NOT_FOUND, message)]
    return [true(type_, Reason.MODEL_CACHE_RESOLVED)]


# --- what is said about it --------------------------------------------------------------------------------------


def _held(deployment: ModelDeployment, reason: Reason, message: str, said: Sequence[Condition]) -> Composition:
    """Nothing can be decided now; what is placed stays."""
    warning = Event(type="Warning", reason=str(reason), message=message)
    return Composition.hold(
        (false(ConditionType.REPLICAS_SCHEDULED, reason, message), *said),
        status={"labelSelector": selector(deployment)},
        ready=false(READY, reason, message),
        events=() if reason is Reason.SCHEDULING else (warning,),
    )


def _unseen(plan: Plan, observed: Mapping[str, Observed]) -> list[Placement]:
    return [seat for seat in plan.placements if replica_key(seat) not in observed]


def _scheduled(plan: Plan, observed: Mapping[str, Observed]) -> Condition:
    """The planner's condition, but for the moment between placing and seeing."""
    condition = plan.condition()
    unseen = _unseen(plan, observed)
    if condition.status is Status.TRUE and unseen:
        message = f"{plan.summary().rstrip('.')}; {len(unseen)} not created yet."
        return false(ConditionType.REPLICAS_SCHEDULED, Reason.SCHEDULING, message)
    return condition


def _replicas_ready(plan: Plan, unready: Sequence[str]) -> Condition:
    type_ = ConditionType.REPLICAS_READY
    if not plan.placed:
        if plan.wanted == 0:
            return true(type_, Reason.SCALED_TO_ZERO, plan.summary())
        return false(type_, Reason.NO_REPLICAS_SCHEDULED, "no replica has a place; see the condition ReplicasScheduled")
    count = f"{plan.placed - len(unready)} of {plan.placed} ready"
    if not unready:
        return true(type_, Reason.ALL_REPLICAS_READY, count)
    more = f" and {len(unready) - NAMED} more" if len(unready) > NAMED else ""
    return false(type_, Reason.MODEL_STARTING, f"{count}: {'; '.join(unready[:NAMED])}{more}")


def _ready(plan: Plan, scheduled: Condition, replicas_ready: Condition) -> Condition:
    for condition in (scheduled, replicas_ready):
        if condition.status is not Status.TRUE:
            return false(READY, condition.reason, condition.message)
    if plan.wanted == 0:
        return true(READY, Reason.SCALED_TO_ZERO, scheduled.message)
    return true(READY, AVAILABLE)


def _status(deployment: ModelDeployment, plan: Plan, ready: int) -> Mapping[str, Any]:
    placement = [
        {"cluster": seat.cluster, "replica": seat.name, "code": str(seat.state), "message": seat.message}
        for seat in plan.placements
    ]
    placement += [
        {
            "cluster": verdict.cluster,
            "code": str(verdict.code),
            "message": "; ".join(part for part in (verdict.message, verdict.remedy) if part),
        }
        for verdict in plan.verdicts
        if verdict.code is not Code.FITS
    ]
    return {
        "replicas": {"total": plan.placed, "ready": ready},
        "labelSelector": selector(deployment),
        "placement": placement,
    }


def _events(
    deployment: ModelDeployment,
    plan: Plan,
    scheduled: Condition,
    said: Sequence[Condition],
    before: Condition | None,
    observed: Mapping[str, Observed],
) -> list[Event]:
    """A shortfall when its reason, the code of the nearest miss or the number of replicas changes; that it is over; and where new
    replicas go."""
    quiet = (Reason.SCHEDULING, Reason.MODEL_CACHE_UNRESOLVED)
    events = [
        Event(type="Warning", reason=condition.reason, message=condition.message)
        for condition in said
        if condition.status is not Status.TRUE and condition.reason not in quiet
    ]
    if scheduled.status is not Status.TRUE and scheduled.reason not in quiet:
        key = deployment.metadata.key
        ask = f"modelplane explain modeldeployment/{key.name} -n {key.namespace} has every cluster."
        message, code = notice(plan.headline(), () if plan.holding else plan.verdicts, plan.notes, more=ask)
        cause = f"{code or scheduled.reason} {plan.missing} {plan.held}"
        events.append(Event(type="Warning", reason=scheduled.reason, message=message, cause=cause))
    short = before is not None and before.status is Status.FALSE and before.reason not in quiet
    if short and (plan.complete or not plan.wanted):
        over = plan.condition()
        events.append(Event(type="Normal", reason=over.reason, message=over.message, cause=over.reason))
    if unseen := _unseen(plan, observed):
        clusters = ", ".join(sorted({seat.cluster for seat in unseen}))
        message = f"{'1 replica' if len(unseen) == 1 else f'{len(unseen)} replicas'} on {clusters}"
        events.append(Event(type="Normal", reason="Scheduled", message=message, cause=message))
    return events
