"""Every change that is named is carried out as its text says, and then one more replica really has a place.

The change is read from its words alone, as a person would, and applied by arithmetic of its own: freeing devices tries every node
for every device, and asks the planner only whether the replica fits at the end.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Fleet, PlacementRequest, Pool, Replica, plan
from modelplane.plan.capacity import PoolCapacity
from modelplane.plan.remedies import Change, Step, smallest_change
from modelplane.plan.request import Engine, Member
from modelplane.plan.taints import Toleration
from tests.plan.examples import examples
from tests.plan.test_oracle import (
    DECLARED,
    ENGINES,
    OBSERVED,
    Ask,
    EngineShape,
    Entry,
    MemberShape,
    PoolShape,
    cluster_of,
    engine_of,
)
from tests.plan.words import GPU, ask, cluster, fleet, gpu, pool, replica, stamped, standalone, tainted, want

OTHER = Key("ml", "other")
TAINTS = ("modelplane.ai/drain:NoExecute", "team=research:NoSchedule", "spot:NoExecute")


def occupied(one: Cluster, taken: Sequence[int]) -> list[Replica]:
    """Replicas of somebody else, each on one node of a pool whose nodes are declared; more than there are nodes, if it comes so."""
    found = []
    for index, where in enumerate(taken):
        home = one.pools[where % len(one.pools)]
        if not home.capacity.observed:
            found.append(replica(f"c/{index}", stamped(pool=home.name), of=OTHER))
    return found


# --- carrying a change out ------------------------------------------------------------------------------------------


def carried_out(
    world: Fleet, request: PlacementRequest, steps: Sequence[Change]
) -> Iterator[tuple[Fleet, PlacementRequest]]:
    """Every way to do what the steps say."""
    ways: list[tuple[Fleet, PlacementRequest]] = [(world, request)]
    for step in steps:
        ways = [after for fleet_, asked in ways for after in _done(fleet_, asked, step)]
    yield from ways


def _done(world: Fleet, request: PlacementRequest, step: Change) -> Iterator[tuple[Fleet, PlacementRequest]]:
    (one,) = world.clusters.values()

    def changed(**fields: object) -> tuple[Fleet, PlacementRequest]:
        return Fleet.of([msgspec.structs.replace(one, **fields)], world.by_key.values()), request

    match step.step:
        case Step.WAIT:
            comes = {"ready": True} if "is Ready" in step.text else {}
            yield changed(**comes, **({"gateway": "10.0.0.1"} if "gateway's address" in step.text else {}))
        case Step.UNDRAIN:
            assert step.text == f"modelplane undrain {one.name}"
            yield changed(taints=tuple(taint for taint in one.taints if taint.key != "modelplane.ai/drain"))
        case Step.TOLERATE:
            (taint,) = tainted(step.text.removeprefix("tolerate "))
            more = Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)
            yield world, msgspec.structs.replace(request, tolerations=(*request.tolerations, more))
        case Step.STAGE_CACHE if step.text.startswith("give "):
            yield changed(cache_storage=True)
        case Step.LABEL | Step.STAGE_CACHE:
            found = re.fullmatch(
                rf"label cluster {one.name} (.*), or drop that from the cluster ?[sS]elector.*", step.text
            )
            assert found
            yield changed(labels={**one.labels, **dict(pair.split("=") for pair in found[1].split(" "))})
        case Step.FREE:
            yield from ((after, request) for after in _freed(world, one, step))
        case Step.ADD_NODES:
            assert re.fullmatch(rf"add {step.amount} nodes? to pool {step.pool}", step.text)
            yield changed(pools=tuple(_grown(entry, step) for entry in one.pools))
        case Step.LOWER_COUNT | Step.DROP_SELECTOR:
            yield world, _less(request, step)


def _grown(one: Pool, step: Change) -> Pool:
    if one.name != step.pool:
        return one
    capacity = one.capacity
    buckets = capacity.buckets if capacity.buckets is None else (*capacity.buckets, (one.whole_node, step.amount))
    made = PoolCapacity(capacity.nodes + step.amount, capacity.grow, buckets, capacity.whole, capacity.observed_time)
    return msgspec.structs.replace(one, capacity=made)


def _freed(world: Fleet, one: Cluster, step: Change) -> Iterator[Fleet]:
    home = one.pool(step.pool)
    assert home is not None
    if home.capacity.buckets is None:
        assert re.fullmatch(rf"free {step.amount} nodes? of pool {step.pool}", step.text)
        there = [key for key, who in world.by_key.items() if any(need.pool == step.pool for need in who.needs)]
        assert len(there) >= step.amount, "what is freed is taken"
        yield Fleet.of([one], [who for key, who in world.by_key.items() if key not in there[: step.amount]])
        return
    nodes = [free for free, count in home.capacity.buckets for _ in range(count)]
    for rest in _more_free(nodes, step.amount, dict(home.whole_node)):
        capacity = msgspec.structs.replace(home.capacity, buckets=tuple((free, 1) for free in rest))
        pools = tuple(msgspec.structs.replace(p, capacity=capacity) if p is home else p for p in one.pools)
        yield Fleet.of([msgspec.structs.replace(one, pools=pools)], world.by_key.values())


def _more_free(
    nodes: Sequence[tuple[tuple[str, int], ...]], amount: int, whole: dict[str, int]
) -> Iterator[list[tuple[tuple[str, int], ...]]]:
    """Every way to free so many devices of the one class on these nodes, none beyond what a node has."""
    limit = whole.get(GPU, 0)
    free = [dict(node).get(GPU, 0) for node in nodes]
    for split in itertools.product(*(range(max(0, min(amount, limit - have)) + 1) for have in free)):
        if sum(split) == amount:
            yield [((GPU, have + more),) for have, more in zip(free, split, strict=True)]


def _less(request: PlacementRequest, step: Change) -> PlacementRequest:
    """The request with the one count or selector changed that the words name: they have to name exactly one."""
    lowered = re.fullmatch(r"(.*): lower the count of request (\S+) from (\d+) to (\d+)", step.text)
    dropped = re.fullmatch(r"(.*): drop from request (\S+) the selector (.*)", step.text, re.DOTALL)
    found = lowered or dropped
    assert found, step.text
    made = []
    for e, engine in enumerate(request.engines):
        for m, member in enumerate(engine.members):
            who = f"engine {engine.name}" if len(engine.members) == 1 else f"{member.role} of engine {engine.name}"
            for r, asked in enumerate(member.requests):
                if who != found[1] or asked.name != found[2]:
                    continue
                if lowered:
                    assert asked.count == int(lowered[3])
                    smaller = [msgspec.structs.replace(asked, count=int(lowered[4]))]
                else:
                    smaller = [
                        msgspec.structs.replace(asked, selectors=(*asked.selectors[:s], *asked.selectors[s + 1 :]))
                        for s, selector in enumerate(asked.selectors)
                        if selector.text == found[3]
                    ][:1]
                made += [_with(request, e, m, r, one) for one in smaller]
    (after,) = made
    return after


def _with(request: PlacementRequest, e: int, m: int, r: int, asked: object) -> PlacementRequest:
    engine: Engine = request.engines[e]
    member: Member = engine.members[m]
    requests = (*member.requests[:r], asked, *member.requests[r + 1 :])
    members = (*engine.members[:m], msgspec.structs.replace(member, requests=requests), *engine.members[m + 1 :])
    engines = (*request.engines[:e], msgspec.structs.replace(engine, members=members), *request.engines[e + 1 :])
    return msgspec.structs.replace(request, engines=engines)


# --- the property ---------------------------------------------------------------------------------------------------


# A pool to which no node is added has no node more: this once named room on another pool alone.
@example(
    [PoolShape((Entry(40, 2, True, GPU),), 0, None, 0), PoolShape((Entry(40, 3, True, GPU),), 0, ((2, 5),), 0)],
    [
        EngineShape(1, (MemberShape(2, (Ask(40, 2),)),)),
        EngineShape(2, (MemberShape(1, (Ask(40, 2),)), MemberShape(1, (Ask(40, 3),)))),
    ],
    [],
    set(),
    {},
    False,
    "",
    "10.0.0.1",
)
@pytest.mark.timeout(600)
@examples(250)
@given(
    st.lists(DECLARED | OBSERVED, min_size=1, max_size=3),
    st.lists(ENGINES, min_size=1, max_size=2),
    st.lists(st.integers(0, 2), max_size=7),
    st.sets(st.sampled_from(TAINTS), max_size=2),
    st.sampled_from([{}, {"region": "us", "tier": "a"}, {"region": "eu", "tier": "a"}]),
    st.booleans(),
    st.sampled_from(["", "Unreachable"]),
    st.sampled_from(["10.0.0.1", ""]),
)
def test_after_the_named_change_one_more_replica_fits(
    pools: list[PoolShape],
    engines: list[EngineShape],
    taken: list[int],
    taints: set[str],
    labels: dict[str, str],
    storage: bool,
    unready: str,
    gateway: str,
) -> None:
    one = msgspec.structs.replace(
        cluster_of("c", pools),
        taints=tainted(*sorted(taints)),
        labels=labels,
        cache_storage=storage,
        ready=not unready,
        not_ready_reason=unready,
        gateway=gateway,
    )
    world = fleet(one, *occupied(one, taken))
    shapes = [engine_of(f"e{index}", shape) for index, shape in enumerate(engines)]
    request = want(1, *shapes, needs_cache_storage=True, selector={"region": "eu"}, staged={"tier": "a"})
    steps = smallest_change(world, request, one)
    assume(steps)
    assert not plan(world, request).placements, "what fits needs no change"
    for step in steps:
        event(f"step {step.step}")
    assert any(plan(after, asked).placements for after, asked in carried_out(world, request, steps)), [
        step.text for step in steps
    ]
    fewer = [steps[:at] + steps[at + 1 :] for at in range(len(steps))]
    assert not any(plan(*done).placements for some in fewer for done in carried_out(world, request, some)), (
        "every step is needed"
    )


# --- what it found ----------------------------------------------------------------------------------------------------


def test_a_pool_that_holds_more_than_it_has_needs_that_many_nodes_first() -> None:
    one = cluster("c", pool("p", 0))
    world = fleet(one, *[replica(f"c/{n}", stamped(pool="p"), of=OTHER) for n in range(2)])
    assert [step.text for step in smallest_change(world, want(), one)] == ["add 3 nodes to pool p"]
    half = cluster("c", pool("p", 1))
    world = fleet(half, *[replica(f"c/{n}", stamped(pool="p"), of=OTHER) for n in range(2)])
    assert [step.text for step in smallest_change(world, want(), half)] == ["free 2 nodes of pool p"]


def test_asking_for_less_goes_together_with_room() -> None:
    one = cluster("c", pool("p", 1, gpu("80Gi")))
    world = fleet(one, replica("c/0", stamped(pool="p"), of=OTHER))
    request = want(1, standalone(ask()))
    (selector,) = request.engines[0].members[0].requests[0].selectors
    assert [step.text for step in smallest_change(world, request, one)] == [
        f"engine main: drop from request gpu the selector {selector.text}",
        "free 1 node of pool p",
    ]


def test_one_step_of_asking_for_less_is_smaller_than_two_of_adding_nodes() -> None:
    one = cluster("c", pool("p", 0, gpu("80Gi")), pool("q", 1))
    engines = standalone(ask('device.driver == "gpu.nvidia.com"'), name="x"), standalone(ask(), name="y")
    crowded = fleet(one)
    (step,) = smallest_change(crowded, want(1, *engines), one)
    assert step.step is Step.ADD_NODES


def test_a_member_of_a_gang_is_named_by_its_role() -> None:
    one = cluster("c", pool("p", 3, gpu(count=4)))
    members = Member("Leader", 1, (ask(count=4),)), Member("Worker", 1, (ask(count=8),))
    (step,) = smallest_change(fleet(one), want(1, Engine("main", 1, members)), one)
    assert step.text == "Worker of engine main: lower the count of request gpu from 8 to 4"
