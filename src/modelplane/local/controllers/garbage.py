"""The garbage collector: dependents go when their owners are gone, in the background, before them (foreground), or are let
go of (orphan).

It covers every kind that can be listed, watched and deleted, and watches those that have objects: a watch costs 100 KB at both
ends, and most kinds of a cluster stay empty. An empty kind is looked at now and then, and always before a finalizer is released.
An owner counts as gone only when the API says so: the watch caches of two kinds are not at the same moment. Where it cannot say so,
because the kind is not served (any more, or yet), dependents stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from modelplane.api.meta import GROUP, GVK, Object, Resource
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client, Informer, PatchType
from modelplane.kube.resources import known
from modelplane.local.caches import Caches
from modelplane.local.controllers.discovery import resources
from modelplane.local.controllers.ownership import FOREGROUND, ORPHAN, Graph, Node, blocking, judge
from modelplane.local.kinds import EVENT
from modelplane.local.work import Work

log = logging.getLogger(__name__)

CRD = known("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
IGNORED = frozenset({EVENT.plural})
LOOK_EVERY = 10.0
"""Seconds between looks for first objects of kinds that were empty."""
DISCOVER_EVERY = 60.0
"""Seconds between looks for new kinds, besides when a definition changes."""
PATIENCE = 5.0
UNKNOWN_AGAIN = 30.0
"""Seconds until an owner of a kind that is not served is asked for again."""
UNSEEN_AGAIN = 3.0
"""Seconds until an owner that is there and in no watch yet is looked at again: it may go before the watch begins."""
REMEMBERED = 500
EAGER = frozenset(
    (
        "configmaps", "deployments", "endpointslices", "jobs", "leases", "namespaces", "nodes", "pods", "replicasets",
        "resourceclaims", "resourceslices", "secrets", "serviceaccounts", "services",
    )
)  # fmt: skip
"""Watched from the start, as are the control plane's own kinds: their first object must not wait for a look."""


class GarbageCollector:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._graph = Graph()
        self._served: set[Resource] = set()
        self._watched: dict[Resource, Informer] = {}
        self._work: Work[str] = Work("garbage", self._sync, workers=8)
        self._look = asyncio.Event()
        self._gone: OrderedDict[str, None] = OrderedDict()
        """UIDs whose deletion was seen, the last ones."""
        self._discovered = float("-inf")

    async def run(self) -> None:
        self._caches.of(CRD).subscribe(self._definitions_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_looking())
            group.create_task(self._work.run())

    def _definitions_changed(self, old: Object | None, new: Object | None) -> None:
        self._discovered = float("-inf")
        self._look.set()

    async def _keep_looking(self) -> None:
        while True:
            self._look.clear()
            try:
                await self._survey()
            except ApiError as error:
                log.info("looking for kinds to watch: %s", error)
                await asyncio.sleep(0.5)
                continue
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
                await asyncio.sleep(0.2)  # a definition is served a moment after it was written
            except TimeoutError:
                continue

    async def _survey(self) -> None:
        """Watch every kind that has objects, and forget those that are not served any more. Raises ApiError."""
        if time.monotonic() - self._discovered > DISCOVER_EVERY:
            began = time.monotonic()
            served = await resources(self._client, ("list", "watch", "delete"))
            self._discovered = began
            self._served = {resource for resource in served if resource.plural not in IGNORED}
            for resource in self._watched.keys() - self._served:
                self._forget(resource)
        for resource in sorted(self._served):
            if resource in self._watched:
                continue
            eager = resource.plural in EAGER or resource.gvk.group == GROUP
            if eager or (await self._client.request("GET", resource.path(), params={"limit": 1})).get("items"):
                self._watch(resource)

    def _forget(self, resource: Resource) -> None:
        del self._watched[resource]
        self._caches.drop(resource)
        for node in [n for n in self._graph.nodes.values() if n.resource == resource]:
            self._graph.drop(node.uid)

    def _watch(self, resource: Resource) -> None:
        if resource in self._watched:
            return
        informer = self._caches.of(resource)
        self._watched[resource] = informer

        def changed(old: Object | None, new: Object | None) -> None:
            self._changed(resource, old, new)

        informer.subscribe(changed)

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            uid = old["metadata"]["uid"]
            dependents = self._graph.of_owner(uid)
            owners = self._graph.nodes[uid].owners if uid in self._graph.nodes else ()
            self._graph.drop(uid)
            if dependents:
                self._gone[uid] = None
                if len(self._gone) > REMEMBERED:
                    self._gone.popitem(last=False)
            for node in dependents:
                self._work.add(node.uid)
            for owner in owners:  # an owner in foreground deletion may have waited for this one
                self._work.add(owner["uid"])
        if new is not None:
            node = Node.of(resource, new)
            before = self._graph.nodes.get(node.uid)
            if before is not None and (before.owners, before.finalizers, before.deleting) == (
                node.owners,
                node.finalizers,
                node.deleting,
            ):
                return
            self._graph.put(node)
            if node.owners or node.deleting:
                self._work.add(node.uid)
            for owner in before.owners if before is not None else ():
                self._work.add(owner["uid"])

    async def _sync(self, uid: str) -> float | None:
        node = self._graph.nodes.get(uid)
        if node is None:
            return None
        try:
            if node.deleting and ORPHAN in node.finalizers:
                await self._orphan(node)
            elif node.deleting and FOREGROUND in node.finalizers:
                await self._foreground(node)
            elif node.owners and not node.deleting:
                return await self._judge(node)
        except NotFound:
            log.debug("%s %s is gone", node.resource.plural, node.key)
        return None

    async def _judge(self, node: Node) -> float | None:
        absent, waiting, unseen = [], [], False
        for owner in node.owners:
            found = self._graph.nodes.get(owner["uid"])
            if found is None:
                exists = owner["uid"] not in self._gone and await self._exists(node, owner)
                if exists is None:
                    return UNKNOWN_AGAIN
                if exists:
                    unseen = True
                else:
                    absent.append(owner["uid"])
            elif found.deleting and FOREGROUND in found.finalizers and owner.get("blockOwnerDeletion"):
                waiting.append(owner["uid"])
        verdict = judge(node, absent, waiting, bool(self._graph.dependents.get(node.uid)))
        if verdict.delete:
            log.info("%s %s: its owner is gone or going", node.resource.plural, node.key)
            await self._client.delete(
                node.resource, node.key.name, node.key.namespace or None, propagation=verdict.delete, uid=node.uid
            )
        elif verdict.drop:
            rest = [dict(owner) for owner in node.owners if owner["uid"] not in verdict.drop]
            await self._patch(node, {"ownerReferences": rest})
        return UNSEEN_AGAIN if unseen else None

    async def _exists(self, node: Node, owner: Mapping[str, Any]) -> bool | None:
        """Ask the API about an owner that no watch has shown. None where it cannot say: of a kind that is not served, and of an
        owner in a namespace when the dependent is in none."""
        try:
            resource = await self._client.resource_for(GVK.parse(owner["apiVersion"], owner["kind"]))
        except NotFound:
            return None
        if resource.namespaced and not node.key.namespace:
            return None
        namespace = node.key.namespace if resource.namespaced else None
        try:
            found = await self._client.get(resource, owner["name"], namespace)
        except NotFound as error:
            # Of an object that is not there both servers say its name; of a kind or version that they do not serve, no name.
            return False if f'"{owner["name"]}" not found' in str(error) else None
        if resource in self._served:
            self._watch(resource)  # so that its deletion is seen
        else:
            self._discovered = float("-inf")
            self._look.set()
        return bool(found["metadata"]["uid"] == owner["uid"])

    async def _foreground(self, node: Node) -> None:
        if not blocking(self._graph.of_owner(node.uid), node.uid):
            await self._look_everywhere()
        dependents = self._graph.of_owner(node.uid)
        held = blocking(dependents, node.uid)
        for dependent in dependents:
            if not dependent.deleting:
                self._work.add(dependent.uid)
        if not held:
            await self._release(node, FOREGROUND)

    async def _look_everywhere(self) -> None:
        """Have every kind with objects in the graph; one that cannot be read within a few seconds is not waited for."""
        await self._survey()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._caches.synced(*self._watched)

    async def _orphan(self, node: Node) -> None:
        await self._look_everywhere()
        for dependent in self._graph.of_owner(node.uid):
            rest = [dict(owner) for owner in dependent.owners if owner["uid"] != node.uid]
            try:
                await self._patch(dependent, {"ownerReferences": rest})
            except NotFound:
                continue
        await self._release(node, ORPHAN)

    async def _release(self, node: Node, finalizer: str) -> None:
        fresh = await self._client.get(node.resource, node.key.name, node.key.namespace or None)
        metadata = fresh["metadata"]
        if metadata["uid"] != node.uid or finalizer not in (metadata.get("finalizers") or ()):
            return
        rest = [f for f in metadata["finalizers"] if f != finalizer]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": rest}}
        name, namespace = node.key.name, node.key.namespace or None
        await self._client.patch(node.resource, name, namespace, patch, PatchType.MERGE)

    async def _patch(self, node: Node, metadata: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": node.uid, **metadata}}
        await self._client.patch(node.resource, node.key.name, node.key.namespace or None, patch, PatchType.MERGE)
