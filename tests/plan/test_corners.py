"""What is rare: words that are too long, names that are not there, searches that give up, devices that go away."""

from __future__ import annotations

import pytest

import modelplane.plan
from modelplane.api.meta import Key
from modelplane.plan import Cluster, Code, Departure, Fleet, Verdict, plan
from modelplane.plan.fleet import Picture
from modelplane.plan.names import TAKEN, replica_name
from modelplane.plan.quantity import Quantity, QuantityError, parse_quantity
from modelplane.plan.remedies import smallest_change
from modelplane.plan.semver import SemverError, parse_semver
from modelplane.plan.verdicts import LONGEST, digest, notice
from tests.plan.words import GPU, MODEL, ask, cluster, fleet, gang, gpu, memory, places, pool, replica, standalone, want


def test_a_name_that_the_planner_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module modelplane\.plan has no attribute plans"):
        modelplane.plan.plans  # noqa: B018


def test_an_engine_that_finds_no_room_is_not_tried_again_in_another_order_of_the_same() -> None:
    three = [standalone(name=name) for name in "xyz"]
    assert places(plan(fleet(cluster("a", pool("p", 1), pool("q", 1))), want(1, *three))) == []
    assert places(plan(fleet(cluster("a", pool("p", 1), pool("q", 2))), want(1, *three))) == ["a/0"]


def test_every_engine_of_a_replica_takes_its_nodes() -> None:
    two = [standalone(name=name) for name in "xy"]
    assert places(plan(fleet(cluster("a", pool("p", 3))), want(2, *two))) == ["a/0"], "two nodes of three"
    assert places(plan(fleet(cluster("a", pool("p", 4))), want(2, *two))) == ["a/0", "a/1"]


def test_a_second_name_tells_clusters_and_indexes_apart_as_well() -> None:
    usual = [replica_name(MODEL.name, home, index) for home, index in (("a", 0), ("a", 1), ("b", 0))]
    others = [replica("a/9", name=name, of=Key(MODEL.namespace, "other")) for name in usual]
    found = plan(fleet(cluster("a", pool("default", 5)), cluster("b", pool("default", 1)), *others), want(3))
    assert [one.name for one in found.placements] == [
        replica_name(MODEL.name, home, index, digits=TAKEN) for home, index in (("a", 0), ("a", 1), ("b", 0))
    ]
    assert len({*usual, *(one.name for one in found.placements)}) == 6


def test_a_promise_that_nobody_has_seen_goes_when_it_is_off() -> None:
    picture = Picture()
    promised = replica("a/0", assumed=True)
    picture.promise(promised)
    picture.withdraw(promised.key)
    assert picture.fleet.replicas == ()


def test_a_plan_with_nothing_missing_refuses_nothing() -> None:
    assert plan(fleet(cluster("a")), want()).refusal == ""
    assert plan(fleet(), want()).refusal == "NoClusters"
    assert plan(fleet(cluster("a", cache_storage=False)), want(needs_cache_storage=True)).refusal == "NoCacheStorage"
    assert plan(fleet(cluster("a", pool("default", 0))), want()).refusal == "InsufficientCapacity"


def test_a_cluster_that_is_being_deleted_takes_nothing() -> None:
    (verdict,) = plan(fleet(cluster("a", deleting=True)), want()).verdicts
    assert (verdict.code, verdict.message) == (Code.DELETING, "is being deleted")
    assert smallest_change(fleet(cluster("a", deleting=True)), want(), cluster("a", deleting=True)) == ()


def test_a_class_whose_devices_are_no_longer_claimed_moves_nothing_and_is_said() -> None:
    matched_only = cluster("a", pool("default", 2, gpu(claim="Synthetic")))
    found = plan(fleet(matched_only, replica("a/0", constraints=want().constraints())), want())
    assert places(found) == ["a/0"]
    assert "though engine main claims no device in its pool" in found.notes[0]
    edited = plan(fleet(matched_only, replica("a/0")), want())
    assert [(one.reason, one.message) for one in edited.removed] == [
        (Departure.NO_LONGER_MATCHES, "engine main claims no device in its pool")
    ]


def refusal(name: str, length: int, code: Code = Code.FULL) -> Verdict:
    return Verdict(cluster=name, code=code, message="m" * length, remedy="add a node")


def test_a_verdict_that_is_too_long_by_itself_is_only_counted() -> None:
    assert digest("none placed", [refusal("a", 2_000), refusal("b", 2_000)]) == "none placed: 2 Full."


def test_as_many_verdicts_are_told_as_there_is_room_for() -> None:
    several = [refusal(name, 300) for name in "abcd"]
    text = digest("none placed", several)
    assert text == f"none placed: 4 Full; nearest: {'; '.join(map(str, several[:3]))}."
    assert len(text) <= LONGEST


def test_a_note_that_finds_no_room_is_left_out_with_those_after_it() -> None:
    assert digest("placed", [], ["one", "n" * LONGEST, "three"]) == "placed; one."


def test_an_event_tells_the_nearest_miss_and_where_to_read_more() -> None:
    some = [refusal("a", 3, Code.TAINTED), refusal("b", 3)]
    assert notice("none placed", some, more="See explain.") == (
        "none placed: 1 Tainted, 1 Full; nearest b Full (mmm): add a node. See explain.",
        "Full",
    )
    assert notice("all placed", [Verdict(cluster="a", code=Code.FITS)], more="See explain.") == ("all placed.", "")
    long, code = notice("none placed", [refusal("a", 2_000)], more="See explain.")
    assert code == "Full"
    assert long.endswith("mmm .... See explain.")
    assert len(long.encode()) <= LONGEST


def test_a_search_for_nodes_to_add_gives_up_when_there_are_too_many_ways() -> None:
    world = fleet(cluster("a", pool("default", 1)))
    large = want(1, gang(400, [ask()], [ask()]))
    assert smallest_change(world, large, world.clusters["a"]) == ()


def test_asking_for_less_may_help_only_with_room() -> None:
    world = Fleet.of([Cluster(name="a", gateway="g", pools=(pool("default", 0, gpu(count=4), free=[({GPU: 0}, 1)]),))])
    changes = smallest_change(world, want(1, standalone(ask(memory("141Gi"), 8))), world.clusters["a"])
    assert [change.text for change in changes] == [
        "engine main: lower the count of request gpu from 8 to 4",
        "free 4 devices in pool default, so that 1 more pod can have 4 x gpu.nvidia.com on one node",
    ]


@pytest.mark.parametrize(
    ("left", "right", "expected", "reason"),
    [
        (Quantity(1, 2_000_000_000), Quantity(1), 1, "the larger exponent"),
        (Quantity(-1, 2_000_000_000), Quantity(-1), -1, "the other way below zero"),
        (Quantity(1), Quantity(1, 2_000_000_000), -1, "whichever stands first"),
        (Quantity(10**20_001), Quantity(1, 20_001), 0, "as many digits: compared exactly"),
        (Quantity(10**20_001 + 1), Quantity(1, 20_001), 1, "to the last of them"),
    ],
)
def test_amounts_that_are_far_apart_are_compared(left: Quantity, right: Quantity, expected: int, reason: str) -> None:
    assert left.compare(right) == expected, reason


@pytest.mark.parametrize(
    ("text", "same", "reason"),
    [
        ("0.0000000001", "1n", "less than a nano is a nano"),
        ("0.00000000000000000000001", "1n", "however little it is"),
        ("0.00000000000000000000000", "0", "but nothing is nothing"),
        ("1.00000000019", "1000000001n", "what is between is rounded up"),
    ],
)
def test_amounts_below_a_nano_are_rounded_up(text: str, same: str, reason: str) -> None:
    assert parse_quantity(text) == parse_quantity(same), reason


@pytest.mark.parametrize(
    "text", ["1e9999999999999999999", "1e99999999999999999999", "1e-9999999999999999999", "1" * 5_000]
)
def test_amounts_that_nobody_can_count_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_values_show_themselves() -> None:
    assert repr(Quantity(5, 3)) == "Quantity(5e3)"
    assert repr(parse_semver("1.2.3-rc.1")).startswith("Semver")


def test_identifiers_of_a_version_have_letters_digits_and_hyphens() -> None:
    for text, what in (("1.2.3-a_b", "prerelease"), ("1.2.3+a_b", "build meta data")):
        with pytest.raises(SemverError, match=f'Invalid character.* in {what} "a_b"'):
            parse_semver(text)
