"""Deletion of namespaces: pods in them first, then everything else whatever its kind, then the namespace's own finalizer.

Creates in a terminating namespace answer 403, which other controllers meet and drop; this one only deletes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Key, Object, Resource
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers.discovery import resources
from modelplane.local.kinds import EVENT, NAMESPACE, POD
from modelplane.local.work import Work

log = logging.getLogger(__name__)

FINALIZER = "kubernetes"
AGAIN = 0.25
WELL: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)
"""Type, reason and message of each condition when there is nothing to say."""


class Namespaces:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._namespaces = caches.of(NAMESPACE)
        self._work: Work[Key] = Work("namespace", self._sync, workers=4)

    async def run(self) -> None:
        await self._caches.synced(NAMESPACE)
        self._namespaces.subscribe(self._changed)
        await self._work.run()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new["metadata"].get("deletionTimestamp"):
            self._work.add(Key.of(new))

    async def _sync(self, key: Key) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        if FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return None
        # Pods first, and the rest when they are gone: what they use while they stop stays until then.
        if pods := await self._empty(POD, key.name):
            await self._say(namespace, [(POD, pods)])
            return AGAIN
        kinds = [r for r in await resources(self._client, ("list", "delete")) if r.namespaced and r != POD]
        kinds.sort(key=lambda r: r == EVENT)
        left = await asyncio.gather(*(self._empty(resource, key.name) for resource in kinds))
        remaining = [(resource, objects) for resource, objects in zip(kinds, left, strict=True) if objects]
        if remaining:
            await self._say(namespace, remaining)
            return AGAIN
        rest = [f for f in namespace["spec"].get("finalizers") or () if f != FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": rest}}
        try:
            await self._client.request("PUT", NAMESPACE.path(name=key.name, subresource="finalize"), body=body)
        except NotFound:
            log.debug("namespace %s is gone already", key.name)
        return None

    async def _empty(self, resource: Resource, namespace: str) -> list[Object]:
        """Delete all objects of a kind; those that are still there."""
        found = await self._client.list(resource, namespace)
        for obj in found.items:
            if obj["metadata"].get("deletionTimestamp"):
                continue
            try:
                await self._client.delete(resource, obj["metadata"]["name"], namespace, propagation="Background")
            except NotFound:
                continue
        if not found.items:
            return []
        return list((await self._client.list(resource, namespace)).items)

    async def _say(self, namespace: Object, remaining: list[tuple[Resource, list[Object]]]) -> None:
        """Conditions of the namespace: how much of what is left, and whose finalizers hold it."""
        before = {c["type"]: c for c in (namespace.get("status") or {}).get("conditions") or ()}
        conditions = {**before}
        for found in judged(remaining):
            known = before.get(found["type"], {})
            if (known.get("status"), known.get("message")) != (found["status"], found["message"]):
                same = known.get("status") == found["status"]
                conditions[found["type"]] = {
                    **found,
                    **({"lastTransitionTime": known["lastTransitionTime"]} if same else {}),
                }
        if conditions == before:
            return
        patch = {"status": {"conditions": [*conditions.values()]}}
        try:
            await self._client.patch(NAMESPACE, namespace["metadata"]["name"], None, patch, subresource="status")
        except ApiError as error:
            log.debug("conditions of namespace %s: %s", namespace["metadata"]["name"], error)


def judged(remaining: Sequence[tuple[Resource, Sequence[Object]]]) -> list[Object]:
    """What is said of a namespace that goes, given what is left in it; the first three have nothing to complain of. Pure."""
    parts = sorted(f"{_name(resource)} has {len(objects)} resource instances" for resource, objects in remaining)
    holders = Counter(f for _, objects in remaining for o in objects for f in o["metadata"].get("finalizers") or ())
    held = ", ".join(f"{f} in {n} resource instances" for f, n in sorted(holders.items()))
    found = [_condition(*each) for each in WELL]
    if parts:
        text = f"Some resources are remaining: {', '.join(parts)}"
        found[3] = _condition("NamespaceContentRemaining", "SomeResourcesRemain", text, "True")
    if held:
        text = f"Some content in the namespace has finalizers remaining: {held}"
        found[4] = _condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", text, "True")
    return found


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.gvk.group}" if resource.gvk.group else f"{resource.plural}."


def _condition(type_: str, reason: str, message: str, status: str = "False") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": clock.stamp()}
