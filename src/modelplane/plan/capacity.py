"""What a pool has to give, and what placements take from it.

Where capacity is only declared, a pod of a claiming member takes a whole node. Where an agent observes it, a pod takes devices of
a node, and nodes are counted by the exact combination of devices that they have free. Either way a pool has two
numbers: nodes that are there, and nodes by which it could grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

Claims: TypeAlias = tuple[tuple[str, int], ...]
"""Devices by DeviceClass, in order of class."""


class Need(msgspec.Struct, frozen=True):
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


class PoolLedger:
    """One pool's capacity less what is charged: mutable, copied for trials."""

    __slots__ = ("buckets", "grow", "limit", "nodes", "source", "whole")

    def __init__(self, capacity: PoolCapacity) -> None:
        self.source = capacity
        self.nodes = capacity.nodes
        self.grow = capacity.grow
        self.limit = capacity.nodes + capacity.grow
        self.whole = capacity.whole
        self.buckets: dict[Claims, int] | None = None
        if capacity.buckets is not None:
            self.buckets = {}
            for claims, count in capacity.buckets:
                if count > 0:
                    self.buckets[_positive(claims)] = self.buckets.get(_positive(claims), 0) + count

    def copy(self) -> PoolLedger:
        twin = object.__new__(PoolLedger)
        twin.source, twin.limit, twin.whole = self.source, self.limit, self.whole
        twin.nodes, twin.grow = self.nodes, self.grow
        twin.buckets = None if self.buckets is None else dict(self.buckets)
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

    def growth(self, claims: Claims) -> int:
        """Pods with these claims that fit on nodes that may come."""
        if self.buckets is None:
            return max(0, self.grow + min(0, self.nodes))
        return self.grow * pods_per_node(self.whole, claims)

    def most_free(self, claims: Claims) -> Mapping[str, int]:
        """On the node that comes nearest to the claims: what is free of each class."""
        if not self.buckets:
            return {}

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
        waiting = 0
        for _ in range(need.pods):
            if not self._take_one(need.claims):
                waiting += self._grow_one(need.claims)
        return waiting

    def take(self, needs: Sequence[Need]) -> int | None:
        """Take room for all needs, or for none: the pods that wait for nodes to come, or None where there is no room."""
        if self.buckets is None:
            pods = sum(need.pods for need in needs)
            if pods > self.nodes + self.grow:
                return None
            waiting = max(0, pods - max(0, self.nodes))
            self.nodes -= pods
            return waiting
        trial = self.copy()
        waiting = 0
        # Large pods first, each on the node that it leaves least free: exact where sizes divide one another.
        for need in sorted(needs, key=lambda need: (-sum(count for _, count in need.claims), need.claims)):
            for _ in range(need.pods):
                if trial._take_one(need.claims):
                    continue
                if not trial._grow_one(need.claims):
                    return None
                waiting += 1
        self.buckets, self.grow = trial.buckets, trial.grow
        return waiting

    def _take_one(self, claims: Claims) -> bool:
        assert self.buckets is not None
        fitting = [free for free, count in self.buckets.items() if count and pods_per_node(free, claims)]
        if not fitting:
            return False
        best = min(fitting, key=lambda free: (sum(count for _, count in free), free))
        self._move(best, _less(best, claims))
        return True

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


class Ledger:
    """The pools of one cluster."""

    __slots__ = ("pools",)

    def __init__(self, pools: Mapping[str, PoolLedger]) -> None:
        self.pools = dict(pools)

    @classmethod
    def of(cls, capacities: Mapping[str, PoolCapacity]) -> Ledger:
        return cls({name: PoolLedger(capacity) for name, capacity in capacities.items()})

    def copy(self) -> Ledger:
        return Ledger({name: pool.copy() for name, pool in self.pools.items()})

    def charge(self, needs: Iterable[Need]) -> int:
        """Charge every need whose pool is there. Gives the pods that wait for nodes."""
        return sum(self.pools[need.pool].charge(need) for need in needs if need.pool in self.pools)


def claims_of(amounts: Mapping[str, int]) -> Claims:
    """A mapping as claims, zero amounts left out."""
    return tuple(sorted((name, count) for name, count in amounts.items() if count > 0))


def _positive(claims: Claims) -> Claims:
    return tuple(sorted((name, count) for name, count in claims if count > 0))


def pods_per_node(free: Claims, claims: Claims) -> int:
    """How many pods with these claims one node with these free devices takes."""
    have = dict(free)
    return min((have.get(name, 0) // count for name, count in claims), default=0)


def _less(free: Claims, claims: Claims) -> Claims:
    taken = dict(claims)
    return tuple((name, count - taken.get(name, 0)) for name, count in free if count > taken.get(name, 0))
