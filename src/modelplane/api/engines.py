"""Engines: the serving units of a replica, as deployments ask for them and as replicas hold them.

An engine is one Standalone member, or a Leader with a Worker (a gang over several nodes). In PrefillDecode mode a replica
has two engines, one per phase. A ModelDeployment's member has a node selector; a ModelReplica's has the pool and the
requests that it became.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from modelplane.api.devices import DeviceAsk, DeviceRequest
from modelplane.api.pods import PodTemplate
from modelplane.api.shape import EXPLICIT, Rule, Shape, atomic, keyed, number, text


class Role(StrEnum):
    """A member's part in its engine."""

    STANDALONE = "Standalone"
    """The engine is this one pod."""
    LEADER = "Leader"
    """The pod of a gang that answers requests."""
    WORKER = "Worker"
    """The pods of a gang that follow."""


class Phase(StrEnum):
    """An engine's half of prefill and decode."""

    PREFILL = "Prefill"
    DECODE = "Decode"


class ServingMode(StrEnum):
    """How the engines of a replica are fronted."""

    UNIFIED = "Unified"
    """Every engine does all of a request."""
    PREFILL_DECODE = "PrefillDecode"
    """One engine computes prompts, the other one generates."""


class Worker(Shape, frozen=True, kw_only=True):
    """Settings of a Worker member."""

    nodes: Annotated[int, number(1, 63)]
    """Worker pods, one per node. The gang is this many and the Leader."""


class NodeSelector(Shape, frozen=True, kw_only=True):
    """What each pod of a member needs from its node."""

    devices: Annotated[tuple[DeviceAsk, ...], keyed("name", least=1, most=16)]
    """Requests, all of which a pool has to meet."""


class Serving(Shape, frozen=True, kw_only=True):
    """How the engines are fronted."""

    mode: ServingMode = ServingMode.UNIFIED
    """Unified, or PrefillDecode with one engine per phase."""


class RequiredServing(Serving, frozen=True, kw_only=True):
    """How the engines are fronted."""

    mode: Annotated[ServingMode, EXPLICIT] = ServingMode.UNIFIED
    """Unified, or PrefillDecode with one engine per phase."""


class BaseMember(Shape, frozen=True, kw_only=True):
    """What members of deployments and replicas share."""

    role: Role = Role.STANDALONE
    """Part that the member plays."""
    worker: Worker | None = None
    """Settings of a Worker."""
    template: PodTemplate
    """The curated slice of a pod template."""

    RULES = (
        Rule(
            rule="!has(self.worker) || self.role == 'Worker'",
            message="remove worker or set role: Worker: the block belongs to that role",
        ),
    )

    @property
    def pods(self) -> int:
        """Pods of this member in one copy of the engine."""
        if self.role is not Role.WORKER:
            return 1
        return self.worker.nodes if self.worker else 1


class Member(BaseMember, frozen=True, kw_only=True):
    """Pods of one role in an engine."""

    node_selector: NodeSelector | None = None
    """Devices that each pod needs. A member without it claims nothing and rides on the engine's pool."""

    RULES = BaseMember.RULES


class PlacedMember(BaseMember, frozen=True, kw_only=True):
    """Pods of one role in an engine that has been placed."""

    node_pool_name: Annotated[str, text(1)]
    """The pool that placement chose."""
    device_requests: Annotated[tuple[DeviceRequest, ...], keyed("name", least=1, most=16)] | None = None
    """Requests for claimed devices; absent when the member claims nothing."""

    RULES = BaseMember.RULES


_SHAPES = Rule(
    rule="self.members.size() == 1 ? self.members[0].role == 'Standalone' : "
    "self.members.exists_one(m, m.role == 'Leader') && self.members.exists_one(m, m.role == 'Worker')",
    message="members must be one Standalone, or one Leader and one Worker",
    field=".members",
)


class BaseEngine(Shape, frozen=True, kw_only=True):
    """What engines of deployments and replicas share."""

    name: Annotated[str, text(1, 63)]
    """Name of the engine, unique in the replica; it goes into workload names, so keep it a DNS label."""
    copies: Annotated[int, number(1, 64)] = 1
    """Identical copies per replica."""
    phase: Phase | None = None
    """Half of prefill and decode, in that mode alone."""


class Engine(BaseEngine, frozen=True, kw_only=True):
    """A serving unit."""

    members: Annotated[tuple[Member, ...], atomic(1, 2)]
    """One Standalone, or a Leader and a Worker."""

    RULES = (
        _SHAPES,
        Rule(
            rule="self.members.exists(m, has(m.nodeSelector))",
            message="set nodeSelector on at least one member: an engine has to ask for devices",
            field=".members",
        ),
    )


class PlacedEngine(BaseEngine, frozen=True, kw_only=True):
    """A serving unit that has been placed."""

    members: Annotated[tuple[PlacedMember, ...], atomic(1, 2)]
    """One Standalone, or a Leader and a Worker."""

    RULES = (
        _SHAPES,
        Rule(
            rule="self.members.exists(m, has(m.deviceRequests))",
            message="set deviceRequests on at least one member: an engine has to claim devices",
            field=".members",
        ),
    )


_SPLIT = "has(self.serving) && self.serving.mode == 'PrefillDecode'"

SERVING_RULES = (
    Rule(
        rule=f"!({_SPLIT}) || self.engines.size() == 2",
        message="mode PrefillDecode takes exactly two engines",
        field=".engines",
    ),
    Rule(
        rule=f"!({_SPLIT}) || self.engines.exists_one(e, has(e.phase) && e.phase == 'Prefill')",
        message="mode PrefillDecode takes exactly one engine with phase: Prefill",
        field=".engines",
    ),
    Rule(
        rule=f"!({_SPLIT}) || self.engines.exists_one(e, has(e.phase) && e.phase == 'Decode')",
        message="mode PrefillDecode takes exactly one engine with phase: Decode",
        field=".engines",
    ),
    Rule(
        rule=f"({_SPLIT}) || !self.engines.exists(e, has(e.phase))",
        message="remove phase from the engines or set serving.mode: PrefillDecode",
        field=".engines",
    ),
)
"""For an object with ``serving`` and ``engines``."""
