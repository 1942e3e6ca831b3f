"""The ReplicaSet controller: pods follow `spec.replicas`, the status follows the pods.

The watch cache lags behind our own writes, so each set remembers which pods it has created or deleted and not yet seen,
and does not count again until they show.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from modelplane.api.meta import Key, Object
from modelplane.errors import AlreadyExists, ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers.owners import controlled, controller_of, matches
from modelplane.local.controllers.replicas import count, scaling
from modelplane.local.events import Events
from modelplane.local.kinds import POD, REPLICA_SET
from modelplane.local.work import Work

log = logging.getLogger(__name__)

SHOWN_WITHOUT = ("replicas", "terminatingReplicas", "observedGeneration")
"""Fields of a status that are written when they are zero too."""
PATIENCE = 300.0
"""Seconds after which an expected change that never showed is given up."""


class Expected:
    """Writes of ours that the watch cache does not show yet, per owner."""

    def __init__(self) -> None:
        self._created: dict[Key, dict[Key, float]] = {}
        self._deleted: dict[Key, dict[str, float]] = {}

    def creation(self, owner: Key, pod: Key) -> None:
        self._created.setdefault(owner, {})[pod] = time.monotonic()

    def deletion(self, owner: Key, uid: str) -> None:
        self._deleted.setdefault(owner, {})[uid] = time.monotonic()

    def seen(self, owner: Key, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        self._created.get(owner, {}).pop(Key.of(pod), None)
        if new is None or new["metadata"].get("deletionTimestamp"):
            self._deleted.get(owner, {}).pop(pod["metadata"]["uid"], None)

    def failed(self, owner: Key, pod: Key) -> None:
        self._created.get(owner, {}).pop(pod, None)

    def met(self, owner: Key) -> bool:
        oldest = time.monotonic() - PATIENCE
        pending = [*self._created.get(owner, {}).values(), *self._deleted.get(owner, {}).values()]
        if any(at > oldest for at in pending):
            return False
        self.forget(owner)
        return True

    def forget(self, owner: Key) -> None:
        self._created.pop(owner, None)
        self._deleted.pop(owner, None)


class ReplicaSets:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._sets = caches.of(REPLICA_SET)
        self._pods = caches.of(POD)
        self._by_owner: dict[str, dict[Key, Object]] = {}
        self._expected = Expected()
        self._work: Work[Key] = Work("replicaset", self._sync)
        self._events = Events(client, "replicaset-controller")

    async def run(self) -> None:
        await self._caches.synced(REPLICA_SET, POD)
        self._pods.subscribe(self._pod_changed)
        self._sets.subscribe(self._set_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._work.run())

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        found = new or old
        assert found is not None
        key = Key.of(found)
        if new is None:
            self._expected.forget(key)
        else:
            self._work.add(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod, there in ((old, False), (new, True)):
            if pod is None:
                continue
            owner = controller_of(pod)
            if owner is None:
                if there:
                    self._adopt_later(pod)
                continue
            pods = self._by_owner.setdefault(owner["uid"], {})
            if there:
                pods[Key.of(pod)] = pod
            else:
                pods.pop(Key.of(pod), None)
                if not pods:
                    del self._by_owner[owner["uid"]]
            if owner["kind"] == "ReplicaSet":
                key = Key(pod["metadata"]["namespace"], owner["name"])
                self._expected.seen(key, old, new)
                self._work.add(key)

    def _adopt_later(self, pod: Object) -> None:
        """A pod without a controller: sets that select it may adopt it."""
        for found in self._sets.items():
            if found["metadata"]["namespace"] == pod["metadata"]["namespace"] and matches(
                found["spec"].get("selector"), pod["metadata"].get("labels")
            ):
                self._work.add(Key.of(found))

    async def _sync(self, key: Key) -> float | None:
        found = self._sets.get(key)
        if found is None:
            return None
        pods = await self._owned(found)
        failure = None
        if self._expected.met(key):
            failure = await self._scale(key, found, pods)
        counted = count(found, pods, clock.now(), failure)
        status = found.get("status") or {}
        fresh = {name: value for name, value in counted.status.items() if value or name in SHOWN_WITHOUT}
        if status != fresh:
            written = await self._client.replace({**found, "status": fresh}, "status")
            self._sets.accept(written)
        return counted.again

    async def _owned(self, found: Object) -> list[Object]:
        """The set's pods; those that match and belong to nobody are adopted, those that match no more released."""
        uid = found["metadata"]["uid"]
        selector = found["spec"].get("selector")
        mine = list(self._by_owner.get(uid, {}).values())
        if found["metadata"].get("deletionTimestamp"):
            return mine
        kept = []
        for pod in mine:
            if matches(selector, pod["metadata"].get("labels")) or pod["metadata"].get("deletionTimestamp"):
                kept.append(pod)
            else:
                rest = [r for r in pod["metadata"]["ownerReferences"] if r["uid"] != uid]
                await self._own(pod, rest)
        for pod in self._pods.items():
            if (
                pod["metadata"]["namespace"] == found["metadata"]["namespace"]
                and controller_of(pod) is None
                and podlib.is_active(pod)
                and matches(selector, pod["metadata"].get("labels"))
            ):
                await self._own(pod, [*(pod["metadata"].get("ownerReferences") or ()), *controlled(found)])
                kept.append(pod)
        return kept

    async def _own(self, pod: Object, owners: Sequence[Object]) -> None:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": list(owners)}}
        await self._client.patch(POD, metadata["name"], metadata["namespace"], patch)

    async def _scale(self, key: Key, found: Object, pods: Sequence[Object]) -> Object | None:
        """Create and delete; the ReplicaFailure condition when the API refused, which also retries by itself."""
        decision = scaling(found, pods)
        failure: ApiError | None = None
        verb = "Create"
        results = await asyncio.gather(
            *(self._create(key, found) for _ in range(decision.create)),
            *(self._delete(key, found, pod) for pod in decision.delete),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, ApiError):
                failure = result
                verb = "Create" if decision.create else "Delete"
            elif isinstance(result, BaseException):
                raise result
        if failure is None:
            return None
        self._work.add_after(key, 1.0)
        return {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": f"Failed{verb}",
            "message": str(failure),
            "lastTransitionTime": clock.stamp(),
        }

    async def _create(self, key: Key, found: Object) -> None:
        pod = podlib.from_template(found["spec"]["template"], found, found["metadata"]["name"])
        self._expected.creation(key, Key.of(pod))
        try:
            await self._client.create(pod)
        except AlreadyExists:
            self._expected.failed(key, Key.of(pod))
            self._work.add(key)
        except ApiError as error:
            self._expected.failed(key, Key.of(pod))
            if podlib.refused_at_the_end(error):
                return
            self._events.event(found, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        else:
            self._events.event(found, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    async def _delete(self, key: Key, found: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        self._expected.deletion(key, metadata["uid"])
        try:
            await self._client.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except NotFound:
            return
        except ApiError as error:
            self._expected.forget(key)
            self._events.event(found, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._events.event(found, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
