"""What a node carries and what a pod asks of it, in the words of dynamic resource allocation.

An InferenceClass states devices, an InferenceCluster's status repeats them per pool, a ModelDeployment asks by selector, and a
ModelReplica holds the requests that were resolved. One type each, shared by those kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import field

from modelplane.api.shape import ONE_KEY_AT_LEAST, Rule, Shape, atomic, entries, formatted, number, text


class Claim(StrEnum):
    """How a device is handed to a pod."""

    DRA = "DRA"
    """The device becomes a request of a ResourceClaim."""
    SYNTHETIC = "Synthetic"
    """The device is matched for placement only and never claimed."""


class Attribute(Shape, frozen=True, kw_only=True):
    """One typed fact about a device."""

    string: Annotated[str, text(most=253)] | None = None
    """The value, when it is text."""
    version: Annotated[str, text(most=32)] | None = None
    """The value, when it is a semantic version such as 12.4.0."""
    boolean: bool | None = field(name="bool", default=None)
    """The value, when it is true or false."""
    integer: Annotated[int, formatted("int64")] | None = field(name="int", default=None)
    """The value, when it is a whole number."""

    @property
    def value(self) -> str | bool | int | None:
        """The one value that is set; a version is given as its text."""
        for value in (self.string, self.version, self.boolean, self.integer):
            if value is not None:
                return value
        return None


class DeclaredAttribute(Attribute, frozen=True, kw_only=True):
    """One typed fact about a device: exactly one of the fields is set."""

    RULES = (
        Rule(
            rule="[has(self.string), has(self.version), has(self.bool), has(self.int)].filter(x, x).size() == 1",
            message="set exactly one of string, version, bool and int: an attribute has one typed value",
        ),
    )


class Capacity(Shape, frozen=True, kw_only=True):
    """An amount per device."""

    value: Annotated[str, text(most=32)]
    """A Kubernetes quantity such as 80Gi: what the driver reports, not the figure of the data sheet."""


class DeclaredCapacity(Capacity, frozen=True, kw_only=True):
    """An amount per device."""

    value: Annotated[str, text(1, 32)]
    """A Kubernetes quantity such as 80Gi: what the driver reports, not the figure of the data sheet."""


class Device(Shape, frozen=True, kw_only=True):
    """One kind of device that every node of a pool carries, as the class states it."""

    name: Annotated[str, text(most=63)]
    """Short label, such as gpu or nic."""
    claim: Claim | None = None
    """Whether the device is claimed (DRA) or only matched (Synthetic); DRA when unset."""
    driver: Annotated[str, text(most=253)]
    """The DRA driver that owns the device."""
    device_class_name: Annotated[str, text(most=253)] | None = None
    """The DeviceClass through which it is claimed."""
    count: int | None = None
    """Units per node; a missing or negative count reads as 0."""
    attributes: Annotated[Mapping[str, Attribute], entries(most=32)] = {}
    """Typed facts by name, or by domain/name; the domain of a bare name is the driver."""
    capacity: Annotated[Mapping[str, Capacity], entries(most=32)] = {}
    """Amounts per device by name, or by domain/name."""

    @property
    def claimed(self) -> bool:
        return self.claim is not Claim.SYNTHETIC

    @property
    def units(self) -> int:
        """Units per node, never negative."""
        return max(0, self.count or 0)


class DeclaredDevice(Shape, frozen=True, kw_only=True):
    """One kind of device that a node carries: one entry per kind, not per unit."""

    name: Annotated[str, text(1, 63)]
    """Short label of the device, such as gpu or nic; unique in the class."""
    claim: Claim = Claim.DRA
    """DRA turns the device into a request of a ResourceClaim; Synthetic matches it for placement and never claims it."""
    driver: Annotated[str, text(1, 253)]
    """The DRA driver that owns the device; also the domain of attribute and capacity names that have none."""
    device_class_name: Annotated[str, text(1, 253)] | None = None
    """The cluster's DeviceClass through which the device is claimed. Needed for claim DRA, unused for Synthetic."""
    count: Annotated[int, number(1, 64)] = 1
    """Units per node."""
    attributes: Annotated[Mapping[str, DeclaredAttribute], entries(most=32)] = {}
    """Typed facts by name, or by domain/name; the domain of a bare name is the driver."""
    capacity: Annotated[Mapping[str, DeclaredCapacity], entries(most=32)] = {}
    """Amounts per device by name, or by domain/name."""

    RULES = (
        Rule(
            rule="self.claim != 'DRA' || has(self.deviceClassName)",
            message="set deviceClassName: a device with claim DRA is claimed through a DeviceClass of the cluster "
            "(or set claim: Synthetic if it is only matched)",
        ),
    )


class Selector(Shape, frozen=True, kw_only=True):
    """One condition on a device."""

    cel: Annotated[str, text(1, 10240)] | None = None
    """A DRA CEL expression over ``device`` that yields a boolean: device.driver, device.attributes["domain"].name and
    device.capacity["domain"].name are known. The same text goes into the ResourceClaim."""


Selectors: TypeAlias = Annotated[tuple[Annotated[Selector, ONE_KEY_AT_LEAST], ...], atomic(1, 8)]
ResolvedSelectors: TypeAlias = Annotated[tuple[Annotated[Selector, ONE_KEY_AT_LEAST], ...], atomic(most=8)]


class DeviceAsk(Shape, frozen=True, kw_only=True):
    """Devices that each pod of a member needs from its node."""

    name: Annotated[str, text(1, 63)]
    """Name of the request, used again in the ResourceClaim; unique in the member."""
    count: Annotated[int, number(1, 64)] = 1
    """Devices per node."""
    selectors: Selectors
    """Conditions that a device has to meet, all of them."""


class DeviceRequest(Shape, frozen=True, kw_only=True):
    """A request that placement has resolved to a DeviceClass."""

    name: Annotated[str, text(1, 63)]
    """Name of the request in the ResourceClaim."""
    device_class_name: Annotated[str, text(1, 253)]
    """The DeviceClass of the device that matched."""
    count: Annotated[int, number(1, 64)] = 1
    """Devices to claim."""
    selectors: ResolvedSelectors = ()
    """Conditions copied from the deployment, all of which have to hold."""
