"""What-if edits of a scene: manifests as an API server would take them, drains, losses, sizes.

Everything that an edit cannot know is assumed in the deployment's favour and said in a note: a new cluster is taken to become Ready
with every node that it declares. Where figures are observed, added nodes are empty and the emptiest nodes are the first to go.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane.api import inference_class, inference_cluster, model_cache, model_deployment, model_replica
from modelplane.api.cloud import Source
from modelplane.api.inference_cluster import CapacitySource
from modelplane.api.labels import DRAIN_TAINT
from modelplane.api.meta import GVK, Key, Object
from modelplane.errors import PermanentError
from modelplane.plan.capacity import claims_of
from modelplane.plan.declared import cache_storage, declared_pools, missing_classes
from modelplane.plan.scene import Scene

_NAMESPACED: Final = (model_cache.KIND, model_deployment.KIND)
NAMED: Final = 10
"""Names that are listed where one was not found."""


class UnknownTarget(PermanentError):
    """An edit names something that the fleet does not have; the message lists what it has."""


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """Edits to be made together, in the order of the fields."""

    manifests: Sequence[Object] = ()
    lose: Sequence[str] = ()
    drain: Sequence[str] = ()
    scale: Mapping[Key, int] = {}
    pools: Mapping[tuple[str, str], int] = {}
    """Nodes by cluster and pool."""


class Edited(msgspec.Struct, frozen=True):
    """The scene after the edits, what a person should know about them, and replicas that lose their nodes."""

    scene: Scene
    notes: tuple[str, ...]
    stranded: tuple[str, ...]


def edited(scene: Scene, edits: Edits) -> Edited:
    """Make the edits. Raises UnknownTarget."""
    made = scene.copy()
    notes: list[str] = []
    stranded: list[str] = []
    passed: dict[tuple[str, str], list[str]] = {}
    for manifest in edits.manifests:
        why = _apply(made, manifest)
        if why:
            passed.setdefault((GVK.of(manifest).kind, why), []).append(str(Key.of(manifest)))
    applied = [
        f"nothing of namespace {namespace} is known here: an API server refuses objects of a namespace that does not exist"
        for namespace in _unknown_namespaces(scene, edits.manifests)
    ]
    applied += [f"passed over: {kind} {', '.join(names)} ({why})" for (kind, why), names in passed.items()]
    touched = {(GVK.of(one), Key.of(one).name) for one in edits.manifests}
    for cluster in made.all(inference_cluster.KIND):
        classes = {pool.get("className") for pool in cluster["spec"].get("nodePools") or ()}
        fresh = (inference_cluster.KIND, cluster["metadata"]["name"]) in touched
        if fresh or any((inference_class.KIND, name) in touched for name in classes):
            _publish(made, scene, cluster, notes, stranded)
    for position, name in enumerate(edits.lose):
        _cluster(made, name, edits.lose[:position])
        made.drop(inference_cluster.KIND, Key("", name))
    for name in edits.drain:
        cluster = _cluster(made, name, edits.lose)
        taints = [one for one in cluster["spec"].get("taints") or () if one.get("key") != DRAIN_TAINT]
        taint = {"key": DRAIN_TAINT, "effect": "NoExecute"}
        made.put({**cluster, "spec": {**cluster["spec"], "taints": [*taints, taint]}})
    for key, replicas in edits.scale.items():
        deployment = made.get(model_deployment.KIND, key)
        if deployment is None:
            raise UnknownTarget(no_such("ModelDeployment", str(key), map(Key.of, made.all(model_deployment.KIND))))
        made.put({**deployment, "spec": {**deployment["spec"], "replicas": replicas}})
    for (name, pool), nodes in edits.pools.items():
        _resize(made, _cluster(made, name, edits.lose), pool, nodes, stranded)
    return Edited(made, (*applied, *notes), tuple(stranded))


def _unknown_namespaces(scene: Scene, manifests: Sequence[Object]) -> list[str]:
    """Namespaces of new objects which neither an object of the scene nor a manifest shows to be there."""
    known = {Key.of(one).namespace for kind in _NAMESPACED for one in scene.all(kind)}
    known |= {"default", *(one["metadata"]["name"] for one in manifests if one["kind"] == "Namespace")}
    asked = {Key.of(one).namespace or "default" for one in manifests if GVK.of(one) in _NAMESPACED}
    return sorted(asked - known)


def _cluster(scene: Scene, name: str, lost: Sequence[str] = ()) -> Object:
    found = scene.get(inference_cluster.KIND, Key("", name))
    if name in lost and found is None:
        raise UnknownTarget(f"cluster {name} is lost in this rehearsal; nothing else can happen to it, so name it once")
    if found is None:
        raise UnknownTarget(no_such("InferenceCluster", name, map(Key.of, scene.all(inference_cluster.KIND))))
    return found


def no_such(kind: str, name: str, known: Iterable[Key]) -> str:
    """Words for a name that nothing has: the names there are, of many those that are most like it."""
    names = sorted(key.name if not key.namespace else str(key) for key in known)
    shown = names if len(names) <= NAMED else difflib.get_close_matches(name, names, NAMED, 0.0)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"there is no {kind} {name or 'with an empty name'}; there are: {', '.join(shown) or 'none'}{more}"


# --- manifests ----------------------------------------------------------------------------------------------------


def _apply(scene: Scene, manifest: Object) -> str:
    """Take a manifest as `kubectl apply` would: its spec, its labels over those that are there; the status stays. Gives why one is
    passed over."""
    kind, metadata = GVK.of(manifest), dict(manifest["metadata"])
    if kind == model_replica.KIND:
        return "replicas are placed, not applied"
    if kind in _NAMESPACED:
        metadata.setdefault("namespace", "default")
    known = scene.get(kind, Key.of({"metadata": metadata}))
    spec = dict(manifest.get("spec") or {})
    obj: Object = {**manifest, "metadata": metadata, "spec": spec}
    obj.pop("status", None)
    if known is not None:
        before = known["metadata"]
        labels = {**(before.get("labels") or {}), **(metadata.get("labels") or {})}
        obj["metadata"] = {**before, **metadata, "labels": labels}
        if kind == inference_cluster.KIND:
            drained = [one for one in known["spec"].get("taints") or () if one.get("key") == DRAIN_TAINT]
            if drained:
                spec["taints"] = [*(spec.get("taints") or ()), *drained]
        if "status" in known:
            obj["status"] = known["status"]
    return "" if scene.put(obj) else "placement does not read it"


def _publish(scene: Scene, before: Scene, cluster: Object, notes: list[str], stranded: list[str]) -> None:
    """What the cluster would publish, and that it is Ready where it is new and its classes are there."""
    parsed = inference_cluster.parse(cluster)
    name, status = parsed.metadata.name, dict(cluster.get("status") or {})
    found = {
        pool.class_name: scene.get(inference_class.KIND, Key("", pool.class_name)) for pool in parsed.spec.node_pools
    }
    classes = {name: class_ for name, class_ in found.items() if class_ is not None}
    missing = missing_classes(parsed, classes)
    old = before.get(inference_cluster.KIND, Key("", name))
    if missing:
        status["conditions"] = [_ready("False", "WaitingForClasses")]
        notes.append(
            f"cluster {name}: InferenceClass {', '.join(missing)} is not there, so nothing new goes there; add it"
        )
    else:
        known = {pool["name"]: pool for pool in status.get("gpuPools") or ()}
        counts = {pool["name"]: _nodes(pool) for pool in ((old or {}).get("spec") or {}).get("nodePools") or ()}
        status["gpuPools"] = [
            _republished(
                pool, known.get(pool["name"]), spec.node_count, counts.get(spec.name), f"{name}/{spec.name}", stranded
            )
            for spec, pool in zip(parsed.spec.node_pools, declared_pools(parsed, classes), strict=True)
        ]
        if old is None:
            status |= {"conditions": [_ready("True", "Assumed")], "gateway": {"address": "assumed"}}
            status |= {"cache": {"storageClassName": storage}} if (storage := cache_storage(parsed)) else {}
            source = parsed.spec.cluster.source
            though = "" if source is Source.EXISTING else f", though this version provisions none of source {source}"
            notes.append(f"cluster {name} is new: taken to become Ready, with every node that it declares{though}")
        elif inference_cluster.parse(old).spec.cluster != parsed.spec.cluster:
            notes.append(f"cluster {name} has another spec.cluster: taken to stay as ready as it is")
    scene.put({**cluster, "status": status})


def _ready(status: str, reason: str) -> Object:
    return {"type": "Ready", "status": status, "reason": reason}


def _republished(
    declared: Object, published: Object | None, nodes: int, before: int | None, where: str, stranded: list[str]
) -> Object:
    """A pool after its class or size was changed: what is observed stays observed."""
    if published is None or (published.get("capacity") or {}).get("source") == CapacitySource.DECLARED:
        return declared
    entry = {**published, "devices": declared["devices"]}
    return entry if before in (None, nodes) else _sized(entry, nodes, before, where, stranded)


def _nodes(pool: Mapping[str, Any]) -> int:
    found = pool.get("nodeCount")
    return 1 if found is None else int(found)


# --- sizes --------------------------------------------------------------------------------------------------------


def _resize(scene: Scene, cluster: Object, name: str, nodes: int, stranded: list[str]) -> None:
    where = f"{cluster['metadata']['name']}/{name}"
    status = cluster.get("status") or {}
    pools = {pool["name"]: pool for pool in status.get("gpuPools") or ()}
    specs = cluster["spec"].get("nodePools") or []
    if name not in pools:
        raise UnknownTarget(
            f"cluster {cluster['metadata']['name']} has no pool {name}; it has: {', '.join(pools) or 'none'}"
        )
    before = next((_nodes(pool) for pool in specs if pool["name"] == name), int(pools[name].get("nodes") or 0))
    pools[name] = _sized(pools[name], nodes, before, where, stranded)
    scene.put(
        {
            **cluster,
            "spec": {
                **cluster["spec"],
                "nodePools": [{**pool, "nodeCount": nodes} if pool["name"] == name else pool for pool in specs],
            },
            "status": {**status, "gpuPools": list(pools.values())},
        }
    )


def _sized(pool: Object, nodes: int, before: int, where: str, stranded: list[str]) -> Object:
    """The published pool with another number of nodes."""
    capacity = dict(pool.get("capacity") or {"source": "Declared", "growNodes": 0})
    observed = capacity.get("source") == "Observed"
    buckets = [dict(bucket) for bucket in capacity.get("nodesByFreeDevices") or ()]
    now = sum(bucket["nodes"] for bucket in buckets) if observed else before
    more = nodes - now
    if capacity.get("growNodes"):
        capacity["growNodes"] = max(0, capacity["growNodes"] - more)
    if observed:
        whole = _whole(pool)
        if more > 0:
            buckets.append({"free": whole, "nodes": more})
        busy = 0
        for bucket in sorted(buckets, key=lambda one: (-sum(one["free"].values()), claims_of(one["free"]))):
            gone = min(bucket["nodes"], max(0, -more))
            bucket["nodes"] -= gone
            more += gone
            busy += gone if any(bucket["free"].get(key, 0) < count for key, count in whole.items()) else 0
        capacity["nodesByFreeDevices"] = [bucket for bucket in buckets if bucket["nodes"]]
        if busy:
            stranded.append(f"pool {where}: {busy} of the nodes that go have devices in use; drain or scale down first")
    return {**pool, "nodes": nodes, "capacity": capacity}


def _whole(pool: Object) -> dict[str, int]:
    """The claimable devices of an empty node, by DeviceClass."""
    amounts: dict[str, int] = {}
    for device in pool.get("devices") or ():
        if device.get("claim") != "Synthetic":
            name = device.get("deviceClassName") or ""
            amounts[name] = amounts.get(name, 0) + max(0, int(device.get("count") or 0))
    return amounts
