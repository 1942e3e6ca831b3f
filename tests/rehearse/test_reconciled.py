"""Placing through the running reconciler: one slot is given once whatever the order of events, and a change re-plans few."""

from __future__ import annotations

import asyncio
import copy
import random

import pytest

from modelplane.api.meta import Key, Object
from tests.kube.fake_api import FakeApi
from tests.rehearse.reconciler import Running, running, store_fleet
from tests.rehearse.words import deployment, inference_cluster

INTERLEAVINGS = 200


async def test_two_deployments_never_get_one_slot_in_200_interleavings() -> None:
    async with FakeApi() as api:
        await api.put(inference_cluster("east", pools={"default": 1}))
        async with running(api) as plane:
            for seed in range(INTERLEAVINGS):
                await _interleave(plane, random.Random(seed))


async def _interleave(plane: Running, random: random.Random) -> None:
    """Two deployments ask at once, while the cluster flickers and connections break; then both go."""
    api = plane.api
    asking = [deployment("one"), deployment("two", made="2026-11-29T12:00:01Z")]
    random.shuffle(asking)

    async def ask(obj: Object) -> None:
        await _pause(random)
        await api.put(obj)

    async def flicker() -> None:
        for _ in range(random.randrange(3)):
            await _pause(random)
            ready = random.random() < 0.5
            await api.put(inference_cluster("east", pools={"default": 1}, ready=ready))
        await api.put(inference_cluster("east", pools={"default": 1}))

    async def trouble() -> None:
        await _pause(random)
        if random.random() < 0.2:
            await api.disconnect()
        if random.random() < 0.2:
            api.refuse_writes["modelreplicas"] = 503
            await _pause(random)
            api.refuse_writes.clear()

    await asyncio.gather(*(ask(obj) for obj in asking), flicker(), trouble())
    await plane.settled(
        lambda: len(api.all("ModelReplica")) == 1 and _said(api) == {"ReplicasCreated", "InsufficientCapacity"}
    )
    await plane.settled(lambda: len(api.all("ModelReplica")) == 1)
    for kind in ("ModelDeployment", "ModelReplica"):
        for obj in api.all(kind):
            await _delete(api, obj)
    await plane.settled(lambda: not plane.ledger.fleet().replicas and not api.all("ModelReplica"))


async def test_of_two_deployments_that_grow_at_once_into_one_node_one_does() -> None:
    async with FakeApi() as api:
        await api.put(inference_cluster("east", pools={"default": 3}))
        async with running(api) as plane:
            asking = [deployment("one"), deployment("two", made="2026-11-29T12:00:01Z")]
            for obj in asking:
                await api.put(obj)
            await plane.settled(lambda: _said(api) == {"ReplicasCreated"} and len(api.all("ModelReplica")) == 2)
            for seed in range(20):
                chance = random.Random(seed)
                await asyncio.gather(*(_resize(api, obj, 2, chance) for obj in asking))
                await plane.settled(lambda: sorted(_copies(api)) == [1, 2] and "PartiallyScheduled" in _said(api))
                await asyncio.gather(*(_resize(api, obj, 1, chance) for obj in asking))
                await plane.settled(lambda: _copies(api) == [1, 1] and _said(api) == {"ReplicasCreated"})


async def _resize(api: FakeApi, obj: Object, copies: int, random: random.Random) -> None:
    await _pause(random)
    stored = copy.deepcopy(api.find("ModelDeployment", obj["metadata"]["name"], "ml") or {})
    stored["spec"]["template"]["spec"]["engines"][0]["copies"] = copies
    await api.put(stored)


def _copies(api: FakeApi) -> list[int]:
    return [replica["spec"]["engines"][0].get("copies", 1) for replica in api.all("ModelReplica")]


def _said(api: FakeApi) -> set[str]:
    return {
        condition["reason"]
        for obj in api.all("ModelDeployment")
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition["type"] == "ReplicasScheduled"
    }


async def _pause(random: random.Random) -> None:
    for _ in range(random.randrange(12)):
        await asyncio.sleep(0)
    if random.random() < 0.3:
        await asyncio.sleep(random.random() * 0.004)


async def _delete(api: FakeApi, obj: Object) -> None:
    plural = {"ModelDeployment": "modeldeployments", "ModelReplica": "modelreplicas"}[obj["kind"]]
    gone = copy.deepcopy(obj)
    gone["metadata"].pop("finalizers", None)
    await api._drop((f"modelplane.ai/v1alpha1/{plural}", obj["metadata"]["namespace"], obj["metadata"]["name"]), gone)


CLUSTERS, DEPLOYMENTS, UNMET = 1000, 2000, 3


@pytest.mark.timeout(300)
async def test_a_change_of_one_cluster_replans_only_the_deployments_that_it_can_affect() -> None:
    async with FakeApi() as api:
        store_fleet(api, CLUSTERS, DEPLOYMENTS)
        async with running(api) as plane:
            await plane.settled(lambda: len(plane.plans) == DEPLOYMENTS, limit=250)
            # The fleet is full. Three wait: two for any cluster, one for a label that no cluster has.
            for number in range(UNMET):
                await api.put(deployment(f"w{number}", labels={"region": "mars"} if number == 2 else None))
            await plane.settled(lambda: all(plane.plans[Key("ml", f"w{number}")] for number in range(UNMET)))
            there = {Key("ml", one.deployment) for one in plane.ledger.fleet().on("c0500")}
            assert len(there) == 2
            plane.plans.clear()
            await api.put(inference_cluster("c0500", pools={"default": 2}, labels={"note": "changed"}))
            await plane.settled(lambda: len(plane.plans) >= 4)
            assert set(plane.plans) == {*there, Key("ml", "w0"), Key("ml", "w1")}
            assert plane.plans.total() <= 8, "each once, and once more for its own status"
            plane.plans.clear()
            noise = copy.deepcopy(api.find("InferenceCluster", "c0500") or {})
            noise["status"]["children"] = [{"key": "serving-stack"}]
            await api.put(noise)
            await plane.settled()
            assert not plane.plans, "what placement does not read re-plans nobody"
