"""From typed API objects to the planner's own structs: the one place that knows both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelplane.api.inference_cluster import CapacitySource, GpuPool, InferenceCluster
from modelplane.api.meta import Condition, Object, Status
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.plan.capacity import PoolCapacity, claims_of
from modelplane.plan.cel import Selector, SelectorError, compile_selector
from modelplane.plan.devices import DRA, SYNTHETIC, Device, Request, signature
from modelplane.plan.fleet import Cluster, Fleet, Pool, Replica, ReplicaEngine, ReplicaMember
from modelplane.plan.request import Engine, InvalidNodeSelector, Member, PlacementRequest
from modelplane.plan.taints import Taint, Toleration
from modelplane.plan.times import comparable

DEPLOYMENT_LABEL: Final = "modelplane.ai/deployment"
INDEX_LABEL: Final = "modelplane.ai/replica-index"
PLACEMENT_ANNOTATION: Final = "modelplane.ai/placement"


def fleet_of(
    clusters: Iterable[InferenceCluster], replicas: Iterable[ModelReplica] = (), assumed: Iterable[Replica] = ()
) -> Fleet:
    """The snapshot of these objects; ``assumed`` are replicas that a plan has placed and the cache does not show yet."""
    return Fleet.of(map(cluster_of, clusters), (*map(replica_of, replicas), *assumed))


def cluster_of(cluster: InferenceCluster) -> Cluster:
    ready = _condition(cluster.status.conditions, "Ready")
    is_ready = ready is not None and ready.status is Status.TRUE
    return Cluster(
        name=cluster.metadata.name,
        labels=cluster.metadata.labels,
        pools=tuple(_pool(cluster, pool) for pool in cluster.status.gpu_pools),
        taints=tuple(Taint(taint.key, taint.value, str(taint.effect)) for taint in cluster.spec.taints),
        ready=is_ready,
        not_ready_reason="" if is_ready else _not_ready_reason(cluster, ready),
        gateway=cluster.status.gateway.address,
        cache_storage=bool(cluster.status.cache.storage_class_name),
        deleting=cluster.metadata.deletion_timestamp is not None,
        stack=str(cluster.spec.stack),
        declared_pools=frozenset(pool.name for pool in cluster.spec.node_pools),
    )


def replica_of(replica: ModelReplica) -> Replica:
    metadata = replica.metadata
    ready = _condition(replica.status.conditions, "Ready")
    placement = _annotation(metadata.annotations.get(PLACEMENT_ANNOTATION, ""))
    return Replica(
        key=metadata.key,
        deployment=metadata.labels.get(DEPLOYMENT_LABEL, ""),
        cluster=replica.spec.cluster_name,
        index=_index(metadata.labels.get(INDEX_LABEL, "")),
        engines=tuple(
            ReplicaEngine(
                engine.name,
                engine.copies,
                tuple(
                    ReplicaMember(
                        str(member.role),
                        member.node_pool_name,
                        member.pods,
                        claims_of(_totals((r.device_class_name, r.count) for r in member.device_requests or ())),
                    )
                    for member in engine.members
                ),
            )
            for engine in replica.spec.engines
        ),
        owner=next((owner.uid for owner in metadata.owner_references if owner.kind == "ModelDeployment"), ""),
        ready=ready is not None and ready.status is Status.TRUE,
        ready_since=comparable(ready.last_transition_time or "") if ready is not None else "",
        constraints=placement.get("constraints", ""),
        code=placement.get("code", ""),
        message=placement.get("message", ""),
        deleting=metadata.deletion_timestamp is not None,
    )


def request_of(
    deployment: ModelDeployment,
    *,
    cache_labels: Mapping[str, str] | None = None,
    fill: bool = True,
    needs_cache_storage: bool = False,
) -> PlacementRequest:
    """What the deployment asks of the planner; ``cache_labels`` is the cluster selector of its ModelCache, ``fill`` False places
    nothing new. Raises `InvalidNodeSelector` with the path and position of a selector that does not compile."""
    template = deployment.spec.template.spec
    return PlacementRequest(
        key=deployment.metadata.key,
        uid=deployment.metadata.uid,
        replicas=deployment.spec.replicas,
        engines=tuple(
            Engine(
                engine.name,
                engine.copies,
                tuple(
                    Member(
                        str(member.role),
                        member.pods,
                        tuple(
                            Request(
                                ask.name,
                                ask.count,
                                tuple(
                                    _compiled(
                                        selector.cel, f"engines[{e}].members[{m}]", f"devices[{d}].selectors[{s}]"
                                    )
                                    for s, selector in enumerate(ask.selectors)
                                    if selector.cel is not None
                                ),
                            )
                            for d, ask in enumerate(member.node_selector.devices if member.node_selector else ())
                        ),
                    )
                    for m, member in enumerate(engine.members)
                ),
            )
            for e, engine in enumerate(template.engines)
        ),
        tolerations=tuple(
            Toleration(one.key, str(one.operator), one.value, str(one.effect or "")) for one in template.tolerations
        ),
        selector=template.cluster_selector.match_labels if template.cluster_selector else {},
        staged=cache_labels or {},
        cache=template.model_cache_ref.name if template.model_cache_ref else "",
        fill=fill,
        needs_cache_storage=needs_cache_storage,
    )


def request_with_cache(deployment: ModelDeployment, cache: Object | None) -> PlacementRequest:
    """What the deployment asks together with its ModelCache: replicas go where the cache goes. ``cache`` None where it is not known
    or the deployment has none; while one that is named is not known, nothing new is placed."""
    if deployment.spec.template.spec.model_cache_ref is None:
        return request_of(deployment)
    labels: Mapping[str, str] = {}
    if cache is not None:
        labels = (cache["spec"].get("clusterSelector") or {}).get("matchLabels") or {}
    known = cache is not None
    return request_of(deployment, cache_labels=labels, fill=known, needs_cache_storage=known)


def _compiled(text: str, member: str, selector: str) -> Selector:
    try:
        return compile_selector(text)
    except SelectorError as error:
        raise InvalidNodeSelector(f"spec.template.spec.{member}.nodeSelector.{selector}.cel", error) from error


def _pool(cluster: InferenceCluster, pool: GpuPool) -> Pool:
    devices = tuple(
        Device(
            device.name,
            signature(
                device.driver,
                msgspec.to_builtins(device.attributes),
                msgspec.to_builtins(device.capacity),
                claim=DRA if device.claimed else SYNTHETIC,
                device_class=device.device_class_name or "",
            ),
            device.units,
        )
        for device in pool.devices
    )
    published = max(0, pool.nodes or 0)
    declared = next((one.node_count for one in cluster.spec.node_pools if one.name == pool.name), published)
    capacity = pool.capacity
    if capacity is None:
        # Written by a control plane that counts potential nodes alone.
        return Pool(pool.name, PoolCapacity(declared, max(0, published - declared)), devices)
    grow = capacity.grow_nodes or 0
    if capacity.source is CapacitySource.DECLARED:
        return Pool(pool.name, PoolCapacity(declared, grow), devices)
    bare = Pool(pool.name, PoolCapacity(declared), devices)
    buckets = tuple((claims_of(bucket.free), bucket.nodes) for bucket in capacity.nodes_by_free_devices)
    observed = PoolCapacity(
        sum(nodes for _, nodes in buckets), grow, buckets, bare.whole_node, comparable(capacity.observed_time or "")
    )
    return Pool(pool.name, observed, devices)


def _condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def _not_ready_reason(cluster: InferenceCluster, ready: Condition | None) -> str:
    for condition in cluster.status.conditions:
        if condition.type == "Reachable" and condition.status is not Status.TRUE:
            return condition.reason
    return ready.reason if ready is not None else "not reported yet"


def _index(label: str) -> int:
    try:
        return int(label)
    except ValueError:
        return 0


def _totals(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, count in pairs:
        totals[name] = totals.get(name, 0) + count
    return totals


def _annotation(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}
