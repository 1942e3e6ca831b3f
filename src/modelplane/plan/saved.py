"""A saved fleet, read at the edge: what is wrong with a file is said with its path, before anybody plans on it.

A snapshot is a v1 List; so is what `kubectl get -o json` writes, which is read as well. Objects have the shape of their kind,
figures are figures and times are times: the planner compares times as text and counts what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from modelplane.api import inference_class, inference_cluster, model_cache, model_deployment, model_replica
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import GROUP, GVK, VERSION, Key, Object
from modelplane.api.shape import Root, Shape, read
from modelplane.errors import InvalidObject
from modelplane.plan.scene import FORM, Scene
from modelplane.plan.times import instant


def of_document(document: Any) -> Scene:
    """The scene of a snapshot, or of what `kubectl get -o json` writes. Raises InvalidObject with the path of what is wrong."""
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(items, list):
        raise InvalidObject("$.items: a snapshot is a List with items; write one with `modelplane snapshot`")
    api_version, kind = document.get("apiVersion", "v1"), document.get("kind", "List")
    if (api_version, kind) != ("v1", "List"):
        raise InvalidObject(f"$.kind: {kind} of {api_version} is no snapshot; one is a List of v1")
    form = document.get("snapshotVersion", FORM)
    if isinstance(form, bool) or form != FORM:
        raise InvalidObject(
            f"$.snapshotVersion: version {form!r} is unknown; this modelplane reads {FORM}, so take the snapshot again with it"
        )
    taken = document.get("takenAt")
    if taken is not None:
        _time(taken, "$.takenAt")
    seen: dict[tuple[GVK, Key], int] = {}
    for position, item in enumerate(items):
        where = f"$.items[{position}]"
        kind, key = _identity(item, where)
        if kind in _SHAPES:
            first = seen.setdefault((kind, key), position)
            if first != position:
                raise InvalidObject(f"{where}: {kind.kind} {key} is there twice, first as $.items[{first}]")
            _check(kind, item, where)
    return Scene(items, taken or "", bare="snapshotVersion" in document)


def _identity(item: Any, where: str) -> tuple[GVK, Key]:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    given = [item.get("apiVersion"), item.get("kind"), metadata.get("name")] if isinstance(metadata, Mapping) else []
    if not given or not all(isinstance(word, str) and word for word in given):
        raise InvalidObject(f"{where}: an object of the snapshot has no apiVersion, kind or metadata.name")
    assert isinstance(metadata, Mapping)
    kind, namespace = GVK.of(item), metadata.get("namespace") or ""
    if kind.group == GROUP and kind.version != VERSION:
        raise InvalidObject(
            f"{where}.apiVersion: {kind.api_version} of {kind.kind} {metadata['name']} is unknown; this modelplane reads "
            f"{GROUP}/{VERSION}"
        )
    if not isinstance(namespace, str):
        raise InvalidObject(f"{where}.metadata.namespace: {namespace!r} is no text")
    return kind, Key(namespace, metadata["name"])


def _check(kind: GVK, item: Object, where: str) -> None:
    """Raises InvalidObject where the object is not what the planner can count on."""
    try:
        typed = _SHAPES[kind](item)
    except InvalidObject as error:
        raise InvalidObject(f"{where}: {error}") from error
    for path, text in _times(item):
        _time(text, f"{where}.{path}")
    for p, pool in enumerate(typed.status.gpu_pools if isinstance(typed, InferenceCluster) else ()):
        here = f"{where}.status.gpuPools[{p}]"
        if (pool.nodes or 0) < 0:
            raise InvalidObject(f"{here}.nodes: {pool.nodes} nodes; a pool has 0 or more")
        if pool.capacity is not None and pool.capacity.observed_time is not None:
            _time(pool.capacity.observed_time, f"{here}.capacity.observedTime")


def _times(item: Object) -> Iterator[tuple[str, Any]]:
    """Times that the planner reads, with their paths; absent ones are left out."""
    for field in ("creationTimestamp", "deletionTimestamp"):
        if item["metadata"].get(field) is not None:
            yield f"metadata.{field}", item["metadata"][field]
    status = item.get("status")
    for position, condition in enumerate((status.get("conditions") if isinstance(status, Mapping) else None) or ()):
        if isinstance(condition, Mapping) and condition.get("lastTransitionTime") is not None:
            yield f"status.conditions[{position}].lastTransitionTime", condition["lastTransitionTime"]


def _time(text: Any, path: str) -> None:
    if not isinstance(text, str) or instant(text) is None:
        raise InvalidObject(f"{path}: {text!r} is no time such as 2026-11-29T12:00:00Z")


class _CacheSpec(Shape, frozen=True, kw_only=True):
    """What a snapshot keeps of a ModelCache."""

    cluster_selector: model_deployment.ClusterSelector | None = None


class _Cache(Root, frozen=True, kw_only=True):
    spec: _CacheSpec


_SHAPES: Final[Mapping[GVK, Callable[[Object], Root]]] = {
    inference_class.KIND: inference_class.parse,
    inference_cluster.KIND: inference_cluster.parse,
    model_cache.KIND: lambda obj: read(_Cache, obj),
    model_deployment.KIND: model_deployment.parse,
    model_replica.KIND: model_replica.parse,
}
"""A file may hold anything; what is read later without a type has to have its shape."""
