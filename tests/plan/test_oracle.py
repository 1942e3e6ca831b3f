"""The planner against brute force, on every small fleet that Hypothesis thinks of.

The oracle knows numbers only: it tries every pool for every engine, every device for every request, every node for every pod.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Code, Fleet, Placement, PlacementRequest, Pool, plan
from modelplane.plan.devices import DRA, Device, match
from modelplane.plan.request import Engine, Member
from tests.plan.examples import examples
from tests.plan.words import GPU, ask, cluster, gpu, memory, pool, want

pytestmark = pytest.mark.timeout(600)
"""Properties share the machine with other tests."""

LEVELS = (40, 80, 141)


class Entry(NamedTuple):
    """A device entry: amount of memory, units, claimed or only matched, its DeviceClass."""

    level: int
    count: int
    claimed: bool
    device_class: str

    def device(self, name: str) -> Device:
        return gpu(f"{self.level}Gi", self.count, DRA if self.claimed else "Synthetic", self.device_class, name)

    @property
    def group(self) -> str:
        return self.device_class if self.claimed else ""


class Ask(NamedTuple):
    level: int
    count: int


class MemberShape(NamedTuple):
    pods: int
    asks: tuple[Ask, ...]


class EngineShape(NamedTuple):
    copies: int
    members: tuple[MemberShape, ...]


class PoolShape(NamedTuple):
    entries: tuple[Entry, ...]
    nodes: int
    buckets: tuple[tuple[int, int], ...] | None
    """Observed: (free devices of the one class, nodes)."""
    grow: int


# --- the oracle ----------------------------------------------------------------------------------------------------


def assignments(asks: Sequence[Ask], entries: Sequence[Entry]) -> list[dict[str, int]]:
    """Every way to meet the requests: claims by class. Units are tried one by one."""
    units = [entry for entry in entries for _ in range(entry.count)]
    found: list[dict[str, int]] = []

    def meet(at: int, used: frozenset[int], claims: dict[str, int]) -> None:
        if at == len(asks):
            if claims not in found:
                found.append(dict(claims))
            return
        wanted = asks[at]
        fitting = [i for i, unit in enumerate(units) if i not in used and unit.level >= wanted.level]
        for chosen in itertools.combinations(fitting, wanted.count):
            groups = {units[i].group for i in chosen}
            if len(groups) != 1:
                continue
            (group,) = groups
            more = {**claims, group: claims.get(group, 0) + wanted.count} if group else claims
            meet(at + 1, used | set(chosen), more)

    meet(0, frozenset(), {})
    return found


def packs(pods: Sequence[dict[str, int]], nodes: Sequence[dict[str, int]]) -> bool:
    """Whether the pods fit the nodes, by trying every node for every pod."""
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    tried: list[dict[str, int]] = []
    for index, node in enumerate(nodes):
        if node in tried or any(node.get(name, 0) < count for name, count in first.items()):
            continue
        tried.append(node)
        left = {name: node.get(name, 0) - first.get(name, 0) for name in node}
        if packs(rest, [*nodes[:index], left, *nodes[index + 1 :]]):
            return True
    return False


def can_place(engines: Sequence[EngineShape], pools: Sequence[PoolShape]) -> bool:
    ways = [[[assignments(m.asks, p.entries) for m in engine.members] for p in pools] for engine in engines]
    claimable = [
        [any(any(way) for p in range(len(pools)) for way in ways[e][p][m]) for m in range(len(engine.members))]
        for e, engine in enumerate(engines)
    ]
    if not all(any(members) for members in claimable):
        return False
    for chosen in itertools.product(range(len(pools)), repeat=len(engines)):
        loads: dict[int, list[dict[str, int]]] = {}
        for e, p in enumerate(chosen):
            for m, member in enumerate(engines[e].members):
                # A member claims where it can; which class it claims makes no difference to these fleets' nodes.
                options = [way for way in ways[e][p][m] if bool(way) or not claimable[e][m]]
                if not options:
                    break
                best = max(options, key=lambda way: sum(way.values()))
                if best:
                    loads.setdefault(p, []).extend([best] * (member.pods * engines[e].copies))
            else:
                continue
            break
        else:
            if all(room(pools[p], pods) for p, pods in loads.items()):
                return True
    return False


def room(shape: PoolShape, pods: list[dict[str, int]]) -> bool:
    if shape.buckets is None:
        return len(pods) <= shape.nodes + shape.grow
    whole: dict[str, int] = {}
    for entry in shape.entries:
        if entry.claimed:
            whole[entry.device_class] = whole.get(entry.device_class, 0) + entry.count
    nodes = [{GPU: free} for free, count in shape.buckets for _ in range(count)]
    return packs(sorted(pods, key=lambda pod: -sum(pod.values())), [*nodes, *[whole] * shape.grow])


# --- random fleets -------------------------------------------------------------------------------------------------

ENTRIES = st.builds(Entry, st.sampled_from(LEVELS), st.integers(0, 3), st.booleans() | st.just(True), st.just(GPU))
MIXED = st.builds(Entry, st.sampled_from(LEVELS), st.integers(0, 3), st.booleans(), st.sampled_from([GPU, "other"]))
ASKS = st.builds(Ask, st.sampled_from(LEVELS), st.integers(1, 3))
MEMBERS = st.builds(MemberShape, st.integers(1, 2), st.lists(ASKS, min_size=1, max_size=2).map(tuple))
ENGINES = st.builds(EngineShape, st.integers(1, 2), st.lists(MEMBERS, min_size=1, max_size=2).map(tuple))
DECLARED = st.builds(
    PoolShape, st.lists(ENTRIES, min_size=1, max_size=3).map(tuple), st.integers(0, 5), st.none(), st.integers(0, 2)
)
OBSERVED = st.builds(
    PoolShape,
    st.lists(ENTRIES, min_size=1, max_size=3).map(tuple),
    st.just(0),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2)), max_size=3).map(tuple),
    st.integers(0, 1),
)
CLUSTERS = st.lists(st.lists(DECLARED | OBSERVED, min_size=1, max_size=3), min_size=1, max_size=4)


def pool_of(name: str, shape: PoolShape) -> Pool:
    devices = [entry.device(f"d{index}") for index, entry in enumerate(shape.entries)]
    free: Any = None if shape.buckets is None else [({GPU: amount}, count) for amount, count in shape.buckets]
    return pool(name, shape.nodes, *devices, grow=shape.grow, free=free)


def cluster_of(name: str, shapes: Sequence[PoolShape]) -> Cluster:
    return cluster(name, *[pool_of(f"p{index}", shape) for index, shape in enumerate(shapes)])


def engine_of(name: str, shape: EngineShape) -> Engine:
    roles = ("Standalone",) if len(shape.members) == 1 else ("Leader", "Worker")
    members = tuple(
        Member(
            role,
            member.pods,
            tuple(ask(memory(f"{one.level}Gi"), one.count, f"r{i}") for i, one in enumerate(member.asks)),
        )
        for role, member in zip(roles, shape.members, strict=True)
    )
    return Engine(name, shape.copies, members)


def request_for(engines: Sequence[EngineShape], replicas: int) -> PlacementRequest:
    return want(replicas, *[engine_of(f"e{index}", shape) for index, shape in enumerate(engines)])


SLOW = examples(150)


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=3))
def test_a_replica_is_placed_exactly_when_brute_force_finds_a_place(
    shapes: list[list[PoolShape]], engines: list[EngineShape]
) -> None:
    world = Fleet.of([cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)])
    possible = [f"c{index}" for index, pools in enumerate(shapes) if can_place(engines, pools)]
    found = plan(world, request_for(engines, 1), explain=True)
    assert [one.cluster for one in found.placements] == possible[:1]
    if not possible:
        assert all(verdict.code is not Code.FITS for verdict in found.verdicts)
        assert found.condition().reason == "InsufficientCapacity"
    else:
        spare = plan(world, request_for(engines, 0), explain=True).verdicts
        assert [verdict.cluster for verdict in spare if verdict.code is Code.FITS] == possible


@SLOW
@given(st.lists(MIXED, min_size=1, max_size=3), st.lists(ASKS, min_size=1, max_size=3))
def test_requests_are_met_exactly_when_some_choice_of_devices_meets_them(entries: list[Entry], asks: list[Ask]) -> None:
    devices = [entry.device(f"d{index}") for index, entry in enumerate(entries)]
    requests = [ask(memory(f"{one.level}Gi"), one.count, f"r{index}") for index, one in enumerate(asks)]
    ways = assignments(asks, entries)
    found = match(requests, devices)
    assert (found is not None) == bool(ways)
    if found is not None:
        assert dict(found.claims) in ways
        assert bool(found.claims) == any(bool(way) for way in ways)
        for order in itertools.permutations(range(len(devices))):
            again = match(list(reversed(requests)), [devices[index] for index in order])
            assert again is not None
            assert again.claims == found.claims


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 5))
def test_one_more_replica_adds_at_most_one_and_moves_none(
    shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int
) -> None:
    world = Fleet.of([cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)])
    first = plan(world, request_for(engines, replicas))
    more = plan(world.assuming(first.assumed()), request_for(engines, replicas + 1))
    before, after = (
        {(one.cluster, one.index, one.name, one.engines) for one in found.placements} for found in (first, more)
    )
    assert before <= after
    assert len(after) <= len(before) + 1


@SLOW
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2), st.integers(1, 4), st.randoms(use_true_random=False))
def test_shuffled_input_gives_the_same_plan(
    shapes: list[list[PoolShape]], engines: list[EngineShape], replicas: int, random: Any
) -> None:
    clusters = [cluster_of(f"c{index}", pools) for index, pools in enumerate(shapes)]
    others = plan(Fleet.of(clusters), msgspec.structs.replace(request_for(engines, 2), key=Key("ml", "o"))).assumed()
    own = plan(Fleet.of(clusters, others), request_for(engines, 1)).assumed()
    request = request_for(engines, replicas)
    first = plan(Fleet.of(clusters, (*others, *own)), request, explain=True)
    shuffled = [_shuffled(one, random) for one in clusters]
    replicas_there = [*others, *own]
    random.shuffle(shuffled)
    random.shuffle(replicas_there)
    again = plan(Fleet.of(shuffled, replicas_there), _asked_otherwise(request, random), explain=True)
    assert msgspec.structs.replace(again, placements=()) == msgspec.structs.replace(first, placements=())
    # Requests are claimed in the order in which the deployment has them.
    assert [_in_order(one) for one in again.placements] == [_in_order(one) for one in first.placements]


def _shuffled(cluster: Cluster, random: Any) -> Cluster:
    """The same cluster, its devices and histograms in another order; the order of pools is the owner's preference."""
    pools = []
    for one in cluster.pools:
        devices, buckets = list(one.devices), list(one.capacity.buckets or ())
        random.shuffle(devices)
        random.shuffle(buckets)
        known = one.capacity.buckets is not None
        capacity = msgspec.structs.replace(one.capacity, buckets=tuple(buckets) if known else None)
        pools.append(msgspec.structs.replace(one, devices=tuple(devices), capacity=capacity))
    return msgspec.structs.replace(cluster, pools=tuple(pools))


def _asked_otherwise(request: PlacementRequest, random: Any) -> PlacementRequest:
    """The same request, the requests of its members in another order."""
    engines = []
    for engine in request.engines:
        members = []
        for member in engine.members:
            requests = list(member.requests)
            random.shuffle(requests)
            members.append(msgspec.structs.replace(member, requests=tuple(requests)))
        engines.append(msgspec.structs.replace(engine, members=tuple(members)))
    return msgspec.structs.replace(request, engines=tuple(engines))


def _in_order(placement: Placement) -> tuple[object, ...]:
    engines = [
        (
            e.name,
            e.copies,
            [(m.role, m.pool, m.pods, sorted(m.requests or (), key=lambda r: r.name)) for m in e.members],
        )
        for e in placement.engines
    ]
    return placement.cluster, placement.index, placement.name, placement.state, placement.annotation, engines


@pytest.mark.parametrize("replicas", [2, 3])
def test_drain_then_undrain_moves_no_unaffected_replica(replicas: int) -> None:
    from tests.plan.words import places, tainted

    clusters = [cluster(name, pool("default", 2)) for name in "abc"]
    first = plan(Fleet.of(clusters), want(replicas))
    drained = [
        clusters[0],
        cluster("b", pool("default", 2), taints=tainted("modelplane.ai/drain:NoExecute")),
        clusters[2],
    ]
    moved = plan(Fleet.of(drained, first.assumed()), want(replicas))
    back = plan(Fleet.of(clusters, moved.assumed()), want(replicas))
    stayed = [place for place in places(first) if not place.startswith("b/")]
    assert set(stayed) <= set(places(moved))
    assert places(back) == places(moved)
