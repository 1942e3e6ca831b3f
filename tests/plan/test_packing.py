"""Devices on nodes: whatever was placed, in whatever order it is counted, fits the nodes together, and the count adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Code, Fleet, Plan, Replica, State, plan
from modelplane.plan.capacity import Ledger, Need, PoolCapacity, PoolLedger
from modelplane.plan.fleet import Picture
from tests.plan.examples import examples
from tests.plan.test_oracle import (
    CLUSTERS,
    DECLARED,
    ENGINES,
    OBSERVED,
    Ask,
    EngineShape,
    Entry,
    MemberShape,
    PoolShape,
    can_place,
    cluster_of,
    packs,
    request_for,
)
from tests.plan.words import GPU

Fleets = list[list[PoolShape]]
SEVERAL = st.lists(st.lists(ENGINES, min_size=1, max_size=2), min_size=1, max_size=3)
ALL_OBSERVED = st.lists(st.lists(OBSERVED, min_size=1, max_size=2), min_size=1, max_size=3)


pytestmark = pytest.mark.timeout(600)
"""Properties share the machine with other tests."""


def clusters_of(shapes: Sequence[Sequence[PoolShape]]) -> list[Cluster]:
    return [cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)]


def pods_on(replicas: Sequence[Replica], cluster: str, pool: str) -> list[dict[str, int]]:
    """The claims of every pod on a pool, the largest first."""
    pods = [
        dict(need.claims)
        for replica in replicas
        if replica.cluster == cluster
        for need in replica.needs
        if need.pool == pool
        for _ in range(need.pods)
    ]
    return sorted(pods, key=lambda pod: -sum(pod.values()))


def nodes_of(shape: PoolShape) -> list[dict[str, int]]:
    """What an observed pool has free, node by node, with those that may come."""
    whole: Counter[str] = Counter()
    for entry in shape.entries:
        if entry.claimed:
            whole[entry.device_class] += entry.count
    there = [{GPU: free} for free, count in shape.buckets or () for _ in range(count)]
    return [*there, *[dict(whole)] * shape.grow]


def assert_fits(shapes: Sequence[Sequence[PoolShape]], replicas: Sequence[Replica]) -> None:
    for c, pools in enumerate(shapes):
        for p, shape in enumerate(pools):
            pods = pods_on(replicas, f"c{c}", f"p{p}")
            if shape.buckets is None:
                assert len(pods) <= shape.nodes + shape.grow
            else:
                assert packs(pods, nodes_of(shape)), f"{pods} on {nodes_of(shape)}"


@examples(150)
@given(CLUSTERS, SEVERAL, st.integers(1, 3))
def test_whatever_deployments_are_placed_fits_the_nodes_together(
    shapes: Fleets, asked: list[list[EngineShape]], replicas: int
) -> None:
    world = Fleet.of(clusters_of(shapes))
    for number, engines in enumerate(asked):
        request = msgspec.structs.replace(request_for(engines, replicas), key=Key("ml", f"d{number}"))
        world = world.assuming(plan(world, request).assumed())
    assert_fits(shapes, world.replicas)


def left(shapes: Sequence[Sequence[PoolShape]], world: Fleet) -> Fleets:
    """What placements leave: of declared pools counted here, of observed ones as the ledger has it, which has to add up."""
    rest: Fleets = []
    for c, pools in enumerate(shapes):
        ledger = world.ledger(f"c{c}")
        found = []
        for p, shape in enumerate(pools):
            pods = pods_on(world.replicas, f"c{c}", f"p{p}")
            buckets = ledger.pools[f"p{p}"].buckets
            if buckets is None:
                found.append(shape._replace(nodes=shape.nodes - len(pods)))
                continue
            grow = ledger.pools[f"p{p}"].grow
            free = tuple((dict(claims).get(GPU, 0), nodes) for claims, nodes in buckets.items())
            rest_of_pool = shape._replace(buckets=free, grow=grow)
            before, after = (sum(node.get(GPU, 0) for node in nodes_of(one)) for one in (shape, rest_of_pool))
            assert before - after == sum(pod[GPU] for pod in pods)
            assert len(nodes_of(shape)) == len(nodes_of(rest_of_pool))
            found.append(rest_of_pool)
        rest.append(found)
    return rest


@examples(150)
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=3), st.integers(1, 6))
def test_replica_by_replica_it_places_exactly_when_brute_force_can(
    shapes: Fleets, engines: list[EngineShape], most: int
) -> None:
    world = Fleet.of(clusters_of(shapes))
    found = plan(world, request_for(engines, 0), explain=True)
    for replicas in range(1, most + 1):
        world = world.assuming(found.assumed())
        rest = left(shapes, world)
        possible = [f"c{index}" for index, pools in enumerate(rest) if can_place(engines, pools)]
        assert [verdict.cluster for verdict in found.verdicts if verdict.code is Code.FITS] == possible
        before = Counter(one.cluster for one in found.placements)
        found = plan(world, request_for(engines, replicas), explain=True)
        after = Counter(one.cluster for one in found.placements)
        wanted = [min(possible, key=lambda name: (before[name], name))] if possible else []
        assert list((after - before).elements()) == wanted
        if not possible:
            assert found.missing == 1
            for verdict, had, has in zip(found.verdicts, shapes, rest, strict=True):
                assert verdict.code in codes(engines, had, has), verdict
            return


def codes(engines: Sequence[EngineShape], had: Sequence[PoolShape], has: Sequence[PoolShape]) -> set[Code]:
    """The verdicts that are right for a cluster which takes no further replica."""
    boundless = [
        pool._replace(
            nodes=99, buckets=None if pool.buckets is None else (), grow=99 if pool.buckets is not None else 0
        )
        for pool in had
    ]
    if not all(can_place([engine], boundless) for engine in engines):
        return {Code.NO_DEVICE, Code.TOO_FEW_DEVICES, Code.NOTHING_CLAIMED}
    empty = [
        pool if pool.buckets is None else pool._replace(buckets=(), grow=pool.grow + sum(n for _, n in pool.buckets))
        for pool in had
    ]
    alone = next((engine for engine in engines if not can_place([engine], has)), None)
    if alone is not None and not can_place([alone], empty):
        return {Code.GANG_TOO_LARGE}
    return {Code.FULL}


@examples(60)
@given(ALL_OBSERVED, SEVERAL, st.integers(1, 3), st.randoms(use_true_random=False))
def test_the_order_in_which_reservations_are_counted_makes_no_difference(
    shapes: Fleets, asked: list[list[EngineShape]], replicas: int, random: Any
) -> None:
    picture = Picture()
    for one in clusters_of(shapes):
        picture.put(one)
    for number, engines in enumerate(asked):
        picture.build()
        request = msgspec.structs.replace(request_for(engines, replicas), key=Key("ml", f"d{number}"))
        for replica in plan(picture.fleet, request).assumed():
            picture.promise(replica)
    kept = {name: states(picture.fleet.room(name)) for name in picture.fleet.clusters}
    reservations = list(picture.fleet.replicas)
    random.shuffle(reservations)
    anew = Fleet.of(clusters_of(shapes), reservations)
    assert {name: states(anew.room(name)) for name in anew.clusters} == kept


def states(ledger: Ledger) -> dict[str, tuple[object, ...]]:
    return {name: pool.state() for name, pool in ledger.pools.items()}


def test_pods_that_fit_only_together_are_charged_together() -> None:
    # One by one the small pod takes of the node that a large one needs; then a large one would count for nothing.
    capacity = PoolCapacity(2, 0, ((((GPU, 4),), 1), (((GPU, 5),), 1)), ((GPU, 5),))
    ledger = Ledger.of({"p": capacity})
    ledger.charge([Need("p", 1, ((GPU, 1),)), Need("p", 2, ((GPU, 4),))])
    assert ledger.pools["p"].buckets == {(): 2}


def test_what_is_charged_without_room_takes_what_there_is() -> None:
    capacity = PoolCapacity(1, 0, ((((GPU, 3),), 1),), ((GPU, 4),))
    ledger = Ledger.of({"p": capacity})
    ledger.charge([Need("p", 1, ((GPU, 1),)), Need("p", 1, ((GPU, 4),)), Need("elsewhere", 1, ((GPU, 1),))])
    assert ledger.pools["p"].buckets == {((GPU, 2),): 1}


# --- sizes that change ---------------------------------------------------------------------------------------------

ALL_DECLARED = st.lists(st.lists(DECLARED, min_size=1, max_size=2), min_size=1, max_size=3)


def carried_out(world: Fleet, found: Plan, *, ready: bool) -> Fleet:
    """The fleet once the plan is carried out."""
    gone = {one.name for one in found.removed}
    made = {one.key: msgspec.structs.replace(one, assumed=False, ready=ready) for one in found.assumed()}
    stay = [one for one in world.replicas if one.key.name not in gone and one.key not in made]
    return Fleet.of(world.clusters.values(), [*stay, *made.values()])


def resized(engine: EngineShape, size: EngineShape) -> EngineShape:
    """The same requests in other numbers: pods and copies change, and nothing else."""
    last = len(size.members) - 1
    members = (one._replace(pods=size.members[min(at, last)].pods) for at, one in enumerate(engine.members))
    return engine._replace(copies=size.copies, members=tuple(members))


ONE_GPU: Final = (Entry(40, 1, True, GPU),)


# Two replicas find room together, where each has none beside the other: which of their slots is kept must not change once that
# is promised.
@example(
    [[PoolShape(ONE_GPU, nodes=0, buckets=None, grow=2)], [PoolShape(ONE_GPU, nodes=2, buckets=None, grow=2)]],
    EngineShape(1, (MemberShape(1, (Ask(40, 1),)),)),
    EngineShape(1, (MemberShape(2, (Ask(40, 1),)),)),
    3,
    True,
)
@examples(200)
@given(ALL_DECLARED, ENGINES, ENGINES, st.integers(1, 3), st.booleans())
def test_a_deployment_that_changes_its_size_never_takes_what_is_not_there(
    shapes: Fleets, small: EngineShape, large: EngineShape, replicas: int, serving: bool
) -> None:
    grown = resized(small, large)
    world = Fleet.of(clusters_of(shapes))
    first = carried_out(world, plan(world, request_for([small], replicas)), ready=serving)
    request = request_for([grown], replicas)
    found = plan(first, request)
    again = plan(first.assuming(found.assumed()), request)
    assert seats(again) == seats(found), "nothing moves while it is carried out"
    then = carried_out(first, found, ready=True)
    assert_fits(shapes, [one for one in then.replicas if one.key.name not in leaving(found)])
    names = {one.key.name for one in first.replicas if one.ready}
    assert names <= {one.name for one in found.placements}, "what serves goes on serving"
    for placement in found.placements:
        if placement.state is not State.HELD:
            continue
        others = Fleet.of(then.clusters.values(), [one for one in then.replicas if one.key.name != placement.name])
        rest = left(shapes, others)
        for index, pools in enumerate(rest):
            # Its own room counts on its own cluster alone; what leaves still takes room.
            own = f"c{index}" == placement.cluster
            room = pools if own else left(shapes, then)[index]
            assert not can_place([grown], room), f"it would fit c{index}"


@examples(150)
@given(ALL_DECLARED, st.lists(ENGINES, min_size=2, max_size=4), st.integers(1, 4))
def test_a_change_of_size_comes_to_rest(shapes: Fleets, sizes: list[EngineShape], replicas: int) -> None:
    world = Fleet.of(clusters_of(shapes))
    for size in sizes:
        request = request_for([resized(sizes[0], size)], replicas)
        found = plan(world, request)
        for _ in range(2 * replicas):
            world = carried_out(world, found, ready=True)
            before, found = found, plan(world, request)
            if at_rest(found) == at_rest(before):
                break
        else:
            raise AssertionError(f"still moving: {at_rest(before)}, then {at_rest(found)}")


def at_rest(found: Plan) -> set[tuple[object, ...]]:
    return {(one.cluster, one.index, one.engines, one.state is State.LEAVING) for one in found.placements}


def seats(found: Plan) -> list[tuple[object, ...]]:
    return [(one.cluster, one.index, one.name, one.engines, one.state) for one in found.placements]


def leaving(found: Plan) -> set[str]:
    return {one.name for one in found.placements if one.state is State.LEAVING}


def test_free_room_is_never_less_than_none() -> None:
    pool = PoolLedger.of(PoolCapacity(2, 1))
    pool.charge(Need("p", 3, ((GPU, 1),)))
    assert (pool.free(()), pool.growth(())) == (0, 0)
    pool.charge(Need("p", 3, ((GPU, 1),)))
    assert (pool.free(()), pool.growth(())) == (0, 0)


@pytest.mark.parametrize(
    ("buckets", "claims", "after", "reason"),
    [
        (((2, 1), (8, 1)), 4, {6: 1, 8: 1}, "one node can have had them"),
        (((2, 1), (3, 1)), 4, {2: 1, 3: 1, 4: 1}, "two kinds can: they count apart"),
        (((8, 1),), 4, {8: 1, 4: 1}, "none can, as far as the class tells"),
        (((0, 2),), 4, {0: 1, 4: 1}, "either of two that are alike"),
    ],
)
def test_devices_that_come_free_are_counted_together_only_where_they_lie_together(
    buckets: tuple[tuple[int, int], ...], claims: int, after: dict[int, int], reason: str
) -> None:
    free = tuple((((GPU, amount),), nodes) for amount, nodes in buckets)
    ledger = PoolLedger.of(PoolCapacity(2, 0, free, ((GPU, 8),)))
    ledger.give_back(Need("p", 1, ((GPU, claims),)))
    assert {dict(one).get(GPU, 0): nodes for one, nodes in (ledger.buckets or {}).items()} == after, reason
