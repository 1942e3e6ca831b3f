"""Events of a deployment through the running reconciler: news once, and what to do about it."""

from __future__ import annotations

import copy

import pytest

from modelplane.plan.verdicts import Code, Verdict, notice
from tests.kube.fake_api import FakeApi
from tests.rehearse.reconciler import Running, running
from tests.rehearse.words import deployment, device, inference_cluster

LARGE = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'


def told(api: FakeApi, kind: str = "Warning") -> list[tuple[str, int]]:
    return [(event["reason"], event["count"]) for event in api.all("Event") if event["type"] == kind]


async def turned(plane: Running, *, passes: int = 1) -> None:
    """The deployment was looked at so many times more."""
    (one,) = plane.api.all("ModelDeployment")
    for number in range(passes):
        before = plane.plans.total()
        changed = copy.deepcopy(one)
        changed["metadata"].setdefault("labels", {})["touched"] = f"{plane.plans.total()}-{number}"
        changed["metadata"].pop("resourceVersion", None)
        await plane.api.put(changed)
        await plane.settled(lambda before=before: plane.plans.total() > before)
    await plane.reconciler._recorder.flush(30)


async def test_one_event_until_the_reason_changes_however_often_it_is_looked_at() -> None:
    async with FakeApi() as api, running(api) as plane:
        await api.put(inference_cluster("east", devices=[device(architecture="Ampere")], ready=False))
        await api.put(deployment("chat", selector=LARGE))
        await plane.settled(lambda: bool(api.all("Event")))
        await turned(plane, passes=3)
        assert told(api) == [("InsufficientCapacity", 1)]
        # Figures of the message that move are no news.
        for others in range(1, 4):
            await api.put(inference_cluster(f"north-{others}", ready=False))
            await turned(plane)
        assert told(api) == [("InsufficientCapacity", 1)]
        # The nearest cluster has another reason: that is.
        await api.put(inference_cluster("east", devices=[device(architecture="Ampere")]))
        await turned(plane, passes=3)
        assert told(api) == [("InsufficientCapacity", 1), ("InsufficientCapacity", 1)]
        first, second = (event["message"] for event in api.all("Event"))
        assert "NotReady" in first
        assert second == (
            "0 of 1 replicas placed; 1 without a place: 3 NotReady, 1 NoDevice; nearest east NoDevice (pool default: request gpu "
            "matches no device (devices: gpu)): change the request's selectors. "
            "modelplane explain modeldeployment/chat -n ml has every cluster."
        )


async def test_a_replica_that_has_lost_its_room_is_told_with_pool_and_nodes() -> None:
    """No cluster refuses anything then, so there is no verdict that could say it."""
    async with FakeApi() as api, running(api) as plane:
        await api.put(inference_cluster("east", pools={"default": 2}))
        await api.put(deployment("chat", 2))
        await plane.settled(lambda: len(api.all("ModelReplica")) == 2)
        await api.put(inference_cluster("east", pools={"default": 1}))
        await plane.settled(lambda: any(one["type"] == "Warning" for one in api.all("Event")))
        (event,) = (one for one in api.all("Event") if one["type"] == "Warning")
    assert event["reason"] == "PartiallyScheduled"
    assert event["message"].startswith("2 of 2 replicas placed, 2 of them without room; replica ")
    assert "without room: pool default has 1 node, and replicas take 2" in event["message"]


async def scaled(plane: Running, replicas: int) -> None:
    (stored,) = (copy.deepcopy(one) for one in plane.api.all("ModelDeployment"))
    stored["spec"]["replicas"] = replicas
    await plane.api.put(stored)
    await turned(plane)


async def test_what_comes_back_after_it_was_well_is_counted_on_its_event() -> None:
    async with FakeApi() as api, running(api) as plane:
        await api.put(inference_cluster("east", pools={"default": 1}))
        await api.put(deployment("chat", 2))
        await plane.settled(lambda: told(api) == [("PartiallyScheduled", 1)])
        await api.put(inference_cluster("east", pools={"default": 2}))
        await plane.settled(lambda: told(api, "Normal")[-1:] == [("ReplicasCreated", 1)])
        for count in (2, 3):
            await scaled(plane, 3)
            await plane.settled(lambda count=count: told(api) == [("PartiallyScheduled", count)])
            await scaled(plane, 2)
            await plane.settled(lambda count=count: told(api, "Normal")[-1:] == [("ReplicasCreated", count)])


async def test_fewer_places_are_news_though_the_reason_is_the_same() -> None:
    async with FakeApi() as api, running(api) as plane:
        for name in ("east", "west"):
            await api.put(inference_cluster(name, pools={"default": 1}))
        await api.put(deployment("chat", 3))
        await plane.settled(lambda: told(api) == [("PartiallyScheduled", 1)])
        await api.put(inference_cluster("east", pools={"default": 1}, taints=["modelplane.ai/drain:NoExecute"]))
        await plane.settled(lambda: told(api) == [("PartiallyScheduled", 1)] * 2)
        lines = [event["message"] for event in api.all("Event") if event["type"] == "Warning"]
        assert [line.partition(":")[0] for line in lines] == [
            "2 of 3 replicas placed; 1 without a place",
            "1 of 3 replicas placed; 2 without a place",
        ]


async def test_every_new_replica_is_told_and_that_a_shortfall_is_over() -> None:
    """Else the last that `kubectl describe` shows is a warning which no longer holds."""
    async with FakeApi() as api, running(api) as plane:
        await api.put(inference_cluster("east", pools={"default": 1}))
        await api.put(deployment("chat", 1))
        await plane.settled(lambda: bool(told(api, "Normal")))
        await scaled(plane, 2)
        await plane.settled(lambda: told(api) == [("PartiallyScheduled", 1)])
        await api.put(inference_cluster("west", pools={"default": 1}))
        await plane.settled(lambda: ("ReplicasCreated", 1) in told(api, "Normal"))
        await turned(plane, passes=2)
        lines = [(event["reason"], event["message"]) for event in api.all("Event") if event["type"] == "Normal"]
        assert lines == [
            ("Scheduled", "1 replica on east"),
            ("ReplicasCreated", "2 of 2 replicas placed."),
            ("Scheduled", "1 replica on west"),
        ]


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ([Verdict(cluster="c", code=Code.NO_DEVICE, message="x" * 5000, remedy="do")], "a long message"),
        (
            [Verdict(cluster=f"{'c' * 60}{n}", code=Code.FULL, message="m" * 90, remedy="r") for n in range(1000)],
            "many",
        ),
        ([Verdict(cluster="c", code=Code.NO_DEVICE, message="ü" * 3000, remedy="do")], "of more than a byte each"),
    ],
)
def test_the_text_stays_below_a_kibibyte_and_ends_with_what_to_do(verdicts: list[Verdict], reason: str) -> None:
    ask = "modelplane explain modeldeployment/chat -n ml has every cluster."
    text, code = notice("0 of 1 replicas placed; 1 without a place", verdicts, more=ask)
    assert len(text.encode()) < 1024, reason
    assert text.endswith(ask)
    assert code == verdicts[0].code


def test_without_a_cluster_the_headline_says_what_to_do() -> None:
    assert notice("0 of 1 replicas placed: there is no InferenceCluster; create one", (), more="more") == (
        "0 of 1 replicas placed: there is no InferenceCluster; create one.",
        "",
    )
