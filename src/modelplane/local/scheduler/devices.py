"""Allocation of devices to ResourceClaims (resource.k8s.io/v1), on one node at a time.

An exact search with backtracking in kube-scheduler's order: claims, requests, pools, devices; the first solution is taken, so the
same devices are given. Order matters for more than that: a selector that fails on a device ends the attempt for the whole pod,
and whether it is asked depends on what was taken before. Supported: `exactly` with ExactCount and All, `firstAvailable`, admin
access, device taints and tolerations, constraints, least capacity, selectors of classes and requests. `pools` leaves the rest out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from modelplane.api.meta import Object
from modelplane.local.scheduler.allocation import Given, allocation, results
from modelplane.local.scheduler.amounts import thousandths
from modelplane.local.scheduler.constraints import Constraint, constraint
from modelplane.local.scheduler.nodes import tolerates
from modelplane.local.scheduler.pools import Device, DeviceId, Pool

MOST_STEPS: Final = 100_000
MOST_RESULTS: Final = 32
"""Devices of one claim."""


class SelectorError(Exception):
    """A CEL selector does not compile, or fails on a device."""


Selects: TypeAlias = Callable[[str, "Device"], bool]
"""Evaluate a CEL selector on a device; raises `SelectorError`."""


class Unallocatable(Exception):
    """The claims cannot be met on this node; the text is kube-scheduler's."""


class Broken(Exception):
    """Something is wrong with a claim or its class, and no node is tried any more; the text is kube-scheduler's."""


def allocated(claims: Iterable[Object]) -> set[DeviceId]:
    """Devices that some claim holds; admin access does not hold a device."""
    return {
        (result["driver"], result["pool"], result["device"])
        for claim in claims
        for result in results(claim)
        if not result.get("adminAccess")
    }


def missing_class(claims: Iterable[Object], classes: Mapping[str, Object]) -> str | None:
    """What is said of the first request whose class is not there."""
    for claim in claims:
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            for ask in _alternatives(request):
                if ask.spec["deviceClassName"] not in classes:
                    return f"request {ask.name}: device class {ask.spec['deviceClassName']} does not exist"
    return None


def allocate(
    claims: Sequence[Object],
    classes: Mapping[str, Object],
    pools: Sequence[Pool],
    taken: Collection[DeviceId],
    node: str,
    selects: Selects,
) -> list[Object]:
    """An AllocationResult per claim, in order; every class exists. Raises `Unallocatable` when the node cannot meet all of them,
    and `Broken`."""
    search = _Search(classes, pools, taken, selects)
    plans = [search.plan(claim) for claim in claims]
    if not search.fill([(plan, request) for plan in plans for request in plan.requests], 0):
        if any(pool.state == "invalid" for pool in pools):
            raise Unallocatable("invalid resource pools were encountered")
        raise Unallocatable("cannot allocate all claims")
    return [allocation(claim, classes, plan.given, node) for claim, plan in zip(claims, plans, strict=True)]


@dataclass(slots=True)
class _Ask:
    """A request, or one alternative of a `firstAvailable` request."""

    name: str
    spec: Mapping[str, Any]
    every: list[Device] | None = None
    """All devices that match, where all are asked for."""
    matches: dict[DeviceId, bool] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return int(self.spec.get("count") or 1) if self.every is None else len(self.every)

    @property
    def admin(self) -> bool:
        return bool(self.spec.get("adminAccess"))


def _alternatives(request: Mapping[str, Any]) -> list[_Ask]:
    subrequests = request.get("firstAvailable") or ()
    if subrequests:
        return [_Ask(f"{request['name']}/{sub['name']}", sub) for sub in subrequests]
    return [_Ask(request["name"], request.get("exactly") or {})]


@dataclass(slots=True, eq=False)
class _Plan:
    """A claim and what it gets."""

    name: str
    requests: list[list[_Ask]]
    constraints: list[Constraint]
    given: list[Given] = field(default_factory=list)


class _Search:
    def __init__(
        self, classes: Mapping[str, Object], pools: Sequence[Pool], taken: Collection[DeviceId], selects: Selects
    ) -> None:
        self._classes = classes
        self._pools = pools
        self._devices = [device for pool in pools for device in pool.devices]
        self._taken = taken
        self._taking: dict[DeviceId, list[_Plan]] = {}
        self._selects = selects
        self._steps = 0

    def plan(self, claim: Object) -> _Plan:
        """Raises `Broken` for what can be told before the search."""
        metadata, devices = claim["metadata"], claim["spec"].get("devices") or {}
        plan = _Plan(f"{metadata['namespace']}/{metadata['name']}", [], [])
        fewest = 0
        for request in devices.get("requests") or ():
            asks = _alternatives(request)
            for ask in asks:
                if ask.spec.get("allocationMode") == "All":
                    ask.every = self._every(plan, ask)
            plan.requests.append(asks)
            fewest += min(ask.count for ask in asks)
        if fewest > MOST_RESULTS:
            raise Broken(
                f"claim {plan.name}: number of requested devices {fewest} exceeds the claim limit of {MOST_RESULTS}"
            )
        plan.constraints = [constraint(each) for each in devices.get("constraints") or ()]
        return plan

    def _every(self, plan: _Plan, ask: _Ask) -> list[Device]:
        found: list[Device] = []
        for pool in self._pools:
            if not pool.usable:
                raise Broken(
                    f"claim {plan.name}, request {ask.name.rpartition('/')[2]}: asks for all devices, "
                    f"but resource pool {'/'.join(pool.id)} is currently {pool.state}"
                )
            found += [d for d in pool.devices if self._matches(plan, ask, d) and _capable(ask, d)]
        return found

    def fill(self, slots: Sequence[tuple[_Plan, list[_Ask]]], at: int) -> bool:
        """Meet every request from `at` on."""
        if at == len(slots):
            return True
        plan, asks = slots[at]
        for ask in asks:
            if ask.count and len(plan.given) + ask.count <= MOST_RESULTS and self._take(slots, at, ask, ask.count, 0):
                return True
        return False

    def _take(self, slots: Sequence[tuple[_Plan, list[_Ask]]], at: int, ask: _Ask, count: int, start: int) -> bool:
        """Take `count` more devices for this request, then meet the later ones."""
        if count == 0:
            return self.fill(slots, at + 1)
        plan = slots[at][0]
        for index, device in self._candidates(plan, ask, count, start):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise Unallocatable("cannot allocate all claims within the search limit")
            if not self._add(plan, ask, device):
                continue
            if self._take(slots, at, ask, count - 1, index + 1):
                return True
            self._remove(plan, ask, device)
        return False

    def _candidates(self, plan: _Plan, ask: _Ask, count: int, start: int) -> Iterable[tuple[int, Device]]:
        """Devices to try for the next of `count`. Selectors are asked only about devices that are free."""
        if ask.every is not None:
            return [(start, ask.every[ask.count - count])]  # no choice: it is this one or none
        return (
            (index, device)
            for index, device in enumerate(self._devices[start:], start)
            if self._free(plan, ask, device) and self._matches(plan, ask, device) and _capable(ask, device)
        )

    def _free(self, plan: _Plan, ask: _Ask, device: Device) -> bool:
        taking = self._taking.get(device.id, ())
        return plan not in taking if ask.admin else device.id not in self._taken and not taking

    def _add(self, plan: _Plan, ask: _Ask, device: Device) -> bool:
        if not self._free(plan, ask, device) or not _bears(ask, device):
            return False
        for number, each in enumerate(plan.constraints):
            if each.add(ask.name, device):
                continue
            for before in reversed(plan.constraints[:number]):
                before.remove(ask.name, device)
            if ask.every is not None:
                raise Broken(
                    f"claim {plan.name}, request {ask.name.rpartition('/')[2]}: cannot add device {'/'.join(device.id)} "
                    "because a claim constraint would not be satisfied"
                )
            return False
        self._taking.setdefault(device.id, []).append(plan)
        plan.given.append(Given(ask.name, device, ask.admin, tuple(ask.spec.get("tolerations") or ())))
        return True

    def _remove(self, plan: _Plan, ask: _Ask, device: Device) -> None:
        plan.given.pop()
        self._taking[device.id].remove(plan)
        for each in reversed(plan.constraints):
            each.remove(ask.name, device)

    def _matches(self, plan: _Plan, ask: _Ask, device: Device) -> bool:
        known = ask.matches.get(device.id)
        if known is None:
            known = ask.matches[device.id] = self._judge(plan, ask, device)
        return known

    def _judge(self, plan: _Plan, ask: _Ask, device: Device) -> bool:
        name = ask.spec["deviceClassName"]
        of_class = self._classes[name].get("spec") or {}
        for where, selectors in (
            (f"class {name}", of_class.get("selectors") or ()),
            (f"claim {plan.name}", ask.spec.get("selectors") or ()),
        ):
            for number, selector in enumerate(selectors):
                try:
                    if not self._selects(selector["cel"]["expression"], device):
                        return False
                except SelectorError as error:
                    raise Broken(f"{where}: selector #{number}: {error}") from error
        return device.here


def _bears(ask: _Ask, device: Device) -> bool:
    """Whether the request tolerates what taints the device."""
    tolerations = ask.spec.get("tolerations") or ()
    blocking = (taint for taint in device.taints if taint.get("effect") in ("NoSchedule", "NoExecute"))
    return all(tolerates(tolerations, taint) for taint in blocking)


def _capable(ask: _Ask, device: Device) -> bool:
    """Whether the device has the least capacity that the request names."""
    for name, least in ((ask.spec.get("capacity") or {}).get("requests") or {}).items():
        have = device.capacity.get(name)
        if have is None or thousandths(str(have["value"])) < thousandths(str(least)):
            return False
    return True
