"""Every field of a decision: what is placed under which name, what goes and why, whose room is free, what waits."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from modelplane.api.meta import Key
from modelplane.plan import Code, Departure, Removal, Replica, State, plan
from modelplane.plan.cel import BoundDevice
from modelplane.plan.devices import Device, Matching, Miss, Resolved, Signature, explain_miss, flows, match, signature
from modelplane.plan.fleet import ReplicaEngine
from modelplane.plan.outcome import PlacedEngine, PlacedMember
from tests.plan.words import (
    GPU,
    ask,
    cluster,
    fleet,
    gang,
    gpu,
    memory,
    places,
    pool,
    pools_of,
    replica,
    stamped,
    standalone,
    tainted,
    want,
)

OTHER = Key("ml", "other")


def removal(found: Replica, reason: Departure, message: str) -> Removal:
    return Removal(found.key.name, found.cluster, found.index, reason, message)


def test_a_removal_names_the_replica_its_place_and_why_it_goes() -> None:
    a, b = replica("a/0", ready=True), replica("b/3")
    assert plan(fleet(cluster("a"), cluster("b"), a, b), want(1)).removed == (
        removal(b, Departure.SCALED_DOWN, "scaled down to 1"),
    )
    drained = cluster("b", taints=tainted("k=v:NoExecute", "l:NoExecute"))
    assert plan(fleet(cluster("a"), drained, b), want(1)).removed == (
        removal(b, Departure.EVICTED, "cluster b has taint k=v:NoExecute, l:NoExecute"),
    )
    assert plan(fleet(cluster("a"), b), want(1)).removed == (
        removal(b, Departure.CLUSTER_GONE, "cluster b does not exist"),
    )
    lost = replica("a/0", stamped(pool="gone"))
    assert plan(fleet(cluster("a"), lost), want(1)).removed == (
        removal(lost, Departure.POOL_GONE, "cluster a has no pool gone"),
    )


def test_of_two_with_one_identity_the_second_by_name_goes_and_its_room_is_free() -> None:
    first, second = replica("a/0", name="m-1"), replica("a/0", name="m-2")
    found = plan(fleet(cluster("a"), first, second), want(2))
    assert found.removed == (removal(second, Departure.DUPLICATE, "another replica has index 0 on a"),)
    assert [(one.cluster, one.index, one.state) for one in found.placements] == [
        ("a", 0, State.RETAINED),
        ("a", 1, State.NEW),
    ]


def test_removals_are_told_in_order_of_cluster_index_and_name() -> None:
    gone = [replica(f"{home}/{index}") for home in "ba" for index in (1, 0)]
    found = plan(fleet(cluster("a"), cluster("b"), *gone), want(0))
    assert [(one.cluster, one.index) for one in found.removed] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_scaling_down_goes_by_load_then_name_then_index() -> None:
    there = [replica(place, ready=True) for place in ("a/0", "a/1", "b/0", "c/0", "c/1")]
    world = fleet(*(cluster(name, pool("default", 4)) for name in "abc"), *there)
    assert places(plan(world, want(4))) == ["a/0", "a/1", "b/0", "c/0"], "of two with as many, the later name"
    assert places(plan(world, want(3))) == ["a/0", "b/0", "c/0"]
    assert places(plan(world, want(1))) == ["a/0"]


def test_replicas_are_spread_level_by_level_and_then_by_name() -> None:
    four = [pool("default", 4)]
    some = fleet(cluster("a", *four), cluster("c", *four), replica("c/0"))
    assert places(plan(some, want(3))) == ["a/0", "a/1", "c/0"], "one each, then the first by name"
    more = fleet(cluster("a", *four), cluster("c", *four), replica("c/0"), replica("c/1"))
    assert places(plan(more, want(4))) == ["a/0", "a/1", "c/0", "c/1"]
    assert places(plan(more, want(6))) == ["a/0", "a/1", "a/2", "c/0", "c/1", "c/2"], (
        "not three on a before c has three"
    )


def test_each_that_leaves_serves_until_one_more_does() -> None:
    old = [replica(f"a/{index}", ready=True) for index in range(3)]
    clusters = [cluster(name, pool("default", 3), labels={"side": name}) for name in "ab"]
    moved = want(3, selector={"side": "b"})
    found = plan(fleet(*clusters, *old), moved)
    assert places(found) == ["a/0!", "a/1!", "a/2!", "b/0", "b/1", "b/2"]
    new = [replica(f"b/{index}", constraints=moved.constraints(), ready=index == 0) for index in range(3)]
    assert places(plan(fleet(*clusters, *old, *new), moved)) == ["a/0!", "a/1!", "b/0", "b/1", "b/2"], "one serves"


def test_a_slot_is_taken_over_on_a_cluster_that_is_known_to_be_full() -> None:
    world = fleet(cluster("a", pool("default", 1)), replica("a/0", ready=True))
    renamed = want(1, standalone(name="renamed"))
    other = msgspec.structs.replace(renamed, key=Key("ml", "other"))
    assert places(plan(world, other)) == [], "it is full"
    assert places(plan(world, renamed)) == ["a/0"]
    assert places(plan(world, renamed)) == ["a/0"]


def test_clusters_that_are_alike_are_refused_alike_each_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = [cluster(name, pool("p", nodes)) for name, nodes in (("a", 1), ("b", 1), ("c", 2), ("d", 1))]
    there = [replica(f"{one.name}/0", stamped(pool="p"), of=Key("ml", "other")) for one in clusters]
    asked = want(1, standalone(copies=2))
    first = plan(fleet(*clusters, *there), asked).verdicts
    said = {one.cluster: one.message.partition(" needs ")[2] for one in first}
    assert list(said) == ["a", "b", "c", "d"]
    assert said["a"] == said["b"] == said["d"] != said["c"] == "2 nodes of pool p, 1 of 2 free, cannot grow"
    monkeypatch.setattr("modelplane.plan.verdicts._REFUSALS", 1)
    assert plan(fleet(*clusters, *there), asked).verdicts == first, "what is forgotten is said again"


def test_of_pods_that_ask_for_different_devices_those_are_counted_that_find_no_room() -> None:
    observed = pool("p", 0, gpu(count=8), free=[({GPU: 2}, 5)])
    engine = gang(2, [ask(count=2)], [ask(count=3)])
    (verdict,) = plan(fleet(cluster("a", observed)), want(1, engine)).verdicts
    assert verdict.message == (
        "engine main needs 3 pods, 2 of them with 3 x gpu.nvidia.com, in pool p, 0 such fit, best node has 2 free, cannot grow"
    )


def test_each_slot_of_those_that_leave_is_taken_over_with_its_own_room() -> None:
    old = [replica(f"a/{index}", name=f"m-by-hand-{index}", ready=True) for index in range(2)]
    found = plan(fleet(cluster("a"), *old), want(2, standalone(name="renamed")))
    assert [(one.index, one.name, one.state) for one in found.placements] == [
        (0, "m-by-hand-0", State.NEW),
        (1, "m-by-hand-1", State.NEW),
    ]
    assert found.removed == ()


def test_one_that_goes_to_make_room_says_why_it_goes() -> None:
    before, now = want(2, standalone(ask(count=4))), want(1, standalone(ask(count=8), name="other"))
    node = pool("default", 0, gpu(count=8), free=[({GPU: 8}, 1)])
    half = stamped("main", ("Standalone", "default", 1, ((GPU, 4),)))
    halves = [replica(f"a/{index}", half, constraints=before.constraints(), ready=True) for index in range(2)]
    found = plan(fleet(cluster("a", node), *halves), now)
    assert found.removed == (
        removal(halves[1], Departure.SHAPE_CHANGED, "the deployment's engines or members changed"),
    )


def test_what_outgrew_its_room_and_does_not_serve_goes_as_soon_as_it_is_replaced() -> None:
    small = replica("a/0", constraints=want().constraints())
    world = fleet(cluster("a", pool("default", 1)), cluster("b", pool("default", 3)), small)
    found = plan(world, want(1, standalone(copies=3)))
    assert places(found) == ["b/0"]
    why = "engine main now needs 3 nodes of pool default on a, where 1 fit"
    assert found.removed == (removal(small, Departure.OUTGROWN, why),)
    promised = msgspec.structs.replace(small, assumed=True)
    alone = plan(fleet(cluster("a", pool("default", 1)), promised), want(1, standalone(copies=3)))
    assert alone.removed == (removal(promised, Departure.OUTGROWN, why),)


def test_one_that_is_held_has_its_engines_and_constraints_as_they_were() -> None:
    has = stamped("main", ("Leader", "default", 1, ()), ("Worker", "default", 1, ((GPU, 1),)), copies=2)
    small = replica("a/0", has, constraints="of another time", ready=True)
    found = plan(fleet(cluster("a", pool("default", 2)), small), want(1, gang(2, (), [ask()], copies=2)))
    (held,) = found.placements
    assert (held.state, held.index, held.name, held.constraints) == (
        State.HELD,
        0,
        small.key.name,
        "of another time",
    )
    assert held.engines == (
        PlacedEngine(
            "main", 2, (PlacedMember("Leader", "default", 1, None), PlacedMember("Worker", "default", 1, None))
        ),
    )
    assert held.grown is False


def test_a_retained_replica_is_resolved_anew_and_keeps_its_verdict() -> None:
    small = replica("a/1", message="fitted once", constraints=want().constraints())
    (kept,) = plan(fleet(cluster("a"), small), want(1)).placements
    assert kept.message == "fitted once"
    assert kept.constraints == want(1).constraints()
    resolved = Resolved("gpu", GPU, 1, (memory("141Gi"),))
    assert kept.engines == (PlacedEngine("main", 1, (PlacedMember("Standalone", "default", 1, (resolved,)),)),)
    assert (kept.grown, kept.waiting) == (False, 0)


def test_what_is_promised_is_what_is_placed() -> None:
    found = plan(fleet(cluster("a")), want(1, gang(1, [ask()], [ask()]), uid="u"))
    (placement,) = found.placements
    (promised,) = found.assumed()
    assert promised == Replica(
        key=Key("ml", placement.name),
        deployment="m",
        cluster="a",
        index=0,
        engines=(
            ReplicaEngine(
                "main",
                1,
                stamped("main", ("Leader", "default", 1, ((GPU, 1),)), ("Worker", "default", 1, ((GPU, 1),))).members,
            ),
        ),
        owner="u",
        constraints=placement.constraints,
        code="Placed",
        message="fits pool default, the first of this deployment there",
        assumed=True,
    )


def test_the_reason_counts_those_that_were_there_and_names_every_pool() -> None:
    both = [standalone(name="x"), standalone(ask(memory("200Gi")), name="y")]
    home = cluster("a", pool("small", 2), pool("big", 2, gpu("200Gi")))
    found = plan(fleet(home), want(2, *both))
    assert [one.message for one in found.placements] == [
        "fits pool big, small, the first of this deployment there",
        "fits pool big, small, beside 1 more of this deployment",
    ]
    assert pools_of(found) == ["small", "big", "small", "big"]


def test_pods_of_several_engines_that_wait_are_counted_pool_by_pool() -> None:
    both = [standalone(name="x"), standalone(ask(memory("200Gi")), name="y")]
    one = plan(fleet(cluster("a", pool("small", 0, grow=1), pool("big", 1, gpu("200Gi")))), want(1, *both))
    assert [placement.waiting for placement in one.placements] == [1]
    assert one.placements[0].message.endswith("; 1 pod waits for nodes")
    two = plan(fleet(cluster("a", pool("small", 0, grow=1), pool("big", 0, gpu("200Gi"), grow=3))), want(1, *both))
    assert [placement.waiting for placement in two.placements] == [2]
    there = plan(fleet(cluster("a", pool("small", 1, grow=1), pool("big", 1, gpu("200Gi")))), want(1, *both))
    assert [placement.waiting for placement in there.placements] == [0]


def test_room_that_a_plan_frees_counts_in_its_verdicts() -> None:
    # One goes, its node is free, and the verdict for one more says so.
    world = fleet(cluster("a", pool("default", 2)), replica("a/0", ready=True), replica("a/1"))
    found = plan(world, want(1), explain=True)
    assert [str(one.code) for one in found.verdicts] == ["Fits"]
    full = plan(world, want(2), explain=True)
    assert [(str(one.code), one.short) for one in full.verdicts] == [("Full", 1)]


def test_a_leaving_replica_keeps_its_place_in_the_plan_until_it_goes() -> None:
    now = want(1, selector={"tier": "prod"})
    serving = replica("a/2", ready=True, constraints="of another time")
    world = fleet(cluster("a"), cluster("b", labels={"tier": "prod"}), serving)
    leaving, new = plan(world, now).placements
    assert (leaving.state, leaving.index, leaving.name) == (State.LEAVING, 2, serving.key.name)
    assert (leaving.constraints, leaving.engines[0].members[0].requests) == ("of another time", None)
    assert leaving.message == "the deployment's cluster selector no longer matches cluster a"
    assert (new.cluster, new.index) == ("b", 0)


def test_a_leaving_replica_is_replaced_in_its_own_slot() -> None:
    before = want(1)
    now = want(1, selector={"tier": "prod"})
    back = fleet(
        cluster("a", pool("default", 4), labels={"tier": "prod"}),
        replica("a/0", stamped("old"), ready=True, constraints=before.constraints()),
    )
    assert [(one.index, one.state) for one in plan(back, now).placements] == [(0, State.NEW)]


# --- devices -------------------------------------------------------------------------------------------------------


def test_a_signature_is_one_object_and_tells_what_it_is_claimed_through() -> None:
    claimed = signature("fresh.example.com", {"a": {"int": 7}}, {"m": {"value": "1Gi"}}, device_class="fresh")
    again = signature("fresh.example.com", {"a": {"int": 7}}, {"m": {"value": "1Gi"}}, device_class="fresh")
    matched = signature(
        "fresh.example.com", {"a": {"int": 7}}, {"m": {"value": "1Gi"}}, claim="Synthetic", device_class="fresh"
    )
    assert claimed is again
    assert claimed is not matched
    assert (claimed.group, matched.group) == ("fresh", "")
    assert (claimed.claim, claimed.device_class) == ("DRA", "fresh")
    (selector,) = ask('device.driver == "fresh.example.com" && device.attributes["fresh.example.com"].a == 7').selectors
    assert claimed.judge(selector) is claimed.judge(selector), "evaluated once"
    assert claimed.satisfies([selector])
    assert not claimed.satisfies([selector, *ask('device.driver == "else"').selectors])
    assert claimed.satisfies([])


def test_a_signature_is_the_same_in_whatever_order_a_device_is_written() -> None:
    one = signature("x", {"a": {"int": 1}, "b": {"int": 2}}, {"m": {"value": "1"}, "n": {"value": "2"}})
    other = signature("x", {"b": {"int": 2}, "a": {"int": 1}}, {"n": {"value": "2"}, "m": {"value": "1"}})
    assert one is other
    assert one.group == ""
    (selector,) = ask('device.driver == "x"').selectors
    alone = Signature("DRA", "c", BoundDevice("x", {}, {}))
    assert (alone.claim, alone.device_class, alone.group) == ("DRA", "c", "c")
    assert alone.judge(selector) == one.judge(selector)


def test_of_misses_that_are_as_bad_the_first_by_name_is_told() -> None:
    devices = [gpu("141Gi", 1, name="b"), gpu("141Gi", 1, name="a")]
    none = [ask(memory("200Gi"), name="second"), ask(memory("200Gi"), name="first")]
    assert explain_miss(none, devices).text == "request first matches no device (devices: a, b)"
    few = explain_miss([ask(memory("200Gi"), name="a-none"), ask(count=3, name="b-few")], devices)
    assert few.text == "request a-none matches no device (devices: a, b)"
    assert explain_miss([ask(count=3)], devices) == Miss(2, f"request gpu needs 3 x {GPU} on one node, a node has 2", 1)


def test_a_matching_has_claimed_requests_in_their_order_and_devices_by_class() -> None:
    devices = [gpu(count=4, name="a"), gpu(count=2, device_class="other", name="b")]
    found = match([ask(count=3, name="z"), ask(count=2, name="y"), ask(count=1, name="x")], devices)
    assert found == Matching(
        (
            Resolved("z", GPU, 3, (memory("141Gi"),)),
            Resolved("y", "other", 2, (memory("141Gi"),)),
            Resolved("x", GPU, 1, (memory("141Gi"),)),
        ),
        ((GPU, 4), ("other", 2)),
    )
    assert found.claims_any


def test_classes_go_by_name_and_claimed_devices_before_matched_ones() -> None:
    devices = [
        gpu(count=1, claim="Synthetic", name="s"),
        gpu(device_class="b", name="b"),
        gpu(device_class="a", name="a"),
    ]
    found = match([ask()], devices)
    assert found is not None
    assert found.claims == (("a", 1),)
    matched_only = match([ask()], devices[:1])
    assert matched_only == Matching((), ())


@pytest.mark.parametrize(
    ("counts", "entries", "fits", "reason"),
    [
        ([2, 2], [(200, 2), (141, 2)], True, "as many as there are"),
        ([2, 3], [(200, 2), (141, 2)], False, "one too many"),
        ([1, 3], [(200, 2), (141, 2)], True, "a request over two entries"),
        ([4], [(200, 2), (141, 2)], True, "all of them for one"),
        ([5], [(200, 2), (141, 2)], False, "more than there are"),
        ([1], [(200, 0)], False, "an entry of none"),
    ],
)
def test_requests_share_the_devices_of_a_node(
    counts: list[int], entries: list[tuple[int, int]], fits: bool, reason: str
) -> None:
    devices = [gpu(f"{size}Gi", count, name=f"d{size}") for size, count in entries]
    requests = [ask(count=count, name=f"r{at}") for at, count in enumerate(counts)]
    assert (match(requests, devices) is not None) is fits, reason


def test_devices_are_handed_on_from_a_broad_request_to_a_narrow_one() -> None:
    # The broad request took of both entries before the narrow ones came, and gives back what they need.
    devices = [gpu("200Gi", 2, name="large"), gpu("141Gi", 3, name="small"), gpu("80Gi", 1, name="tiny")]
    requests = [
        ask(memory("80Gi"), 3, "broad"),
        ask(memory("200Gi"), 2, "narrow"),
        ask(memory("141Gi", "=="), 1, "exact"),
    ]
    found = match(requests, devices)
    assert found is not None
    assert found.claims == ((GPU, 6),)
    assert match([*requests, ask(memory("80Gi"), 1, "more")], devices) is None


def test_a_miss_says_what_is_missing_in_figures() -> None:
    two = [gpu("141Gi", 2, name="a")]
    assert explain_miss([ask(count=3)], two) == Miss(2, f"request gpu needs 3 x {GPU} on one node, a node has 2", 1)
    assert explain_miss([ask(memory("200Gi"), name="big")], two) == Miss(
        1, "request big matches no device (devices: a)"
    )
    assert explain_miss([ask(name="big")], []) == Miss(1, "request big matches no device (devices: none)")
    both = explain_miss([ask(count=2), ask(count=1, name="second")], two)
    assert both == Miss(3, "its 2 requests need 3 devices at once and compete for the same ones", 3)
    # The request that came least near is the reason.
    worst = explain_miss([ask(count=3, name="a-few"), ask(memory("200Gi"), name="b-none")], two)
    assert worst.text == "request b-none matches no device (devices: a)"
    matched = [gpu("141Gi", 1, claim="Synthetic", name="m")]
    assert explain_miss([ask(count=2)], matched).text == "request gpu needs 2 x device on one node, a node has 1"
    classes = [gpu(count=1, device_class="b", name="b"), gpu(count=1, device_class="a", name="a")]
    assert explain_miss([ask(count=2)], classes).text == "request gpu needs 2 x a on one node, a node has 1"


def test_a_device_that_cannot_be_judged_is_named_with_the_error() -> None:
    devices = [
        Device("b", signature("x", {}, {}, device_class="x"), 1),
        Device("a", signature("x", {"speed": {"int": 1}}, {}, device_class="x"), 1),
    ]
    speed = ask('device.attributes["x"].speed > 1', name="fast")
    assert explain_miss([speed], devices) == Miss(
        1, "request fast: no match for device a, and device b cannot be judged: no such key: speed"
    ), "either may be the one that was meant"
    assert explain_miss([speed], devices[:1]) == Miss(1, "request fast: device b cannot be judged: no such key: speed")
    assert explain_miss([speed], devices[1:]) == Miss(1, "request fast matches no device (devices: a)")


def test_the_larger_of_two_requests_with_the_same_choices_chooses_first() -> None:
    devices = [gpu(count=3, device_class="a", name="a"), gpu(count=3, device_class="b", name="b")]
    small, large = ask(count=1, name="small"), ask(count=3, name="large")
    for requests in ([small, large], [large, small]):
        found = match(requests, devices)
        assert found is not None
        assert {one.name: one.device_class for one in found.resolved} == {"large": "a", "small": "b"}
    alike = match([ask(count=2, name="z"), ask(count=2, name="y")], devices)
    assert alike is not None
    assert {one.name: one.device_class for one in alike.resolved} == {"y": "a", "z": "b"}, "then the first by name"


def test_needs_flow_exactly_when_no_set_of_them_needs_more_than_its_entries_have() -> None:
    chance = random.Random(20)
    outcomes = []
    for _ in range(4_000):
        free = [chance.randrange(4) for _ in range(chance.randrange(1, 5))]
        needs = [
            (chance.randrange(1, 5), sorted(chance.sample(range(len(free)), chance.randrange(1, len(free) + 1))))
            for _ in range(chance.randrange(1, 5))
        ]
        subsets = itertools.chain.from_iterable(
            itertools.combinations(needs, size) for size in range(1, len(needs) + 1)
        )
        fits = all(
            sum(count for count, _ in chosen) <= sum(free[at] for at in {at for _, entries in chosen for at in entries})
            for chosen in subsets
        )
        assert flows(needs, list(free)) is fits, (needs, free)
        outcomes.append(fits)
    assert 500 < sum(outcomes) < 3_500


@pytest.mark.parametrize(
    ("nodes", "taken", "workers", "code", "short", "remedy", "reason"),
    [
        (
            2,
            1,
            2,
            Code.GANG_TOO_LARGE,
            2,
            "add room for 2 nodes to pool default, or use a smaller gang",
            "one is taken",
        ),
        (2, 0, 2, Code.GANG_TOO_LARGE, 1, "add room for 1 node to pool default, or use a smaller gang", "all are free"),
        (2, 3, 1, Code.FULL, 3, "free or add 3 nodes in pool default", "one is lacking already"),
        (2, 3, 2, Code.GANG_TOO_LARGE, 4, "add room for 4 nodes to pool default, or use a smaller gang", "so here"),
    ],
)
def test_a_verdict_counts_the_nodes_that_are_needed_beside_what_is_there(
    nodes: int, taken: int, workers: int, code: Code, short: int, remedy: str, reason: str
) -> None:
    others = [replica(f"a/{index}", of=Key("ml", "other"), ready=True) for index in range(taken)]
    request = want(1, gang(workers, [ask()], [ask()]))
    world = fleet(cluster("a", pool("default", nodes)), *others)
    (verdict,) = plan(world, request).verdicts
    assert (verdict.code, verdict.short, verdict.remedy) == (code, short, remedy), reason
    for more, placed in ((short - 1, 0), (short, 1)):
        assert plan(fleet(cluster("a", pool("default", nodes + more)), *others), request).placed == placed
