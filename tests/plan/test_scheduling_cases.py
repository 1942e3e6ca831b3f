"""The published scheduling cases, each with its reason; where the reference has a fault, the right outcome."""

from __future__ import annotations

import itertools

import pytest

from modelplane.api.meta import Key
from modelplane.plan import Departure, Fleet, PlacementRequest, plan
from tests.plan.words import (
    GPU,
    INFINIBAND,
    ask,
    cluster,
    fleet,
    gang,
    gpu,
    memory,
    nic,
    places,
    pool,
    pools_of,
    replica,
    stamped,
    standalone,
    tainted,
    tolerating,
    want,
)

OTHER = Key("ml", "other")
A, B = cluster("a"), cluster("b")
FOUR = {name: cluster(name, pool("default", 4)) for name in "ab"}
ONE = {name: cluster(name, pool("default", 1)) for name in "ab"}


def claimless(
    leader_pool: str = "default", workers: int = 1
) -> tuple[tuple[str, str, int, tuple[tuple[str, int], ...]], ...]:
    return ("Leader", leader_pool, 1, ()), ("Worker", leader_pool, workers, ((GPU, 1),))


BIG_SMALL = (pool("small", 2, gpu("141Gi")), pool("big", 2, gpu("200Gi")))
NFS = tainted("m:NoSchedule")
NFE = tainted("m:NoExecute")
GANG = gang(1, (), [ask()])

CASES: list[tuple[str, Fleet, PlacementRequest, list[str], str]] = [
    ("P1", fleet(), want(), [], "no clusters, no place"),
    ("P2", fleet(A), want(), ["a/0"], "the only cluster takes it"),
    ("P3 ready", fleet(cluster("a", ready=False)), want(), [], "a cluster that is not Ready takes nothing"),
    ("P3 gateway", fleet(cluster("a", gateway="")), want(), [], "without a gateway nobody could call it"),
    ("P4", fleet(A), want(1, gang(3, [ask()], [ask()])), [], "a gang of four does not fit two nodes"),
    ("P5", fleet(A, B, replica("a/0")), want(), ["a/0"], "what is placed stays"),
    ("P6", fleet(cluster("a", ready=False, gateway=""), replica("a/0")), want(), ["a/0"], "a degraded cluster keeps its replicas"),
    ("P7", fleet(B, replica("a/0")), want(), ["b/0"], "a lost cluster loses its replicas"),
    ("P8", fleet(A, B, replica("a/0")), want(2), ["a/0", "b/0"], "spread before pack"),
    ("P9", fleet(ONE["a"], replica("a/0")), want(2), ["a/0"], "the one node is taken"),
    ("P10", fleet(A), want(2), ["a/0", "a/1"], "pack where there is no other cluster"),
    ("P11", fleet(A, B), want(2), ["a/0", "b/0"], "one each"),
    ("P12", fleet(FOUR["a"], FOUR["b"]), want(3), ["a/0", "a/1", "b/0"], "ties go by name"),
    ("P13", fleet(FOUR["a"], ONE["b"]), want(3), ["a/0", "a/1", "b/0"], "spread as far as it goes"),
    ("P14", fleet(FOUR["a"], FOUR["b"], replica("a/0")), want(2), ["a/0", "b/0"], "the fewest replicas of this deployment"),
    ("P15", fleet(FOUR["a"], replica("a/0"), replica("a/2")), want(3), ["a/0", "a/1", "a/2"], "the lowest unused index"),
    ("P16", fleet(FOUR["a"], FOUR["b"], replica("a/0"), replica("a/1"), replica("b/0")), want(2), ["a/0", "b/0"],
     "scale down where most are"),
    ("P17", fleet(FOUR["a"], FOUR["b"], replica("a/0"), replica("a/1"), replica("b/3")), want(2), ["a/0", "b/3"],
     "load beats index"),
    ("P18", fleet(A, B, replica("a/0"), replica("b/0")), want(1), ["a/0"], "the later name goes"),
    ("P19", fleet(cluster("c"), A, B), want(2), ["a/0", "b/0"], "input order does not matter"),
    ("P20", fleet(cluster("a", pool("default", 6)), replica("a/0", stamped("main", ("Leader", "default", 1, ((GPU, 1),)),
                                                                              ("Worker", "default", 1, ((GPU, 1),))))),
     want(2, gang(3, [ask()], [ask()])), ["a/0", "a/1"], "a replica is charged what it was stamped with"),
    ("P21", fleet(ONE["a"], replica("a/0", of=OTHER)), want(), [], "another deployment has the node"),
    ("P22", fleet(ONE["a"], replica("a/0")), want(), ["a/0"], "its own node is no obstacle"),
    ("P23", fleet(ONE["a"], replica("a/0", stamped(pool="gone"), of=OTHER)), want(), ["a/0"],
     "a pool that is not published is not charged"),
    ("P24", fleet(cluster("a", pool("x", 2), pool("y", 2)), replica("a/0", stamped(pool="y"), name="m-1"),
                  replica("a/0", stamped(pool="x"), name="m-2")), want(), ["a/0"], "one identity, one replica"),
    ("P25 none", fleet(A), want(fill=False), [], "nothing new while the cache is unknown"),
    ("P25 one", fleet(A, replica("a/0")), want(fill=False), ["a/0"], "and what is there stays"),
    ("P25 three", fleet(A, replica("a/0")), want(3, fill=False), ["a/0"], "and is not added to"),
    ("P26", fleet(A), want(1, standalone(ask(memory("200Gi")))), [], "no device is large enough"),
    ("P27 count", fleet(cluster("a", pool("default", 2, gpu(count=4)))), want(1, standalone(ask(count=8))), [],
     "four devices are not eight"),
    ("P27 zero", fleet(cluster("a", pool("default", 2, gpu(count=0)))), want(), [], "a count of zero is none"),
    ("P27 nodes", fleet(cluster("a", pool("default", 0))), want(), [], "a pool without nodes"),
    ("P28", fleet(cluster("a", pool("default", 2, gpu(), nic()))), want(1, standalone(ask(), ask(INFINIBAND, name="nic"))), ["a/0"],
     "a synthetic device is matched"),
    ("P29", fleet(A), want(1, standalone(ask(), ask(INFINIBAND, name="nic"))), [], "and has to be published"),
    ("P30 one", fleet(A), want(1, standalone(ask(), ask(name="second"))), [], "one device does not satisfy two requests"),
    ("P30 five", fleet(cluster("a", pool("default", 2, gpu(count=8)))),
     want(1, standalone(ask(count=5), ask(count=5, name="second"))), [], "nor eight two of five"),
    ("P31", fleet(cluster("a", pool("default", 2, gpu(count=8)))), want(1, standalone(ask(count=4), ask(count=4, name="second"))),
     ["a/0"], "two of four do fit"),
    ("P32", fleet(cluster("a", pool("dev", 2, gpu(), nic("tcpx")), pool("frontier", 2, gpu(), nic()))),
     want(1, standalone(ask(), ask(INFINIBAND, name="nic"))), ["a/0"], "the pool with the right fabric"),
    ("P33", fleet(cluster("a", pool("default", 2, nic()))), want(1, standalone(ask(INFINIBAND, name="nic"))), [],
     "an engine has to claim something"),
    ("P34", fleet(cluster("a", pool("x", 2, gpu("80Gi")), pool("y", 2)), replica("a/0", stamped(pool="x"))), want(), ["a/0"],
     "a selector that no longer fits its pool moves the replica to one that does"),
    ("P35", fleet(cluster("a", pool("x", 2), pool("y", 2)), replica("a/0", stamped(pool="y"))), want(), ["a/0"],
     "a pool that fits is kept, though another comes first"),
    ("P36", fleet(cluster("a", pool("x", 2, gpu("80Gi"))), replica("a/0", stamped(pool="x"))), want(), [], "nothing fits any more"),
    ("P37", fleet(A, replica("a/0", stamped(pool="gone"))), want(), ["a/0"], "a lost pool is left for one that is there"),
    ("P38", fleet(A, replica("a/0"), replica("a/1", stamped(pool="gone"))), want(2), ["a/0", "a/1"],
     "only the lost one is placed again"),
    ("P39", fleet(cluster("a", pool("x", 2, gpu(count=4)), pool("y", 2, gpu(count=8)))), want(1, standalone(ask(count=8))), ["a/0"],
     "the pool with enough devices"),
    ("P40", fleet(cluster("a", *BIG_SMALL)), want(1, gang(1, [ask()], [ask(memory("200Gi"))])), ["a/0"],
     "a gang is whole on the pool that satisfies both members"),
    ("P41", fleet(cluster("a", *BIG_SMALL)), want(1, gang(1, [ask(memory("200Gi"))], [ask(memory("200Gi", "<"))])), [],
     "and never split"),
    ("P42", fleet(ONE["a"]), want(1, gang(1, [ask()], [ask()])), [], "a gang of two needs two nodes"),
    ("P43", fleet(ONE["a"], B), want(1, gang(1, [ask()], [ask()])), ["b/0"], "which the other cluster has"),
    ("P44", fleet(cluster("a", pool("x", 2, gpu("200Gi", claim="Synthetic"), gpu(name="small")), pool("y", 2, gpu("200Gi")))),
     want(1, gang(1, [ask(memory("200Gi"))], [ask()])), ["a/0"], "a member that can claim is not stranded on a synthetic device"),
    ("P45", fleet(cluster("a", pool("default", 2, gpu(), nic()))),
     want(1, gang(1, [ask(INFINIBAND, name="nic")], [ask()])), ["a/0"],
     "a leader that can claim nowhere may go without"),
    ("P46", fleet(A), want(1, gang(1, [ask()], [ask(memory("200Gi"))])), [], "the worker fits nowhere"),
    ("P47", fleet(ONE["a"]), want(1, GANG), ["a/0"], "a claimless leader costs no node"),
    ("P48", fleet(A, replica("a/0", stamped("main", *claimless()))), want(1, GANG), ["a/0"], "and is kept"),
    ("P49", fleet(A, replica("a/0", stamped("main", *claimless()), of=OTHER)), want(), ["a/0"], "and is not charged for others"),
    ("P50", fleet(A, replica("a/0")), want(1, gang(1, [ask()], [ask()])), ["a/0"], "a new shape in the old slot"),
    ("P51", fleet(cluster("a", taints=NFS), B), want(), ["b/0"], "NoSchedule repels"),
    ("P52", fleet(cluster("a", taints=NFS), B, replica("a/0")), want(), ["a/0"], "and does not evict"),
    ("P53", fleet(cluster("a", taints=NFS), B), want(tolerations=tolerating(("m", "Exists", "", ""))), ["a/0"], "tolerated"),
    ("P54", fleet(cluster("a", taints=NFE), B, replica("a/0")), want(), ["b/0"], "NoExecute evicts"),
    ("P55", fleet(cluster("a", taints=NFE), B, replica("a/0")), want(tolerations=tolerating(("m", "Exists", "", ""))), ["a/0"],
     "unless tolerated"),
    ("P56", fleet(cluster("a", taints=NFE), replica("a/0")), want(), [], "also when there is nowhere to go"),
    ("P57", fleet(cluster("a", taints=NFE), B, replica("a/0")), want(tolerations=tolerating(("m", "Exists", "", "NoSchedule"))),
     ["b/0"], "a toleration for another effect does not help"),
    ("P58", fleet(cluster("a", taints=tainted("m:NoSchedule", "n:NoSchedule")), B),
     want(tolerations=tolerating(("m", "Exists", "", ""))), ["b/0"], "every taint has to be tolerated"),
    ("P59 right", fleet(cluster("a", taints=tainted("m=v:NoSchedule"))),
     want(tolerations=tolerating(("m", "Equal", "v", ""))), ["a/0"],
     "Equal compares the value"),
    ("P59 wrong", fleet(cluster("a", taints=tainted("m=v:NoSchedule"))), want(tolerations=tolerating(("m", "Equal", "w", ""))), [],
     "and refuses another"),
    ("P60", fleet(cluster("a", taints=tainted("m:NoSchedule", "n=1:NoExecute"))),
     want(tolerations=tolerating(("", "Exists", "", ""))),
     ["a/0"], "Exists without a key is for all"),
    ("P61", fleet(A, B, replica("a/0", of=Key("other-team", "m"))), want(), ["a/0"],
     "a replica of the same name in another namespace is another deployment's: it is charged and not taken as our own"),
    ("P61 charged", fleet(ONE["a"], B, replica("a/0", of=Key("other-team", "m"))), want(), ["b/0"], "its node is taken"),
    ("P62", fleet(cluster("a", ready=False), B, replica("a/0"), replica("b/0", ready=True)), want(), ["b/0"],
     "scaling down keeps the replica that serves"),
    ("P63", fleet(cluster("a", pool("big", 1, gpu("200Gi")), pool("small", 1))),
     want(1, standalone(), standalone(ask(memory("200Gi")), name="second")), ["a/0"],
     "the search finds pools for both engines"),
    ("P63 reversed", fleet(cluster("a", pool("small", 1), pool("big", 1, gpu("200Gi")))),
     want(1, standalone(), standalone(ask(memory("200Gi")), name="second")), ["a/0"], "in either order"),
    ("P64", fleet(cluster("a", pool("default", 1, gpu("200Gi"), gpu("141Gi", name="second")))),
     want(1, standalone(ask(), ask(memory("200Gi"), name="second"))), ["a/0"], "an early broad request leaves the large device"),
    ("P65", fleet(cluster("a", pool("default", 1, gpu("200Gi"), gpu("141Gi", name="second")))),
     want(1, standalone(ask(count=2))), ["a/0"],
     "a request may take devices of two entries"),
    ("P66", fleet(cluster("cluster-2"), cluster("cluster-10")), want(), ["cluster-10/0"], "names are compared as text"),
    ("P67", fleet(ONE["a"], replica("a/0")), want(1, standalone(copies=3)), ["a/0"], "more copies move nothing"),
    ("P68", fleet(cluster("a", pool("default", 0)), replica("a/0")), want(), ["a/0"], "a pool of no nodes keeps what it has"),
    ("P69", fleet(A, B, replica("b/0", stamped("old"))), want(), ["a/0"], "a new shape is placed anew"),
    ("P70", fleet(cluster("a", pool("default", 1, gpu(count=8)))), want(2), ["a/0"], "a declared node goes whole"),
    ("P71", fleet(cluster("a", pool("default", 1), pool("second", 1)), replica("a/0", of=OTHER)), want(), ["a/0"],
     "the second pool where the first is full"),
    ("P73 copies", fleet(cluster("a", pool("default", 7))), want(1, gang(3, [ask()], [ask()], copies=2)), [],
     "eight nodes are not seven"),
    ("P73 fits", fleet(cluster("a", pool("default", 4))), want(1, gang(3, [ask()], [ask()])), ["a/0"], "four are four"),
    ("P74", fleet(cluster("a", pool("default", 2, gpu(), nic()))), want(1, standalone(ask(), ask(INFINIBAND, 2, "nic"))), [],
     "synthetic counts are counted too"),
    ("P75", fleet(cluster("a", taints=NFE), B, replica("a/0")), want(fill=False), [],
     "evicted, and not replaced while fill is off"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "world", "request_", "expected", "reason"), CASES, ids=[case[0] for case in CASES])
def test_replicas_go_where_the_case_says(
    name: str, world: Fleet, request_: PlacementRequest, expected: list[str], reason: str
) -> None:
    found = plan(world, request_)
    assert places(found) == expected, reason
    assert found.missing == max(0, request_.replicas - len(expected))


@pytest.mark.parametrize(
    ("case", "expected", "reason"),
    [
        ("P24", ["y"], "the pool of the smaller object name"),
        ("P32", ["frontier"], "infiniband is there"),
        ("P34", ["y"], "the selector fits y alone"),
        ("P35", ["y"], "it stays where it is"),
        ("P37", ["default"], "the pool that is published"),
        ("P39", ["y"], "eight devices per node"),
        ("P40", ["big", "big"], "both members"),
        ("P44", ["y", "y"], "where the leader can claim"),
        ("P63", ["small", "big"], "the broad engine leaves the big pool"),
        ("P71", ["second"], "the first is full"),
    ],
)
def test_the_pool_is_the_one_that_the_case_says(case: str, expected: list[str], reason: str) -> None:
    (world, request) = next((entry[1], entry[2]) for entry in CASES if entry[0] == case)
    assert pools_of(plan(world, request)) == expected, reason


def test_only_claimed_devices_become_requests() -> None:
    world = fleet(cluster("a", pool("default", 2, gpu(), nic())))
    (placement,) = plan(world, want(1, standalone(ask(), ask(INFINIBAND, name="nic")))).placements
    (member,) = placement.engines[0].members
    assert member.requests is not None
    assert [(one.name, one.device_class, one.count) for one in member.requests] == [("gpu", GPU, 1)]
    assert member.requests[0].selectors == (memory("141Gi"),)


def test_copies_that_do_not_fit_are_said_and_move_nothing() -> None:
    found = plan(fleet(ONE["a"], replica("a/0")), want(1, standalone(copies=3)))
    assert (found.condition().status, found.condition().reason) == ("False", "PartiallyScheduled")
    assert "engine main now needs 3 nodes of pool default on a, where 1 fit" in found.summary()


def test_removals_say_why() -> None:
    drained = plan(fleet(cluster("a", taints=NFE), B, replica("a/0")), want())
    assert [(one.reason, one.message) for one in drained.removed] == [
        (Departure.EVICTED, "cluster a has taint m:NoExecute")
    ]
    lost = plan(fleet(B, replica("a/0")), want())
    assert [one.reason for one in lost.removed] == [Departure.CLUSTER_GONE]
    down = plan(fleet(A, B, replica("a/0"), replica("b/0")), want(1))
    assert [(one.cluster, one.reason) for one in down.removed] == [("b", Departure.SCALED_DOWN)]


def _shuffled(world: Fleet) -> list[Fleet]:
    clusters, replicas = list(world.clusters.values()), list(world.replicas)
    return [
        Fleet.of(order, reversed(replicas) if index % 2 else replicas)
        for index, order in enumerate(itertools.islice(itertools.permutations(clusters), 6))
    ]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_order_of_clusters_and_replicas_makes_no_difference(
    case: tuple[str, Fleet, PlacementRequest, list[str], str],
) -> None:
    _, world, request, _, reason = case
    expected = plan(world, request, explain=True)
    for shuffled in _shuffled(world):
        assert plan(shuffled, request, explain=True) == expected, reason


FRESH = [
    case
    for case in CASES
    if case[2].fill and not any(one.deployment == "m" and one.key.namespace == "ml" for one in case[1].replicas)
]


@pytest.mark.parametrize("case", FRESH, ids=[case[0] for case in FRESH])
def test_planning_again_moves_nothing(case: tuple[str, Fleet, PlacementRequest, list[str], str]) -> None:
    _, world, request, _, reason = case
    first = plan(world, request)
    again = plan(world.assuming(first.assumed()), request)
    assert places(again) == places(first), reason
    assert pools_of(again) == pools_of(first), reason
