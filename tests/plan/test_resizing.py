"""A deployment that became larger than its replicas' room: they grow, move, or are said to be short, and serve on meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Code, Departure, Fleet, PlacementRequest, Plan, Replica, State, plan
from modelplane.plan.explanation import explain
from modelplane.plan.fleet import Picture
from tests.plan.words import (
    GPU,
    NIC,
    ask,
    cluster,
    fleet,
    gang,
    gpu,
    nic,
    places,
    pool,
    replica,
    stamped,
    standalone,
    tainted,
    want,
)

PAIR = want(1, gang(1, [ask()], [ask()]))
FOUR = want(1, gang(3, [ask()], [ask()]))
OTHER = Key("ml", "other")
SEEN = "2026-11-29T11:00:00Z"


def pair(
    place: str, pool: str = "default", *, of: PlacementRequest = PAIR, workers: int = 1, **more: object
) -> Replica:
    members = ("Leader", pool, 1, ((GPU, 1),)), ("Worker", pool, workers, ((GPU, 1),))
    return replica(place, stamped("main", *members), constraints=of.constraints(), **({"ready": True} | more))


def sizes(found: Plan) -> list[tuple[str, str, int]]:
    """Cluster, state, and pods of each placement."""
    return [
        (one.cluster, str(one.state), sum(m.pods * e.copies for e in one.engines for m in e.members))
        for one in found.placements
    ]


def settled(world: Fleet, request: PlacementRequest) -> Plan:
    """The plan, after a second one that has to be the same while the first is not carried out."""
    found = plan(world, request)
    assert plan(world.assuming(found.assumed()), request).placements == found.placements
    return found


def test_a_gang_grows_where_there_is_room() -> None:
    found = settled(fleet(cluster("a", pool("default", 4)), pair("a/0")), FOUR)
    assert sizes(found) == [("a", "Retained", 4)]
    assert found.condition().status == "True"


def test_a_gang_that_outgrew_its_pool_keeps_serving_and_is_said_to_be_short() -> None:
    found = settled(fleet(cluster("a", pool("default", 2)), pair("a/0")), FOUR)
    assert sizes(found) == [("a", "Held", 2)]
    (held,) = found.placements
    assert held.engines[0].members[0].requests is None, "its requests are left as they are"
    assert (found.placed, found.missing, found.held, found.complete) == (1, 0, 1, False)
    assert (found.condition().status, found.condition().reason) == ("False", "PartiallyScheduled")
    assert found.summary() == (
        "1 of 1 replicas placed, 1 of them at an earlier size: a GangTooLarge (engine main needs 4 nodes in one pool, the "
        f"largest has 2); replica {held.name} stays as it is: engine main now needs 4 nodes of pool default on a, where 2 fit."
    )
    assert [(one.code, one.short) for one in found.verdicts] == [(Code.GANG_TOO_LARGE, 2)]


def test_a_gang_that_outgrew_its_cluster_is_replaced_where_it_fits() -> None:
    world = fleet(cluster("a", pool("default", 2)), cluster("b", pool("default", 4)), pair("a/0"))
    found = settled(world, FOUR)
    assert sizes(found) == [("a", "Leaving", 2), ("b", "Placed", 4)]
    assert found.condition().status == "True"
    assert "now needs 4 nodes of pool default on a, where 2 fit" in found.placements[0].message
    starting = fleet(*world.clusters.values(), pair("a/0"), pair("b/0", workers=3, ready=False))
    assert sizes(settled(starting, FOUR)) == [("a", "Leaving", 2), ("b", "Retained", 4)]
    last = plan(fleet(*world.clusters.values(), pair("a/0"), pair("b/0", workers=3)), FOUR)
    assert sizes(last) == [("b", "Retained", 4)]
    assert [(one.cluster, one.reason) for one in last.removed] == [("a", Departure.OUTGROWN)]


def test_a_scale_down_of_replicas_that_all_outgrew_their_room_keeps_the_better_one() -> None:
    world = cluster("a", pool("default", 2)), cluster("b", pool("default", 2))
    found = plan(fleet(*world, pair("a/0"), pair("b/0")), FOUR)
    assert sizes(found) == [("a", "Held", 2)]
    starting = plan(fleet(*world, pair("a/0", ready=False), pair("b/0")), FOUR)
    assert sizes(starting) == [("b", "Held", 2)]
    roomy = plan(fleet(world[0], cluster("b", pool("default", 4)), pair("a/0"), pair("b/0")), FOUR)
    assert sizes(roomy) == [("b", "Retained", 4)], "the one that can grow"


def test_a_gang_that_outgrew_its_pool_moves_to_another_of_the_cluster_in_its_own_slot() -> None:
    found = settled(fleet(cluster("a", pool("default", 2), pool("large", 4)), pair("a/0")), FOUR)
    assert places(found) == ["a/0"]
    assert {member.pool for member in found.placements[0].engines[0].members} == {"large"}
    assert found.placements[0].name == pair("a/0").key.name


def test_nodes_that_may_come_are_room_to_grow() -> None:
    found = settled(fleet(cluster("a", pool("default", 2, grow=2)), pair("a/0")), FOUR)
    assert sizes(found) == [("a", "Retained", 4)]


def test_a_smaller_deployment_is_never_held() -> None:
    shrunk = fleet(cluster("a", pool("default", 0)), pair("a/0", workers=3))
    assert sizes(plan(shrunk, PAIR)) == [("a", "Retained", 2)]


def test_what_is_missing_is_placed_before_replicas_grow() -> None:
    # Each is charged what it has: two nodes, and four for the new one.
    found = plan(fleet(cluster("a", pool("default", 6)), pair("a/0")), want(2, *FOUR.engines))
    assert sizes(found) == [("a", "Held", 2), ("a", "Placed", 4)]
    assert found.condition().reason == "PartiallyScheduled"


def test_of_two_that_grow_the_first_gets_the_room() -> None:
    world = fleet(cluster("a", pool("default", 6)), pair("a/1"), pair("a/0"))
    found = settled(world, want(2, *FOUR.engines))
    assert sizes(found) == [("a", "Retained", 4), ("a", "Held", 2)]
    assert sizes(
        settled(fleet(cluster("a", pool("default", 8)), pair("a/1"), pair("a/0")), want(2, *FOUR.engines))
    ) == [
        ("a", "Retained", 4),
        ("a", "Retained", 4),
    ]


def test_room_that_was_given_to_one_that_grows_is_not_given_again() -> None:
    world = fleet(cluster("a", pool("default", 4)), pair("a/0"))
    found = plan(world, FOUR)
    promised = world.assuming(found.assumed())
    assert plan(promised, want(1, key=OTHER)).placed == 0
    assert plan(world, want(1, key=OTHER)).placed == 1, "as it would be were nothing promised"
    # Nor is the pool that a replica is just leaving for another one in its own slot.
    moving = fleet(cluster("a", pool("default", 2), pool("large", 4)), pair("a/0"))
    moved = moving.assuming(plan(moving, FOUR).assumed())
    larger = want(1, *FOUR.engines, key=OTHER)
    assert plan(moved, larger).placed == 0
    assert plan(moving, larger).placed == 1


def test_a_promise_to_one_that_exists_can_be_taken_back() -> None:
    picture = Picture()
    picture.put(cluster("a", pool("default", 4)))
    picture.show(pair("a/0"))
    picture.build()
    picture.promise(pair("a/0", workers=3, assumed=True))
    assert picture.fleet.room("a").pools["default"].nodes == 0
    picture.withdraw(pair("a/0").key)
    picture.withdraw(pair("a/0").key)
    assert picture.fleet.room("a").pools["default"].nodes == 2
    assert picture.fleet.replicas == (pair("a/0"),)
    picture.promise(pair("a/0", assumed=True))
    assert picture.fleet.replicas == (pair("a/0"),), "there is nothing to promise"
    picture.withdraw(Key("ml", "nobody"))


def test_one_that_is_only_promised_and_outgrew_its_room_is_not_made() -> None:
    promised = pair("a/0", ready=False, assumed=True)
    found = plan(fleet(cluster("a", pool("default", 2)), promised), FOUR)
    assert places(found) == []
    assert [one.reason for one in found.removed] == [Departure.OUTGROWN]
    assert found.condition().reason == "InsufficientCapacity"
    larger = plan(fleet(cluster("a", pool("default", 4)), promised), FOUR)
    assert sizes(larger) == [("a", "Placed", 4)]


@pytest.mark.parametrize(
    ("there", "elsewhere", "reason"),
    [
        ({"taints": tainted("m:NoSchedule")}, {"taints": tainted("m:NoSchedule")}, "a taint repels new replicas"),
        ({"ready": False}, {"ready": False}, "nothing new goes to a cluster that is not Ready"),
    ],
)
def test_a_replica_grows_on_its_pool_whatever_keeps_new_ones_away(
    there: dict[str, object], elsewhere: dict[str, object], reason: str
) -> None:
    roomy = fleet(cluster("a", pool("default", 4), **there), pair("a/0"))
    assert sizes(settled(roomy, FOUR)) == [("a", "Retained", 4)], reason
    tight = cluster("a", pool("default", 2), pool("large", 4), **there), cluster("b", pool("default", 4), **elsewhere)
    assert sizes(settled(fleet(*tight, pair("a/0")), FOUR)) == [("a", "Held", 2)], reason


def test_while_the_cache_is_unknown_a_replica_grows_in_place_and_moves_nowhere() -> None:
    held_back = msgspec.structs.replace(FOUR, fill=False)
    roomy = cluster("b", pool("default", 4))
    assert sizes(settled(fleet(cluster("a", pool("default", 4)), pair("a/0")), held_back)) == [("a", "Retained", 4)]
    found = settled(fleet(cluster("a", pool("default", 2)), roomy, pair("a/0")), held_back)
    assert sizes(found) == [("a", "Held", 2)]
    assert "new replicas wait for the ModelCache" in found.summary()


def test_on_a_pool_that_is_not_published_now_nothing_grows() -> None:
    flickering = Cluster(name="a", gateway="10.0.0.1", declared_pools=frozenset({"default"}))
    found = settled(fleet(flickering, pair("a/0")), FOUR)
    assert sizes(found) == [("a", "Held", 2)]
    assert "engine main became larger, and a does not publish pool default now" in found.summary()
    assert sizes(plan(fleet(flickering, pair("a/0")), PAIR)) == [("a", "Retained", 2)]


def test_a_class_that_changed_does_not_hide_that_the_deployment_became_larger() -> None:
    # Its requests no longer match the pool and stay as they were stamped; they are counted all the same.
    small = gpu("80Gi")
    grown = settled(fleet(cluster("a", pool("default", 4, small)), pair("a/0", of=FOUR)), FOUR)
    assert sizes(grown) == [("a", "Retained", 4)]
    held = settled(fleet(cluster("a", pool("default", 2, small)), pair("a/0", of=FOUR)), FOUR)
    assert sizes(held) == [("a", "Held", 2)]


def test_copies_and_several_engines_are_counted_together() -> None:
    both = [standalone(name="x", copies=2), standalone(name="y", copies=2)]
    has = [stamped("x"), stamped("y")]
    held = settled(fleet(cluster("a", pool("default", 3)), replica("a/0", *has, ready=True)), want(1, *both))
    assert "engine y now needs 2 nodes of pool default on a, where 1 fit" in held.placements[0].message
    grown = settled(fleet(cluster("a", pool("default", 4)), replica("a/0", *has, ready=True)), want(1, *both))
    assert sizes(grown) == [("a", "Retained", 4)]


# --- pools whose devices are observed ------------------------------------------------------------------------------

EIGHT = gpu(count=8)


def single(place: str, count: int, *, cls: str = GPU, **more: object) -> Replica:
    one = stamped("main", ("Standalone", "default", 1, ((cls, count),)))
    return replica(place, one, **({"ready": True, "ready_since": SEEN} | more))


def observed(*free: tuple[int, int], grow: int = 0) -> Cluster:
    return cluster("a", pool("default", 0, EIGHT, free=[({GPU: amount}, nodes) for amount, nodes in free], grow=grow))


@pytest.mark.parametrize(
    ("world", "count", "state", "reason"),
    [
        (fleet(observed((4, 1)), single("a/0", 4)), 8, "Retained", "the one node has its four and four that are free"),
        (fleet(observed((3, 1)), single("a/0", 4)), 8, "Held", "somebody else has a device of the one node"),
        (fleet(observed((8, 1)), single("a/0", 4, ready=False)), 8, "Retained", "its four are still among the free ones"),
        (fleet(observed((4, 1), (2, 1)), single("a/0", 4)), 8, "Held", "nobody knows whether it is on the node with four free"),
        (fleet(observed((4, 1), (8, 1)), single("a/0", 4)), 8, "Retained", "the empty node takes it wherever it was"),
        (fleet(observed((0, 2)), single("a/0", 8)), 4, "Retained", "fewer devices on one node always fit"),
        (fleet(observed((4, 1)), single("a/0", 4), single("a/1", 4, ready=False, of=OTHER)), 8, "Held",
         "what is free is promised to another"),
        (fleet(observed((0, 1), grow=1), single("a/0", 4)), 8, "Retained", "a node may come"),
    ],
)  # fmt: skip
def test_a_pod_that_needs_more_devices_counts_its_own(world: Fleet, count: int, state: str, reason: str) -> None:
    found = settled(world, want(1, standalone(ask(count=count))))
    assert [(one.cluster, str(one.state)) for one in found.placements] == [("a", state)], reason


def test_the_message_counts_pods_where_devices_are_observed() -> None:
    found = plan(fleet(observed((2, 1)), single("a/0", 4)), want(1, standalone(ask(count=8))))
    assert "engine main now needs 1 pod of pool default on a, where 0 fit" in found.placements[0].message
    two = plan(fleet(observed((0, 1)), single("a/0", 8)), want(1, standalone(ask(count=8), copies=2)))
    assert "engine main now needs 2 pods of pool default on a, where 1 fit" in two.placements[0].message


def test_another_class_of_device_is_another_need() -> None:
    node = cluster("a", pool("default", 0, nic(claim="DRA"), free=[({NIC: 0}, 1)]))
    link = f'device.driver == "{NIC}"'
    found = plan(fleet(node, single("a/0", 1)), want(1, standalone(ask(link))))
    assert [one.state for one in found.placements] == [State.HELD]


def test_two_pods_that_need_less_together_may_still_not_fit_one_node() -> None:
    # Two pods of four each were on nodes of their own; one pod of eight needs a whole node.
    halves = stamped("main", ("Standalone", "default", 1, ((GPU, 4),)), copies=2)
    world = fleet(observed((1, 2)), replica("a/0", halves, ready=True, ready_since=SEEN))
    assert [one.state for one in plan(world, want(1, standalone(ask(count=8)))).placements] == [State.HELD]


def test_a_replacement_in_the_slot_may_have_the_devices_of_what_it_replaces() -> None:
    # The observation counts them as taken, since the replica serves; it leaves when the replacement comes.
    old = single("a/0", 8, constraints="of another time")
    found = plan(fleet(observed((0, 1)), old), want(1, standalone(ask(count=8), name="renamed")))
    assert places(found) == ["a/0"]
    assert found.placements[0].state is State.NEW


def test_room_promised_to_one_that_grows_counts_in_an_observed_pool() -> None:
    world = fleet(observed((4, 1)), single("a/0", 2))
    found = plan(world, want(1, standalone(ask(count=4))))
    assert [one.grown for one in found.placements] == [True]
    promised = world.assuming(found.assumed())
    assert plan(promised, want(1, standalone(ask(count=3)), key=OTHER)).placed == 0
    assert plan(promised, want(1, standalone(ask(count=2)), key=OTHER)).placed == 1


# --- pools that shrink ---------------------------------------------------------------------------------------------


def test_a_pool_that_lost_the_nodes_of_a_replica_that_does_not_serve_is_said() -> None:
    world = fleet(cluster("a", pool("default", 1)), replica("a/0", ready=True), replica("a/1"))
    found = plan(world, want(2))
    assert places(found) == ["a/0", "a/1"]
    assert (found.crowded, found.complete) == (1, False)
    assert (found.condition().status, found.condition().reason) == ("False", "PartiallyScheduled")
    assert found.summary() == (
        f"2 of 2 replicas placed, 1 of them without room; replica {found.placements[1].name} stays on a without room: "
        "pool default has 1 node, and replicas take 2."
    )


def test_a_pool_that_lost_nodes_under_replicas_that_serve_is_no_shortfall() -> None:
    world = fleet(cluster("a", pool("default", 1)), replica("a/0", ready=True), replica("a/1", ready=True))
    assert plan(world, want(2)).condition().status == "True"
    starting = fleet(cluster("a", pool("default", 1, grow=1)), replica("a/0"), replica("a/1"))
    assert plan(starting, want(2)).condition().status == "True", "they wait for a node that may come"


# --- what would help -----------------------------------------------------------------------------------------------


def test_the_smallest_change_for_one_that_outgrew_its_pool_counts_what_it_has() -> None:
    account = explain(fleet(cluster("a", pool("default", 2)), pair("a/0", message="fits pool default")), FOUR)
    assert account.nearest is not None
    assert [change.text for change in account.nearest.changes] == ["add 2 nodes to pool default"]
    assert [(one.state, one.note) for one in account.seats] == [
        ("Held", "engine main now needs 4 nodes of pool default on a, where 2 fit")
    ]
    assert account.nearest.lets == f"{account.seats[0].replica} take its new size", "nothing is missing"
    grown = explain(fleet(cluster("a", pool("default", 4)), pair("a/0")), FOUR)
    assert grown.nearest is None


def test_where_one_is_missing_besides_the_change_lets_a_further_one_fit() -> None:
    three = want(2, gang(2, [ask()], [ask()]))
    account = explain(fleet(cluster("a", pool("default", 2)), pair("a/0")), three)
    assert (account.plan.missing, account.plan.held) == (1, 1)
    assert account.nearest is not None
    (step,) = account.nearest.changes
    assert (step.text, account.nearest.lets) == ("add 3 nodes to pool default", "one more replica fit")
    for more, missing in ((step.amount - 1, 1), (step.amount, 0)):
        assert plan(fleet(cluster("a", pool("default", 2 + more)), pair("a/0")), three).missing == missing
    assert [verdict.short for verdict in account.plan.verdicts] == [3], "the verdict counts the same"


def test_the_figures_of_a_held_one_say_that_its_own_nodes_count_as_free() -> None:
    other = replica("a/0", stamped(), of=OTHER)
    found = plan(fleet(cluster("a", pool("default", 4)), pair("a/0"), other), FOUR)
    (held,) = found.placements
    assert [verdict.message for verdict in found.verdicts] == [
        "engine main needs 4 nodes of pool default, 3 of 4 free, cannot grow; what " + held.name + " has counts as free"
    ]


def test_the_figures_of_each_held_one_name_the_one_of_their_own_cluster() -> None:
    two, others = want(2, *FOUR.engines), (replica(place, stamped(), of=OTHER) for place in ("a/0", "b/0"))
    clusters = (cluster(name, pool("default", 4)) for name in "ab")
    found = plan(fleet(*clusters, *others, pair("a/0"), pair("b/0")), two)
    assert [(one.cluster, one.state) for one in found.placements] == [("a", State.HELD), ("b", State.HELD)]
    for held, verdict in zip(found.placements, found.verdicts, strict=True):
        assert verdict.cluster == held.cluster
        assert verdict.message.endswith(f"; what {held.name} has counts as free")


def test_what_grows_finds_the_nodes_of_every_engine_taken_that_was_placed_before_it() -> None:
    engines = standalone(name="x"), standalone(name="y", copies=2)
    there = replica("a/0", stamped("x"), stamped("y"), ready=True, constraints=want(1, *engines).constraints())
    for nodes, state in ((5, "Held"), (6, "Retained")):
        found = settled(fleet(cluster("a", pool("default", nodes)), there), want(2, *engines))
        assert [str(one.state) for one in found.placements] == [state, "Placed"], f"three nodes each, of {nodes}"


def test_a_held_one_on_a_tainted_cluster_needs_room_alone() -> None:
    world = fleet(
        cluster("a", pool("default", 2), taints=tainted("k=v:NoSchedule")),
        cluster("b", pool("default", 0)),
        pair("a/0"),
    )
    account = explain(world, FOUR)
    assert account.nearest is not None
    assert account.nearest.verdict.cluster == "a"
    assert [change.text for change in account.nearest.changes] == ["add 2 nodes to pool default"]
    assert {one.lets for one in account.refusals} == {f"{account.seats[0].replica} take its new size"}


def test_room_for_one_that_only_lacks_nodes_is_no_matter_of_a_further_replica() -> None:
    world = fleet(
        cluster("a", pool("default", 1)), cluster("b", pool("default", 0)), replica("a/0", ready=True), replica("a/1")
    )
    account = explain(world, want(2))
    assert (account.plan.crowded, account.plan.complete) == (1, False)
    assert account.nearest is None
