"""Rehearsal: where everything would be after what-if edits, found by the function that places in production.

Deployments are planned in the order in which the control plane takes them, round after round, until nothing moves: a replica
that is placed in one round serves in the next, and what leaves frees its devices at once. As in production, whoever waits for
those is asked before anybody younger. Nothing is written.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from modelplane.api.meta import Key
from modelplane.api.model_deployment import ModelDeployment, parse
from modelplane.plan.capacity import Need, PoolCapacity, PoolLedger
from modelplane.plan.devices import claims_by_class
from modelplane.plan.explanation import Explanation, Refusal, explain, refusal
from modelplane.plan.figures import overcommitted, stale
from modelplane.plan.fleet import Cluster, Fleet, Picture, Replica, ReplicaEngine, ReplicaMember, accounted
from modelplane.plan.outcome import Departure, Placement, Plan, State
from modelplane.plan.placement import plan
from modelplane.plan.request import InvalidNodeSelector, PlacementRequest
from modelplane.plan.restarts import Restarts
from modelplane.plan.scene import Scene
from modelplane.plan.stopped import REASON, faults

ROUNDS: Final = 50


class Kind(StrEnum):
    """What happens to a replica."""

    PLACED = "placed"
    MOVED = "moved"
    """To another cluster, or to other pools of its own."""
    RESIZED = "resized"
    """It stays on its pools and has more or fewer pods."""
    REPLACED = "replaced"
    """It stays on its pools, and its pods make room for other ones."""
    UPDATED = "updated"
    """It stays as it is placed, and its pods start anew as the deployment has them now."""
    REMOVED = "removed"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between now and then. A moved replica has both clusters, and its pools where those are another's of the same
    cluster. On another cluster it has another name: ``replica``, and ``replaces`` is the one that goes."""

    kind: Kind
    deployment: str
    replica: str
    replaces: str = ""
    source: str = ""
    target: str = ""
    why: str = ""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment, now and then. ``wanted`` is what it asks for then; ``before`` and ``after`` are there, those included that
    serve until they are replaced."""

    deployment: str
    wanted: int
    before: int
    after: int
    reason: str
    message: str
    headline: str = ""
    """The message without the clusters that ``refusals`` has."""
    waiting: int = 0
    refusals: tuple[Refusal, ...] = ()
    nearest: Refusal | None = None
    fits: bool = True
    notes: tuple[str, ...] = ()
    """What a person should know about replicas that stay."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a what-if question."""

    moves: tuple[Move, ...]
    fates: tuple[Fate, ...]
    overcommitted: tuple[str, ...]
    """Pools that hold more replicas than they have nodes for, today already or only then; replicas are not moved for that."""
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.overcommitted and all(fate.fits for fate in self.fates)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "fits": self.fits,
            "changes": [
                {
                    "change": str(move.kind),
                    "deployment": move.deployment,
                    "replica": move.replica,
                    "replaces": move.replaces,
                    "from": move.source,
                    "to": move.target,
                    "why": move.why,
                }
                for move in self.moves
            ],
            "deployments": [
                {
                    "deployment": fate.deployment,
                    "wanted": fate.wanted,
                    "before": fate.before,
                    "after": fate.after,
                    "waitingForNodes": fate.waiting,
                    "fits": fate.fits,
                    "reason": fate.reason,
                    "message": fate.message,
                    "clusters": [refusal(one) for one in fate.refusals],
                    "smallestChange": refusal(fate.nearest) if fate.nearest is not None else None,
                    "notes": list(fate.notes),
                }
                for fate in self.fates
            ],
            "overcommitted": list(self.overcommitted),
            "notes": list(self.notes),
        }


def rehearse(now: Scene, then: Scene, notes: Iterable[str] = (), stranded: Iterable[str] = ()) -> Rehearsal:
    """What differs once the control plane has settled on ``then``; ``stranded`` tells of replicas whose nodes are taken away.
    Raises InvalidObject for objects that are not of their kind."""
    settling = _Settling(then)
    settled = settling.run()
    before = now.fleet()
    restarts = Restarts.of(now, then)
    moves: list[Move] = []
    fates: list[Fate] = []
    for key in sorted({*before.by_deployment, *settling.requests, *settling.broken}):
        had = before.of_deployment(key)
        has = settling.fleet.of_deployment(key)
        moves += _moves(key, had, has, settling, restarts)
        fates += _fate(key, len(had), len(has), settling)
    return Rehearsal(
        moves=tuple(moves),
        fates=tuple(fates),
        overcommitted=(*stranded, *overcommitted(settling.fleet)),
        notes=(
            *notes,
            *settled,
            *(note for deployment in then.waiting_order() for note in then.lacks(deployment)),
            *restarts.notes,
            *stale(settling.fleet, then.taken),
        ),
    )


class _Settling:
    """The control plane's passes over a scene, until nothing moves."""

    def __init__(self, scene: Scene) -> None:
        self.picture = Picture()
        self.asked = scene.taken
        start = scene.fleet()
        for cluster in start.clusters.values():
            self.picture.put(cluster)
        for replica in start.by_key.values():
            self.picture.show(replica)
        self.requests: dict[Key, PlacementRequest] = {}
        self.broken: dict[Key, tuple[ModelDeployment, str]] = {}
        """Deployments that cannot be judged, and why."""
        self.plans: dict[Key, Plan] = {}
        self.left: dict[tuple[str, str], tuple[Departure, str]] = {}
        """Why replicas went, by namespace and name."""
        self.placed: dict[Key, Placement] = {}
        for deployment in scene.waiting_order():
            key = Key.of(deployment)
            try:
                self.requests[key] = scene.request(deployment)
            except InvalidNodeSelector as error:
                self.broken[key] = parse(deployment), f"{error}; nothing moves until it is corrected"

    @property
    def fleet(self) -> Fleet:
        return self.picture.fleet

    def run(self) -> tuple[str, ...]:
        """Until nothing moves; a note where something still does."""
        for _ in range(ROUNDS):
            if not self.round():
                return ()
        return (f"replicas still move after {ROUNDS} rounds; this is where they are then",)

    def round(self) -> bool:
        """Ask every deployment, by age. What one of them frees goes to the oldest that waits for it, as in production: those are
        asked anew, before the younger ones that have not been asked yet."""
        order = list(self.requests)
        ready = list(range(len(order)))
        queued = set(ready)
        freed: Counter[Key] = Counter()
        moved = False
        while ready:
            at = heapq.heappop(ready)
            queued.discard(at)
            clusters = self.step(order[at], self.requests[order[at]])
            if clusters is None:
                continue
            moved = True
            freed[order[at]] += bool(clusters)
            for other, key in enumerate(order) if clusters else ():
                if other not in queued and freed[key] < ROUNDS and self.waits(key, clusters):
                    queued.add(other)
                    heapq.heappush(ready, other)
        return moved

    def waits(self, key: Key, clusters: frozenset[str]) -> bool:
        """Whether the deployment was asked, lacks a place, and may look for it on one of the clusters."""
        found = self.plans.get(key)
        if found is None or (found.complete and len(found.placements) == found.placed):
            return False
        there = (self.fleet.clusters.get(name) for name in clusters)
        return any(one is not None and self.requests[key].selects(one.labels) for one in there)

    def step(self, key: Key, request: PlacementRequest) -> frozenset[str] | None:
        """Plan one deployment and let it happen: None when nothing moves, else the clusters on which it freed something."""
        found = self.plans[key] = plan(self.fleet, request)
        freed = set()
        for removal in found.removed:
            gone = Key(key.namespace, removal.name)
            replica = self.fleet.by_key[gone]
            self.give_back(replica)
            self.picture.hide(gone)
            self.left[key.namespace, removal.name] = removal.reason, removal.message
            freed.add(replica.cluster)
        fresh = found.assumed()
        seats = {one.name: one for one in found.placements}
        for replica in (*fresh, *self.smaller(found)):
            before = self.fleet.by_key.get(replica.key)
            if before is not None:
                self.give_back(before)
                freed.add(before.cluster)
            self.picture.show(msgspec.structs.replace(replica, assumed=False, ready=True, ready_since=""))
            self.placed[replica.key] = seats[replica.key.name]
        return frozenset(freed) if freed or fresh else None

    def smaller(self, found: Plan) -> list[Replica]:
        """Replicas that stay and take no more than they have, in another size than they show."""
        given = []
        for seat in found.placements:
            replica = self.fleet.by_key.get(Key(found.key.namespace, seat.name))
            if replica is not None and seat.state is State.RETAINED and not seat.grown:
                engines = _given(seat, replica)
                if engines != replica.engines:
                    given.append(msgspec.structs.replace(replica, engines=engines))
        return given

    def give_back(self, replica: Replica) -> None:
        """What an agent would see once the replica is gone: its devices are free again."""
        cluster = self.fleet.clusters.get(replica.cluster)
        if cluster is None:
            return
        pools = []
        for pool in cluster.pools:
            capacity = pool.capacity
            for need in replica.needs:
                if need.pool == pool.name and accounted(replica, capacity):
                    capacity = _freed(capacity, need)
            pools.append(pool if capacity is pool.capacity else msgspec.structs.replace(pool, capacity=capacity))
        if any(new is not old for new, old in zip(pools, cluster.pools, strict=True)):
            self.picture.put(msgspec.structs.replace(cluster, pools=tuple(pools)))


def _given(seat: Placement, replica: Replica) -> tuple[ReplicaEngine, ...]:
    """The replica's engines as its deployment asks for them now; what cannot be judged stays as it was stamped."""
    return tuple(
        ReplicaEngine(
            engine.name,
            engine.copies,
            tuple(
                ReplicaMember(
                    member.role,
                    member.pool,
                    member.pods,
                    pinned.claims if member.requests is None else claims_by_class(member.requests),
                )
                for member, pinned in zip(engine.members, stamped.members, strict=True)
            ),
        )
        for engine, stamped in zip(seat.engines, replica.engines, strict=True)
    )


def _freed(capacity: PoolCapacity, need: Need) -> PoolCapacity:
    """An observed pool once the devices of these pods are free again."""
    ledger = PoolLedger.of(capacity)
    ledger.give_back(need)
    return msgspec.structs.replace(capacity, buckets=tuple(sorted((ledger.buckets or {}).items())))


# --- the difference -----------------------------------------------------------------------------------------------


def _moves(key: Key, had: list[Replica], has: list[Replica], settling: _Settling, restarts: Restarts) -> list[Move]:
    """Replicas that go are paired with those that come, except where the deployment becomes smaller."""
    old = {(one.key.name, one.cluster): one for one in had}
    new = {(one.key.name, one.cluster): one for one in has}
    gone = [one for name, one in sorted(old.items()) if name not in new]
    come = [one for name, one in sorted(new.items()) if name not in old]
    seats = {one.name: one.state for one in (settling.plans[key].placements if key in settling.plans else ())}
    moves = []
    for same in sorted(old.keys() & new.keys()):
        was, becomes, (name, cluster) = old[same], new[same], same
        # One that leaves or is held runs as it was stamped.
        anew = restarts.why(was) if seats.get(name) in (State.RETAINED, State.NEW) else ""
        if was.engines != becomes.engines:
            moves.append(_changed(key, was, becomes, settling.fleet.clusters.get(cluster), anew))
        elif anew:
            moves.append(
                Move(kind=Kind.UPDATED, deployment=str(key), replica=name, source=cluster, target=cluster, why=anew)
            )
    for one in gone:
        reason, why = settling.left.get((key.namespace, one.key.name), (None, ""))
        if come and reason is not Departure.SCALED_DOWN:
            target = come.pop(0)
            moves.append(
                Move(
                    kind=Kind.MOVED,
                    deployment=str(key),
                    replica=target.key.name,
                    replaces=one.key.name,
                    source=one.cluster,
                    target=target.cluster,
                    why=why,
                )
            )
        else:
            moves.append(
                Move(kind=Kind.REMOVED, deployment=str(key), replica=one.key.name, source=one.cluster, why=why)
            )
    for one in come:
        why = settling.placed[one.key].message
        moves.append(Move(kind=Kind.PLACED, deployment=str(key), replica=one.key.name, target=one.cluster, why=why))
    return moves


def _changed(key: Key, old: Replica, new: Replica, cluster: Cluster | None, anew: str = "") -> Move:
    """A replica that keeps its name and cluster and does not run there as it did."""
    was, becomes = _pools(old), _pools(new)
    before, after = _pods(old), _pods(new)
    observed = any(pool.name in becomes and pool.capacity.observed for pool in (cluster.pools if cluster else ()))
    sizes = f"{before} -> {after} {'pod' if observed else 'node'}{'' if after == 1 else 's'}"
    source, target = old.cluster, new.cluster
    if was != becomes:
        kind, why = Kind.MOVED, f"moves from pool {', '.join(was)} to {', '.join(becomes)} (its pods are replaced)"
        source, target = (f"{name}/{','.join(pools)}" for name, pools in ((source, was), (target, becomes)))
    elif _form(old) == _form(new):
        kind, why = Kind.RESIZED, f"resized {sizes}{f'; {anew}' if anew else ''}"
    else:
        kind, why = Kind.REPLACED, "replaced in place" if before == after else f"replaced in place, {sizes}"
    return Move(kind=kind, deployment=str(key), replica=new.key.name, source=source, target=target, why=why)


def _pools(replica: Replica) -> list[str]:
    return sorted({member.pool for engine in replica.engines for member in engine.members})


def _pods(replica: Replica) -> int:
    return sum(need.pods for need in replica.stamped_needs)


def _form(replica: Replica) -> list[tuple[object, ...]]:
    """Everything about a replica's engines but how many there are of what."""
    return [(engine.name, *((one.role, one.pool, one.claims) for one in engine.members)) for engine in replica.engines]


def _fate(key: Key, before: int, after: int, settling: _Settling) -> list[Fate]:
    if key in settling.broken:
        deployment, message = settling.broken[key]
        fate = Fate(
            deployment=str(key),
            wanted=deployment.spec.replicas,
            before=before,
            after=after,
            reason=REASON,
            message=message,
            headline=message,
            fits=False,
            # The message has the first of them.
            notes=tuple(f"{fault.path}: {fault.message}" for fault in faults(deployment))[1:],
        )
        return [fate]
    if key not in settling.requests:
        # Replicas of a deployment that is not there: they take room until they are collected.
        return []
    found = settling.plans[key]
    condition = found.condition()
    account: Explanation | None = None
    if not found.complete:
        account = explain(settling.fleet, settling.requests[key], asked=settling.asked)
    return [
        Fate(
            deployment=str(key),
            wanted=found.wanted,
            before=before,
            after=after,
            waiting=sum(
                1
                for one in settling.fleet.of_deployment(key)
                if one.key in settling.placed and settling.placed[one.key].waiting
            ),
            fits=found.complete,
            reason=condition.reason,
            message=condition.message,
            headline=f"{found.headline()}.",
            refusals=account.refusals if account is not None else (),
            nearest=account.nearest if account is not None else None,
            notes=found.notes,
        )
    ]
