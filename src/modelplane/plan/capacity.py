"""What a pool has to give, and what placements take from it.

Where capacity is only declared, a pod of a claiming member takes a whole node. Where an agent observes it, a pod takes devices of
a node, and nodes are counted by the exact combination of devices that they have free. Either way a pool has two
numbers: nodes that are there, and nodes by which it could grow. CPU and memory are not counted: an engine cannot ask for them
(`api/pods.py`), and no observation tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

_TRIES: Final = 5_000
"""Nodes that a search may try for pods of different sizes; real pools need a few dozen."""
_CHARGE_TRIES: Final = 500
"""The same for what has its room already and is only counted; each cluster's are counted often."""
_LARGEST_SEARCH: Final = 200
"""Pods of different sizes beyond which each goes where it leaves least free, without a search."""

Claims: TypeAlias = tuple[tuple[str, int], ...]
"""Devices by DeviceClass, in order of class."""


class Need(msgspec.Struct, frozen=True, order=True):
    """So many pods, each on a node of this pool with these devices."""

    pool: str
    pods: int
    claims: Claims


class PoolCapacity(msgspec.Struct, frozen=True):
    """The figures of a pool before any placement of ours is charged that they do not know of.

    ``buckets`` None means declared: ``nodes`` whole nodes. Observed: schedulable nodes by free devices. ``grow`` nodes may come,
    each with the devices of ``whole``.
    """

    nodes: int
    grow: int = 0
    buckets: tuple[tuple[Claims, int], ...] | None = None
    whole: Claims = ()
    observed_time: str = ""

    @property
    def observed(self) -> bool:
        return self.buckets is not None


class PoolLedger(msgspec.Struct, eq=False, gc=False):
    """One pool's capacity less what is charged: mutable, copied for trials."""

    source: PoolCapacity
    nodes: int
    grow: int
    limit: int
    whole: Claims
    buckets: dict[Claims, int] | None
    charged: Claims | None = None
    """What every pod that was charged so far has claimed, nothing where they differ; see `alike`."""

    @classmethod
    def of(cls, capacity: PoolCapacity) -> PoolLedger:
        """With nothing charged."""
        buckets = None if capacity.buckets is None else dict(_histogram(capacity.buckets))
        nodes, grow = capacity.nodes, capacity.grow
        return cls(capacity, nodes, grow, nodes + grow, capacity.whole, buckets)

    def copy(self) -> PoolLedger:
        twin = copy(self)
        if twin.buckets is not None:
            twin.buckets = dict(twin.buckets)
        return twin

    def state(self) -> tuple[object, ...]:
        """What is left, as something to compare."""
        buckets = None if self.buckets is None else tuple(sorted(self.buckets.items()))
        return (self.nodes, self.grow, buckets)

    def free(self, claims: Claims) -> int:
        """Pods with these claims that fit now, growth apart; never negative."""
        if self.buckets is None:
            return max(0, self.nodes)
        return sum(count * pods_per_node(free, claims) for free, count in self.buckets.items())

    @property
    def overdrawn(self) -> int:
        """Nodes that a declared pool lacks for what is on it."""
        return max(0, -self.nodes - self.grow) if self.buckets is None else 0

    def growth(self, claims: Claims) -> int:
        """Pods with these claims that fit on nodes that may come."""
        if self.buckets is None:
            return max(0, self.grow + min(0, self.nodes))
        return self.grow * pods_per_node(self.whole, claims)

    def most_free(self, claims: Claims) -> Mapping[str, int]:
        """On the node that comes nearest to the claims: what is free of each class."""
        assert self.buckets, "a pool that is too full has nodes"
        ranked = []
        for free in self.buckets:
            have = dict(free)
            ranked.append((sum(min(have.get(name, 0), count) for name, count in claims), free))
        return dict(max(ranked)[1])

    def charge(self, need: Need) -> int:
        """Take room for the need, whether it is there or not. Gives the pods that wait for nodes to come."""
        if self.buckets is None:
            before = max(0, self.nodes)
            self.nodes -= need.pods
            return max(0, need.pods - before)
        self.charged = need.claims if self.alike(need.claims) else ()
        waiting = 0
        for _ in range(need.pods):
            if not self._take_one(need.claims):
                waiting += self._grow_one(need.claims)
        return waiting

    def alike(self, claims: Claims) -> bool:
        """Whether pods with these claims can be charged in any order, which is so while all have the same."""
        return self.buckets is None or self.charged is None or self.charged == claims

    def how_many(self, needs: Sequence[Need]) -> int:
        """Of the needs' pods, those that would find room one after the other."""
        trial = self.copy()
        found = 0
        for need in needs:
            fitting = min(need.pods, trial.free(need.claims) + trial.growth(need.claims))
            trial.charge(Need(need.pool, fitting, need.claims))
            found += fitting
        return found

    def give_back(self, need: Need) -> None:
        """Devices that the observation counts as taken are free again.

        The histogram does not say on which node they are. Where it leaves one kind of node that can have them they are counted
        there, else as a node of their own: nothing is counted together that may lie apart.
        """
        assert self.buckets is not None, "nobody observed what is taken"
        for _ in range(need.pods):
            homes = [free for free in self.buckets if within(_plus(free, need.claims), self.whole)]
            if len(homes) == 1:
                self._move(homes[0], _plus(homes[0], need.claims))
            else:
                self.buckets[need.claims] = self.buckets.get(need.claims, 0) + 1

    def take(self, needs: Sequence[Need], tries: int = _TRIES) -> int | None:
        """Take room for all needs, or for none: the pods that wait for nodes to come, or None where there is no room."""
        if self.buckets is None:
            pods = sum(need.pods for need in needs)
            if pods > self.nodes + self.grow:
                return None
            waiting = max(0, pods - max(0, self.nodes))
            self.nodes -= pods
            return waiting
        if all(need.claims == needs[0].claims for need in needs):
            # Equal pods need no search: any choice of nodes leaves room for as many.
            claims, pods = needs[0].claims, sum(need.pods for need in needs)
            fits = pods <= self.free(claims) + self.growth(claims)
            return self.charge(Need("", pods, claims)) if fits else None
        if not self._has(needs):
            return None
        # Large pods first: each goes where it leaves least free, and elsewhere only if the rest then does not fit.
        ordered = sorted(needs, key=_size)
        packed = _pack([need.claims for need in ordered for _ in range(need.pods)], self, tries)
        if packed is None:
            return None
        waiting = self.grow - packed.grow
        self.buckets, self.grow, self.charged = packed.buckets, packed.grow, ()
        return waiting

    def _has(self, needs: Sequence[Need]) -> bool:
        """Whether the pool has so many devices at all, on whatever nodes: a quick no."""
        assert self.buckets is not None
        left = {name: count * max(0, self.grow) for name, count in self.whole}
        for free, nodes in self.buckets.items():
            for name, count in free:
                left[name] = left.get(name, 0) + nodes * count
        for need in needs:
            for name, count in need.claims:
                left[name] = left.get(name, 0) - need.pods * count
        return all(count >= 0 for count in left.values())

    def fits(self, needs: Sequence[Need]) -> bool:
        """Whether `take` would find room; nothing is charged."""
        return self.copy().take(needs) is not None

    def fits_now(self, needs: Sequence[Need], pods: int) -> bool:
        """Whether `take` would find room on nodes that are there; ``pods`` are those of all needs. Nothing is charged."""
        if self.buckets is None:
            return pods <= self.nodes
        if len(needs) == 1:
            return pods <= self.free(needs[0].claims)
        trial = self.copy()
        trial.grow = 0
        return trial.take(needs) is not None

    def _take_one(self, claims: Claims) -> bool:
        assert self.buckets is not None
        node = min((free for free in self.buckets if pods_per_node(free, claims)), key=_order, default=None)
        if node is None:
            return False
        self._move(node, _less(node, claims))
        return True

    def _nodes_for(self, claims: Claims) -> list[Claims]:
        """The distinct nodes that take the pod, those with least free first."""
        assert self.buckets is not None
        return sorted((free for free in self.buckets if pods_per_node(free, claims)), key=_order)

    def _grow_one(self, claims: Claims) -> bool:
        assert self.buckets is not None
        if self.grow <= 0 or not pods_per_node(self.whole, claims):
            return False
        self.grow -= 1
        rest = _less(self.whole, claims)
        self.buckets[rest] = self.buckets.get(rest, 0) + 1
        return True

    def _move(self, before: Claims, after: Claims) -> None:
        assert self.buckets is not None
        self.buckets[before] -= 1
        if not self.buckets[before]:
            del self.buckets[before]
        self.buckets[after] = self.buckets.get(after, 0) + 1


def _pack(pods: Sequence[Claims], pool: PoolLedger, tries: int) -> PoolLedger | None:
    """The pool with every pod on a node, or None: an exact search that gives up, as if there were no room, after so many tries."""
    failed: set[tuple[object, ...]] = set()

    def place(at: int, trial: PoolLedger) -> PoolLedger | None:
        nonlocal tries
        # A run of equal pods needs no search: any choice of nodes leaves room for as many.
        if len(pods) > _LARGEST_SEARCH or all(claims == pods[-1] for claims in pods[at:]):
            rest = trial.copy()
            return rest if all(rest._take_one(claims) or rest._grow_one(claims) for claims in pods[at:]) else None
        state = (at, trial.state())
        tries -= 1
        if state in failed or tries < 0:
            return None
        for node in trial._nodes_for(pods[at]):
            taken = trial.copy()
            taken._move(node, _less(node, pods[at]))
            found = place(at + 1, taken)
            if found is not None:
                return found
        grown = trial.copy()
        found = place(at + 1, grown) if grown._grow_one(pods[at]) else None
        if found is None:
            failed.add(state)
        return found

    return place(0, pool)


class Ledger(msgspec.Struct, eq=False, gc=False):
    """The pools of one cluster, by name."""

    pools: dict[str, PoolLedger]

    @classmethod
    def of(cls, capacities: Mapping[str, PoolCapacity]) -> Ledger:
        return cls({name: PoolLedger.of(capacity) for name, capacity in capacities.items()})

    def copy(self) -> Ledger:
        return Ledger({name: pool.copy() for name, pool in self.pools.items()})

    def charge(self, needs: Iterable[Need]) -> None:
        """Charge every need whose pool is there, whether there is room or not. Those of one pool are charged together, since one
        after the other they may not fit where together they do."""
        for name, load in _by_pool(needs).items():
            pool = self.pools.get(name)
            if pool is not None and (pool.buckets is None or pool.take(load, _CHARGE_TRIES) is None):
                for need in load:
                    pool.charge(need)

    def take(self, needs: Iterable[Need]) -> bool:
        """Take room for all needs of each pool at once; False, with some of it taken, where a pool has none or is not there."""
        loads = _by_pool(needs)
        return all(name in self.pools and self.pools[name].take(load) is not None for name, load in loads.items())


def _by_pool(needs: Iterable[Need]) -> dict[str, list[Need]]:
    """The needs of each pool, the largest first."""
    loads: dict[str, list[Need]] = {}
    for need in sorted(needs, key=_size):
        loads.setdefault(need.pool, []).append(need)
    return loads


def _size(need: Need) -> tuple[str, int, Claims]:
    return need.pool, -sum(count for _, count in need.claims), need.claims


def claims_of(amounts: Mapping[str, int]) -> Claims:
    """A mapping as claims, zero amounts left out."""
    return tuple(sorted((name, count) for name, count in amounts.items() if count > 0))


@lru_cache(maxsize=4_096)
def _histogram(buckets: tuple[tuple[Claims, int], ...]) -> Mapping[Claims, int]:
    """Nodes by what they have free, each combination once."""
    found: dict[Claims, int] = {}
    for claims, count in buckets:
        if count > 0:
            free = claims_of(dict(claims))
            found[free] = found.get(free, 0) + count
    return found


@lru_cache(maxsize=16_384)
def _order(free: Claims) -> tuple[int, Claims]:
    """Nodes with least free first."""
    return sum(count for _, count in free), free


@lru_cache(maxsize=16_384)
def pods_per_node(free: Claims, claims: Claims) -> int:
    """How many pods with these claims one node with these free devices takes."""
    have = dict(free)
    return min((have.get(name, 0) // count for name, count in claims), default=0)


def _plus(free: Claims, claims: Claims) -> Claims:
    amounts = dict(free)
    for name, count in claims:
        amounts[name] = amounts.get(name, 0) + count
    return tuple(sorted(amounts.items()))


def within(claims: Claims, whole: Claims) -> bool:
    most = dict(whole)
    return all(count <= most.get(name, 0) for name, count in claims)


@lru_cache(maxsize=16_384)
def _less(free: Claims, claims: Claims) -> Claims:
    taken = dict(claims)
    return tuple((name, count - taken.get(name, 0)) for name, count in free if count > taken.get(name, 0))
