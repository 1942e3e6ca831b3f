"""Placing: one serial step over one picture of the fleet, so that two deployments never take one slot.

The picture is what the caches show and what was placed a moment ago and is not shown yet. A reservation is made in memory before
the replica is applied, or made larger, and ends when the cache shows the replica so. After a start nothing is placed until the
caches are whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from modelplane.api.inference_cluster import KIND as INFERENCE_CLUSTER
from modelplane.api.inference_cluster import parse as parse_cluster
from modelplane.api.meta import Key, Object
from modelplane.api.model_deployment import KIND as MODEL_DEPLOYMENT
from modelplane.api.model_replica import KIND as MODEL_REPLICA
from modelplane.api.model_replica import parse as parse_replica
from modelplane.control.caches import Caches
from modelplane.control.index import Parent, Place
from modelplane.errors import PermanentError, TemporaryError
from modelplane.plan.fleet import Cluster, Fleet, Picture, Replica
from modelplane.plan.outcome import Plan
from modelplane.plan.request import PlacementRequest
from modelplane.plan.snapshot import cluster_of, replica_of

log = logging.getLogger(__name__)

Planner: TypeAlias = Callable[[Fleet, PlacementRequest], Plan]


Seat: TypeAlias = tuple[str, str, int]
"""Owner's UID, cluster and index."""


class Ledger:
    """A `control.passes.Placer`. Deployments do not watch the fleet (`Read.wakes`): ``wake`` is called for those that a change can
    affect, which are those with a replica there, and those without a place for some replica. ``refused`` is told, by reason, of
    replicas that have become without a place, or are so for another reason than before: once, however often it is planned again."""

    def __init__(
        self,
        caches: Caches,
        planner: Planner,
        wake: Callable[[Parent], None],
        refused: Callable[[str, int], None] = lambda reason, replicas: None,
    ) -> None:
        self._caches = caches
        self._planner = planner
        self._wake = wake
        self._refused = refused
        self._picture = Picture()
        self._placement: dict[str, object] = {}
        """What clusters hand to the labels of their replicas: nothing that placing looks at."""
        self._promised: dict[Key, Parent] = {}
        self._promises: dict[Parent, set[Key]] = {}
        self._seats: dict[Seat, Key] = {}
        self._asked: set[Parent] = set()
        self._unmet: dict[Parent, PlacementRequest] = {}
        self._missing: dict[Parent, tuple[str, int]] = {}

    def start(self) -> None:
        """Begin to follow clusters and replicas; to be called once, in the loop."""
        self._caches.on_change(self._changed)
        for kind in (INFERENCE_CLUSTER, MODEL_REPLICA):
            for obj in self._caches.watch(None, kind).informer.items():
                self._changed((None, kind), None, obj)

    def place(self, owner: Parent, request: PlacementRequest) -> Plan:
        """Plan and commit. There is no await in here, nor between this and the caller's answer to its composer."""
        for kind in (INFERENCE_CLUSTER, MODEL_REPLICA):
            if not self._caches.watch(None, kind).informer.synced.is_set():
                raise TemporaryError(f"{owner} is placed once every {kind.kind} has been read", after=0.05)
        plan = self._planner(self._picture.fleet, request)
        promised = plan.assumed()
        for key in self._promises.get(owner, set()) - {replica.key for replica in promised}:
            self._release(key, withdraw=True)
        for replica in promised:
            self._promise(owner, replica)
        self._asked.add(owner)
        if not plan.complete or len(plan.placements) > plan.placed:
            self._unmet[owner] = request
        else:
            self._unmet.pop(owner, None)
        self._count(owner, plan)
        return plan

    def _count(self, owner: Parent, plan: Plan) -> None:
        reason, before = self._missing.pop(owner, ("", 0))
        if plan.missing:
            self._missing[owner] = plan.refusal, plan.missing
            more = plan.missing - (before if plan.refusal == reason else 0)
            if more > 0:
                self._refused(plan.refusal, more)

    def unplaced(self) -> Mapping[str, int]:
        """How many replicas are without a place now, by reason."""
        found: dict[str, int] = {}
        for reason, replicas in self._missing.values():
            found[reason] = found.get(reason, 0) + replicas
        return found

    def fleet(self) -> Fleet:
        """The picture as it is now, good until the next change."""
        return self._picture.fleet

    def forget(self, owner: Parent) -> None:
        """A deployment is gone, and what was promised to it is free."""
        self._asked.discard(owner)
        self._unmet.pop(owner, None)
        self._missing.pop(owner, None)
        promised = sorted(self._promises.get(owner, ()))
        places = {self._picture.fleet.by_key[key].cluster for key in promised}
        for key in promised:
            self._release(key, withdraw=True)
        for place in sorted(places):
            self._wake_unmet(self._picture.fleet.clusters.get(place))

    # --- promises --------------------------------------------------------------------------------------------------

    def _promise(self, owner: Parent, replica: Replica) -> None:
        known = self._picture.fleet.by_key.get(replica.key)
        exists = known is not None and not known.assumed
        if known is not None and exists and known.engines == replica.engines:
            return
        if replica.key in self._promised:
            self._release(replica.key, withdraw=False)
        self._picture.promise(replica)
        self._promised[replica.key] = owner
        self._promises.setdefault(owner, set()).add(replica.key)
        if replica.owner and not exists:
            self._seats[replica.owner, replica.cluster, replica.index] = replica.key

    def _release(self, key: Key, *, withdraw: bool) -> None:
        """End a promise; ``withdraw`` its room is free again, else what exists under its key holds it."""
        owner = self._promised.pop(key)
        self._promises[owner].discard(key)
        if not self._promises[owner]:
            del self._promises[owner]
        promised = self._picture.fleet.by_key.get(key)
        if promised is not None:
            seat = (promised.owner, promised.cluster, promised.index)
            if self._seats.get(seat) == key:
                del self._seats[seat]
        if withdraw:
            self._picture.withdraw(key)

    # --- what the caches show ----------------------------------------------------------------------------------------

    def _changed(self, place: Place, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        if place[0] is not None or obj is None:
            return
        if place[1] == INFERENCE_CLUSTER:
            self._cluster_changed(obj["metadata"]["name"], new)
        elif place[1] == MODEL_REPLICA:
            self._replica_changed(Key.of(obj), new)

    def _cluster_changed(self, name: str, new: Object | None) -> None:
        before, labels = self._picture.fleet.clusters.get(name), self._placement.get(name)
        if new is None:
            self._picture.drop(name)
            self._placement.pop(name, None)
        else:
            try:
                after = cluster_of(parse_cluster(new))
            except PermanentError as error:
                # What cannot be read cannot be judged: the picture keeps what it had, so that nothing moves.
                log.warning("InferenceCluster %s is not understood: %s", name, error)
                return
            self._placement[name] = (new.get("spec") or {}).get("placement")
            if after != before:
                self._picture.put(after)
        now = self._picture.fleet.clusters.get(name)
        if now != before or self._placement.get(name) != labels:
            for replica in self._picture.fleet.on(name):
                self._wake_owner(replica)
        if now != before:
            self._wake_unmet(before, now)

    def _replica_changed(self, key: Key, new: Object | None) -> None:
        before = self._picture.fleet.by_key.get(key)
        known = before if before is not None and not before.assumed else None
        if new is None:
            if known is not None:
                if key in self._promised:
                    self._release(key, withdraw=True)
                self._picture.hide(key)
                self._wake_owner(known)
                self._wake_unmet(self._picture.fleet.clusters.get(known.cluster))
            return
        try:
            shown = replica_of(parse_replica(new))
        except PermanentError as error:
            log.warning("ModelReplica %s is not understood: %s", key, error)
            return
        if known is not None and known.growing and shown.engines == known.engines:
            # It has not been given its new size yet, so that stays promised.
            shown = msgspec.structs.replace(shown, growing=known.growing)
        elif key in self._promised:
            self._release(key, withdraw=False)
        seat = self._seats.get((shown.owner, shown.cluster, shown.index))
        if seat is not None:
            # By its seat: a replica whose name was taken got another one.
            self._release(seat, withdraw=True)
        if shown == known:
            return
        self._picture.show(shown)
        if known is None or (known.cluster, known.engines, known.deleting) != (
            shown.cluster,
            shown.engines,
            shown.deleting,
        ):
            self._wake_owner(shown)
            if known is not None:
                self._wake_unmet(self._picture.fleet.clusters.get(known.cluster))

    # --- waking ------------------------------------------------------------------------------------------------------

    def _wake_owner(self, replica: Replica) -> None:
        owner = Parent(MODEL_DEPLOYMENT, Key(replica.key.namespace, replica.deployment))
        if owner in self._asked:
            self._wake(owner)

    def _wake_unmet(self, *states: Cluster | None) -> None:
        """Those that wait for a place and that the cluster, as it was or is, could concern."""
        for owner in sorted(self._unmet):
            if any(state is not None and self._unmet[owner].selects(state.labels) for state in states):
                self._wake(owner)
