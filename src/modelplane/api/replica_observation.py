"""ReplicaObservation: what the cluster agent sees of a replica's pods. Lives on inference clusters, beside the pods.

Its two conditions say why a replica does not serve: one that is unschedulable may fit on another cluster, one that cannot pull its
image probably fails everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.labels import LabelValue
from modelplane.api.meta import AGENT_GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, atomic, entries, formatted, keyed, number, read

KIND: Final = GVK(AGENT_GROUP, VERSION, "ReplicaObservation")
RESOURCE: Final = Resource(KIND, "replicaobservations", True)


class ConditionType(StrEnum):
    """Condition types of a ReplicaObservation."""

    SCHEDULED = "Scheduled"
    """Every pod has a node."""
    READY = "Ready"
    """Every pod is ready."""


class Reason(StrEnum):
    """Condition reasons of a ReplicaObservation."""

    ALL_SCHEDULED = "AllScheduled"
    """Every pod has a node."""
    UNSCHEDULABLE = "Unschedulable"
    """A pod cannot be placed; the message names it and quotes the scheduler."""
    ALL_READY = "AllReady"
    """Every pod is ready."""
    NOT_SCHEDULED = "NotScheduled"
    """Some pods have no node; the message has their number."""
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    """A container's image cannot be pulled; the message names it."""
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    """A container keeps crashing; the message names it."""
    STARTING = "Starting"
    """Every pod has a node and some are not ready."""


class PodSelector(Shape, frozen=True, kw_only=True):
    """Pods by label, of those that carry modelplane.ai/replica."""

    match_labels: Annotated[Mapping[str, LabelValue], entries(most=16)] = {}
    """Labels that all have to match; in practice modelplane.ai/replica."""


class Spec(Shape, frozen=True, kw_only=True):
    """The pods to watch."""

    pod_selector: PodSelector
    """Pods by label."""


class PodCounts(Shape, frozen=True, kw_only=True):
    """Numbers of pods."""

    total: Annotated[int, number(0)] = 0
    """Pods that match."""
    scheduled: Annotated[int, number(0)] = 0
    """Pods that have a node."""
    ready: Annotated[int, number(0)] = 0
    """Pods that are ready."""


class AllocatedDevice(Shape, frozen=True, kw_only=True):
    """A device that a pod holds."""

    node: str
    """Node that the device is in."""
    driver: str
    """Driver of the device."""
    pool: str
    """The driver's pool."""
    device: str
    """Name of the device in that pool."""
    uuid: str = ""
    """The device's own identity, where its driver publishes one."""


class ReplicaPool(Shape, frozen=True, kw_only=True):
    """A node pool that the replica's pods are in."""

    name: str
    """Value of the node label modelplane.ai/pool."""
    last_allocation_time: Annotated[str, formatted("date-time")] | None = None
    """When the newest of the replica's allocations there was first seen. A pool whose own time is not earlier counts it already."""


class Status(Shape, frozen=True, kw_only=True):
    """What the agent sees."""

    observed_generation: Annotated[int, formatted("int64")] | None = None
    """Generation that is reported on."""
    pods: PodCounts | None = None
    """Numbers of pods."""
    devices: Annotated[tuple[AllocatedDevice, ...], atomic(most=4096)] = ()
    """Devices that the pods hold."""
    pools: Annotated[tuple[ReplicaPool, ...], keyed("name", most=64)] = ()
    """Node pools that the pods are in."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Scheduled and Ready."""


class ReplicaObservation(Root, frozen=True, kw_only=True):
    """What the cluster agent sees of a replica's pods. Written by the control plane and the agent."""

    spec: Spec
    """The pods to watch."""
    status: Status = Status()
    """What the agent sees."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ReplicaObservation,
    owner=Owner.COMPOSED,
    conditions=ConditionType,
    reasons=Reason,
    categories=("modelplane",),
    machinery=False,
    columns=(
        Column(name="PODS", path=".status.pods.total", type="integer"),
        Column(name="SCHEDULED", path=".status.conditions[?(@.type=='Scheduled')].status"),
        Column(name="READY", path=".status.conditions[?(@.type=='Ready')].status"),
    ),
)


def parse(obj: Mapping[str, Any]) -> ReplicaObservation:
    """A stored observation as its type. Raises InvalidObject."""
    return read(ReplicaObservation, obj)
