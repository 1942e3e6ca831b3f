"""What is placed stays where it is, and what is placed next is what brute force would find, on random fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelplane.plan import Cluster, Code, Fleet, Plan, plan
from modelplane.plan.capacity import PoolCapacity
from modelplane.plan.taints import Taint
from tests.plan.test_oracle import (
    CLUSTERS,
    DECLARED,
    ENGINES,
    EngineShape,
    PoolShape,
    can_place,
    cluster_of,
    request_for,
)
from tests.plan.words import places

SLOW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALL_DECLARED = st.lists(st.lists(DECLARED, min_size=1, max_size=3), min_size=1, max_size=4)
DRAIN = (Taint("modelplane.ai/drain", "", "NoExecute"),)


def clusters_of(shapes: Sequence[Sequence[PoolShape]]) -> list[Cluster]:
    return [cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)]


def left(shapes: Sequence[Sequence[PoolShape]], found: Plan) -> list[list[PoolShape]]:
    """What the placements leave of declared pools."""
    used: Counter[tuple[str, str]] = Counter()
    for one in found.placements:
        for engine in one.engines:
            for member in engine.members:
                used[one.cluster, member.pool] += member.pods * engine.copies if member.requests else 0
    return [
        [pool._replace(nodes=pool.nodes - used[f"c{c}", f"p{p}"]) for p, pool in enumerate(pools)]
        for c, pools in enumerate(shapes)
    ]


@SLOW
@given(ALL_DECLARED, st.lists(ENGINES, min_size=1, max_size=3), st.integers(1, 6))
def test_replica_by_replica_it_places_exactly_when_brute_force_can(
    shapes: list[list[PoolShape]], engines: list[EngineShape], most: int
) -> None:
    world = Fleet.of(clusters_of(shapes))
    found = plan(world, request_for(engines, 0), explain=True)
    for replicas in range(1, most + 1):
        rest = left(shapes, found)
        possible = [f"c{index}" for index, pools in enumerate(rest) if can_place(engines, pools)]
        assert [verdict.cluster for verdict in found.verdicts if verdict.code is Code.FITS] == possible
        before = Counter(one.cluster for one in found.placements)
        found = plan(world.assuming(found.assumed()), request_for(engines, replicas), explain=True)
        after = Counter(one.cluster for one in found.placements)
        wanted = [min(possible, key=lambda name: (before[name], name))] if possible else []
        assert list((after - before).elements()) == wanted
        if not possible:
            assert found.missing
            return


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 5))
def test_placing_again_moves_nothing(shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int) -> None:
    world = Fleet.of(clusters_of(shapes))
    first = plan(world, request_for(engines, replicas))
    again = plan(world.assuming(first.assumed()), request_for(engines, replicas))
    assert places(again) == places(first)
    assert [one.engines for one in again.placements] == [one.engines for one in first.placements]
    assert not again.removed


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 5), st.integers(1, 3))
def test_added_capacity_moves_nothing(
    shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int, more: int
) -> None:
    first = plan(Fleet.of(clusters_of(shapes)), request_for(engines, replicas))
    larger = [_grown(cluster, more) for cluster in clusters_of([*shapes, *shapes])]
    again = plan(Fleet.of(larger, first.assumed()), request_for(engines, replicas))
    assert set(places(first)) <= set(places(again))
    assert not again.removed


def _grown(cluster: Cluster, more: int) -> Cluster:
    pools = []
    for one in cluster.pools:
        known = one.capacity
        buckets = known.buckets if known.buckets is None else (*known.buckets, (one.whole_node, more))
        capacity = PoolCapacity(known.nodes + more, known.grow, buckets, known.whole, known.observed_time)
        pools.append(msgspec.structs.replace(one, capacity=capacity))
    return msgspec.structs.replace(cluster, pools=tuple(pools))


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 5), st.integers(0, 3))
def test_a_drain_and_its_end_move_no_replica_of_another_cluster(
    shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int, which: int
) -> None:
    clusters = clusters_of(shapes)
    drained = f"c{which % len(clusters)}"
    request = request_for(engines, replicas)
    first = plan(Fleet.of(clusters), request)
    during = [msgspec.structs.replace(one, taints=DRAIN) if one.name == drained else one for one in clusters]
    moved = plan(Fleet.of(during, first.assumed()), request)
    stayed = {place for place in places(first) if not place.startswith(f"{drained}/")}
    assert stayed <= set(places(moved))
    assert not any(place.startswith(f"{drained}/") for place in places(moved))
    back = plan(Fleet.of(clusters, moved.assumed()), request)
    assert set(places(moved)) <= set(places(back))
    assert not back.removed


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 6))
def test_observed_devices_are_never_given_twice(
    shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int
) -> None:
    found = plan(Fleet.of(clusters_of(shapes)), request_for(engines, replicas))
    for index, pools in enumerate(shapes):
        for number, shape in enumerate(pools):
            taken = sum(
                request.count * member.pods * engine.copies
                for one in found.placements
                if one.cluster == f"c{index}"
                for engine in one.engines
                for member in engine.members
                if member.pool == f"p{number}"
                for request in member.requests or ()
            )
            whole = sum(entry.count for entry in shape.entries if entry.claimed)
            if shape.buckets is not None:
                assert taken <= sum(free * nodes for free, nodes in shape.buckets) + shape.grow * whole
            else:
                assert taken <= (shape.nodes + shape.grow) * whole
