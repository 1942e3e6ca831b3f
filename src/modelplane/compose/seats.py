"""What a placement becomes on the control cluster: a ModelReplica, and a ModelEndpoint while it serves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from modelplane.api.labels import CLUSTER, DEPLOYMENT, PLACEMENT, REPLICA_INDEX
from modelplane.api.meta import Object, Status, condition_of
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ConditionType, Reason
from modelplane.compose.conditions import READY, carries, status_of
from modelplane.compose.contract import Child, ConditionTrue, Observed
from modelplane.compose.kinds import MODEL_ENDPOINT, MODEL_REPLICA, manifest
from modelplane.compose.routing.address import url_to
from modelplane.plan.devices import Resolved
from modelplane.plan.outcome import PlacedMember, Placement, State


def replica_key(seat: Placement) -> str:
    return f"replica-{seat.cluster}-{seat.index}"


def endpoint_key(seat: Placement) -> str:
    return f"endpoint-{seat.cluster}-{seat.index}"


def selector(deployment: ModelDeployment) -> str:
    """The deployment's replicas as a label selector, for autoscalers."""
    return f"{DEPLOYMENT}={deployment.metadata.name}"


# --- the replica ------------------------------------------------------------------------------------------------


def replica_child(xr: Object, seat: Placement, cluster: Object | None, observed: Mapping[str, Observed]) -> Child:
    """The replica of a placement. One that is leaving, or has no room for what the deployment became, stays as it is."""
    seen = observed.get(replica_key(seat))
    stamped = seen.manifest["spec"] if seen is not None else None
    spec = stamped if stamped is not None and seat.state in (State.LEAVING, State.HELD) else _spec(xr, seat, stamped)
    return Child(
        key=replica_key(seat),
        manifest=manifest(
            MODEL_REPLICA,
            seat.name,
            xr["metadata"]["namespace"],
            labels=_labels(xr, seat, cluster),
            annotations={PLACEMENT: _verdict(seat, seen)},
            spec=spec,
        ),
        ready=ConditionTrue(READY),
    )


def _verdict(seat: Placement, seen: Observed | None) -> str:
    """The verdict that placed the replica is kept with it, since tomorrow's fleet cannot tell it; what moves on is the
    digest of the constraints that it is known to satisfy."""
    kept = ((seen.manifest["metadata"].get("annotations") or {}).get(PLACEMENT)) if seen is not None else None
    if seat.state is State.NEW or not kept:
        return seat.annotation
    try:
        verdict = json.loads(kept)
        return json.dumps({**verdict, "constraints": seat.constraints}, separators=(",", ":"), sort_keys=True)
    except (ValueError, TypeError):
        return seat.annotation


def _labels(xr: Object, seat: Placement, cluster: Object | None) -> dict[str, str]:
    user = (xr["spec"]["template"].get("metadata") or {}).get("labels") or {}
    place = (((cluster or {}).get("spec") or {}).get("placement") or {}).get("metadata") or {}
    managed = {DEPLOYMENT: xr["metadata"]["name"], CLUSTER: seat.cluster, REPLICA_INDEX: str(seat.index)}
    return {**user, **(place.get("labels") or {}), **managed}


def _spec(xr: Object, seat: Placement, stamped: Object | None) -> Object:
    template = xr["spec"]["template"]["spec"]
    places = {engine.name: engine.members for engine in seat.engines}
    before = {engine["name"]: engine["members"] for engine in (stamped or {}).get("engines") or ()}
    spec: Object = {
        "clusterName": seat.cluster,
        "engines": [
            {**engine, "members": _members(engine["members"], places[engine["name"]], before.get(engine["name"], ()))}
            for engine in template["engines"]
        ],
    }
    return spec | {field: template[field] for field in ("modelCacheRef", "serving") if template.get(field)}


def _members(members: Sequence[Object], places: Sequence[PlacedMember], before: Sequence[Object]) -> list[Object]:
    """Members with pool and requests in place of their node selectors. Empty lists are left out, as the schema wants it."""
    placed = []
    for position, (member, place) in enumerate(zip(members, places, strict=True)):
        body = {field: value for field, value in member.items() if field != "nodeSelector"}
        body["nodePoolName"] = place.pool
        if place.requests is not None:
            requests = [_request(request) for request in place.requests]
        else:
            requests = (before[position].get("deviceRequests") or []) if position < len(before) else []
        if requests:
            body["deviceRequests"] = requests
        placed.append(body)
    return placed


def _request(request: Resolved) -> Object:
    body: Object = {"name": request.name, "deviceClassName": request.device_class, "count": request.count}
    if request.selectors:
        body["selectors"] = [{"cel": text} for text in request.selectors]
    return body


def serves(replica: Child, observed: Mapping[str, Observed]) -> bool:
    """Whether the replica, as it is wanted now, is Ready and has answered."""
    seen = observed.get(replica.key)
    if seen is None or not carries(seen.manifest.get("spec"), replica.manifest["spec"]):
        return False
    return _states(seen) == {Status.TRUE}


def standing(replica: Child, observed: Mapping[str, Observed]) -> str:
    """The reason by which a replica does not serve, in one word."""
    seen = observed.get(replica.key)
    if seen is None:
        return "not created yet"
    for type_ in (READY, ConditionType.ENDPOINT_ANSWERING):
        condition = condition_of(seen.manifest, type_)
        if condition is not None and condition.status is not Status.TRUE:
            return condition.reason
    return Reason.MODEL_STARTING


def _states(seen: Observed) -> set[Status]:
    return {status_of(seen.manifest, READY), status_of(seen.manifest, ConditionType.ENDPOINT_ANSWERING)}


# --- the endpoint -----------------------------------------------------------------------------------------------


def endpoint_child(
    replica: Child, seat: Placement, cluster: Object | None, observed: Mapping[str, Observed]
) -> Child | None:
    """The endpoint of a replica that answers; the one that is there while nobody can say whether it still does."""
    seen, existing = observed.get(replica.key), observed.get(endpoint_key(seat))
    if seen is None:
        return None
    states = _states(seen)
    models = (seen.manifest.get("status") or {}).get("models")
    address = (((cluster or {}).get("status") or {}).get("gateway") or {}).get("address")
    metadata = replica.manifest["metadata"]
    path = f"/{metadata['namespace']}/{metadata['name']}/"
    if states == {Status.TRUE} and models and address:
        spec = {"url": url_to(address, f"{path}v1"), "rewritePath": path}
    elif existing is not None and Status.FALSE not in states:
        spec = {field: existing.manifest["spec"][field] for field in ("url", "rewritePath")}
    else:
        return None
    return Child(
        key=endpoint_key(seat),
        manifest=manifest(
            MODEL_ENDPOINT, metadata["name"], metadata["namespace"], labels=metadata["labels"], spec=spec
        ),
        ready=ConditionTrue(READY),
    )
