"""What the planner answers: placements, removals, a verdict per cluster, and the words for the deployment's condition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from modelplane.api.meta import Condition, Key, Status
from modelplane.plan.devices import Resolved, claims_by_class
from modelplane.plan.fleet import Replica, ReplicaEngine, ReplicaMember
from modelplane.plan.verdicts import FOREIGN, Code, Verdict, digest

SCHEDULED: Final = "ReplicasScheduled"


class State(StrEnum):
    """How a placement came about."""

    RETAINED = "Retained"
    """It was there and stays."""
    NEW = "Placed"
    """It is placed by this plan."""
    LEAVING = "Leaving"
    """It no longer satisfies the deployment, and serves until its replacement does."""
    HELD = "Held"
    """The deployment became larger than any room for it: the replica stays as it was placed."""


class Departure(StrEnum):
    """Why a replica goes."""

    CLUSTER_GONE = "ClusterGone"
    DUPLICATE = "Duplicate"
    EVICTED = "Evicted"
    POOL_GONE = "PoolGone"
    NO_LONGER_MATCHES = "NoLongerMatches"
    SHAPE_CHANGED = "ShapeChanged"
    OUTGROWN = "Outgrown"
    SCALED_DOWN = "ScaledDown"


class PlacedMember(msgspec.Struct, frozen=True, gc=False):
    """A member's pool and requests; ``requests`` None leaves those that the replica has, since its pool cannot be judged now or no
    longer matches."""

    role: str
    pool: str
    pods: int
    requests: tuple[Resolved, ...] | None


class PlacedEngine(msgspec.Struct, frozen=True, gc=False):
    name: str
    copies: int
    members: tuple[PlacedMember, ...]


class Placement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replica's place."""

    cluster: str
    index: int
    name: str
    engines: tuple[PlacedEngine, ...]
    state: State
    message: str = ""
    """Why it is there, or what is wrong with its staying there."""
    waiting: int = 0
    """Pods that wait for nodes to come."""
    constraints: str = ""
    grown: bool = False
    """It stays and takes more, or other, devices than it shows."""

    @property
    def annotation(self) -> str:
        """The value of the ``modelplane.ai/placement`` annotation of its ModelReplica."""
        return json.dumps(
            {"code": str(self.state), "message": self.message, "constraints": self.constraints},
            separators=(",", ":"),
            sort_keys=True,
        )


def staying(placements: Sequence[Placement]) -> int:
    """How many have their place for good."""
    return len(placements) - [placement.state for placement in placements].count(State.LEAVING)


class Removal(msgspec.Struct, frozen=True):
    """A replica that goes."""

    name: str
    cluster: str
    index: int
    reason: Departure
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Where every replica of a deployment is to be, and why the missing ones are nowhere."""

    key: Key
    uid: str
    wanted: int
    placements: tuple[Placement, ...]
    """Ordered by cluster and index; leaving ones included."""
    removed: tuple[Removal, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """One per cluster of the fleet in order of name; empty when nothing is missing and nobody asked."""
    candidates: int = 0
    """Clusters that the deployment's selectors match."""
    notes: tuple[str, ...] = ()
    """What a person should know about placements that stay."""
    crowded: int = 0
    """Replicas that do not serve and whose pool has fewer nodes than its replicas take."""
    holding: bool = False
    """Nothing new is placed in this pass, since the deployment's ModelCache is not known."""

    @property
    def placed(self) -> int:
        """Replicas that have a place for good."""
        return staying(self.placements)

    @property
    def missing(self) -> int:
        return max(0, self.wanted - self.placed)

    @property
    def held(self) -> int:
        """Placed replicas that stay at an earlier size, since there is no room for the deployment's."""
        return [placement.state for placement in self.placements].count(State.HELD)

    @property
    def complete(self) -> bool:
        """Every replica has a place, and room there."""
        return not self.missing and not self.held and not self.crowded

    @property
    def waiting(self) -> int:
        """Placed replicas that wait for nodes to come."""
        return sum(1 for placement in self.placements if placement.waiting)

    @property
    def refusal(self) -> str:
        """Why the missing replicas have no place, in a word; empty when none is missing."""
        if not self.missing:
            return ""
        if not self.candidates:
            return "NoClusters"
        if self.verdicts and all(verdict.code in (Code.NO_CACHE_STORAGE, *FOREIGN) for verdict in self.verdicts):
            return "NoCacheStorage"
        return "InsufficientCapacity"

    def headline(self) -> str:
        """The figures, and why nothing is placed where that is not up to the clusters; without an end."""
        if not self.wanted:
            leaving = len(self.placements) + len(self.removed)
            there = f"{leaving} {'leaves' if leaving == 1 else 'leave'}" if leaving else "there is none"
            return f"Scaled to zero: no replica is wanted, {there}"
        text = f"{self.placed} of {self.wanted} replicas placed"
        if self.waiting:
            text = f"{text}, {self.waiting} of them waiting for nodes"
        if self.held:
            text = f"{text}, {self.held} of them at an earlier size"
        if self.crowded:
            text = f"{text}, {self.crowded} of them without room"
        if self.missing:
            text = f"{text}; {self.missing} without a place"
        if self.missing or self.held:
            if self.holding:
                return f"{text}: new replicas wait for the ModelCache"
            if not self.verdicts:
                return f"{text}: there is no InferenceCluster; create one"
        return text

    def summary(self) -> str:
        """The message of the ReplicasScheduled condition: the headline, then what each cluster lacks, under 1 KiB."""
        refused = self.wanted and (self.missing or self.held) and not self.holding
        return digest(self.headline(), self.verdicts if refused else (), self.notes)

    def condition(self) -> Condition:
        """ReplicasScheduled: True only when every replica has a place."""
        if self.wanted == 0:
            status, reason = Status.TRUE, "ScaledToZero"
        elif self.complete:
            status, reason = Status.TRUE, "ReplicasCreated"
        elif self.placed:
            status, reason = Status.FALSE, "PartiallyScheduled"
        else:
            status, reason = Status.FALSE, self.refusal
        return Condition(type=SCHEDULED, status=status, reason=reason, message=self.summary())

    def assumed(self) -> tuple[Replica, ...]:
        """The new placements, and those that grow where they are, as replicas to be counted until the cache shows them."""
        stamped: dict[int, tuple[ReplicaEngine, ...]] = {}
        found = []
        for placement in self.placements:
            if placement.state is State.NEW or placement.grown:
                engines = stamped.get(id(placement.engines))
                if engines is None:
                    engines = stamped[id(placement.engines)] = tuple(map(_stamped, placement.engines))
                found.append(
                    Replica(
                        key=Key(self.key.namespace, placement.name),
                        deployment=self.key.name,
                        cluster=placement.cluster,
                        index=placement.index,
                        engines=engines,
                        owner=self.uid,
                        constraints=placement.constraints,
                        code="Placed",
                        message=placement.message,
                        assumed=True,
                    )
                )
        return tuple(found)


def _stamped(engine: PlacedEngine) -> ReplicaEngine:
    members = (
        ReplicaMember(member.role, member.pool, member.pods, claims_by_class(member.requests or ()))
        for member in engine.members
    )
    return ReplicaEngine(engine.name, engine.copies, tuple(members))
