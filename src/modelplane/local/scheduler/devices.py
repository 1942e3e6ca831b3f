"""Allocation of devices to ResourceClaims (resource.k8s.io/v1), on one node at a time.

An exact search with backtracking: requests in order, devices in the order of their slices. Supported: `exactly` with
ExactCount and All, `firstAvailable`, admin access, device taints and tolerations, matchAttribute and distinctAttribute
constraints, classes' and requests' CEL selectors. Shared counters and consumable capacity are not published by our nodes;
a device that consumes counters is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from modelplane.api.meta import Object
from modelplane.local.scheduler.nodes import NodeView, matches_selector, tolerates

DeviceId: TypeAlias = tuple[str, str, str]
"""Driver, pool, device name."""

MOST_STEPS: Final = 100_000


class SelectorError(Exception):
    """A CEL selector does not compile, or fails on a device."""


Selects: TypeAlias = Callable[[str, "Device"], bool]
"""Evaluate a CEL selector on a device; raises `SelectorError`."""


@dataclass(frozen=True, slots=True)
class Device:
    """One published device, with what a selector may ask."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Any]
    capacity: Mapping[str, Any]
    taints: tuple[Mapping[str, Any], ...] = ()

    @property
    def id(self) -> DeviceId:
        return (self.driver, self.pool, self.name)


class Unallocatable(Exception):
    """The claims cannot be met on this node; the text is kube-scheduler's."""


def published(slices: Iterable[Object], node: NodeView) -> list[Device]:
    """Devices that the node can use: newest generation of complete pools only, in the order of slice and device."""
    newest: dict[tuple[str, str], int] = {}
    slices = sorted(slices, key=lambda s: str(s["metadata"]["name"]))
    for piece in slices:
        pool = piece["spec"]["pool"]
        key = (piece["spec"]["driver"], pool["name"])
        newest[key] = max(newest.get(key, -1), pool.get("generation", 0))
    current: dict[tuple[str, str], list[Object]] = {}
    for piece in slices:
        key = (piece["spec"]["driver"], piece["spec"]["pool"]["name"])
        if piece["spec"]["pool"].get("generation", 0) == newest[key]:
            current.setdefault(key, []).append(piece)
    found: list[Device] = []
    for (driver, pool_name), pieces in current.items():
        if len(pieces) < pieces[0]["spec"]["pool"].get("resourceSliceCount", 1):
            continue
        for piece in pieces:
            spec = piece["spec"]
            whole = _reaches(spec, node)
            for device in spec.get("devices") or ():
                if device.get("consumesCounters"):
                    continue
                if whole or (spec.get("perDeviceNodeSelection") and _reaches(device, node)):
                    found.append(
                        Device(
                            driver=driver,
                            pool=pool_name,
                            name=device["name"],
                            attributes=device.get("attributes") or {},
                            capacity=device.get("capacity") or {},
                            taints=tuple(device.get("taints") or ()),
                        )
                    )
    return found


def _reaches(spec: Mapping[str, Any], node: NodeView) -> bool:
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node.name)
    if spec.get("nodeSelector"):
        return matches_selector(spec["nodeSelector"], node.name, node.labels)
    return bool(spec.get("allNodes"))


def allocated(claims: Iterable[Object]) -> set[DeviceId]:
    """Devices that some claim holds; admin access does not hold a device."""
    return {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in _results(claim)
        if not result.get("adminAccess")
    }


def _results(claim: Object) -> Sequence[Mapping[str, Any]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: Sequence[Mapping[str, Any]] = (allocation.get("devices") or {}).get("results") or ()
    return results


def allocate(
    claims: Sequence[Object],
    classes: Mapping[str, Object],
    devices: Sequence[Device],
    taken: Collection[DeviceId],
    node: str,
    selects: Selects,
) -> list[Object]:
    """An AllocationResult per claim, in order. Raises `Unallocatable` when the node cannot meet all of them."""
    search = _Search(devices, taken, selects)
    plans = [_Claim(claim, classes) for claim in claims]
    slots = [(plan, request) for plan in plans for request in plan.requests]
    if not search.fill(slots, 0):
        raise Unallocatable("cannot allocate all claims")
    return [plan.result(search.chosen, node) for plan in plans]


@dataclass(slots=True)
class _Request:
    """One request, or one alternative of a `firstAvailable` request."""

    name: str
    alternatives: Sequence[Mapping[str, Any]]


class _Claim:
    def __init__(self, claim: Object, classes: Mapping[str, Object]) -> None:
        self.name = claim["metadata"]["name"]
        spec = claim["spec"].get("devices") or {}
        self.constraints: list[Mapping[str, Any]] = spec.get("constraints") or []
        self.config: list[Mapping[str, Any]] = spec.get("config") or []
        self.classes = classes
        self.requests: list[_Request] = []
        for request in spec.get("requests") or ():
            if request.get("firstAvailable"):
                names = [{**sub, "name": f"{request['name']}/{sub['name']}"} for sub in request["firstAvailable"]]
                self.requests.append(_Request(request["name"], names))
            else:
                exactly = request.get("exactly") or {}
                self.requests.append(_Request(request["name"], [{**exactly, "name": request["name"]}]))
        for request in self.requests:
            for alternative in request.alternatives:
                if alternative.get("deviceClassName") not in classes:
                    raise Unallocatable(
                        f"claim {self.name}, request {alternative['name']}: "
                        f"could not retrieve device class {alternative.get('deviceClassName')}"
                    )

    def result(self, chosen: Sequence[_Choice], node: str) -> Object:
        results: list[Object] = []
        for choice in chosen:
            if choice.claim is not self:
                continue
            entry: Object = {
                "request": choice.request,
                "driver": choice.device.driver,
                "pool": choice.device.pool,
                "device": choice.device.name,
            }
            if choice.admin:
                entry["adminAccess"] = True
            if choice.tolerations:
                entry["tolerations"] = list(choice.tolerations)
            results.append(entry)
        allocation: Object = {"devices": {"results": results}}
        config = self._config(results)
        if config:
            allocation["devices"]["config"] = config
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        return allocation

    def _config(self, results: Sequence[Mapping[str, Any]]) -> list[Object]:
        drivers = {result["driver"] for result in results}
        config: list[Object] = []
        used = {str(result["request"]): None for result in results}
        for request in self.requests:
            for alternative in request.alternatives:
                if alternative["name"] in used:
                    of_class = self.classes[alternative["deviceClassName"]].get("spec") or {}
                    for entry in of_class.get("config") or ():
                        config.append({"source": "FromClass", "requests": [alternative["name"]], **entry})
        for entry in self.config:
            if (entry.get("opaque") or {}).get("driver") in drivers:
                config.append({"source": "FromClaim", **entry})
        return config


@dataclass(frozen=True, slots=True)
class _Choice:
    claim: _Claim
    request: str
    device: Device
    admin: bool
    tolerations: tuple[Mapping[str, Any], ...]


class _Search:
    def __init__(self, devices: Sequence[Device], taken: Collection[DeviceId], selects: Selects) -> None:
        self._devices = devices
        self._taken = set(taken)
        self._selects = selects
        self._steps = 0
        self.chosen: list[_Choice] = []

    def fill(self, slots: Sequence[tuple[_Claim, _Request]], at: int) -> bool:
        if at == len(slots):
            return True
        claim, request = slots[at]
        for alternative in request.alternatives:
            suitable = [d for d in self._devices if self._suits(claim, alternative, d)]
            if alternative.get("allocationMode") == "All":
                # All means every one that matches; one that is taken makes it fail.
                if suitable and self._take(claim, alternative, suitable, len(suitable), 0, slots, at):
                    return True
            elif self._take(claim, alternative, suitable, alternative.get("count") or 1, 0, slots, at):
                return True
        return False

    def _take(
        self,
        claim: _Claim,
        request: Mapping[str, Any],
        suitable: Sequence[Device],
        count: int,
        start: int,
        slots: Sequence[tuple[_Claim, _Request]],
        at: int,
    ) -> bool:
        """Choose `count` more devices for this request out of suitable[start:], then fill the later requests."""
        if count == 0:
            return self.fill(slots, at + 1)
        admin = bool(request.get("adminAccess"))
        for index in range(start, len(suitable) - count + 1):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise Unallocatable("cannot allocate all claims within the search limit")
            device = suitable[index]
            if not admin and device.id in self._taken:
                continue
            if not self._consistent(claim, request["name"], device):
                continue
            if not admin:
                self._taken.add(device.id)
            self.chosen.append(_Choice(claim, request["name"], device, admin, tuple(request.get("tolerations") or ())))
            if self._take(claim, request, suitable, count - 1, index + 1, slots, at):
                return True
            self.chosen.pop()
            if not admin:
                self._taken.discard(device.id)
        return False

    def _suits(self, claim: _Claim, request: Mapping[str, Any], device: Device) -> bool:
        tolerations = request.get("tolerations") or ()
        if any(t.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, t) for t in device.taints):
            return False
        of_class = claim.classes[request["deviceClassName"]].get("spec") or {}
        for where, selectors in (
            (f"class {request['deviceClassName']}", of_class.get("selectors") or ()),
            (f"claim {claim.name}, request {request['name']}", request.get("selectors") or ()),
        ):
            for number, selector in enumerate(selectors):
                try:
                    if not self._selects(selector["cel"]["expression"], device):
                        return False
                except SelectorError as error:
                    raise Unallocatable(f"{where}: selector #{number}: {error}") from error
        return True

    def _consistent(self, claim: _Claim, request: str, device: Device) -> bool:
        for constraint in claim.constraints:
            concerned = constraint.get("requests") or ()
            if concerned and not _concerns(concerned, request):
                continue
            attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
            if not attribute:
                continue
            value = _attribute(device, attribute)
            if value is None:
                return False
            others = [
                _attribute(choice.device, attribute)
                for choice in self.chosen
                if choice.claim is claim and (not concerned or _concerns(concerned, choice.request))
            ]
            if constraint.get("matchAttribute") and any(other != value for other in others):
                return False
            if constraint.get("distinctAttribute") and value in others:
                return False
        return True


def _concerns(requests: Collection[str], name: str) -> bool:
    return name in requests or name.partition("/")[0] in requests


def _attribute(device: Device, name: str) -> Mapping[str, Any] | None:
    """An attribute by its full name; the driver's own domain may be left out where it is published."""
    domain, _, short = name.rpartition("/")
    found: Mapping[str, Any] | None = device.attributes.get(name)
    if found is None and domain == device.driver:
        found = device.attributes.get(short)
    return found
