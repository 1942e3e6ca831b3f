"""Placing is one step over one picture: no slot is given twice, and capacity that comes free is offered again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from modelplane.api.meta import GVK, Key, Object
from modelplane.control.caches import Caches
from modelplane.control.index import Parent
from modelplane.control.ledger import Ledger
from modelplane.errors import TemporaryError
from modelplane.plan.fleet import Fleet, Replica
from modelplane.plan.outcome import PlacedEngine, Placement, Plan, State
from modelplane.plan.request import PlacementRequest
from tests.control.harness import inference_cluster, until
from tests.kube.fake_api import FakeApi

DEPLOYMENT = GVK("modelplane.ai", "v1alpha1", "ModelDeployment")


def first_fit(fleet: Fleet, request: PlacementRequest) -> Plan:
    """One replica per cluster: enough of a planner to see who thinks what is free."""
    mine = [
        one
        for one in fleet.replicas
        if one.deployment == request.key.name and one.key.namespace == request.key.namespace
    ]
    taken = {one.cluster for one in fleet.replicas}
    free = [name for name in fleet.clusters if name not in taken][: max(0, request.replicas - len(mine))]
    kept = [_place(one.cluster, one.key.name, State.NEW if one.assumed else State.RETAINED) for one in mine]
    return Plan(
        key=request.key,
        uid=request.uid,
        wanted=request.replicas,
        placements=(*kept, *(_place(name, f"{request.key.name}-{name}", State.NEW) for name in free)),
    )


def _place(cluster: str, name: str, state: State) -> Placement:
    return Placement(cluster=cluster, index=0, name=name, engines=(PlacedEngine("e", 1, ()),), state=state)


def owner(name: str) -> Parent:
    return Parent(DEPLOYMENT, Key("ml", name))


def request(name: str, replicas: int) -> PlacementRequest:
    return PlacementRequest(key=Key("ml", name), uid=f"uid-{name}", replicas=replicas, engines=())


def replica(deployment: str, cluster: str, name: str | None = None) -> Object:
    member = {
        "role": "Standalone",
        "nodePoolName": "p",
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": name or f"{deployment}-{cluster}",
            "namespace": "ml",
            "labels": {"modelplane.ai/deployment": deployment, "modelplane.ai/replica-index": "0"},
            "ownerReferences": [
                {
                    "apiVersion": DEPLOYMENT.api_version,
                    "kind": "ModelDeployment",
                    "name": deployment,
                    "uid": f"uid-{deployment}",
                }
            ],
        },
        "spec": {"clusterName": cluster, "engines": [{"name": "e", "members": [member]}]},
    }


class Book:
    def __init__(self) -> None:
        self.woken: list[str] = []

    def wake(self, parent: Parent) -> None:
        self.woken.append(parent.key.name)


async def started(api: FakeApi, caches: Caches, wake: Callable[[Parent], None]) -> Ledger:
    for name in ("east", "west"):
        await api.put(inference_cluster(name))
    ledger = Ledger(caches, first_fit, wake)
    ledger.start()
    return ledger


def clusters(plan: Plan) -> list[str]:
    return [placement.cluster for placement in plan.placements]


async def test_nothing_is_placed_before_the_fleet_has_been_read(api: FakeApi) -> None:
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        ledger = await started(api, caches, Book().wake)
        with pytest.raises(TemporaryError, match="read"):
            ledger.place(owner("a"), request("a", 1))
        await until(lambda: len(ledger.fleet().clusters) == 2)
        assert clusters(ledger.place(owner("a"), request("a", 1))) == ["east"]
        await caches.close()


async def test_a_promise_counts_until_the_cache_shows_the_replica(api: FakeApi) -> None:
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        ledger = await started(api, caches, Book().wake)
        await until(lambda: len(ledger.fleet().clusters) == 2)
        assert clusters(ledger.place(owner("a"), request("a", 1))) == ["east"]
        assert clusters(ledger.place(owner("b"), request("b", 2))) == ["west"], "the first slot is promised"
        assert clusters(ledger.place(owner("a"), request("a", 1))) == ["east"], "and stays promised when asked again"
        await api.put(replica("a", "east"))
        await until(lambda: [one.key.name for one in ledger.fleet().replicas if not one.assumed] == ["a-east"])
        del api.objects[("modelplane.ai/v1alpha1/modelreplicas", "ml", "a-east")]
        await api.expire()
        await api.disconnect()
        await until(lambda: "a-east" not in {one.key.name for one in ledger.fleet().replicas})
        await caches.close()


async def test_a_replica_that_got_another_name_ends_the_promise_by_its_seat(api: FakeApi) -> None:
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        ledger = await started(api, caches, Book().wake)
        await until(lambda: len(ledger.fleet().clusters) == 2)
        ledger.place(owner("a"), request("a", 1))
        await api.put(replica("a", "east", name="a-other-name"))
        await until(lambda: [one.key.name for one in ledger.fleet().replicas] == ["a-other-name"])
        await caches.close()


async def test_who_went_short_is_woken_when_room_appears(api: FakeApi) -> None:
    book = Book()
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        ledger = await started(api, caches, book.wake)
        await until(lambda: len(ledger.fleet().clusters) == 2)
        ledger.place(owner("a"), request("a", 1))
        ledger.place(owner("b"), request("b", 2))
        book.woken.clear()
        await api.put(inference_cluster("north"))
        await until(lambda: book.woken == ["b"])
        assert clusters(ledger.place(owner("b"), request("b", 2))) == ["west", "north"]
        book.woken.clear()
        ledger.place(owner("c"), request("c", 1))
        ledger.forget(owner("a"))
        assert book.woken == ["c"], "what was promised to a deployment that is gone is free"
        await caches.close()


async def test_replicas_without_a_place_are_told_once_however_often_they_are_planned(api: FakeApi) -> None:
    told: list[tuple[str, int]] = []
    reasons: dict[str, dict[str, int]] = {}

    def planner(fleet: Fleet, asked: PlacementRequest) -> Plan:
        return msgspec.structs.replace(first_fit(fleet, asked), **reasons.get(asked.key.name, {}))

    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        await started(api, caches, Book().wake)
        ledger = Ledger(caches, planner, Book().wake, lambda reason, replicas: told.append((reason, replicas)))
        ledger.start()
        await until(lambda: len(ledger.fleet().clusters) == 2)

        def place(name: str, replicas: int) -> list[tuple[str, int]]:
            told.clear()
            ledger.place(owner(name), request(name, replicas))
            return told

        reasons["a"] = {"candidates": 2}
        assert place("a", 2) == []
        assert place("b", 3) == [("NoClusters", 3)]
        assert place("b", 3) == [], "nothing has changed"
        assert place("b", 5) == [("NoClusters", 2)], "two more"
        assert place("b", 4) == []
        reasons["b"] = {"candidates": 2}
        assert place("b", 4) == [("InsufficientCapacity", 4)], "for another reason"
        assert place("c", 1) == [("NoClusters", 1)]
        assert ledger.unplaced() == {"InsufficientCapacity": 4, "NoClusters": 1}
        assert place("b", 0) == []
        ledger.forget(owner("c"))
        assert ledger.unplaced() == {}
        await caches.close()


async def test_a_cluster_that_cannot_be_read_keeps_its_place_in_the_picture(api: FakeApi) -> None:
    async with api.client() as client:
        caches = Caches(client, clock=lambda: "")
        ledger = await started(api, caches, Book().wake)
        await until(lambda: len(ledger.fleet().clusters) == 2)
        broken = inference_cluster("east")
        broken["spec"] = {"cluster": {"source": 7}}
        await api.put(broken)
        await api.put(inference_cluster("north"))
        await until(lambda: "north" in ledger.fleet().clusters)
        assert "east" in ledger.fleet().clusters
        await caches.close()


def test_a_replica_is_one_however_often_it_is_promised() -> None:
    one = Replica(key=Key("ml", "a"), deployment="a", cluster="east", index=0, engines=(), assumed=True)
    assert len(Fleet.of([], [one, one]).replicas) == 1
