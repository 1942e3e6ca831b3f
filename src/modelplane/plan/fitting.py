"""Which pools an engine can have, and whether all engines of a replica fit a cluster at once.

An engine goes whole onto one pool. The search over engines and pools is exact; pools are tried in their owner's order, first
counting only nodes that are there, then those that may come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from modelplane.plan.capacity import Ledger, Need, PoolLedger
from modelplane.plan.devices import Device, Matching, match
from modelplane.plan.fleet import Shape
from modelplane.plan.request import Engine, Member


class Option(msgspec.Struct, frozen=True, gc=False):
    """A pool whose devices satisfy an engine: how each member's requests are met, and what the engine takes there."""

    pool: str
    matchings: tuple[Matching, ...]
    needs: tuple[Need, ...]
    pods: int
    """Of all needs together."""


class Fit(msgspec.Struct, frozen=True, gc=False):
    """An option per engine, and the pods that wait for nodes to come."""

    options: tuple[Option, ...]
    waiting: int


class Matcher:
    """Matches members to pools, once per distinct set of devices."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = tuple(engines)
        self._known: dict[tuple[Member, tuple[Device, ...]], Matching | None] = {}

    def matching(self, member: Member, devices: tuple[Device, ...]) -> Matching | None:
        key = (member, devices)
        if key not in self._known:
            self._known[key] = match(member.requests, devices)
        return self._known[key]

    def options(self, shape: Shape) -> list[list[Option]]:
        """For each engine its pools on such clusters, capacity left aside; an empty list where it has none.

        A member that could claim a device somewhere on the cluster has to claim one here: it is not stranded on a device that
        is only matched.
        """
        return [self._engine_options(engine, shape) for engine in self.engines]

    def _engine_options(self, engine: Engine, shape: Shape) -> list[Option]:
        found = [(pool, [self.matching(m, devices) for m in engine.members]) for pool, devices in shape]
        claimable = [
            any(matchings[index] is not None and matchings[index].claims_any for _, matchings in found)  # type: ignore[union-attr]
            for index in range(len(engine.members))
        ]
        if not any(claimable):
            return []
        options = []
        for pool, matchings in found:
            met = [matching for matching in matchings if matching is not None]
            if len(met) < len(engine.members):
                continue
            if any(must and not matching.claims_any for must, matching in zip(claimable, met, strict=True)):
                continue
            needs = needs_on(engine, pool, met)
            options.append(Option(pool, tuple(met), needs, sum(need.pods for need in needs)))
        return options


def needs_on(engine: Engine, pool: str, matchings: Sequence[Matching]) -> tuple[Need, ...]:
    """What the engine takes on a pool: nothing for members that claim nothing."""
    return tuple(
        Need(pool, member.pods * engine.copies, matching.claims)
        for member, matching in zip(engine.members, matchings, strict=True)
        if matching.claims_any
    )


def fit(options: Sequence[Sequence[Option]], ledger: Ledger) -> Fit | None:
    """A pool for every engine such that all fit at once, or None. The ledger is left as it is."""
    if not all(options):
        return None
    if len(options) == 1:
        return _fit_one(options[0], ledger)
    for growing in (False, True):
        pools = {name: pool.copy() for name, pool in ledger.pools.items()}
        if not growing:
            for pool in pools.values():
                pool.grow = 0
        elif not any(pool.grow > 0 for pool in pools.values()):
            return None
        chosen = _search(options, pools)
        if chosen is not None:
            return Fit(tuple(chosen), _waiting(chosen, pools))
    return None


def _fit_one(options: Sequence[Option], ledger: Ledger) -> Fit | None:
    """One engine needs no search: the first pool with room, then the first that could grow."""
    pools = ledger.pools
    for option in options:
        if pools[option.pool].fits_now(option.needs, option.pods):
            return Fit((option,), 0)
    for option in options:
        pool = pools[option.pool]
        waiting = pool.copy().take(option.needs) if pool.grow > 0 else None
        if waiting is not None:
            return Fit((option,), waiting)
    return None


def take(chosen: Fit, ledger: Ledger) -> None:
    """Charge a fit to the ledger that it was found for."""
    if len(chosen.options) == 1:
        (option,) = chosen.options
        if ledger.pools[option.pool].take(option.needs) is None:
            raise AssertionError(f"the fit was not found for this ledger: pool {option.pool} is full")
        return
    for pool in sorted({option.pool for option in chosen.options}):
        if ledger.pools[pool].take(_load(chosen.options, pool)) is None:
            raise AssertionError(f"the fit was not found for this ledger: pool {pool} is full")


def _search(options: Sequence[Sequence[Option]], pools: Mapping[str, PoolLedger]) -> list[Option] | None:
    """The first choice in order of engines and pools such that each pool takes all that is put on it at once."""
    failed: set[tuple[object, ...]] = set()
    chosen: list[Option] = []

    def choose(at: int) -> bool:
        if at == len(options):
            return True
        state = (at, tuple(sorted((option.pool, option.needs) for option in chosen)))
        if state in failed:
            return False
        for option in options[at]:
            chosen.append(option)
            if pools[option.pool].fits(_load(chosen, option.pool)) and choose(at + 1):
                return True
            chosen.pop()
        failed.add(state)
        return False

    return chosen if choose(0) else None


def _load(chosen: Sequence[Option], pool: str) -> list[Need]:
    return [need for option in chosen if option.pool == pool for need in option.needs]


def _waiting(chosen: Sequence[Option], pools: Mapping[str, PoolLedger]) -> int:
    return sum(pools[pool].copy().take(_load(chosen, pool)) or 0 for pool in {option.pool for option in chosen})
