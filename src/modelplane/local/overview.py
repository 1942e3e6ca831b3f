"""What a fleet looks like right now, as plain text: clusters and pools, replicas, endpoints, services.

Pure rendering of objects that somebody else read, so that `status` and `demo` show the same picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane.api.labels import DRAIN_TAINT
from modelplane.api.meta import Object, condition_of
from modelplane.tables import table

LONGEST: Final = 240
"""Characters of a note; a condition's message may have 32 KiB."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one moment, by kind."""

    clusters: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    replicas: Sequence[Object] = ()
    endpoints: Sequence[Object] = ()
    services: Sequence[Object] = ()


def render(snapshot: Snapshot, width: int = 0) -> str:
    """Tables, one per kind that has objects, in columns of a terminal (0: whole lines); a hint where there is nothing at all."""
    tables: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = [
        (
            ("CLUSTER", "READY", "GATEWAY", "POOLS", "REPLICAS", "NOTE"),
            [_cluster(c, snapshot) for c in snapshot.clusters],
        ),
        (("DEPLOYMENT", "WANTED", "PLACED", "READY", "NOTE"), [_deployment(d) for d in snapshot.deployments]),
        (("REPLICA", "CLUSTER", "READY", "NOTE"), [_replica(r) for r in snapshot.replicas]),
        (("ENDPOINT", "READY", "URL"), [_endpoint(e) for e in snapshot.endpoints]),
        (("SERVICE", "READY", "ADDRESS", "NOTE"), [_service(s) for s in snapshot.services]),
    ]
    sections = [table(header, rows, width) for header, rows in tables]
    shown = [section for section in sections if section]
    if not shown:
        return "nothing here yet; try `kubectl apply -f examples/two-regions`"
    return "\n\n".join(shown)


def _cluster(cluster: Object, snapshot: Snapshot) -> list[str]:
    name = cluster["metadata"]["name"]
    status = cluster.get("status") or {}
    placed = [r for r in snapshot.replicas if r["spec"].get("clusterName") == name]
    notes = [f"taint {_taint(t)}" for t in cluster["spec"].get("taints") or () if t["key"] != DRAIN_TAINT]
    if any(t["key"] == DRAIN_TAINT for t in cluster["spec"].get("taints") or ()):
        notes.insert(0, "draining")
    notes += [note for note in (_why(cluster, "Reachable", "Ready"), _why(cluster, "PoolsLabelled")) if note]
    labelled = condition_of(cluster, "PoolsLabelled")
    if labelled is not None and labelled.status == "True" and labelled.message:
        notes.append(_short(labelled.message))
    pools = ", ".join(_pool(pool) for pool in status.get("gpuPools") or ())
    return [
        name,
        _status(cluster),
        (status.get("gateway") or {}).get("address") or "-",
        pools or "-",
        str(len(placed)),
        "; ".join(notes),
    ]


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _pool(pool: Mapping[str, Any]) -> str:
    devices = " + ".join(f"{device.get('count', 1)} {device['name']}" for device in pool.get("devices") or ())
    capacity = pool.get("capacity") or {}
    free, seen = capacity.get("freeNodes"), capacity.get("observedTime")
    nodes = f"{pool.get('nodes', 0)} node{'s' * (pool.get('nodes', 0) != 1)}"
    if free is not None:
        nodes += f", {free} free{f' at {seen}' if seen else ''}"
    return f"{pool['name']} ({nodes}; each {devices or 'no devices'})"


def _deployment(deployment: Object) -> list[str]:
    status = deployment.get("status") or {}
    replicas = status.get("replicas") or {}
    return [
        _name(deployment),
        str(deployment["spec"].get("replicas", "")),
        str(replicas.get("total", 0)),
        str(replicas.get("ready", 0)),
        _unplaced(deployment) or _why(deployment, "ReplicasReady", "Ready"),
    ]


def _unplaced(deployment: Object) -> str:
    """Why replicas have no place, by reason code. What each cluster lacks would fill the screen, and `explain` has it."""
    status = deployment.get("status") or {}
    condition = condition_of(deployment, "ReplicasScheduled")
    refused = Counter(str(one["code"]) for one in status.get("placement") or () if not one.get("replica"))
    if condition is None or condition.status == "True" or not refused:
        return _why(deployment, "ReplicasScheduled")
    missing = int(deployment["spec"]["replicas"]) - int((status.get("replicas") or {}).get("total") or 0)
    codes = ", ".join(f"{count} {code}" for code, count in refused.most_common())
    metadata = deployment["metadata"]
    ask = f"modelplane explain modeldeployment/{metadata['name']} -n {metadata['namespace']}"
    return f"{condition.reason}: {missing} without a place (clusters: {codes}); see {ask}"


def _replica(replica: Object) -> list[str]:
    return [
        _name(replica),
        replica["spec"].get("clusterName", ""),
        _status(replica),
        _why(replica, "ModelAccepted", "ModelReady", "EndpointAnswering", "Ready"),
    ]


def _endpoint(endpoint: Object) -> list[str]:
    spec = endpoint["spec"]
    return [_name(endpoint), _status(endpoint), spec.get("url") or spec.get("origin") or ""]


def _service(service: Object) -> list[str]:
    return [
        _name(service),
        _status(service),
        (service.get("status") or {}).get("address") or "-",
        _why(service, "EndpointsResolved", "RoutingReady", "Ready"),
    ]


def _name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _status(obj: Object) -> str:
    ready = condition_of(obj, "Ready")
    return ready.status.value if ready is not None else "-"


def _why(obj: Object, *types: str) -> str:
    """The first of the named conditions that is not True, in words; empty when all are well."""
    for type_ in types:
        condition = condition_of(obj, type_)
        if condition is not None and condition.status != "True":
            return _short(f"{condition.reason}: {condition.message}" if condition.message else condition.reason)
    return ""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} ..."
