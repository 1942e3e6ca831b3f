"""Faults seen in the field, as unit tests of the planner: S01 to S06, S09 for devices, S11, S12, S20."""

from __future__ import annotations

import itertools

import pytest

from modelplane.api.meta import Key, Status
from modelplane.plan import Code, Fleet, plan
from modelplane.plan.cel import BoundDevice, Error, Match, SelectorError, compile_selector
from modelplane.plan.devices import Device, explain_miss, match, signature
from modelplane.plan.remedies import smallest_change
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
    replica,
    stamped,
    standalone,
    tainted,
    want,
)

EIGHT = gpu(count=8)
OTHERS = [Key("ml", f"m{number}") for number in range(12)]


def test_s01_cordoned_nodes_do_not_count() -> None:
    # The agent counts schedulable nodes alone: of A's three nodes two are cordoned.
    a = cluster("a", pool("default", 0, EIGHT, free=[({GPU: 8}, 1)]))
    b = cluster("b", pool("default", 0, EIGHT, free=[({GPU: 8}, 1)]))
    request = want(2, standalone(ask(count=8)))
    assert places(plan(fleet(a, b), request)) == ["a/0", "b/0"]
    three = plan(fleet(a, b), want(3, standalone(ask(count=8))))
    assert (three.placed, three.missing) == (2, 1)


def test_s01_an_uncordoned_node_counts_again_and_moves_nothing() -> None:
    eight_gpus = (("Standalone", "default", 1, ((GPU, 8),)),)
    running = [
        replica(place, stamped("main", *eight_gpus), ready=True, ready_since="2026-11-29T11:00:00Z")
        for place in ("a/0", "b/0")
    ]
    # The replicas' devices are no longer in the histogram; one node of A came back.
    a = cluster("a", pool("default", 0, EIGHT, free=[({GPU: 8}, 1)]))
    b = cluster("b", pool("default", 0, EIGHT, free=[]))
    same = plan(fleet(a, b, *running), want(2, standalone(ask(count=8))))
    assert places(same) == ["a/0", "b/0"]
    assert not same.removed
    assert places(plan(fleet(a, b, *running), want(3, standalone(ask(count=8))))) == ["a/0", "a/1", "b/0"]


def test_s02_growth_that_cannot_happen_is_no_capacity() -> None:
    found = plan(fleet(cluster("a", pool("default", 2))), want(4))
    assert places(found) == ["a/0", "a/1"]
    (verdict,) = found.verdicts
    assert verdict.code is Code.FULL
    assert verdict.message == "engine main needs 1 node of pool default, 0 of 2 free, cannot grow"
    assert found.condition().reason == "PartiallyScheduled"


def test_s02_growth_that_can_happen_is_waited_for() -> None:
    found = plan(fleet(cluster("a", pool("default", 2, grow=2))), want(4))
    assert places(found) == ["a/0", "a/1", "a/2", "a/3"]
    assert found.waiting == 2
    assert found.summary() == "4 of 4 replicas placed, 2 of them waiting for nodes."
    observed = plan(fleet(cluster("a", pool("default", 0, free=[({GPU: 1}, 2)], grow=2))), want(5))
    assert (observed.placed, observed.waiting, observed.missing) == (4, 2, 1)


def test_nodes_that_are_there_are_preferred_to_nodes_that_may_come() -> None:
    found = plan(fleet(cluster("a", pool("growing", 0, grow=2), pool("there", 1))), want(1))
    assert [one.engines[0].members[0].pool for one in found.placements] == ["there"]
    assert found.waiting == 0


@pytest.mark.parametrize(
    ("nodes", "status", "reason", "figures"),
    [
        (0, Status.FALSE, "InsufficientCapacity", "0 of 2 replicas placed; 2 without a place"),
        (1, Status.FALSE, "PartiallyScheduled", "1 of 2 replicas placed; 1 without a place"),
        (2, Status.TRUE, "ReplicasCreated", "2 of 2 replicas placed."),
    ],
)
def test_s03_partial_placement_is_no_success(nodes: int, status: Status, reason: str, figures: str) -> None:
    condition = plan(fleet(cluster("a", pool("default", nodes))), want(2)).condition()
    assert (condition.status, condition.reason) == (status, reason)
    assert condition.message.startswith(figures)


def test_s03_capacity_that_goes_away_takes_scheduled_with_it() -> None:
    running = replica("a/0"), replica("b/0")
    drained = plan(
        fleet(
            cluster("a", pool("default", 1)), cluster("b", pool("default", 1), taints=tainted("d:NoExecute")), *running
        ),
        want(2),
    )
    assert drained.condition().reason == "PartiallyScheduled"


def five() -> Fleet:
    return fleet(
        cluster("a-notready", ready=False, not_ready_reason="Unreachable", labels={"tier": "prod"}),
        cluster("b-labels", labels={"tier": "dev"}),
        cluster("c-device", pool("default", 2, gpu("80Gi")), labels={"tier": "prod"}),
        cluster("d-full", pool("default", 1), labels={"tier": "prod"}),
        cluster("e-taint", labels={"tier": "prod"}, taints=tainted("maintenance:NoSchedule")),
        replica("d-full/0", of=OTHERS[0]),
    )


def test_s04_a_refusal_names_every_candidate() -> None:
    found = plan(five(), want(1, selector={"tier": "prod"}))
    assert [(one.cluster, one.code) for one in found.verdicts] == [
        ("a-notready", Code.NOT_READY),
        ("b-labels", Code.WRONG_LABELS),
        ("c-device", Code.NO_DEVICE),
        ("d-full", Code.FULL),
        ("e-taint", Code.TAINTED),
    ]
    assert found.summary() == (
        "0 of 1 replicas placed; 1 without a place: a-notready NotReady (Unreachable); b-labels WrongLabels (lacks tier=prod); "
        "c-device NoDevice (pool default: request gpu matches no device (devices: gpu)); "
        "d-full Full (engine main needs 1 node of pool default, 0 of 1 free, cannot grow); "
        "e-taint Tainted (maintenance:NoSchedule)."
    )
    assert all(one.remedy for one in found.verdicts)


def test_s04_two_hundred_refusals_stay_under_a_kibibyte() -> None:
    many = [
        cluster(f"cluster-{n:03}", pool("default", 1), taints=tainted("x:NoSchedule") if n % 2 else ())
        for n in range(200)
    ]
    taken = [replica(f"cluster-{n:03}/0", of=OTHERS[0]) for n in range(0, 200, 2)]
    found = plan(fleet(*many, *taken), want(3))
    text = found.summary()
    assert len(text.encode()) < 1024
    assert text.startswith(
        "0 of 3 replicas placed; 3 without a place: 100 Tainted, 100 Full; nearest: cluster-000 Full (engine main needs 1 node"
    )
    assert plan(fleet(*reversed(many), *reversed(taken)), want(3)).summary() == text


def test_s05_two_deployments_and_one_slot() -> None:
    world = fleet(cluster("a", pool("default", 1, EIGHT)))
    for first, second in itertools.permutations(OTHERS[:2]):
        one = plan(world, want(1, standalone(ask(count=8)), key=first))
        two = plan(world.assuming(one.assumed()), want(1, standalone(ask(count=8)), key=second))
        assert (one.placed, two.placed) == (1, 0)
    # An assumption that the cache meanwhile shows is not counted twice.
    shown = plan(world, want(1, standalone(ask(count=8)), key=OTHERS[0])).assumed()
    seen = [replica("a/0", stamped("main", ("Standalone", "default", 1, ((GPU, 8),))), of=OTHERS[0])]
    doubled = fleet(cluster("a", pool("default", 2, EIGHT)), *seen).assuming(shown)
    assert plan(doubled, want(1, standalone(ask(count=8)), key=OTHERS[1])).placed == 1


def test_s05_the_same_device_does_not_satisfy_two_requests() -> None:
    found = plan(
        fleet(cluster("a", pool("default", 0, free=[({GPU: 1}, 1)]))), want(1, standalone(ask(), ask(name="second")))
    )
    assert found.placed == 0
    assert found.verdicts[0].code is Code.TOO_FEW_DEVICES
    assert "its 2 requests need 2 devices at once" in found.verdicts[0].message


def test_s06_a_gang_never_straddles() -> None:
    world = fleet(cluster("a", pool("red", 2), pool("blue", 2)))
    refused = plan(world, want(1, gang(3, [ask()], [ask()])))
    assert refused.placed == 0
    assert refused.verdicts[0].code is Code.GANG_TOO_LARGE
    assert refused.verdicts[0].message == "engine main needs 4 nodes in one pool, the largest has 2"
    (whole,) = plan(world, want(1, gang(1, [ask()], [ask()]))).placements
    assert [member.pool for member in whole.engines[0].members] == ["red", "red"]


def test_s09_eight_small_engines_fit_one_node() -> None:
    world = fleet(cluster("a", pool("default", 0, EIGHT, free=[({GPU: 8}, 1)])))
    placed = 0
    for key in OTHERS[:9]:
        found = plan(world, want(1, key=key))
        placed += found.placed
        world = world.assuming(found.assumed())
    assert placed == 8
    verdict = plan(world, want(1, key=OTHERS[8])).verdicts[0]
    assert verdict.code is Code.FULL
    assert verdict.message == (
        "engine main needs 1 pod with 1 x gpu.nvidia.com each in pool default, 0 fit, best node has 0 free, cannot grow"
    )


def test_figures_of_a_node_that_is_partly_taken() -> None:
    world = fleet(cluster("a", pool("default", 0, EIGHT, free=[({GPU: 6}, 1), ({GPU: 2}, 1)])))
    (verdict,) = plan(world, want(1, standalone(ask(count=8)))).verdicts
    assert "needs 1 pod with 8 x gpu.nvidia.com each" in verdict.message
    assert "best node has 6 free" in verdict.message


def test_a_small_pod_goes_where_it_leaves_least_free() -> None:
    world = fleet(cluster("a", pool("default", 0, EIGHT, free=[({GPU: 8}, 1), ({GPU: 3}, 1)])))
    small = plan(world, want(1, standalone(ask(count=2)), key=OTHERS[0]))
    assert plan(world.assuming(small.assumed()), want(1, standalone(ask(count=8)))).placed == 1


DEVICES = [
    ("first", {"speed": {"int": 400}}),
    ("second", {}),
    ("third", {"speed": {"int": 100}}),
]
SPEED = 'device.attributes["nic.example.com"].speed >= 200'


@pytest.mark.parametrize(
    "order", list(itertools.permutations(DEVICES)), ids=lambda order: "-".join(one[0] for one in order)
)
def test_s11_a_selector_error_hurts_only_its_device(order: tuple[tuple[str, dict[str, dict[str, int]]], ...]) -> None:
    selector = compile_selector(SPEED)
    outcomes = {name: selector.evaluate(BoundDevice("nic.example.com", attributes, {})) for name, attributes in order}
    assert isinstance(outcomes["first"], Match)
    assert outcomes["second"] == Error("no such key: speed")
    assert not isinstance(outcomes["third"], (Match, Error))
    devices = [
        Device(name, signature("nic.example.com", attributes, {}, device_class="nic"), 1) for name, attributes in order
    ]
    found = match([ask(SPEED, name="nic")], devices)
    assert found is not None
    assert found.claims == (("nic", 1),)


def test_s11_a_refusal_says_that_the_attribute_is_missing() -> None:
    devices = [Device("second", signature("nic.example.com", {}, {}, device_class="nic"), 1)]
    miss = explain_miss([ask(SPEED, name="nic")], devices)
    assert miss.text == "request nic: device second cannot be judged: no such key: speed"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("device.driver ==", 1, 17),
        ('device.drivr == "x"', 1, 7),
        ("device.driver", 0, 0),
        (memory("1Gi") + " || foo(1)", 1, 80),
    ],
)
def test_s11_what_does_not_compile_is_refused_with_its_position(text: str, line: int, column: int) -> None:
    with pytest.raises(SelectorError) as refusal:
        compile_selector(text)
    assert (refusal.value.line, refusal.value.column) == (line, column)


def test_s12_a_gang_goes_to_a_cluster_whose_stack_runs_it() -> None:
    other, standard = cluster("d", stack="Dynamo"), cluster("l", pool("default", 3))
    request = want(1, gang(2, [ask()], [ask()]))
    assert places(plan(fleet(other, standard), request)) == ["l/0"]
    refused = plan(fleet(other), request)
    (verdict,) = refused.verdicts
    assert (verdict.code, verdict.message) == (Code.WRONG_STACK, "stack Dynamo does not run gangs as Standard does")
    assert refused.condition().reason == "InsufficientCapacity"
    assert smallest_change(fleet(other), request, other) == (), "the stack of a cluster cannot be changed"
    assert places(plan(fleet(other), want())) == ["d/0"], "an engine of one pod is a Deployment on either stack"
    assert smallest_change(fleet(other), want(), other) == ()


STAGED = {"weights": "yes"}
FULL_AND_STAGED = [
    part
    for name in "ab"
    for part in (cluster(name, pool("default", 1), labels=STAGED), replica(f"{name}/0", of=OTHERS[0]))
]


def test_s20_placement_follows_the_cache() -> None:
    request = want(1, staged=STAGED, cache="llama", needs_cache_storage=True)
    refused = plan(fleet(*FULL_AND_STAGED, cluster("c")), request)
    assert places(refused) == []
    assert [one.code for one in refused.verdicts] == [Code.FULL, Code.FULL, Code.NOT_STAGED]
    assert "c NotStaged (ModelCache llama is not staged on c: lacks weights=yes)" in refused.summary()
    assert places(plan(fleet(*FULL_AND_STAGED, cluster("c", labels=STAGED)), request)) == ["c/0"]


def test_s20_a_cache_that_no_longer_chooses_a_cluster_moves_nothing() -> None:
    before, now = want(1, staged=STAGED, cache="llama"), want(2, staged={"weights": "now"}, cache="llama")
    b, c = cluster("b", pool("default", 4), labels=STAGED), cluster("c", labels={"weights": "now"})
    running = replica("b/0", ready=True, constraints=before.constraints())
    found = plan(fleet(b, c, running), now)
    assert places(found) == ["b/0", "c/0"]
    assert found.notes == (f"replica {running.key.name} stays on b, which the ModelCache's selector no longer matches",)
    another = plan(fleet(b, c, running), want(1, staged={"weights": "now"}, cache="other"))
    assert places(another) == ["b/0!", "c/0"], "another ModelCache is the deployment's own change"
    assert another.placements[0].message == "the ModelCache's selector no longer matches cluster b"


def test_a_cache_that_cannot_be_read_does_not_have_replicas_judged_again() -> None:
    known = want(1, staged=STAGED, cache="llama", needs_cache_storage=True)
    assert known.constraints() == want(1, cache="llama", fill=False).constraints()
    assert known.constraints() != want(1).constraints()
