"""What can be said about a registered cluster by looking at it: reachable, labelled, equipped.

A bring-your-own cluster that lacks a pool label, a device class, a driver or a storage class would leave pods pending without
a word; each lack is a condition here that names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from modelplane.api.inference_cluster import ConditionType, KubeconfigRef, NodePool, Reason
from modelplane.api.labels import POOL
from modelplane.api.meta import SYSTEM_NAMESPACE, Condition, Object
from modelplane.compose.conditions import false, true, unknown
from modelplane.compose.contract import Absent, Answer, Found, FoundAll, Unavailable

_TURN: Final[Mapping[str, str]] = {
    Reason.UNREACHABLE: "check the network, and the server address in",
    Reason.UNAUTHORIZED: "renew the credentials in",
}
"""What a person does about a reason, up to the name of the Secret."""


def reachable(cluster: str, ref: KubeconfigRef, secret: Answer, remote: Answer) -> Condition:
    """Whether the cluster's API answers with the credentials that we hold, and if not, whose turn it is."""
    where = f"Secret {SYSTEM_NAMESPACE}/{ref.name}"
    if isinstance(secret, Absent):
        return false(
            ConditionType.REACHABLE,
            Reason.CREDENTIAL_MISSING,
            f"{where} does not exist; create it with the kubeconfig of {cluster} under key {ref.key}",
        )
    if isinstance(secret, Found) and not (secret.object.get("data") or {}).get(ref.key):
        return false(
            ConditionType.REACHABLE,
            Reason.CREDENTIAL_MISSING,
            f"{where} has no key {ref.key}; add it, or set spec.cluster.existing.secretRef.key to the one that has the kubeconfig",
        )
    if isinstance(remote, Unavailable):
        key = f"{where} key {ref.key}"
        hint = f"; {_TURN.get(remote.reason, 'check')} {key}" if where not in remote.message else ""
        why = f": {remote.message}" if remote.message else ""
        return false(
            ConditionType.REACHABLE, remote.reason, f"{cluster} is out of reach since {remote.since}{why}{hint}"
        )
    if isinstance(remote, FoundAll):
        return true(ConditionType.REACHABLE, Reason.ANSWERING)
    return unknown(ConditionType.REACHABLE, Reason.PROVISIONING, f"{cluster} has not answered yet")


def pools_labelled(pools: Sequence[NodePool], nodes: FoundAll) -> Condition:
    """Whether every pool has as many nodes with its label as it declares; engine pods are pinned to the label, and placement counts
    on the number. More nodes than declared are no lack, and told all the same: nothing is placed on them."""
    counts = Counter(((node.get("metadata") or {}).get("labels") or {}).get(POOL) for node in nodes)
    missing = [pool.name for pool in pools if not counts[pool.name] and _fewest(pool)]
    if missing:
        commands = "; ".join(f"kubectl label node NODE {POOL}={name}" for name in missing)
        return false(
            ConditionType.POOLS_LABELLED, Reason.LABEL_MISSING, f"no node of pool {', '.join(missing)}: {commands}"
        )
    fewer = [
        f"pool {pool.name} declares {_fewest(pool)} and {counts[pool.name]} {'has' if counts[pool.name] == 1 else 'have'} its label"
        for pool in pools
        if counts[pool.name] < _fewest(pool)
    ]
    if fewer:
        return false(
            ConditionType.POOLS_LABELLED,
            Reason.NODES_MISSING,
            f"fewer nodes than placement counts on: {'; '.join(fewer)}. Add or label nodes ({POOL}=POOL), or lower nodeCount; "
            "replicas that are placed beyond them wait",
        )
    more = [
        f"pool {pool.name} declares {most} and {counts[pool.name]} have its label"
        for pool in pools
        if counts[pool.name] > (most := pool.max_node_count or pool.node_count)
    ]
    told = f"more nodes than placement counts on: {'; '.join(more)}. Raise nodeCount to use them" if more else ""
    return true(ConditionType.POOLS_LABELLED, Reason.LABELLED, told)


def _fewest(pool: NodePool) -> int:
    """Nodes that have to be there: of a pool that grows and shrinks its smallest size."""
    if pool.min_node_count is not None:
        return pool.min_node_count
    return pool.node_count if pool.max_node_count is None else min(1, pool.node_count)


def devices_published(
    pools: Sequence[NodePool], classes: Mapping[str, Object], slices: FoundAll, device_classes: FoundAll
) -> Condition:
    """Whether the device classes that pools claim exist, and some driver publishes such devices."""
    drivers = {(entry.get("spec") or {}).get("driver") for entry in slices}
    names = {entry["metadata"]["name"] for entry in device_classes}
    lacks: dict[str, None] = {}
    for pool in pools:
        for device in classes[pool.class_name]["spec"]["devices"]:
            if (device.get("claim") or "DRA") != "DRA":
                continue
            if device.get("deviceClassName") not in names:
                lacks[f"DeviceClass {device.get('deviceClassName')}"] = None
            if device["driver"] not in drivers:
                lacks[f"devices of driver {device['driver']}"] = None
    if lacks:
        return false(
            ConditionType.DEVICES_PUBLISHED,
            Reason.DEVICES_MISSING,
            f"the cluster lacks {', '.join(lacks)}; install the DRA driver there, or correct the InferenceClass",
        )
    return true(ConditionType.DEVICES_PUBLISHED, Reason.PUBLISHED)


def storage_ready(name: str, answer: Answer) -> Condition:
    """Whether caches have a place; a cluster without any is a choice, and the condition only tells it."""
    if not name:
        return false(
            ConditionType.CACHE_STORAGE_READY,
            Reason.NO_STORAGE,
            "no storage for model caches; set spec.cluster.existing.cache.storageClassName to a ReadWriteMany class",
        )
    if isinstance(answer, Found):
        return true(ConditionType.CACHE_STORAGE_READY, Reason.STORAGE_READY)
    return false(
        ConditionType.CACHE_STORAGE_READY,
        Reason.STORAGE_CLASS_MISSING,
        f"StorageClass {name} does not exist on the cluster; create it, or change cache.storageClassName",
    )
