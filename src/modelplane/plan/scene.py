"""The objects that placement reads, as they were at one moment: from a live fleet or from a saved snapshot.

Kept as plain objects, since a rehearsal changes them as an API server would and parses them with the same types. A snapshot holds
what planning needs and nothing else: no Secrets, no containers' environment, no annotations but the placement's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from modelplane.api import inference_class, inference_cluster, model_cache, model_deployment, model_replica
from modelplane.api.labels import PLACEMENT
from modelplane.api.meta import GVK, Key, Object
from modelplane.plan.fleet import Fleet
from modelplane.plan.request import PlacementRequest
from modelplane.plan.snapshot import fleet_of, request_with_cache

KINDS: Final = (
    inference_class.KIND,
    inference_cluster.KIND,
    model_cache.KIND,
    model_deployment.KIND,
    model_replica.KIND,
)
"""Everything that placement reads."""


FORM: Final = 1
"""Version of a snapshot's form; a reader refuses any other."""


class Scene:
    """Objects by kind and key; treat them as immutable. ``taken`` is the time of its figures, empty where it is not known, and
    ``bare`` says that containers have lost everything but name and image."""

    def __init__(self, objects: Iterable[Object] = (), taken: str = "", *, bare: bool = False) -> None:
        self.taken = taken
        self.bare = bare
        self._objects: dict[GVK, dict[Key, Object]] = {kind: {} for kind in KINDS}
        for obj in objects:
            self.put(obj)

    def put(self, obj: Object) -> bool:
        """Take an object in, or in place of the one of its name; False for a kind that placement does not read."""
        kind, key = GVK.of(obj), Key.of(obj)
        if kind not in self._objects:
            return False
        self._objects[kind][key] = obj
        return True

    def drop(self, kind: GVK, key: Key) -> None:
        self._objects[kind].pop(key, None)

    def get(self, kind: GVK, key: Key) -> Object | None:
        return self._objects.get(kind, {}).get(key)

    def all(self, kind: GVK) -> list[Object]:
        """Every object of the kind, by namespace and name."""
        found = self._objects[kind]
        return [found[key] for key in sorted(found)]

    def copy(self) -> Scene:
        return Scene(self, self.taken, bare=self.bare)

    def __iter__(self) -> Iterator[Object]:
        for kind in KINDS:
            yield from self.all(kind)

    # --- what the planner asks ------------------------------------------------------------------------------------

    def fleet(self) -> Fleet:
        """Raises InvalidObject for an object that is not of its kind's shape."""
        clusters = map(inference_cluster.parse, self.all(inference_cluster.KIND))
        return fleet_of(clusters, map(model_replica.parse, self.all(model_replica.KIND)))

    def request(self, deployment: Object) -> PlacementRequest:
        """As the deployment's composer asks. Raises InvalidNodeSelector and InvalidObject."""
        parsed = model_deployment.parse(deployment)
        ref = parsed.spec.template.spec.model_cache_ref
        cache = self.get(model_cache.KIND, Key(parsed.metadata.namespace, ref.name)) if ref is not None else None
        return request_with_cache(parsed, cache)

    def lacks(self, deployment: Object) -> tuple[str, ...]:
        """What the deployment names and the scene does not have, in words."""
        key = Key.of(deployment)
        ref = deployment["spec"]["template"]["spec"].get("modelCacheRef")
        if ref is None or self.get(model_cache.KIND, Key(key.namespace, ref["name"])) is not None:
            return ()
        return (
            f"ModelCache {key.namespace}/{ref['name']} of {key} does not exist; create it, or correct modelCacheRef",
        )

    def waiting_order(self) -> list[Object]:
        """Deployments in the order in which the control plane takes those that wait: by age, namespace and name. What is not
        made yet is the youngest."""

        def rank(deployment: Object) -> tuple[bool, str, str, str]:
            made = str(deployment["metadata"].get("creationTimestamp") or "")
            key = Key.of(deployment)
            return not made, made, key.namespace, key.name

        return sorted(self.all(model_deployment.KIND), key=rank)

    # --- as a document --------------------------------------------------------------------------------------------

    def document(self) -> Object:
        """A List that `saved.of_document` reads again."""
        taken = {"takenAt": self.taken} if self.taken else {}
        return {
            "apiVersion": "v1",
            "kind": "List",
            "snapshotVersion": FORM,
            **taken,
            "items": [_bare(obj) for obj in self],
        }


_METADATA: Final = ("name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp", "deletionTimestamp")


def _bare(obj: Object) -> Object:
    metadata = {field: obj["metadata"][field] for field in _METADATA if obj["metadata"].get(field)}
    placement = (obj["metadata"].get("annotations") or {}).get(PLACEMENT)
    if placement:
        metadata["annotations"] = {PLACEMENT: placement}
    kind = GVK.of(obj)
    spec = dict(obj.get("spec") or {})
    found: Object = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": spec}
    status = obj.get("status") or {}
    if kind == model_cache.KIND:
        # A source may name a repository that is nobody's business; placement looks at the clusters alone.
        found["spec"] = {field: spec[field] for field in ("clusterSelector",) if field in spec}
    elif kind == inference_class.KIND:
        # How such nodes are bought is nobody's business either.
        found["spec"] = {field: spec[field] for field in ("description", "devices") if field in spec}
    elif kind == model_deployment.KIND:
        template = spec.get("template") or {}
        inner = template.get("spec") or {}
        found["spec"] = {**spec, "template": {"spec": _without_containers(inner)}}
    elif kind == model_replica.KIND:
        found["spec"] = _without_containers(spec)
        found["status"] = {field: status[field] for field in ("conditions",) if field in status}
    else:
        kept = ("gateway", "cache", "gpuPools", "conditions")
        found["status"] = {field: status[field] for field in kept if field in status}
    return found


def _without_containers(holder: Mapping[str, Any]) -> Object:
    """Engines whose pods say no more than how many containers they have: environment and arguments may hold tokens."""
    return {
        **holder,
        "engines": [
            {**engine, "members": [_without_environment(member) for member in engine.get("members") or ()]}
            for engine in holder.get("engines") or ()
        ],
    }


def _without_environment(member: Mapping[str, Any]) -> Object:
    pod = (member.get("template") or {}).get("spec")
    if not pod:
        return {**member, "template": {}}
    containers = [
        {field: container[field] for field in ("name", "image") if field in container}
        for container in pod.get("containers") or ()
    ]
    return {**member, "template": {"spec": {"containers": containers}}}
