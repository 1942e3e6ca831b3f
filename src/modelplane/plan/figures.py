"""What the figures of a fleet are worth: where they come from, how old they are, and whether more is placed than there is.

Declared figures are the spec's less what is placed, and as old as the objects are. Observed ones have the time of their
observation; when that is long past nobody can tell what the pool is like now, and people are told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from modelplane.plan.fleet import Cluster, Fleet
from modelplane.plan.times import instant

STALE: Final = 300.0
"""Seconds for which an observation is taken for the present: as long as a cluster that does not answer is waited for."""
_TOLD: Final = 5
"""Old pools that are told one by one."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pool's figures come from. ``time`` is empty for declared ones; ``age`` are seconds before the question, None where
    that is not known."""

    pool: str
    observed: bool = False
    time: str = ""
    age: float | None = None

    @property
    def stale(self) -> bool:
        return self.age is not None and self.age > STALE

    def __str__(self) -> str:
        if not self.observed:
            return "declared"
        if self.age is None:
            return f"observed {self.time or 'at an unknown time'}"
        return f"{span(self.age)} old"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pool": self.pool,
            "source": "Observed" if self.observed else "Declared",
            "observedTime": self.time or None,
            "ageSeconds": None if self.age is None else round(self.age),
            "stale": self.stale,
        }


def span(seconds: float) -> str:
    """A length of time in its largest fitting unit."""
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86_400)} d"


def figures(cluster: Cluster, asked: str) -> tuple[Figure, ...]:
    """One for every pool that the cluster publishes; ``asked`` is the time of the question."""
    now = instant(asked)
    found = []
    for pool in cluster.pools:
        capacity = pool.capacity
        seen = instant(capacity.observed_time)
        age = max(0.0, now - seen) if now is not None and seen is not None else None
        found.append(Figure(pool=pool.name, observed=capacity.observed, time=capacity.observed_time, age=age))
    return tuple(found)


def brief(found: Sequence[Figure]) -> str:
    """A cell for a cluster: of observed pools the oldest, and whether any is declared."""
    declared = [str(one) for one in found if not one.observed][:1]
    observed = [one for one in found if one.observed]
    # One of unknown age may be older than any.
    oldest = [str(max(observed, key=lambda one: (one.age is None, one.age or 0.0)))] if observed else []
    return ", ".join([*declared, *oldest]) or "-"


def stale(fleet: Fleet, asked: str) -> list[str]:
    """What to say about pools that were observed too long ago."""
    found = [
        f"the figures of pool {name}/{one.pool} are {span(one.age or 0.0)} old (observed {one.time}) and may be wrong by now; "
        f"see whether the agent of {name} runs"
        for name, cluster in sorted(fleet.clusters.items())
        for one in figures(cluster, asked)
        if one.stale
    ]
    more = [f"and those of {len(found) - _TOLD} other pools are as old"] if len(found) > _TOLD else []
    return [*found[:_TOLD], *more]


def overcommitted(fleet: Fleet, clusters: Iterable[str] | None = None) -> list[str]:
    """Pools with fewer nodes than their replicas take, in words; of all clusters or of these."""
    found = []
    for name in sorted(fleet.clusters.keys() if clusters is None else fleet.clusters.keys() & set(clusters)):
        ledger = fleet.room(name)
        for pool in fleet.clusters[name].pools:
            lacks = ledger.pools[pool.name].overdrawn
            if lacks:
                has = pool.capacity.nodes
                need = has + pool.capacity.grow + lacks
                found.append(
                    f"pool {name}/{pool.name} has {has} node{'' if has == 1 else 's'} and its replicas need {need}; "
                    f"add {lacks}, or scale down"
                )
    return found
