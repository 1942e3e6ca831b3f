"""The garbage collector: dependents go when their owners are gone, in the background, before them (foreground), or are let
go of (orphan).

It watches every kind that can be listed, watched and deleted. An owner counts as gone only when the API says so: the watch
caches of two kinds are not at the same moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from modelplane.api.meta import GVK, Object, Resource
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
DISCOVER_EVERY = 30.0


class GarbageCollector:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._graph = Graph()
        self._watched: dict[Resource, Informer] = {}
        self._work: Work[str] = Work("garbage", self._sync, workers=8)
        self._discover = asyncio.Event()

    async def run(self) -> None:
        self._caches.of(CRD).subscribe(lambda *_: self._discover.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_discovering())
            group.create_task(self._work.run())

    async def _keep_discovering(self) -> None:
        while True:
            self._discover.clear()
            try:
                served = await resources(self._client, ("list", "watch", "delete"))
            except ApiError as error:
                log.info("discovery: %s", error)
                await asyncio.sleep(0.5)
                continue
            for resource in served:
                if resource.plural not in IGNORED and resource not in self._watched:
                    self._watch(resource)
            try:
                async with asyncio.timeout(DISCOVER_EVERY):
                    await self._discover.wait()
                await asyncio.sleep(0.2)  # a definition is served a moment after it was written
            except TimeoutError:
                continue

    def _watch(self, resource: Resource) -> None:
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
                await self._judge(node)
        except NotFound:
            log.debug("%s %s is gone", node.resource.plural, node.key)
        return None

    async def _judge(self, node: Node) -> None:
        absent, waiting = [], []
        for owner in node.owners:
            found = self._graph.nodes.get(owner["uid"])
            if found is None:
                if not await self._exists(node, owner):
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

    async def _exists(self, node: Node, owner: Mapping[str, Any]) -> bool:
        """Ask the API about an owner that no watch has shown; a kind that is not served has no objects."""
        try:
            resource = await self._client.resource_for(GVK.parse(owner["apiVersion"], owner["kind"]))
            namespace = node.key.namespace if resource.namespaced else None
            found = await self._client.get(resource, owner["name"], namespace)
        except NotFound:
            return False
        return bool(found["metadata"]["uid"] == owner["uid"])

    async def _foreground(self, node: Node) -> None:
        dependents = self._graph.of_owner(node.uid)
        held = blocking(dependents, node.uid)
        for dependent in dependents:
            if not dependent.deleting:
                self._work.add(dependent.uid)
        if not held:
            await self._release(node, FOREGROUND)

    async def _orphan(self, node: Node) -> None:
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
