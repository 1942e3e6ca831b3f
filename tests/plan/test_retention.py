"""What stays, what goes, and what leaves only once it is replaced."""

from __future__ import annotations

import json

import pytest

from modelplane.api.meta import Key
from modelplane.plan import Departure, PlacementRequest, Replica, State, plan
from modelplane.plan.fleet import Cluster
from modelplane.plan.outcome import PlacedEngine, PlacedMember
from tests.plan.words import (
    GPU,
    ask,
    cluster,
    fleet,
    gpu,
    memory,
    places,
    pool,
    replica,
    stamped,
    standalone,
    tainted,
    want,
)

PROD = {"tier": "prod"}


def under(request: PlacementRequest, place: str, pool: str = "default", **more: object) -> Replica:
    """A replica that was placed under this request's constraints."""
    return replica(place, stamped(pool=pool), constraints=request.constraints(), **more)


def test_a_label_that_changed_under_a_replica_moves_nothing_and_is_said() -> None:
    request = want(selector=PROD)
    world = fleet(cluster("a", labels={"tier": "dev"}), cluster("b", labels={"tier": "prod"}), under(request, "a/0"))
    found = plan(world, request)
    assert places(found) == ["a/0"]
    assert found.notes == (
        f"replica {found.placements[0].name} stays on a, which the cluster selector no longer matches",
    )
    assert "no longer matches" in found.condition().message


def test_a_class_that_changed_under_a_replica_moves_nothing_and_is_said() -> None:
    request = want()
    world = fleet(cluster("a", pool("default", 2, gpu("80Gi"))), cluster("b"), under(request, "a/0"))
    found = plan(world, request)
    assert places(found) == ["a/0"]
    assert "though engine main: its requests no longer match pool default" in found.notes[0]
    # Its requests are left as they are, since nothing on the pool would resolve them.
    assert found.placements[0].engines[0].members[0].requests is None


def test_a_pool_that_is_not_published_now_keeps_its_replicas() -> None:
    request = want()
    flickering = Cluster(name="a", gateway="10.0.0.1", declared_pools=frozenset({"default"}))
    found = plan(fleet(flickering, cluster("b"), under(request, "a/0")), request)
    assert places(found) == ["a/0"]
    assert found.placements[0].engines == (PlacedEngine("main", 1, (PlacedMember("Standalone", "default", 1, None),)),)
    assert found.notes == (), "it cannot be judged now, and nothing is wrong with it"


def test_a_pool_that_left_the_spec_is_lost() -> None:
    request = want()
    found = plan(fleet(cluster("a"), under(request, "a/0", pool="gone")), request)
    assert places(found) == ["a/0"]
    assert [one.reason for one in found.removed] == [Departure.POOL_GONE]
    assert found.placements[0].state is State.NEW


def test_the_deployments_own_change_moves_what_no_longer_matches_replacement_first() -> None:
    before, now = want(), want(selector=PROD)
    a, b = cluster("a", labels={"tier": "dev"}), cluster("b", labels={"tier": "prod"})
    serving = under(before, "a/0", ready=True)
    first = plan(fleet(a, b, serving), now)
    assert places(first) == ["a/0!", "b/0"]
    assert (first.placed, first.missing) == (1, 0)
    starting = under(now, "b/0")
    assert places(plan(fleet(a, b, serving, starting), now)) == ["a/0!", "b/0"]
    replaced = under(now, "b/0", ready=True)
    last = plan(fleet(a, b, serving, replaced), now)
    assert places(last) == ["b/0"]
    assert [(one.cluster, one.reason) for one in last.removed] == [("a", Departure.NO_LONGER_MATCHES)]


def test_what_leaves_and_does_not_serve_is_not_kept() -> None:
    before, now = want(), want(selector=PROD)
    world = fleet(cluster("a"), cluster("b", labels={"tier": "prod"}), under(before, "a/0"))
    assert places(plan(world, now)) == ["b/0"]


def test_what_serves_is_not_torn_down_while_its_replacement_has_no_place() -> None:
    before, now = want(), want(selector=PROD)
    found = plan(fleet(cluster("a"), under(before, "a/0", ready=True)), now)
    assert (places(found), found.placed, found.missing) == (["a/0!"], 0, 1)
    assert found.condition().reason == "NoClusters"
    assert f"replica {found.placements[0].name} serves on a until it is replaced" in found.summary()
    assert places(plan(fleet(cluster("a"), under(before, "a/0")), now)) == [], "one that does not serve is of no use"
    held_back = plan(fleet(cluster("a"), under(before, "a/0", ready=True)), want(selector=PROD, fill=False))
    assert places(held_back) == ["a/0!"], "nor while nothing new may be placed"


def test_no_more_of_those_that_leave_are_kept_than_the_deployment_asks_for() -> None:
    before, now = want(2), want(1, selector=PROD)
    serving = [under(before, f"a/{index}", ready=True) for index in range(2)]
    assert places(plan(fleet(cluster("a"), *serving), now)) == ["a/0!"]
    assert places(plan(fleet(cluster("a"), *serving), want(0, selector=PROD))) == []


def test_a_move_within_the_cluster_keeps_the_name() -> None:
    before, now = want(), want(1, standalone(ask(memory("200Gi"))))
    world = fleet(cluster("a", pool("default", 1), pool("big", 1, gpu("200Gi"))), under(before, "a/0", ready=True))
    (moved,) = plan(world, now).placements
    assert (moved.name, moved.state) == (world.replicas[0].key.name, State.NEW)
    assert moved.engines[0].members[0].pool == "big"


def test_a_move_within_the_cluster_may_use_the_room_of_others_that_leave_too() -> None:
    before, now = want(2, standalone(ask(count=4))), want(1, standalone(ask(memory("141Gi", "=="), 8), name="other"))
    node = pool("default", 0, gpu(count=8), free=[({GPU: 8}, 1)])
    half = stamped("main", ("Standalone", "default", 1, ((GPU, 4),)))
    halves = [replica(f"a/{index}", half, constraints=before.constraints(), ready=True) for index in range(2)]
    found = plan(fleet(cluster("a", node), *halves), now)
    assert places(found) == ["a/0"]
    assert [(one.index, one.reason) for one in found.removed] == [(1, Departure.SHAPE_CHANGED)]


def test_copies_and_replicas_are_no_constraints() -> None:
    assert want(1).constraints() == want(5, standalone(copies=3)).constraints()
    assert want(1).constraints() != want(1, standalone(ask(count=2))).constraints()


def test_scaling_down_drops_first_what_is_going_anyway_and_what_does_not_serve() -> None:
    a, b = cluster("a"), cluster("b")
    going = fleet(a, b, replica("a/0", ready=True, deleting=True), replica("b/0", ready=True))
    assert places(plan(going, want(1))) == ["b/0"]
    starting = fleet(a, b, replica("a/0"), replica("b/0", ready=True))
    assert places(plan(starting, want(1))) == ["b/0"]


def test_zero_replicas() -> None:
    found = plan(fleet(cluster("a"), replica("a/0")), want(0))
    assert places(found) == []
    assert (found.condition().status, found.condition().reason) == ("True", "ScaledToZero")


def test_a_recreated_deployment_does_not_take_the_replicas_of_its_predecessor() -> None:
    world = fleet(cluster("a"), replica("a/0", owner="old"))
    found = plan(world, want(uid="new"))
    # The old replica's name is taken until it is gone, so the new one has ten digits.
    assert [len(one.name.rpartition("-")[2]) for one in found.placements] == [10]


@pytest.mark.parametrize(
    ("owner", "uid", "stays", "reason"),
    [
        ("u", "u", True, "its own"),
        ("old", "u", False, "of a deployment of that name which was deleted"),
        ("", "u", True, "nobody says whose it is"),
        ("u", "", True, "a rehearsed deployment has no UID yet"),
        ("", "", True, "neither is known"),
    ],
)
def test_a_replica_belongs_to_the_deployment_unless_both_uids_are_known_and_differ(
    owner: str, uid: str, stays: bool, reason: str
) -> None:
    found = plan(fleet(cluster("a"), replica("a/0", name="m-by-hand", owner=owner)), want(1, uid=uid))
    assert (found.placements[0].name == "m-by-hand") is stays, reason


def test_what_is_not_the_deployments_hides_nothing_that_is() -> None:
    foreign, twin = replica("a/0", name="m-1", owner="old"), replica("a/1", name="m-3", owner="u")
    own = [replica("a/1", name="m-2", owner="u"), replica("a/2", name="m-4", owner="u")]
    found = plan(fleet(cluster("a", pool("default", 5)), foreign, twin, *own), want(2, uid="u"))
    assert [one.name for one in found.placements] == ["m-2", "m-4"]
    assert [(one.name, one.reason) for one in found.removed] == [("m-3", Departure.DUPLICATE)]


@pytest.mark.parametrize(
    ("there", "engines", "state", "reason"),
    [
        ((2, 1), (1, 2), State.RETAINED, "as many nodes in all"),
        ((2, 1), (2, 2), State.HELD, "one more"),
    ],
)
def test_whole_nodes_are_counted_over_all_engines_of_a_pool(
    there: tuple[int, int], engines: tuple[int, int], state: State, reason: str
) -> None:
    request = want(1, *(standalone(name=name, copies=copies) for name, copies in zip("xy", engines, strict=True)))
    stamps = (stamped(name, copies=copies) for name, copies in zip("xy", there, strict=True))
    own = replica("a/0", *stamps, constraints=request.constraints(), ready=True)
    assert [one.state for one in plan(fleet(cluster("a", pool("default", 3)), own), request).placements] == [state], (
        reason
    )


def test_more_devices_of_a_whole_node_are_no_growth_where_nodes_are_counted() -> None:
    request = want(1, standalone(ask(count=2)))
    own = replica("a/0", stamped(), constraints=request.constraints(), ready=True)
    for free, state in ((None, State.RETAINED), ([({GPU: 1}, 1)], State.HELD)):
        there = pool("default", 1 if free is None else 0, gpu(count=2), free=free)
        found = plan(fleet(cluster("a", there), own, replica("a/1", of=Key("ml", "other"))), request)
        assert [one.state for one in found.placements] == [state], f"free: {free}"


def test_a_name_that_another_deployment_has_is_not_used_twice() -> None:
    mine = plan(fleet(cluster("a")), want()).placements[0].name
    world = fleet(cluster("a"), replica("b/0", of=Key("ml", "other"), name=mine))
    assert plan(world, want()).placements[0].name != mine


def test_a_drained_cluster_moves_its_replicas_and_says_so() -> None:
    drained = cluster("b", taints=tainted("modelplane.ai/drain:NoExecute"))
    found = plan(fleet(cluster("a", pool("default", 1)), drained, replica("a/0"), replica("b/0")), want(2))
    assert places(found) == ["a/0"]
    assert found.condition().reason == "PartiallyScheduled"
    assert found.condition().message == (
        "1 of 2 replicas placed; 1 without a place: a Full (engine main needs 1 node of pool default, 0 of 1 free, "
        "cannot grow); b Tainted (modelplane.ai/drain:NoExecute)."
    )
    assert found.verdicts[1].remedy == "undrain the cluster, or tolerate the taint"


def test_the_annotation_carries_what_the_next_plan_reads() -> None:
    (placement,) = plan(fleet(cluster("a")), want()).placements
    assert json.loads(placement.annotation) == {
        "code": "Placed",
        "constraints": want().constraints(),
        "message": "fits pool default, the first of this deployment there",
    }


def test_an_observed_pool_accounts_for_replicas_that_were_ready_before_it_was_seen() -> None:
    node = pool("default", 0, gpu(count=1), free=[({GPU: 1}, 1)], seen="2026-11-29T12:00:00Z")
    old = replica("a/0", of=Key("ml", "other"), ready=True, ready_since="2026-11-29T11:00:00Z")
    late = replica("a/0", of=Key("ml", "other"), ready=True, ready_since="2026-11-29T12:30:00Z")
    same = replica("a/0", of=Key("ml", "other"), ready=True, ready_since="2026-11-29T12:00:00Z")
    starting = replica("a/0", of=Key("ml", "other"))
    found = [plan(fleet(cluster("a", node), one), want()).placed for one in (old, late, same, starting)]
    assert found == [1, 0, 0, 0], "in the same second either may have been first"


def test_a_fleet_without_clusters_says_what_to_do() -> None:
    condition = plan(fleet(), want(2)).condition()
    assert condition.reason == "NoClusters"
    assert condition.message == "0 of 2 replicas placed; 2 without a place: there is no InferenceCluster; create one."


def test_while_the_cache_is_unknown_the_message_says_that_placing_waits() -> None:
    found = plan(fleet(cluster("a")), want(1, fill=False))
    assert found.summary() == "0 of 1 replicas placed; 1 without a place: new replicas wait for the ModelCache."
