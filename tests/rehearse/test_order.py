"""What a rehearsal says of replicas that stay in name and place, and to whom it gives what comes free."""

from __future__ import annotations

import copy

import pytest

from modelplane.api.meta import Object
from modelplane.plan.scene import Scene
from modelplane.plan.whatif import rehearse
from tests.rehearse.words import deployment, inference_cluster, replica


def made(hour: int) -> str:
    return f"2026-11-29T{hour:02}:00:00Z"


ZZ, HOLD, AA = deployment("zz", made=made(2)), deployment("hold", made=made(1)), deployment("aa", made=made(3))


@pytest.mark.parametrize(
    ("waiting", "gets"),
    [
        pytest.param([HOLD, AA], "ml/hold", id="the oldest, asked in vain before it came free"),
        pytest.param([deployment("hold", made=made(4)), AA], "ml/aa", id="the oldest of two younger ones"),
        pytest.param([deployment("hold", made=made(1), labels={"on": "mars"}), AA], "ml/aa", id="who may go there"),
    ],
)
def test_what_comes_free_goes_to_the_oldest_that_waits_for_it(waiting: list[Object], gets: str) -> None:
    there = [inference_cluster("east", pools={"default": 1}), *waiting, replica(ZZ, "east")]
    gone = deployment("zz", 0, made=made(2))
    found = rehearse(Scene([*there, ZZ]), Scene([*there, gone]))
    assert [one.deployment for one in found.moves if one.kind == "placed"] == [gets]


def sized(copies: int = 1, **more: object) -> Object:
    found = copy.deepcopy(deployment("chat", **more))  # type: ignore[arg-type]
    found["spec"]["template"]["spec"]["engines"][0]["copies"] = copies
    return found


def told(then: Object, now: Object, *, copies: int = 1) -> tuple[tuple[str, str, str, str], ...]:
    pools = {"default": 2, "spare": 2}
    east = inference_cluster("east", pools=pools)
    there = replica(now, "east")
    there["spec"]["engines"][0]["copies"] = copies
    found = rehearse(Scene([east, now, there]), Scene([east, then, there]))
    return tuple((str(one.kind), one.source, one.target, one.why) for one in found.moves)


def test_a_replica_that_stays_as_it_is_is_no_change() -> None:
    assert told(sized(), sized()) == ()


@pytest.mark.parametrize(("before", "after", "why"), [(1, 2, "resized 1 -> 2 nodes"), (2, 1, "resized 2 -> 1 node")])
def test_a_replica_that_is_resized_where_it_is_is_told(before: int, after: int, why: str) -> None:
    assert told(sized(after), sized(before), copies=before) == (("resized", "east", "east", why),)


def test_a_replica_whose_engine_is_renamed_is_replaced_in_place() -> None:
    renamed = sized()
    renamed["spec"]["template"]["spec"]["engines"][0]["name"] = "other"
    assert told(renamed, sized()) == (("replaced", "east", "east", "replaced in place"),)


def test_a_replica_that_goes_to_another_pool_of_its_cluster_moves() -> None:
    east = inference_cluster("east", pools={"default": 1, "spare": 1})
    east["status"]["gpuPools"][1]["devices"][0]["attributes"]["architecture"]["string"] = "Ada"
    chat = deployment("chat")
    ada = deployment("chat", selector='device.attributes["gpu.nvidia.com"].architecture == "Ada"')
    there = replica(chat, "east")
    (move,) = rehearse(Scene([east, chat, there]), Scene([east, ada, there])).moves
    assert (str(move.kind), move.source, move.target) == ("moved", "east/default", "east/spare")
    assert move.why == "moves from pool default to spare (its pods are replaced)"


def test_room_that_a_smaller_replica_gives_back_is_given_to_who_waits() -> None:
    east, large = inference_cluster("east", pools={"default": 2}), sized(2)
    there = replica(large, "east")
    there["spec"]["engines"][0]["copies"] = 2
    found = rehearse(Scene([east, large, there, AA]), Scene([east, sized(1), there, AA]))
    assert [(one.deployment, str(one.kind)) for one in found.moves] == [("ml/aa", "placed"), ("ml/chat", "resized")]
