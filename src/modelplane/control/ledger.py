"""Placing: one serial step over one picture of the fleet, so that two deployments never take one slot.

The picture is what the caches show and what was placed a moment ago and is not shown yet. A reservation is made in memory before
the replica is applied, and ends when the cache shows the replica. After a start nothing is placed until the caches are whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from modelplane.api.inference_cluster import KIND as INFERENCE_CLUSTER
from modelplane.api.inference_cluster import parse as parse_cluster
from modelplane.api.meta import Key, Object
from modelplane.api.model_replica import KIND as MODEL_REPLICA
from modelplane.api.model_replica import parse as parse_replica
from modelplane.control.caches import Caches
from modelplane.control.index import Parent, Place
from modelplane.errors import PermanentError, TemporaryError
from modelplane.plan.fleet import Cluster, Fleet, Replica
from modelplane.plan.outcome import Plan
from modelplane.plan.request import PlacementRequest
from modelplane.plan.snapshot import cluster_of, replica_of

log = logging.getLogger(__name__)

Planner: TypeAlias = Callable[[Fleet, PlacementRequest], Plan]


class Ledger:
    """A `control.passes.Placer`. ``wake`` is called for deployments that could not be placed when the fleet changes."""

    def __init__(self, caches: Caches, planner: Planner, wake: Callable[[Parent], None]) -> None:
        self._caches = caches
        self._planner = planner
        self._wake = wake
        self._clusters: dict[str, Cluster] = {}
        self._replicas: dict[Key, Replica] = {}
        self._assumed: dict[Parent, dict[Key, Replica]] = {}
        self._unmet: set[Parent] = set()

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
        plan = self._planner(self.fleet(), request)
        kept = {Key(owner.key.namespace, placement.name) for placement in plan.placements}
        before = {key: replica for key, replica in self._assumed.get(owner, {}).items() if key in kept}
        self._assume(owner, {**before, **{replica.key: replica for replica in plan.assumed()}})
        if plan.missing or len(kept) > plan.placed:
            self._unmet.add(owner)
        else:
            self._unmet.discard(owner)
        return plan

    def fleet(self) -> Fleet:
        """The picture as it is now."""
        assumed = [replica for replicas in self._assumed.values() for replica in replicas.values()]
        return Fleet.of(self._clusters.values(), [*self._replicas.values(), *assumed])

    def forget(self, owner: Parent) -> None:
        """A deployment is gone, and what was promised to it is free."""
        self._unmet.discard(owner)
        if self._assumed.pop(owner, None):
            self._wake_unmet()

    def _assume(self, owner: Parent, replicas: dict[Key, Replica]) -> None:
        fresh = {key: replica for key, replica in replicas.items() if key not in self._replicas}
        if fresh:
            self._assumed[owner] = fresh
        else:
            self._assumed.pop(owner, None)

    def _changed(self, place: Place, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        if place[0] is not None or obj is None:
            return
        if place[1] == INFERENCE_CLUSTER:
            self._cluster_changed(obj["metadata"]["name"], new)
        elif place[1] == MODEL_REPLICA:
            self._replica_changed(Key.of(obj), new)

    def _cluster_changed(self, name: str, new: Object | None) -> None:
        before = self._clusters.pop(name, None)
        if new is not None:
            try:
                self._clusters[name] = cluster_of(parse_cluster(new))
            except PermanentError as error:
                # What cannot be read cannot be judged: the picture keeps what it had, so that nothing moves.
                log.warning("InferenceCluster %s is not understood: %s", name, error)
                if before is not None:
                    self._clusters[name] = before
        if self._clusters.get(name) != before:
            self._wake_unmet()

    def _replica_changed(self, key: Key, new: Object | None) -> None:
        before = self._replicas.pop(key, None)
        if new is not None:
            try:
                shown = replica_of(parse_replica(new))
            except PermanentError as error:
                log.warning("ModelReplica %s is not understood: %s", key, error)
                shown = before
            if shown is not None:
                self._replicas[key] = shown
                self._end_assumption(shown)
        elif before is not None:
            self._wake_unmet()

    def _end_assumption(self, shown: Replica) -> None:
        """By name, or by seat: a replica whose name was taken got another one."""
        for owner, replicas in list(self._assumed.items()):
            for key, assumed in list(replicas.items()):
                seat = (assumed.owner, assumed.cluster, assumed.index) == (shown.owner, shown.cluster, shown.index)
                if key == shown.key or (seat and assumed.owner):
                    del replicas[key]
            if not replicas:
                del self._assumed[owner]

    def _wake_unmet(self) -> None:
        for owner in sorted(self._unmet):
            self._wake(owner)
