"""Constraints of a claim between its devices: attributes that have to agree, or to differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from modelplane.local.scheduler.pools import Device


class Constraint(Protocol):
    """`request` is a request's name, of an alternative with its own name behind a slash."""

    def add(self, request: str, device: Device) -> bool:
        """Whether the device may come to those that were added; then it counts as added."""

    def remove(self, request: str, device: Device) -> None:
        """Take back the last successful `add` of these."""


def constraint(spec: Mapping[str, Any]) -> Constraint:
    concerned = frozenset(spec.get("requests") or ())
    if spec.get("matchAttribute"):
        return _Match(spec["matchAttribute"], concerned)
    return _Distinct(spec["distinctAttribute"], concerned)


class _Match:
    def __init__(self, attribute: str, requests: Collection[str]) -> None:
        self._attribute = attribute
        self._requests = requests
        self._values: list[Mapping[str, Any]] = []

    def add(self, request: str, device: Device) -> bool:
        if not _concerns(self._requests, request):
            return True
        value = _attribute(device, self._attribute)
        if value is None or (self._values and self._values[0] != value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, device: Device) -> None:
        if _concerns(self._requests, request):
            self._values.pop()


class _Distinct:
    """kube-scheduler 1.36 remembers one value for each request, the last: three devices of one request may be a, b, a. So it
    is here: what it binds is bound."""

    def __init__(self, attribute: str, requests: Collection[str]) -> None:
        self._attribute = attribute
        self._requests = requests
        self._values: dict[str, Mapping[str, Any]] = {}
        self._added = 0

    def add(self, request: str, device: Device) -> bool:
        if not _concerns(self._requests, request):
            return True
        value = _attribute(device, self._attribute)
        if value is None or (self._added and value in self._values.values()):
            return False
        self._values[_parent(request)] = value
        self._added += 1
        return True

    def remove(self, request: str, device: Device) -> None:
        if _concerns(self._requests, request):
            self._values.pop(_parent(request), None)
            self._added -= 1


def _concerns(requests: Collection[str], name: str) -> bool:
    return not requests or name in requests or _parent(name) in requests


def _parent(request: str) -> str:
    return request.partition("/")[0]


def _attribute(device: Device, name: str) -> Mapping[str, Any] | None:
    """An attribute by its full name; the driver's own domain may be left out where it is published."""
    domain, _, short = name.rpartition("/")
    found: Mapping[str, Any] | None = device.attributes.get(name)
    if found is None and domain == device.driver:
        found = device.attributes.get(short)
    return found
