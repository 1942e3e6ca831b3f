"""InferenceCluster: what the fleet may know of one cluster, and the serving stack on it.

The composer is the only writer of `status.gpuPools`. Losing sight of the cluster changes conditions and nothing else. A class
that is missing for a moment holds everything as it was, because pools that vanish would move replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from modelplane.api.cloud import Source
from modelplane.api.inference_cluster import (
    KIND as KIND,
)
from modelplane.api.inference_cluster import (
    ConditionType,
    InferenceCluster,
    KubeconfigRef,
    Reason,
    parse,
)
from modelplane.api.labels import CLUSTER
from modelplane.api.meta import SYSTEM_NAMESPACE, Condition, Object, is_true
from modelplane.compose.conditions import AVAILABLE, CREATING, READY, false, lost, not_read, true, unknown
from modelplane.compose.contract import (
    Absent,
    After,
    Answer,
    Child,
    Composition,
    ConditionTrue,
    Event,
    Found,
    FoundAll,
    Pending,
    Read,
    Unavailable,
    World,
)
from modelplane.compose.kinds import (
    DEVICE_CLASS,
    INFERENCE_CLASS,
    MODEL_REPLICA,
    NODE,
    RESOURCE_SLICE,
    SECRET,
    SERVING_STACK,
    STORAGE_CLASS,
    manifest,
)
from modelplane.compose.names import childname
from modelplane.compose.sight import devices_published, pools_labelled, reachable, storage_ready
from modelplane.plan.declared import cache_storage, declared_pools, missing_classes

STACK_KEY: Final = "serving-stack"


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    cluster = parse(xr)
    wanted = {_class(pool.class_name) for pool in cluster.spec.node_pools}
    existing = cluster.spec.cluster.existing
    if cluster.spec.cluster.source is Source.EXISTING and existing is not None:
        wanted |= {_secret(existing.secret_ref), _nodes(cluster), _slices(cluster), _device_classes(cluster)}
        storage = cache_storage(cluster)
        if storage:
            wanted.add(_storage_class(cluster, storage))
    return frozenset(wanted)


def compose(xr: Object, world: World) -> Composition:
    cluster = parse(xr)
    existing = cluster.spec.cluster.existing
    if cluster.spec.cluster.source is not Source.EXISTING or existing is None:
        return _unsupported(cluster)
    classes = {pool.class_name: world.answer(_class(pool.class_name)) for pool in cluster.spec.node_pools}
    known = {name: answer.object for name, answer in classes.items() if isinstance(answer, Found)}
    missing = missing_classes(cluster, known)
    if missing:
        return _waiting_for_classes(cluster, missing, classes)
    secret = existing.secret_ref
    stack = Child(key=STACK_KEY, manifest=_serving_stack(cluster, secret), ready=ConditionTrue(READY))
    observed = world.observed.get(STACK_KEY)
    stack_ready = observed is not None and is_true(observed.manifest, READY)
    sight = reachable(cluster.metadata.name, secret, world.answer(_secret(secret)), world.answer(_nodes(cluster)))
    conditions = [
        *_cluster_and_backend(sight, stack_ready, _waiting_for(stack.manifest["metadata"]["name"])),
        sight,
        *_inventory(cluster, world, known),
    ]
    return Composition(
        children=(stack,),
        status=_status(cluster, known, observed.manifest if observed else None),
        conditions=conditions,
        ready=_ready(sight, stack_ready, stack.manifest["metadata"]["name"]),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    return ()


def holders(xr: Object) -> Sequence[Read]:
    """While any of these exists, the cluster stays: replicas placed on it, in every namespace."""
    return (Read(kind=MODEL_REPLICA, labels=((CLUSTER, xr["metadata"]["name"]),), project=("metadata.name",)),)


# --- reads ------------------------------------------------------------------------------------------------------


def _class(name: str) -> Read:
    return Read(kind=INFERENCE_CLASS, name=name, project=("spec",))


def _secret(ref: KubeconfigRef) -> Read:
    return Read(kind=SECRET, name=ref.name, namespace=SYSTEM_NAMESPACE, project=(f"data.{ref.key}",))


def _nodes(cluster: InferenceCluster) -> Read:
    return Read(kind=NODE, cluster=cluster.metadata.name, project=("metadata.labels",))


def _slices(cluster: InferenceCluster) -> Read:
    return Read(kind=RESOURCE_SLICE, cluster=cluster.metadata.name, project=("spec.driver",))


def _device_classes(cluster: InferenceCluster) -> Read:
    return Read(kind=DEVICE_CLASS, cluster=cluster.metadata.name, project=("metadata.name",))


def _storage_class(cluster: InferenceCluster, name: str) -> Read:
    return Read(kind=STORAGE_CLASS, name=name, cluster=cluster.metadata.name, project=("metadata.name",))


# --- outcomes that hold -----------------------------------------------------------------------------------------


def _unsupported(cluster: InferenceCluster) -> Composition:
    message = (
        f"spec.cluster.source {cluster.spec.cluster.source} is not provisioned by this version: create the cluster yourself "
        f"and register it with source {Source.EXISTING} and its kubeconfig Secret"
    )
    condition = false(ConditionType.CLUSTER_READY, Reason.UNSUPPORTED, message)
    return Composition.hold(
        (condition,), ready=false(READY, Reason.UNSUPPORTED, message), events=(_warning(Reason.UNSUPPORTED, message),)
    )


def _waiting_for_classes(
    cluster: InferenceCluster, missing: Sequence[str], classes: Mapping[str, Answer]
) -> Composition:
    names = ", ".join(missing)
    pools = ", ".join(pool.name for pool in cluster.spec.node_pools if pool.class_name in missing)
    message = f"InferenceClass {names} does not exist; create it, or change className of pool {pools}"
    if any(isinstance(classes[name], Pending | Unavailable) for name in missing):
        message = not_read(f"InferenceClass {names} has", *(classes[name] for name in missing))
    condition = false(ConditionType.CLUSTER_READY, Reason.WAITING_FOR_CLASSES, message)
    return Composition.hold(
        (condition,),
        ready=false(READY, Reason.WAITING_FOR_CLASSES, message),
        events=(Event(type="Normal", reason=str(Reason.WAITING_FOR_CLASSES), message=message),),
    )


def _warning(reason: str, message: str) -> Event:
    return Event(type="Warning", reason=reason, message=message)


# --- children, status, conditions -------------------------------------------------------------------------------


def _serving_stack(cluster: InferenceCluster, secret: KubeconfigRef) -> Object:
    existing = cluster.spec.cluster.existing
    secrets: list[Object] = [{"type": "Kubeconfig", "name": secret.name, "key": secret.key}]
    if existing and existing.identity_secret_ref:
        identity = existing.identity_secret_ref
        secrets.append({"type": str(identity.type), "name": identity.name, "key": identity.key})
    return manifest(
        SERVING_STACK,
        childname(cluster.metadata.name, "serving-stack"),
        SYSTEM_NAMESPACE,
        spec={
            "cloud": str(cluster.spec.cluster.source),
            "secrets": secrets,
            "stack": str(cluster.spec.stack),
            "gateway": {"hostname": gateway_hostname(cluster.metadata.name)},
        },
    )


def gateway_hostname(cluster: str) -> str:
    """The name that front doors know the cluster's gateway by; its first label has to be one DNS label."""
    return f"{childname('gateway', cluster).replace('.', '-')}.{SYSTEM_NAMESPACE}.svc.cluster.local"


def _status(cluster: InferenceCluster, classes: Mapping[str, Object], stack: Object | None) -> Mapping[str, Any]:
    status: dict[str, Any] = {
        "namespace": SYSTEM_NAMESPACE,
        "providerConfigRef": {"name": childname(cluster.metadata.name, "cluster-kubeconfig")},
        "gpuPools": declared_pools(cluster, classes),
    }
    address = (((stack or {}).get("status") or {}).get("gateway") or {}).get(
        "address"
    ) or cluster.status.gateway.address
    if address:
        status["gateway"] = {"address": address}
    storage = cache_storage(cluster)
    if storage:
        status["cache"] = {"storageClassName": storage}
    return status


def _cluster_and_backend(sight: Condition, stack_ready: bool, waiting: str) -> list[Condition]:
    if sight.status == "True":
        cluster = true(ConditionType.CLUSTER_READY, Reason.CLUSTER_RUNNING)
    elif sight.status == "Unknown":
        cluster = false(ConditionType.CLUSTER_READY, Reason.PROVISIONING, sight.message)
    else:
        cluster = unknown(ConditionType.CLUSTER_READY, sight.reason, sight.message)
    if sight.status != "True":
        backend = unknown(ConditionType.BACKEND_READY, Reason.WAITING_FOR_CLUSTER, sight.message)
    elif stack_ready:
        backend = true(ConditionType.BACKEND_READY, Reason.BACKEND_HEALTHY)
    else:
        backend = false(ConditionType.BACKEND_READY, Reason.INSTALLING, waiting)
    return [cluster, backend]


def _inventory(cluster: InferenceCluster, world: World, classes: Mapping[str, Object]) -> list[Condition]:
    """What the cluster has of what its pools claim. Unknown while the cluster is lost; nothing before it was read."""
    answers = {
        ConditionType.POOLS_LABELLED: (world.answer(_nodes(cluster)),),
        ConditionType.DEVICES_PUBLISHED: (world.answer(_slices(cluster)), world.answer(_device_classes(cluster))),
    }
    storage = cache_storage(cluster)
    answers[ConditionType.CACHE_STORAGE_READY] = (
        world.answer(_storage_class(cluster, storage)) if storage else Absent(),
    )
    conditions: list[Condition] = []
    for type_, seen in answers.items():
        gone = next((answer for answer in seen if isinstance(answer, Unavailable)), None)
        if gone is not None:
            conditions.append(lost(type_, gone, f"cluster {cluster.metadata.name}"))
        elif not any(isinstance(answer, Pending) for answer in seen):
            conditions.append(_judged(type_, seen, cluster, classes))
    return conditions


def _judged(
    type_: ConditionType, seen: Sequence[Answer], cluster: InferenceCluster, classes: Mapping[str, Object]
) -> Condition:
    match type_, seen:
        case ConditionType.POOLS_LABELLED, (FoundAll() as nodes,):
            return pools_labelled(cluster.spec.node_pools, nodes)
        case ConditionType.DEVICES_PUBLISHED, (FoundAll() as slices, FoundAll() as device_classes):
            return devices_published(cluster.spec.node_pools, classes, slices, device_classes)
        case _:
            return storage_ready(cache_storage(cluster), seen[0])


def _ready(sight: Condition, stack_ready: bool, stack: str) -> Condition:
    if sight.status != "True":
        return false(READY, sight.reason, sight.message)
    if stack_ready:
        return true(READY, AVAILABLE)
    return false(READY, CREATING, _waiting_for(stack))


def _waiting_for(stack: str) -> str:
    return f"ServingStack {SYSTEM_NAMESPACE}/{stack} is not ready yet; kubectl describe it for what it waits for"
