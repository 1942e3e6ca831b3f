"""PoolObservation: what the cluster agent sees of one node pool. Lives on inference clusters.

The control plane writes the spec, the agent the status, and the InferenceCluster composer carries the figures over into
`status.gpuPools[].capacity`. Free devices are counted per node, in buckets of one exact combination over all classes: adding a
class up across buckets gives wrong answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.devices import Attribute
from modelplane.api.meta import AGENT_GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import (
    Column,
    Definition,
    Owner,
    Root,
    Shape,
    atomic,
    entries,
    formatted,
    keyed,
    number,
    read,
    text,
)

KIND: Final = GVK(AGENT_GROUP, VERSION, "PoolObservation")
RESOURCE: Final = Resource(KIND, "poolobservations", False)


class ConditionType(StrEnum):
    """Condition types of a PoolObservation."""

    HEALTHY = "Healthy"
    """No problem was seen on the pool."""
    SCALE_UP_BLOCKED = "ScaleUpBlocked"
    """A pod of the pool waits and the autoscaler declines to grow it. True is the bad state."""


class Reason(StrEnum):
    """Condition reasons of a PoolObservation."""

    POOL_HEALTHY = "PoolHealthy"
    """No problem was seen."""
    NODE_NOT_READY = "NodeNotReady"
    """A node is not ready; the message names it."""
    NODE_CORDONED = "NodeCordoned"
    """A node is cordoned; the message names it."""
    DEVICE_TAINTED = "DeviceTainted"
    """A device is tainted by its driver; the message names it."""
    SCALE_UP_NOT_TRIGGERED = "ScaleUpNotTriggered"
    """The autoscaler declines; the message has the pod and the autoscaler's words."""
    SCALE_UP_POSSIBLE = "ScaleUpPossible"
    """No pod of the pool is refused by the autoscaler."""


class Spec(Shape, frozen=True, kw_only=True):
    """The pool to watch."""

    pool_name: Annotated[str, text(1, 63)]
    """Value of the node label modelplane.ai/pool."""


class NodeCounts(Shape, frozen=True, kw_only=True):
    """Numbers of nodes."""

    total: Annotated[int, number(0)] = 0
    """Nodes in the pool."""
    ready: Annotated[int, number(0)] = 0
    """Nodes that are Ready."""
    schedulable: Annotated[int, number(0)] = 0
    """Nodes that are Ready, not cordoned, and without a taint that keeps our GPU pods off."""


class ObservedDevices(Shape, frozen=True, kw_only=True):
    """Devices of one class in the pool."""

    device_class_name: Annotated[str, text(1, 253)]
    """The DeviceClass."""
    nodes: Annotated[int, number(0)] | None = None
    """Nodes that have such devices."""
    allocatable: Annotated[int, number(0)] | None = None
    """Devices that can be allocated."""
    allocated: Annotated[int, number(0)] | None = None
    """Devices that are allocated now."""
    attributes: Annotated[Mapping[str, Attribute], entries(most=64)] = {}
    """Values that every device of the class in the pool shares."""


class Bucket(Shape, frozen=True, kw_only=True):
    """Schedulable nodes that have exactly these devices free."""

    free_devices: Annotated[Mapping[str, Annotated[int, number(0)]], entries(most=16)] = {}
    """Free devices by DeviceClass."""
    nodes: Annotated[int, number(0)]
    """Nodes in the bucket."""


class Status(Shape, frozen=True, kw_only=True):
    """What the agent sees."""

    observed_generation: Annotated[int, formatted("int64")] | None = None
    """Generation that is reported on."""
    nodes: NodeCounts | None = None
    """Numbers of nodes."""
    unschedulable_pods: Annotated[int, number(0)] | None = None
    """Pods pinned to the pool that the scheduler cannot place."""
    devices: Annotated[tuple[ObservedDevices, ...], keyed("deviceClassName", most=16)] = ()
    """Devices by class."""
    nodes_by_free_devices: Annotated[tuple[Bucket, ...], atomic(most=256)] = ()
    """Schedulable nodes, counted by the exact combination of devices that they have free."""
    last_allocation_time: Annotated[str, formatted("date-time")] | None = None
    """When the newest allocation on the pool was first seen; never goes back."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Healthy and ScaleUpBlocked."""


class PoolObservation(Root, frozen=True, kw_only=True):
    """What the cluster agent sees of one node pool. Written by the control plane and the agent."""

    spec: Spec
    """The pool to watch."""
    status: Status = Status()
    """What the agent sees."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=PoolObservation,
    owner=Owner.COMPOSED,
    conditions=ConditionType,
    reasons=Reason,
    categories=("modelplane",),
    machinery=False,
    columns=(
        Column(name="NODES", path=".status.nodes.total", type="integer"),
        Column(name="SCHEDULABLE", path=".status.nodes.schedulable", type="integer"),
        Column(name="HEALTHY", path=".status.conditions[?(@.type=='Healthy')].status"),
    ),
)


def parse(obj: Mapping[str, Any]) -> PoolObservation:
    """A stored observation as its type. Raises InvalidObject."""
    return read(PoolObservation, obj)
