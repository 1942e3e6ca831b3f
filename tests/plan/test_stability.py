"""What is placed stays where it is, whatever is added, drained or asked for besides, on random fleets."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.plan import Cluster, Fleet, Plan, plan
from modelplane.plan.capacity import PoolCapacity
from modelplane.plan.taints import Taint
from tests.plan.examples import examples
from tests.plan.test_oracle import (
    CLUSTERS,
    DECLARED,
    ENGINES,
    EngineShape,
    PoolShape,
    cluster_of,
    request_for,
)
from tests.plan.words import places

pytestmark = pytest.mark.timeout(600)
"""Properties share the machine with other tests."""

SLOW = examples(100)
ALL_DECLARED = st.lists(st.lists(DECLARED, min_size=1, max_size=3), min_size=1, max_size=4)
DRAIN = (Taint("modelplane.ai/drain", "", "NoExecute"),)


def seats(found: Plan) -> set[tuple[object, ...]]:
    """Every replica with its name and the pools of its engines."""
    return {(one.cluster, one.index, one.name, one.engines) for one in found.placements}


def clusters_of(shapes: Sequence[Sequence[PoolShape]]) -> list[Cluster]:
    return [cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)]


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
    assert seats(first) <= seats(again)
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
    stayed = {seat for seat in seats(first) if seat[0] != drained}
    assert stayed <= seats(moved)
    assert not any(place.startswith(f"{drained}/") for place in places(moved))
    back = plan(Fleet.of(clusters, moved.assumed()), request)
    assert seats(moved) <= seats(back)
    assert not back.removed
