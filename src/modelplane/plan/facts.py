"""What was worked out about one kind of request and a fleet, and holds until the fleet changes: who is open, full, and why.

Requests that ask the same share it. It carries the revisions that it was made for (`fleet.Memo`) and catches up when it is
asked, so a change of one cluster costs the work of one cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from modelplane.plan.capacity import Ledger
from modelplane.plan.fitting import Fit, Matcher, Option, fit
from modelplane.plan.fleet import Fleet, Memo
from modelplane.plan.request import PlacementRequest
from modelplane.plan.verdicts import FOREIGN, Code, Refusals, Verdict, closed, judge

KEPT: Final = 1_000_000
"""Answers about a cluster that are remembered, over all kinds of request; kinds that were not asked for longest go."""


class Facts:
    """One kind of request on one fleet. Ask `of` for it."""

    def __init__(self, request: PlacementRequest) -> None:
        self.matcher = Matcher(request.engines)
        self._request = request
        self._seen = 0
        self._names: list[str] = []
        self._open: list[str] = []
        """Clusters that are candidates whatever their pools, in order of name."""
        self._closed: dict[str, Verdict] = {}
        self._foreign = 0
        """Clusters that the selectors do not match."""
        self._options: dict[int, list[list[Option]]] = {}
        self._full: dict[str, int] = {}
        """Clusters where nothing fitted when it was last tried, with the revision of their room (`Memo.room`) at the time."""
        self._first = 0
        """Among the open ones, how many at the beginning are full, as long as no cluster gets more room."""
        self._rooms = -1
        self._verdicts: dict[str, tuple[int, Verdict]] = {}
        self._refusals: Refusals = {}
        self._told: list[Verdict] = []
        """What was told last, in order of name, for clusters with nothing charged; empty when the names have changed since."""
        self._states: list[int] = []
        """The state of each that it was told for."""

    @classmethod
    def of(cls, fleet: Fleet, request: PlacementRequest) -> Facts:
        """The facts, up to date with the fleet."""
        selectors = tuple(tuple(sorted(labels.items())) for labels in (request.selector, request.staged))
        key = (request.engines, selectors, request.tolerations, request.needs_cache_storage)
        facts = fleet.memo.facts
        known = facts.pop(key, None)
        if not isinstance(known, cls):
            known = cls(request)
            if len(facts) >= max(16, KEPT // (len(fleet.clusters) + 1)):
                facts.pop(next(iter(facts)))
        facts[key] = known
        known._catch_up(fleet)
        return known

    def _catch_up(self, fleet: Fleet) -> None:
        log, now = fleet.memo.log, fleet.memo.dropped + len(fleet.memo.log)
        if self._seen == now:
            return
        self._told, self._states = [], []
        fresh = log[self._seen - fleet.memo.dropped :] if self._seen >= fleet.memo.dropped else None
        if fresh is None or 2 * len(fresh) > len(fleet.clusters):
            self._names, self._open, self._closed, self._foreign = [], [], {}, 0
            for name in sorted(fleet.clusters):
                self._add(fleet, name)
        else:
            for name in sorted(set(fresh)):
                self._remove(name)
                if name in fleet.clusters:
                    self._add(fleet, name)
        self._seen = now

    def _add(self, fleet: Fleet, name: str) -> None:
        verdict = closed(fleet.clusters[name], self._request)
        _insert(self._names, name)
        if verdict is None:
            _insert(self._open, name)
        else:
            self._closed[name] = verdict
            self._foreign += verdict.code in FOREIGN

    def _remove(self, name: str) -> None:
        _delete(self._names, name)
        _delete(self._open, name)
        verdict = self._closed.pop(name, None)
        self._foreign -= verdict is not None and verdict.code in FOREIGN

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def matching(self) -> int:
        """Clusters that the selectors match."""
        return len(self._names) - self._foreign

    def is_open(self, name: str) -> bool:
        return name not in self._closed

    def options(self, memo: Memo, name: str) -> list[list[Option]]:
        # A fleet has one object for each shape, and keeps it: its identity is cheaper than its hash.
        shape = memo.shapes[name]
        known = self._options.get(id(shape))
        if known is None:
            known = self._options[id(shape)] = self.matcher.options(shape)
        return known

    def roomy(self, memo: Memo, but: Collection[str] = ()) -> Iterator[str]:
        """The open clusters in order of name, without those that were full when they were last tried and got no room since; ``but``
        are not left out."""
        names, full, room = self._open, self._full, memo.room
        if self._rooms != memo.rooms:
            self._first, self._rooms = 0, memo.rooms
        at = self._first
        while at < len(names) and full.get(names[at]) == room[names[at]]:
            at += 1
        self._first = at
        for name in islice(names, 0 if but else at, None):
            tried = full.get(name)
            if tried is None or tried != room[name] or name in but:
                yield name

    def fit(self, fleet: Fleet, name: str, ledger: Ledger) -> Fit | None:
        """Pools for every engine. ``ledger`` is the fleet's own, or one that a plan has charged further."""
        memo = fleet.memo
        found = fit(self._options.get(id(memo.shapes[name])) or self.options(memo, name), ledger)
        if found is None and ledger is memo.ledgers.get(name):
            self._full[name] = memo.room[name]
        return found

    def verdicts(self, fleet: Fleet, charged: dict[str, Ledger]) -> tuple[Verdict, ...]:
        """One for every cluster in order of name; ``charged`` are the ledgers of clusters that a plan has placed on or freed."""
        names, told = self._names, self._told
        if not told:
            told = self._told = [_UNKNOWN[1]] * len(names)
            self._states = [-1] * len(names)
        # Most are as they were: what has changed is found without a step for each.
        states = list(map(fleet.memo.state.__getitem__, names))
        changed = [at for at, (new, old) in enumerate(zip(states, self._states, strict=True)) if new != old]
        for at in changed:
            if names[at] not in charged:
                told[at], self._states[at] = self._verdict(fleet, names[at]), states[at]
        found = list(told)
        for name, ledger in charged.items():
            found[bisect_left(names, name)] = self._closed.get(name) or self.judge(fleet, name, ledger)
        return tuple(found)

    def _verdict(self, fleet: Fleet, name: str) -> Verdict:
        """Of a cluster with nothing charged."""
        verdict = self._closed.get(name)
        if verdict is None:
            state, verdict = self._verdicts.get(name, _UNKNOWN)
            if state != fleet.memo.state[name]:
                verdict = self.judge(fleet, name, fleet.room(name))
                self._verdicts[name] = fleet.memo.state[name], verdict
        return verdict

    def judge(self, fleet: Fleet, name: str, ledger: Ledger) -> Verdict:
        """What one more replica would meet on an open cluster with so much left."""
        options = self.options(fleet.memo, name)
        return judge(fleet.clusters[name], self._request, self.matcher, ledger, options, self._refusals)


_UNKNOWN: Final = (-1, Verdict(cluster="", code=Code.FITS))


def _insert(names: list[str], name: str) -> None:
    if not names or names[-1] < name:
        names.append(name)
    else:
        names.insert(bisect_left(names, name), name)


def _delete(names: list[str], name: str) -> None:
    at = bisect_left(names, name)
    if at < len(names) and names[at] == name:
        del names[at]
