"""Devices of a pool, and whether a member's requests can have them.

A signature is everything about a device that a selector can see, interned: each selector is evaluated once per signature,
however many clusters and pools carry it. Matching is exact: requests of one member compete for the devices of one node, a
request may take devices of several entries, and no order of entries or requests makes a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from modelplane.plan.cel import BoundDevice, Error, Match, Outcome, Selector

DRA: Final = "DRA"
SYNTHETIC: Final = "Synthetic"


class Signature:
    """One kind of device. Ask `signature` for it, so that there is one object per kind."""

    __slots__ = ("_outcomes", "bound", "claim", "device_class")

    def __init__(self, claim: str, device_class: str, bound: BoundDevice) -> None:
        self.claim = claim
        self.device_class = device_class
        self.bound = bound
        self._outcomes: dict[Selector, Outcome] = {}

    @property
    def group(self) -> str:
        """What requests are claimed through: the DeviceClass, or the empty text for a device that is only matched."""
        return self.device_class if self.claim == DRA else ""

    def judge(self, selector: Selector) -> Outcome:
        """The selector's outcome on such a device, evaluated once."""
        outcome = self._outcomes.get(selector)
        if outcome is None:
            outcome = self._outcomes[selector] = selector.evaluate(self.bound)
        return outcome

    def satisfies(self, selectors: Sequence[Selector]) -> bool:
        return all(isinstance(self.judge(selector), Match) for selector in selectors)


@lru_cache(maxsize=65_536)
def _interned(driver: str, claim: str, device_class: str, attributes: str, capacity: str) -> Signature:
    bound = BoundDevice(driver, json.loads(attributes), json.loads(capacity))
    return Signature(claim, device_class, bound)


def signature(
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, Any],
    *,
    claim: str = DRA,
    device_class: str = "",
) -> Signature:
    """The one signature of such devices; attributes and capacity as in an InferenceClass, as plain JSON."""
    canonical = (json.dumps(part, sort_keys=True) for part in (attributes, capacity))
    return _interned(driver, claim, device_class, *canonical)


class Device(msgspec.Struct, frozen=True):
    """An entry of a pool: so many of one kind on every node."""

    name: str
    signature: Signature
    count: int


class Request(msgspec.Struct, frozen=True):
    """Devices that each pod of a member needs: ``count`` that satisfy every selector."""

    name: str
    count: int
    selectors: tuple[Selector, ...]


class Resolved(msgspec.Struct, frozen=True):
    """A request as the ResourceClaim states it."""

    name: str
    device_class: str
    count: int
    selectors: tuple[str, ...]


class Matching(msgspec.Struct, frozen=True):
    """How one pod's requests are met on a node of a pool: claimed requests in their order, and devices by class."""

    resolved: tuple[Resolved, ...]
    claims: tuple[tuple[str, int], ...]

    @property
    def claims_any(self) -> bool:
        return bool(self.resolved)


NOTHING: Final = Matching((), ())
"""The matching of a member that asks for no devices."""


def match(requests: Sequence[Request], devices: Sequence[Device]) -> Matching | None:
    """How the requests can all be met by one node's devices, or None.

    Each request is claimed through one DeviceClass. Claimed devices are preferred to those that are only matched, then classes go
    by name.
    """
    if not requests:
        return NOTHING
    usable = [device for device in devices if device.count > 0]
    options = [_options(request, usable) for request in requests]
    if not all(options):
        return None
    # The request with the fewest choices and the largest need first; names make the order one.
    order = sorted(range(len(requests)), key=lambda i: (len(options[i]), -requests[i].count, requests[i].name))
    chosen: list[str] = [""] * len(requests)
    if not _assign(0, order, requests, options, usable, chosen):
        return None
    resolved = tuple(
        Resolved(request.name, group, request.count, tuple(selector.text for selector in request.selectors))
        for request, group in zip(requests, chosen, strict=True)
        if group
    )
    return Matching(resolved, claims_by_class(resolved))


def claims_by_class(resolved: Iterable[Resolved]) -> tuple[tuple[str, int], ...]:
    """Devices of one pod by DeviceClass, in order of class."""
    claims: dict[str, int] = {}
    for one in resolved:
        claims[one.device_class] = claims.get(one.device_class, 0) + one.count
    return tuple(sorted(claims.items()))


def _options(request: Request, devices: Sequence[Device]) -> dict[str, list[int]]:
    """By group, claimed ones first: the entries whose devices satisfy the request, where there are enough of them."""
    found: dict[str, list[int]] = {}
    for index, device in enumerate(devices):
        if device.signature.satisfies(request.selectors):
            found.setdefault(device.signature.group, []).append(index)
    return {
        group: entries
        for group, entries in sorted(found.items(), key=lambda item: (not item[0], item[0]))
        if sum(devices[index].count for index in entries) >= request.count
    }


def _assign(
    at: int,
    order: Sequence[int],
    requests: Sequence[Request],
    options: Sequence[Mapping[str, list[int]]],
    devices: Sequence[Device],
    chosen: list[str],
) -> bool:
    if at == len(order):
        return True
    index = order[at]
    for group in options[index]:
        chosen[index] = group
        taken = order[: at + 1]
        needs = [(requests[i].count, options[i][chosen[i]]) for i in taken]
        if flows(needs, [device.count for device in devices]) and _assign(
            at + 1, order, requests, options, devices, chosen
        ):
            return True
    return False


def flows(needs: Sequence[tuple[int, list[int]]], free: list[int]) -> bool:
    """Whether every need can be met from its entries at once: a small maximum flow by augmenting paths."""
    given: list[dict[int, int]] = [{} for _ in needs]

    def push(need: int, amount: int, seen: set[int]) -> int:
        """Give up to ``amount`` devices to the need, moving other needs to other entries where that helps."""
        for entry in needs[need][1]:
            if free[entry] > 0:
                step = min(amount, free[entry])
                free[entry] -= step
                given[need][entry] = given[need].get(entry, 0) + step
                return step
        for entry in needs[need][1]:
            if entry in seen:
                continue
            seen.add(entry)
            for other, amounts in enumerate(given):
                held = amounts.get(entry, 0)
                if other == need or not held:
                    continue
                moved = push(other, min(amount, held), seen)
                if moved:
                    amounts[entry] -= moved
                    given[need][entry] = given[need].get(entry, 0) + moved
                    return moved
        return 0

    for need, (count, _) in enumerate(needs):
        while count:
            step = push(need, count, set())
            if not step:
                return False
            count -= step
    return True


class Miss(msgspec.Struct, frozen=True, order=True):
    """Why a request cannot be met by a pool's devices. ``rank`` is how near it came, the larger the nearer."""

    rank: int
    text: str
    short: int = 0


def explain_miss(requests: Sequence[Request], devices: Sequence[Device]) -> Miss:
    """What keeps the requests from being met, for a pool where `match` gave None."""
    worst: Miss | None = None
    for request in sorted(requests, key=lambda request: request.name):
        miss = _request_miss(request, devices)
        if miss is not None and (worst is None or miss.rank < worst.rank):
            worst = miss
    if worst is not None:
        return worst
    total = sum(request.count for request in requests)
    return Miss(3, f"its {len(requests)} requests need {total} devices at once and compete for the same ones", total)


def _request_miss(request: Request, devices: Sequence[Device]) -> Miss | None:
    groups: dict[str, int] = {}
    for device in devices:
        if device.signature.satisfies(request.selectors):
            group = device.signature.group
            groups[group] = groups.get(group, 0) + max(0, device.count)
    most = max(groups.values(), default=0)
    if most >= request.count:
        return None
    if groups:
        group = min(name for name, count in groups.items() if count == most)
        text = f"request {request.name} needs {request.count} x {group or 'device'} on one node, a node has {most}"
        return Miss(2, text, request.count - most)
    return Miss(*_why_none(request, devices))


def _why_none(request: Request, devices: Sequence[Device]) -> tuple[int, str]:
    """No device satisfies the request: those that were judged and do not match, and the first that cannot be judged. Either may
    be the one that was meant: a selector that asks for the driver first is false for the others."""
    judged: list[str] = []
    error = ""
    for device in sorted(devices, key=lambda device: device.name):
        outcomes = [device.signature.judge(selector) for selector in request.selectors]
        met = next((outcome for outcome in outcomes if isinstance(outcome, Error)), None)
        if met is None or any(not isinstance(outcome, (Error, Match)) for outcome in outcomes):
            judged.append(device.name)
        else:
            error = error or f"device {device.name} cannot be judged: {met.reason}"
    if error and judged:
        return 1, f"request {request.name}: no match for device {', '.join(judged)}, and {error}"
    if error:
        return 1, f"request {request.name}: {error}"
    return 1, f"request {request.name} matches no device (devices: {', '.join(judged) or 'none'})"
