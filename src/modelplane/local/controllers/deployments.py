"""The Deployment controller at work: adopts sets, carries out what `rollout.plan` says, writes the status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from modelplane.api.meta import Key, Object
from modelplane.errors import AlreadyExists, ApiError, NotFound
from modelplane.kube import Client
from modelplane.local import clock
from modelplane.local.caches import Caches
from modelplane.local.controllers import pods as podlib
from modelplane.local.controllers import progress, rollout
from modelplane.local.controllers.owners import controlled, controller_of, matches
from modelplane.local.events import Events
from modelplane.local.kinds import DEPLOYMENT, POD, REPLICA_SET
from modelplane.local.work import Work

log = logging.getLogger(__name__)


class Deployments:
    """Run it with `run`."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._deployments = caches.of(DEPLOYMENT)
        self._sets = caches.of(REPLICA_SET)
        self._pods = caches.of(POD)
        self._work: Work[Key] = Work("deployment", self._sync)
        self._events = Events(client, "deployment-controller")

    async def run(self) -> None:
        await self._caches.synced(DEPLOYMENT, REPLICA_SET, POD)
        self._deployments.subscribe(self._deployment_changed)
        self._sets.subscribe(self._set_changed)
        self._pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._work.run())

    def _deployment_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._work.add(Key.of(new))

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        found = new or old
        assert found is not None
        owner = controller_of(found)
        namespace = found["metadata"]["namespace"]
        if owner is not None:
            if owner["kind"] == "Deployment":
                self._work.add(Key(namespace, owner["name"]))
            return
        for deployment in self._deployments.items():
            if deployment["metadata"]["namespace"] == namespace and matches(
                deployment["spec"]["selector"], found["metadata"].get("labels")
            ):
                self._work.add(Key.of(deployment))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod that is gone may be what a Recreate rollout waits for."""
        if new is not None or old is None:
            return
        owner = controller_of(old)
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        found = self._sets.get(Key(old["metadata"]["namespace"], owner["name"]))
        above = controller_of(found) if found is not None else None
        if above is not None and above["kind"] == "Deployment":
            self._work.add(Key(old["metadata"]["namespace"], above["name"]))

    async def _sync(self, key: Key) -> float | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return None
        sets = await self._owned(deployment)
        if not deployment["metadata"].get("deletionTimestamp"):
            sets = await self._roll(deployment, sets)
        return await self._report(deployment, sets)

    async def _owned(self, deployment: Object) -> list[Object]:
        metadata = deployment["metadata"]
        owned = []
        for found in self._sets.items():
            if found["metadata"]["namespace"] != metadata["namespace"]:
                continue
            owner = controller_of(found)
            if owner is not None:
                if owner["uid"] == metadata["uid"]:
                    owned.append(found)
            elif (
                not metadata.get("deletionTimestamp")
                and not found["metadata"].get("deletionTimestamp")
                and matches(deployment["spec"]["selector"], found["metadata"].get("labels"))
            ):
                owners = [*(found["metadata"].get("ownerReferences") or ()), *controlled(deployment)]
                patch = {"metadata": {"uid": found["metadata"]["uid"], "ownerReferences": owners}}
                owned.append(
                    await self._client.patch(REPLICA_SET, found["metadata"]["name"], metadata["namespace"], patch)
                )
        return owned

    async def _roll(self, deployment: Object, sets: Sequence[Object]) -> list[Object]:
        """Carry out the plan; the sets as they are afterwards."""
        metadata = deployment["metadata"]
        uids = {s["metadata"]["uid"] for s in sets}
        pods = [p for p in self._pods.items() if (controller_of(p) or {}).get("uid") in uids]
        plan = rollout.plan(deployment, sets, pods)
        result = {s["metadata"]["name"]: s for s in sets}
        if plan.create is not None:
            made = await self._create(deployment, plan.create)
            result[made["metadata"]["name"]] = made
        for name in {**plan.sizes, **plan.annotations, **plan.min_ready}:
            result[name] = await self._resize(deployment, result[name], plan)
        for name in plan.delete:
            try:
                await self._client.delete(REPLICA_SET, name, metadata["namespace"], propagation="Background")
            except NotFound:
                log.debug("%s is gone already", name)
            result.pop(name, None)
        if (metadata.get("annotations") or {}).get(rollout.REVISION) != plan.revision and plan.revision:
            current, _ = rollout.split(deployment, list(result.values()))
            if current is not None:
                # By way of the status, as Kubernetes does: the generation is raised by what people want, and not by this.
                patch = {"metadata": {"annotations": {rollout.REVISION: plan.revision}}}
                name, namespace = metadata["name"], metadata["namespace"]
                fresh = await self._client.patch(DEPLOYMENT, name, namespace, patch, subresource="status")
                self._deployments.accept(fresh)
        return list(result.values())

    async def _create(self, deployment: Object, new: Object) -> Object:
        name = new["metadata"]["name"]
        try:
            made = await self._client.create(new)
        except AlreadyExists:
            there = await self._client.get(REPLICA_SET, name, new["metadata"]["namespace"])
            owner = controller_of(there)
            if (
                owner is not None
                and owner["uid"] == deployment["metadata"]["uid"]
                and rollout.same_template(deployment, there)
            ):
                return there
            # Another owner has the name: count the collision, and the next pass hashes to another name.
            collisions = (deployment.get("status") or {}).get("collisionCount", 0) + 1
            patch = {"status": {"collisionCount": collisions}}
            metadata = deployment["metadata"]
            await self._client.patch(DEPLOYMENT, metadata["name"], metadata["namespace"], patch, subresource="status")
            raise
        except ApiError as error:
            if not podlib.refused_at_the_end(error):
                text = f'Failed to create new replica set "{name}": {error}'
                self._events.event(deployment, "Warning", "ReplicaSetCreateError", text)
            raise
        size = new["spec"]["replicas"]
        if size:
            self._scaled(deployment, name, 0, size)
        return made

    async def _resize(self, deployment: Object, found: Object, plan: rollout.Plan) -> Object:
        name = found["metadata"]["name"]
        patch: Object = {"metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}}
        size = plan.sizes.get(name)
        spec = {"replicas": size, "minReadySeconds": plan.min_ready.get(name)}
        if any(value is not None for value in spec.values()):
            patch["spec"] = {key: value for key, value in spec.items() if value is not None}
        if name in plan.annotations:
            patch["metadata"]["annotations"] = plan.annotations[name]
        fresh = await self._client.patch(REPLICA_SET, name, found["metadata"]["namespace"], patch)
        if size is not None:
            self._scaled(deployment, name, found["spec"].get("replicas", 1), size)
        self._sets.accept(fresh)
        return fresh

    def _scaled(self, deployment: Object, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._events.event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _report(self, deployment: Object, sets: Sequence[Object]) -> float | None:
        status, again = progress.status(deployment, sets, clock.now())
        if status != (deployment.get("status") or {}):
            metadata = deployment["metadata"]
            latest = self._deployments.get(Key.of(deployment)) or deployment
            if latest["metadata"].get("generation") != metadata.get("generation"):
                return None  # the newer one is in the queue already
            fresh = await self._client.replace({**latest, "status": status}, "status")
            self._deployments.accept(fresh)
        return again
