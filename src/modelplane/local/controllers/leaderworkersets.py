"""The LeaderWorkerSet controller at work. Where its kind is not served, it waits for the definition."""

from __future__ import annotations

import asyncio

from modelplane.api.meta import GVK, Key, Object, Resource
from modelplane.errors import AlreadyExists, NotFound
from modelplane.kube import Client
from modelplane.local.caches import Caches
from modelplane.local.controllers import gangs
from modelplane.local.events import Events
from modelplane.local.kinds import POD
from modelplane.local.work import Work

SET = Resource(GVK("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"), "leaderworkersets", namespaced=True)


class LeaderWorkerSets:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._sets = caches.of(SET)
        self._pods = caches.of(POD)
        self._work: Work[Key] = Work("leaderworkerset", self._sync, workers=2)
        self._events = Events(client, "leaderworkerset")

    async def run(self) -> None:
        await self._caches.synced(SET, POD)
        self._sets.subscribe(lambda _, new: self._work.add(Key.of(new)) if new else None)
        self._pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._work.run())

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        name = (pod["metadata"].get("labels") or {}).get(gangs.NAME)
        if name:
            self._work.add(Key(pod["metadata"]["namespace"], name))

    async def _sync(self, key: Key) -> float | None:
        found = self._sets.get(key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        pods = [
            pod
            for pod in self._pods.items()
            if pod["metadata"]["namespace"] == key.namespace
            and (pod["metadata"].get("labels") or {}).get(gangs.NAME) == key.name
        ]
        step = gangs.decide(found, pods)
        if not pods:
            await self._name_members(found)
        for pod in step.delete:
            metadata = pod["metadata"]
            try:
                await self._client.delete(POD, metadata["name"], key.namespace, uid=metadata["uid"])
            except NotFound:
                continue
        for pod in step.create:
            try:
                await self._client.create(pod)
            except AlreadyExists:
                continue  # made a moment ago and not seen yet; names are fixed, so nothing is made twice
            group, place = (pod["metadata"]["labels"][label] for label in (gangs.GROUP, gangs.WORKER))
            message = f"Created pod {pod['metadata']['name']}: place {place} of group {group}"
            self._events.event(found, "Normal", "GroupsProgressing", message)
        if step.status != (found.get("status") or {}):
            self._sets.accept(await self._client.replace({**found, "status": step.status}, "status"))
        return None

    async def _name_members(self, found: Object) -> None:
        try:
            await self._client.create(gangs.service(found))
        except AlreadyExists:
            return
