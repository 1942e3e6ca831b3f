"""Why each replica of a deployment is where it is, and why the missing ones are nowhere.

Made from the plan of the very function that places, and from the verdicts that were kept with the replicas when they were placed:
today's fleet cannot tell why yesterday's choice was right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from modelplane.api.meta import Key
from modelplane.plan.figures import Figure, figures, overcommitted, stale
from modelplane.plan.fleet import Fleet, Replica
from modelplane.plan.outcome import Placement, Plan, State
from modelplane.plan.placement import plan
from modelplane.plan.remedies import Change, smallest_change
from modelplane.plan.request import PlacementRequest
from modelplane.plan.verdicts import Code, Verdict, by_nearness

CHANGES: Final = 50
"""Clusters for which the smallest change is worked out, the nearest first."""


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A replica and its place. ``code`` and ``why`` are the verdict that was kept with it when it was placed, or today's for one
    that is not made yet; ``note`` is what holds today."""

    replica: str
    cluster: str
    index: int
    pools: tuple[str, ...]
    state: str
    code: str
    why: str
    note: str = ""
    ready: bool = False
    waiting_pods: int = 0

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.replica,
            "cluster": self.cluster,
            "index": self.index,
            "pools": list(self.pools),
            "state": self.state,
            "ready": self.ready,
            "code": self.code,
            "message": self.why,
            "note": self.note,
            "waitingPods": self.waiting_pods,
        }


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that takes no further replica, and the smallest change after which it would."""

    verdict: Verdict
    changes: tuple[Change, ...] = ()
    lets: str = "one more replica fit"
    """What the changes let happen."""
    figures: tuple[Figure, ...] = ()
    """Where the figures of its pools come from."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment's account."""

    deployment: str
    plan: Plan
    seats: tuple[Seat, ...]
    refusals: tuple[Refusal, ...]
    """Every cluster of the fleet, the nearest first."""
    notes: tuple[str, ...] = ()
    """What a person should know besides."""
    overcommitted: tuple[str, ...] = ()
    """Pools of its replicas that hold more than they have nodes for, in words."""
    asked: str = ""
    """The time of the question, which is that of declared figures."""

    @property
    def nearest(self) -> Refusal | None:
        """The cluster with the smallest change, where a replica is missing or has no room for its size."""
        if not self.plan.missing and not self.plan.held:
            return None
        changed = [one for one in self.refusals if one.changes]
        return min(changed, key=lambda one: (len(one.changes), [c.size() for c in one.changes]), default=None)

    def document(self) -> dict[str, Any]:
        """For programs."""
        condition = self.plan.condition()
        nearest = self.nearest
        return {
            "asOf": self.asked or None,
            "deployment": self.deployment,
            "wanted": self.plan.wanted,
            "placed": self.plan.placed,
            "missing": self.plan.missing,
            "reason": condition.reason,
            "message": condition.message,
            "invalidSelectors": [],
            "replicas": [seat.document() for seat in self.seats],
            "removed": [
                {"name": one.name, "cluster": one.cluster, "reason": str(one.reason), "message": one.message}
                for one in self.plan.removed
            ],
            "clusters": [refusal(one) for one in self.refusals],
            "smallestChange": refusal(nearest) if nearest is not None else None,
            "overcommitted": list(self.overcommitted),
            "notes": list(self.notes),
        }


def explain(fleet: Fleet, request: PlacementRequest, notes: Iterable[str] = (), asked: str = "") -> Explanation:
    """The account of a deployment on a fleet that has its replicas in it; ``asked`` is the time of the question."""
    found = plan(fleet, request, explain=True)
    known = {one.key.name: one for one in fleet.of_deployment(request.key)}
    # Changes are tried on what is left once this plan is carried out.
    after = _after(fleet, found)
    # Missing ones go before those that wait for room to grow.
    held = () if found.missing else tuple(one for one in found.placements if one.state is State.HELD)
    own = {one.cluster: one.name for one in held}
    refusals: list[Refusal] = []
    tried = 0
    for verdict in by_nearness(found.verdicts):
        cluster, name = fleet.clusters[verdict.cluster], own.get(verdict.cluster)
        steps: tuple[Change, ...] = ()
        # Where one fits, nothing has to change but what the deployment itself lacks.
        if tried < CHANGES and (verdict.code is not Code.FITS or found.holding):
            tried += 1
            if name is None:
                steps = smallest_change(after, request, cluster)
            else:
                # One that has no room for its new size has what it holds already, and is where it is.
                steps = smallest_change(
                    _without(after, Key(request.key.namespace, name)), request, cluster, opened=True
                )
        one = Refusal(verdict=verdict, changes=steps, figures=figures(cluster, asked))
        refusals.append(msgspec.structs.replace(one, lets=f"{name or held[0].name} take its new size") if held else one)
    seats = tuple(_seat(placement, known.get(placement.name)) for placement in found.placements)
    return Explanation(
        deployment=str(request.key),
        plan=found,
        seats=seats,
        refusals=tuple(refusals),
        notes=(*notes, *untold(found, seats), *stale(fleet, asked)),
        overcommitted=tuple(overcommitted(fleet, {seat.cluster for seat in seats})),
        asked=asked,
    )


def untold(found: Plan, seats: Iterable[Seat]) -> list[str]:
    """Notes of the plan that no seat has."""
    told = [seat.note or seat.why for seat in seats if seat.note or seat.why]
    return [note for note in found.notes if not any(note.endswith(text) for text in told)]


def _after(fleet: Fleet, found: Plan) -> Fleet:
    gone = {(found.key.namespace, one.name) for one in found.removed}
    rest = [one for key, one in fleet.by_key.items() if (key.namespace, key.name) not in gone]
    return Fleet.of(fleet.clusters.values(), (*rest, *found.assumed()))


def _without(fleet: Fleet, key: Key) -> Fleet:
    return Fleet.of(fleet.clusters.values(), (one for one in fleet.by_key.values() if one.key != key))


def _seat(placement: Placement, replica: Replica | None) -> Seat:
    decided = replica is not None and bool(replica.message)
    return Seat(
        replica=placement.name,
        cluster=placement.cluster,
        index=placement.index,
        pools=tuple(sorted({member.pool for engine in placement.engines for member in engine.members})),
        state=str(placement.state),
        code=replica.code if replica is not None and replica.code else str(placement.state),
        why=replica.message if replica is not None and decided else placement.message,
        note=placement.message if replica is not None and decided and placement.message != replica.message else "",
        ready=replica is not None and replica.ready,
        waiting_pods=placement.waiting,
    )


def refusal(one: Refusal) -> dict[str, Any]:
    """A cluster's answer as JSON."""
    verdict = one.verdict
    return {
        "cluster": verdict.cluster,
        "code": str(verdict.code),
        "message": verdict.message,
        "engine": verdict.engine,
        "pool": verdict.pool,
        "short": verdict.short,
        "changes": changes(one.changes),
        "lets": one.lets if one.changes else "",
        "figures": [figure.document() for figure in one.figures],
    }


def changes(steps: Iterable[Change]) -> list[dict[str, Any]]:
    """Steps as JSON."""
    return [
        {"step": str(step.step), "text": step.text, "amount": step.amount, "pool": step.pool, "engine": step.engine}
        for step in steps
    ]
