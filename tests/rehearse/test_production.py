"""Who gets what comes free: the rehearsal and the running reconciler give it to the same deployment."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import TypeAlias

import pytest

from modelplane.api import inference_cluster as clusters
from modelplane.api import model_deployment as deployments
from modelplane.api import model_replica as replicas
from modelplane.api.meta import Key, Object
from modelplane.plan.edits import Edits, edited
from modelplane.plan.scene import Scene
from modelplane.plan.whatif import rehearse
from tests.kube.fake_api import FakeApi
from tests.rehearse.reconciler import Running, running
from tests.rehearse.words import deployment, inference_cluster

Seats: TypeAlias = Counter[tuple[str, str]]
"""How many replicas a deployment has on a cluster."""


def seats(objects: list[Object]) -> Seats:
    return Counter(
        (one["metadata"]["labels"]["modelplane.ai/deployment"], one["spec"]["clusterName"]) for one in objects
    )


def rehearsed(now: Scene, edits: Edits) -> Seats:
    then = edited(now, edits)
    found = seats(now.all(replicas.KIND))
    for move in rehearse(now, then.scene).moves:
        name = move.deployment.partition("/")[2]
        found[name, move.source.partition("/")[0]] -= bool(move.source)
        found[name, move.target.partition("/")[0]] += bool(move.target)
    return +found


async def happens(plane: Running, asking: list[Object], scale: dict[str, int], expected: Seats | None = None) -> None:
    """Let the control plane place what is asked for, then scale, and hold the outcome against the rehearsal."""
    api = plane.api
    for obj in asking:
        await api.put(obj)
    await plane.settled(lambda: len(_said(api)) == len(api.all("ModelDeployment")), limit=20)
    kinds = (clusters.KIND, deployments.KIND, replicas.KIND)
    now = Scene([copy.deepcopy(obj) for kind in kinds for obj in api.all(kind.kind)], "now")
    told = rehearsed(now, Edits(scale={Key("ml", name): number for name, number in scale.items()}))
    if expected is not None:
        assert told == expected
    for name, number in scale.items():
        stored = copy.deepcopy(api.find("ModelDeployment", name, "ml") or {})
        stored["spec"]["replicas"] = number
        await api.put(stored)
    await plane.settled(lambda: seats(api.all("ModelReplica")) == told, limit=20)
    await plane.settled(lambda: seats(api.all("ModelReplica")) == told, limit=20)


def _said(api: FakeApi) -> list[Object]:
    return [one for one in api.all("ModelDeployment") if (one.get("status") or {}).get("conditions")]


def made(hour: int) -> str:
    return f"2026-11-29T{hour:02}:00:00Z"


CASES = {
    "the oldest that waits, though a younger one comes after the one that frees": (
        [deployment("zz", made=made(1)), deployment("hold", made=made(2)), deployment("aa", made=made(3))],
        Counter({("hold", "east"): 1}),
    ),
    "one that is older than the one that frees and came too late for it": (
        [deployment("zz", made=made(3)), deployment("hold", 2, made=made(2)), deployment("aa", made=made(4))],
        Counter({("hold", "east"): 1}),
    ),
    "by name where both are of one age": (
        [deployment("zz", made=made(1)), deployment("b", made=made(2)), deployment("a", made=made(2))],
        Counter({("a", "east"): 1}),
    ),
    "the younger where the older may not go there": (
        [
            deployment("zz", made=made(1)),
            deployment("hold", made=made(2), labels={"region": "mars"}),
            deployment("aa", made=made(3)),
        ],
        Counter({("aa", "east"): 1}),
    ),
}


@pytest.mark.parametrize("why", CASES)
async def test_a_slot_that_comes_free_goes_to(why: str) -> None:
    asking, expected = copy.deepcopy(CASES[why])
    async with FakeApi() as api:
        await api.put(inference_cluster("east", pools={"default": 1}))
        async with running(api) as plane:
            # zz is there before the others ask.
            first = next(one for one in asking if one["metadata"]["name"] == "zz")
            await happens(plane, [first], {}, Counter({("zz", "east"): 1}))
            await happens(plane, asking, {"zz": 0}, expected)


@pytest.mark.parametrize("seed", range(20))
async def test_the_rehearsal_of_a_random_fleet_is_what_happens(seed: int) -> None:
    chance = random.Random(seed)
    async with FakeApi() as api:
        for name in "abc"[: chance.randrange(1, 4)]:
            region = {"region": chance.choice("xy")}
            await api.put(inference_cluster(name, pools={"default": chance.randrange(1, 4)}, labels=region))
        hours = chance.sample(range(24), 6)
        asking = [
            deployment(
                f"d{number}",
                chance.randrange(1, 4),
                made=made(hour),
                labels={"region": chance.choice("xy")} if chance.random() < 0.4 else None,
            )
            for number, hour in enumerate(hours)
        ]
        async with running(api) as plane:
            for obj in asking[:3]:
                await happens(plane, [obj], {})
            await happens(plane, asking[3:], {f"d{chance.randrange(3)}": chance.randrange(2)})
