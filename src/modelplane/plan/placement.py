"""Where every replica of a deployment goes: retain, scale down, then fill.

Existing replicas are inputs and nothing moves to improve the picture. A new replica goes to the cluster with the fewest replicas
of this deployment, ties by name. The same fleet and request give the same plan, byte for byte. `plan` is serial by nature: the
caller counts its outcome (`Plan.assumed`) before it plans the next deployment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from modelplane.api.meta import Key
from modelplane.plan.capacity import Ledger, Need
from modelplane.plan.facts import Facts
from modelplane.plan.fitting import Fit, take
from modelplane.plan.fleet import Cluster, Fleet, Replica
from modelplane.plan.names import TAKEN, replica_name
from modelplane.plan.outcome import Departure, PlacedEngine, PlacedMember, Placement, Plan, Removal, State, staying
from modelplane.plan.request import PlacementRequest
from modelplane.plan.retention import (
    Judged,
    Kept,
    Leaving,
    as_stamped,
    demand,
    judge_replicas,
    outgrown,
    owns,
)
from modelplane.plan.verdicts import Code, Verdict


def plan(fleet: Fleet, request: PlacementRequest, *, explain: bool = False) -> Plan:
    """The plan for one deployment. Verdicts are made when a replica is missing, or when ``explain`` asks for them."""
    return _Planning(fleet, request).run(explain)


class _Planning:
    def __init__(self, fleet: Fleet, request: PlacementRequest) -> None:
        self.fleet = fleet
        self.request = request
        self.facts = Facts.of(fleet, request)
        self.digest = request.constraints()
        self.ledgers: dict[str, Ledger] = {}
        """Of clusters that this plan has charged, or freed."""
        self.engines: dict[int | tuple[int, ...], tuple[PlacedEngine, ...]] = {}
        self.reasons: dict[tuple[str, int, int], str] = {}
        self.kept: list[Kept] = []
        self.leaving: list[Leaving] = []
        self.placements: list[Placement] = []
        self.taken: list[tuple[str, tuple[Need, ...]]] = []
        """What this plan has placed and let grow so far, by cluster."""
        self.grown: set[Key] = set()
        """Replicas whose needs are among those."""
        self.vacant: dict[str, Ledger] = {}
        """By cluster of a replica that found no room for its new size: what there is without it."""
        self.removed: list[Removal] = []
        self.gone: set[Key] = set()
        """Replicas whose room is free again."""
        self.used: dict[str, set[int]] = {}
        """Indexes by cluster."""

    def run(self, explain: bool) -> Plan:
        judged = judge_replicas(self.fleet, self.request, self.facts.matcher, self.digest)
        self.sort(judged)
        self.replace_outgrown()
        self.scale_down()
        self.placements = [self.retained(kept) for kept in self.kept]
        for one in self.placements:
            self.used.setdefault(one.cluster, set()).add(one.index)
        if self.request.fill:
            self.fill()
        self.resize()
        self.keep_leaving()
        return self.outcome(explain)

    # --- retain -------------------------------------------------------------------------------------------------

    def sort(self, judged: Iterable[Judged]) -> None:
        for one in judged:
            match one:
                case Kept():
                    self.kept.append(one)
                case Leaving():
                    self.leaving.append(one)
                case _:
                    self.remove(one.replica, one.reason, one.message)

    def remove(self, replica: Replica, reason: Departure, message: str) -> None:
        self.gone.add(replica.key)
        self.removed.append(Removal(replica.key.name, replica.cluster, replica.index, reason, message))

    def replace_outgrown(self) -> None:
        """Where there are more replicas than are asked for, those that have no room for the deployment's size have been replaced:
        they leave when the others serve."""
        surplus = len(self.kept) - self.request.replicas
        if surplus <= 0:
            return
        stuck = [kept for kept in self.kept if self.is_outgrown(kept) and not self.trial(kept)[1]]
        for kept in sorted(stuck, key=_replaced_first, reverse=True)[:surplus]:
            self.kept.remove(kept)
            self.leaving.append(Leaving(kept.replica, Departure.OUTGROWN, self.shortfall(kept)))

    def scale_down(self) -> None:
        """Drop first what is being deleted or does not serve, then from the fullest cluster, the later name, the highest index."""
        while len(self.kept) > self.request.replicas:
            drop = max(self.kept, key=self.dispensable)
            self.kept.remove(drop)
            self.remove(drop.replica, Departure.SCALED_DOWN, f"scaled down to {self.request.replicas}")

    def dispensable(self, kept: Kept) -> tuple[bool, bool, int, str, int]:
        replica = kept.replica
        there = sum(1 for one in self.kept if one.replica.cluster == replica.cluster)
        return replica.deleting, not replica.ready, there, replica.cluster, replica.index

    def retained(self, kept: Kept, *, grown: bool = False) -> Placement:
        return Placement(
            cluster=kept.replica.cluster,
            index=kept.replica.index,
            name=kept.replica.key.name,
            engines=kept.engines,
            # A reservation is still a new placement: nothing has seen it yet.
            state=State.NEW if kept.replica.assumed else State.RETAINED,
            message=kept.note or kept.replica.message,
            constraints=self.digest,
            grown=grown,
        )

    # --- fill ---------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> int:
        return self.request.replicas - len(self.placements)

    def ledger(self, cluster: str) -> Ledger:
        """What is left as this plan goes: the fleet's own until something is charged."""
        known = self.ledgers.get(cluster)
        if known is not None:
            return known
        if self.gone and any(key in self.gone for key in self.fleet.by_cluster.get(cluster, ())):
            known = self.ledgers[cluster] = self.fleet.ledger(cluster, frozenset(self.gone))
            return known
        return self.fleet.room(cluster)

    def charge(self, cluster: str, found: Fit, ledger: Ledger) -> None:
        """Take the fit's room from a ledger of this plan; pools of the fleet's own are copied first."""
        known = self.ledgers.get(cluster)
        if known is None:
            known = self.ledgers[cluster] = Ledger(dict(ledger.pools))
        pools = known.pools
        for option in found.options:
            pools[option.pool] = pools[option.pool].copy()
        if len(found.options) == 1 and pools[option.pool].buckets is None:
            pools[option.pool].nodes -= option.pods
        else:
            take(found, known)

    def vacated(self, cluster: str, *leaving: Key) -> Ledger:
        """What this plan leaves of a cluster without these replicas. Yours."""
        trial = self.fleet.vacated(cluster, frozenset(self.gone), frozenset(self.grown.union(leaving)))
        trial.charge(need for name, needs in self.taken if name == cluster for need in needs)
        return trial

    def take_over(self, cluster: Cluster, leaving: Leaving, released: list[Leaving]) -> bool:
        """Place in the slot of a leaving replica, with the room of the released ones."""
        trial = self.vacated(cluster.name, *(one.replica.key for one in released))
        found = self.facts.fit(self.fleet, cluster.name, trial)
        if found is None:
            return False
        take(found, trial)
        self.ledgers[cluster.name] = trial
        for one in released:
            self.leaving.remove(one)
            self.gone.add(one.replica.key)
            if one is not leaving:
                self.remove(one.replica, one.reason, one.message)
        self.place(cluster, leaving.replica.index, found, leaving.replica.key.name)
        return True

    def fill(self) -> None:
        """Level by level: the clusters with the fewest replicas of this deployment first, ties by name."""
        counts = Counter(placement.cluster for placement in self.placements)
        facts = self.facts
        held = {one.replica.cluster for one in self.leaving} | {removal.cluster for removal in self.removed}
        levels: dict[int, list[str]] = {0: []}
        for name, count in counts.items():
            if name in self.fleet.clusters and facts.is_open(name):
                levels.setdefault(count, []).append(name)
        fresh: list[str] = []
        missing = self.missing
        for name in facts.roomy(self.fleet.memo, held):
            if missing <= 0:
                return
            if name not in counts and self.settle(self.fleet.clusters[name]):
                fresh.append(name)
                missing -= 1
        levels.setdefault(1, []).extend(fresh)
        while levels and self.missing > 0:
            level = min(levels)
            for name in sorted(levels.pop(level)):
                if self.missing and self.settle(self.fleet.clusters[name]):
                    levels.setdefault(level + 1, []).append(name)

    def settle(self, cluster: Cluster) -> bool:
        """Place one replica on the cluster, in the slot of one that leaves it where there is such."""
        if self.leaving:
            beside = [one for one in self.leaving if one.replica.cluster == cluster.name]
            if beside:
                return self.succeed(cluster, beside)
        ledger = self.ledger(cluster.name)
        found = self.facts.fit(self.fleet, cluster.name, ledger)
        if found is None:
            return False
        self.charge(cluster.name, found, ledger)
        self.place(cluster, self.free_index(cluster.name), found, "")
        return True

    def succeed(self, cluster: Cluster, beside: list[Leaving]) -> bool:
        """Place in the slot of one of those that leave the cluster, with its room or with that of more of them."""
        # In an order that does not depend on why each leaves, which changes while the plan is carried out.
        beside.sort(key=lambda one: one.replica.index)
        # What only became larger serves on: its room is no one else's before it is replaced.
        others = [one for one in beside[1:] if one.reason is not Departure.OUTGROWN or not one.replica.ready]
        return self.take_over(cluster, beside[0], beside[:1]) or (
            bool(others) and self.take_over(cluster, beside[0], [beside[0], *others])
        )

    def free_index(self, cluster: str) -> int:
        """The lowest that none has there; where replicas leave the cluster, their own slots are taken over instead."""
        used = self.used.get(cluster, ())
        index = 0
        while index in used:
            index += 1
        return index

    def place(self, cluster: Cluster, index: int, found: Fit, name: str) -> None:
        options = found.options
        needs = options[0].needs if len(options) == 1 else tuple(need for one in options for need in one.needs)
        self.taken.append((cluster.name, needs))
        self.placements.append(
            Placement(
                cluster=cluster.name,
                index=index,
                name=name or self.name(cluster.name, index),
                engines=self.placed(found),
                state=State.NEW,
                message=self.reason(cluster, found),
                waiting=found.waiting,
                constraints=self.digest,
            )
        )
        self.used.setdefault(cluster.name, set()).add(index)

    def placed(self, found: Fit) -> tuple[PlacedEngine, ...]:
        """The engines on their pools, made once for each choice of pools; options live as long as the facts."""
        options = found.options
        key = id(options[0]) if len(options) == 1 else tuple(map(id, options))
        known = self.engines.get(key)
        if known is None:
            known = self.engines[key] = tuple(
                PlacedEngine(
                    engine.name,
                    engine.copies,
                    tuple(
                        PlacedMember(member.role, option.pool, member.pods, matching.resolved)
                        for member, matching in zip(engine.members, option.matchings, strict=True)
                    ),
                )
                for engine, option in zip(self.request.engines, options, strict=True)
            )
        return known

    def name(self, cluster: str, index: int) -> str:
        """Its usual name, unless another owner of the namespace has it."""
        name = replica_name(self.request.key.name, cluster, index)
        holder = self.fleet.by_key.get(Key(self.request.key.namespace, name))
        if holder is None or owns(self.request, holder):
            return name
        return replica_name(self.request.key.name, cluster, index, digits=TAKEN)

    def reason(self, cluster: Cluster, found: Fit) -> str:
        pools = found.options[0].pool
        if len(found.options) > 1:
            pools = ", ".join(sorted({option.pool for option in found.options}))
        beside = len(self.used.get(cluster.name, ()))
        key = pools, beside, found.waiting
        known = self.reasons.get(key)
        if known is None:
            first = f"beside {beside} more of this deployment" if beside else "the first of this deployment there"
            known = f"fits pool {pools}, {first}"
            if found.waiting:
                known = f"{known}; {_many(found.waiting, 'pod')} wait{'s' if found.waiting == 1 else ''} for nodes"
            self.reasons[key] = known
        return known

    # --- resize -------------------------------------------------------------------------------------------------

    def resize(self) -> None:
        """Give replicas the size that their deployment has now: where they are, else elsewhere as a replacement, else not yet."""
        larger = sorted(
            filter(self.is_outgrown, self.kept), key=lambda kept: (kept.replica.cluster, kept.replica.index)
        )
        stuck = [kept for kept in larger if not self.grow(kept)]
        stuck.sort(key=_replaced_first, reverse=True)
        while self.request.fill:
            # One that moves may leave room to one that stays.
            still = [kept for kept in stuck if not (self.grow(kept) or self.move(kept))]
            if len(still) == len(stuck):
                break
            stuck = still
        for kept in stuck:
            self.hold(kept)

    def is_outgrown(self, kept: Kept) -> bool:
        return outgrown(kept, self.fleet.clusters[kept.replica.cluster])

    def trial(self, kept: Kept) -> tuple[Ledger, bool]:
        """Its cluster with the replica at its new size on the pools that it has, and whether that fits."""
        trial = self.without(kept)
        return trial, trial.take(need for _, need in demand(kept))

    def grow(self, kept: Kept) -> bool:
        """Let the replica take its new size where that fits."""
        trial, fits = self.trial(kept)
        if fits:
            cluster = kept.replica.cluster
            self.ledgers[cluster] = trial
            self.taken.append((cluster, tuple(need for _, need in demand(kept))))
            self.grown.add(kept.replica.key)
            self.seat(kept, self.retained(kept, grown=True))
        return fits

    def seat(self, kept: Kept, *instead: Placement) -> None:
        """Put another placement in place of the replica's own, or none."""
        name = kept.replica.key.name
        self.placements = [one for one in self.placements if one.name != name] + list(instead)

    def move(self, kept: Kept) -> bool:
        """Place the replica anew where that is possible; it serves until its replacement does."""
        before, stays = list(self.placements), list(self.kept)
        leaving = Leaving(kept.replica, Departure.OUTGROWN, self.shortfall(kept))
        self.seat(kept)
        self.kept.remove(kept)
        self.leaving.append(leaving)
        self.fill()
        if len(self.placements) == len(before):
            return True
        self.leaving.remove(leaving)
        self.kept, self.placements = stays, before
        return False

    def hold(self, kept: Kept) -> None:
        """Leave the replica as it is; one that nobody has made yet is not made."""
        replica, why = kept.replica, self.shortfall(kept)
        if replica.assumed:
            self.kept.remove(kept)
            self.seat(kept)
            self.remove(replica, Departure.OUTGROWN, why)
            return
        self.vacant[replica.cluster] = self.without(kept)
        note = f"replica {replica.key.name} stays as it is: {why}"
        self.kept[self.kept.index(kept)] = msgspec.structs.replace(kept, note=note)
        held = Placement(
            cluster=replica.cluster,
            index=replica.index,
            name=replica.key.name,
            engines=as_stamped(replica),
            state=State.HELD,
            message=why,
            constraints=replica.constraints,
        )
        self.seat(kept, held)

    def without(self, kept: Kept) -> Ledger:
        """What its cluster has without the replica."""
        return self.vacated(kept.replica.cluster, kept.replica.key)

    def shortfall(self, kept: Kept) -> str:
        """What the pools of the replica lack for its new size, in figures."""
        pools, cluster = self.without(kept).pools, kept.replica.cluster
        needs: dict[tuple[str, str], list[Need]] = {}
        for engine, need in demand(kept):
            needs.setdefault((engine, need.pool), []).append(need)
        # They do not fit together, so one of them does not fit beside those before it.
        engine, name = next(at for at, own in needs.items() if at[1] not in pools or pools[at[1]].take(own) is None)
        pool, pods = pools.get(name), sum(need.pods for need in needs[engine, name])
        if pool is None:
            return f"engine {engine} became larger, and {cluster} does not publish pool {name} now"
        wanted = _many(pods, "node" if pool.buckets is None else "pod")
        fits = pool.how_many(needs[engine, name])
        return f"engine {engine} now needs {wanted} of pool {name} on {cluster}, where {fits} fit"

    # --- leave --------------------------------------------------------------------------------------------------

    def keep_leaving(self) -> None:
        """Leaving replicas serve until their replacements do, one for each that does not serve yet or has no place."""
        room = self.request.replicas - sum(1 for kept in self.kept if kept.replica.ready)
        for one in self.leaving:
            if room > 0 and one.replica.ready:
                room -= 1
                replica = one.replica
                self.placements.append(
                    Placement(
                        cluster=replica.cluster,
                        index=replica.index,
                        name=replica.key.name,
                        engines=as_stamped(replica),
                        state=State.LEAVING,
                        message=one.message,
                        constraints=replica.constraints,
                    )
                )
            else:
                self.remove(one.replica, one.reason, one.message)

    # --- outcome ------------------------------------------------------------------------------------------------

    def outcome(self, explain: bool) -> Plan:
        crowded = [note for note in map(self.crowded, self.kept) if note]
        found = Plan(
            key=self.request.key,
            uid=self.request.uid,
            wanted=self.request.replicas,
            placements=tuple(sorted(self.placements, key=attrgetter("cluster", "index"))),
            removed=tuple(sorted(self.removed, key=lambda one: (one.cluster, one.index, one.name))),
            candidates=self.facts.matching,
            crowded=len(crowded),
            holding=not self.request.fill,
            notes=(*(kept.note for kept in self.kept if kept.note), *crowded, *self.serving()),
        )
        if not (explain or found.missing or found.held):
            return found
        # Missing ones go before those that wait for room to grow; where none is missing, what those have is theirs to take again.
        vacant = {} if found.missing else self.vacant
        verdicts = self.facts.verdicts(self.fleet, self.freed() | vacant)
        return msgspec.structs.replace(found, verdicts=tuple(map(self.with_own, verdicts) if vacant else verdicts))

    def with_own(self, verdict: Verdict) -> Verdict:
        """The verdict with a word on whose devices its figures count as free."""
        if verdict.cluster not in self.vacant or verdict.code is not Code.FULL:
            return verdict
        names = [one.name for one in self.placements if one.cluster == verdict.cluster and one.state is State.HELD]
        return msgspec.structs.replace(verdict, message=f"{verdict.message}; what {names[-1]} has counts as free")

    def serving(self) -> list[str]:
        """What to say about leaving replicas while a replacement has no place."""
        if self.missing_for_good <= 0:
            return []
        leaving = [one for one in self.placements if one.state is State.LEAVING]
        return [f"replica {one.name} serves on {one.cluster} until it is replaced" for one in leaving]

    def crowded(self, kept: Kept) -> str:
        """What to say about a replica that does not serve and whose pool has lost the nodes for it."""
        replica = kept.replica
        if replica.ready or replica.assumed:
            return ""
        pools = self.ledger(replica.cluster).pools
        for name in sorted({need.pool for need in replica.needs} & set(pools)):
            pool = pools[name]
            left = pool.nodes + pool.grow
            if pool.buckets is None and left < 0:
                return (
                    f"replica {replica.key.name} stays on {replica.cluster} without room: pool {name} has "
                    f"{_many(pool.limit, 'node')}, and replicas take {pool.limit - left}"
                )
        return ""

    @property
    def missing_for_good(self) -> int:
        return self.request.replicas - staying(self.placements)

    def freed(self) -> dict[str, Ledger]:
        """The ledgers of this plan, those of clusters that it takes replicas from included."""
        for removal in self.removed:
            if removal.cluster in self.fleet.clusters:
                self.ledger(removal.cluster)
        return self.ledgers


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _replaced_first(kept: Kept) -> tuple[bool, bool, str, int]:
    """The greatest of the replicas without room for their new size is replaced first, and leaves first. How many are where says
    nothing here, unlike in a scale-down: that changes while they are replaced, and then others would leave."""
    replica = kept.replica
    return replica.deleting, not replica.ready, replica.cluster, replica.index
