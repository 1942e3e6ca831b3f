"""Which devices a selector matches, and why not the others: the planner's own compiler and evaluator, put to a person.

A specimen is one kind of device at one place: of a file, of an InferenceClass, or of a pool of an InferenceCluster. Every one is
judged for itself, so that one device that cannot be judged never hides the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from modelplane.api.devices import DeclaredDevice, Device
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.errors import InvalidObject
from modelplane.plan.cel import BoundDevice, Error, Match, SelectorError, compile_selector
from modelplane.plan.devices import signature
from modelplane.plan.published import faults

TOLD: Final = 10
"""Faults of a file that are told."""

Result: TypeAlias = bool | str
"""True, false, or ``error: ...`` for a device that cannot be judged (which therefore does not match)."""


class Specimen(msgspec.Struct, frozen=True):
    """A device by a name that is unique among its like: ``CLUSTER/POOL/DEVICE``, ``CLASS/DEVICE``, or as a file has it."""

    name: str
    device: BoundDevice


class Answer(msgspec.Struct, frozen=True):
    """What a selector is to the devices; where it does not compile ``compile_error`` alone, with line and column (0: the whole)."""

    results: Mapping[str, Result] = {}
    compile_error: str = ""
    line: int = 0
    column: int = 0

    def document(self) -> dict[str, Any]:
        """``{"compileError": ...}`` or ``{"results": {...}}``."""
        return {"compileError": self.compile_error} if self.compile_error else {"results": dict(self.results)}


def examine(expression: str, specimens: Sequence[Specimen]) -> Answer:
    """The selector's outcome on every specimen."""
    try:
        selector = compile_selector(expression)
    except SelectorError as error:
        return Answer(compile_error=str(error), line=error.line, column=error.column)
    results: dict[str, Result] = {}
    for specimen in specimens:
        outcome = selector.evaluate(specimen.device)
        results[specimen.name] = (
            f"error: {outcome.reason}" if isinstance(outcome, Error) else isinstance(outcome, Match)
        )
    return Answer(results)


def of_document(document: Any) -> list[Specimen]:
    """Devices by name, each with ``driver``, ``attributes`` and ``capacity`` as a ResourceSlice has them. Raises InvalidObject
    with a line for each fault."""
    if not isinstance(document, Mapping):
        raise InvalidObject("devices are an object: a name for each, with its driver, attributes and capacity")
    wrong = [fault for name, device in document.items() for fault in faults(name, device)]
    if wrong:
        more = [f"and {len(wrong) - TOLD} more"] if len(wrong) > TOLD else []
        raise InvalidObject("\n".join([*wrong[:TOLD], *more]))
    return [
        Specimen(name, BoundDevice(device["driver"], device.get("attributes") or {}, device.get("capacity") or {}))
        for name, device in document.items()
    ]


def of_class(found: InferenceClass) -> list[Specimen]:
    """The devices of a class."""
    return [_specimen(found.metadata.name, device) for device in found.spec.devices]


def of_clusters(clusters: Iterable[InferenceCluster]) -> list[Specimen]:
    """The devices of every pool that the clusters publish, in order of cluster."""
    ordered = sorted(clusters, key=lambda cluster: cluster.metadata.name)
    return [
        _specimen(f"{cluster.metadata.name}/{pool.name}", device)
        for cluster in ordered
        for pool in cluster.status.gpu_pools
        for device in pool.devices
    ]


def _specimen(where: str, device: Device | DeclaredDevice) -> Specimen:
    kind = signature(device.driver, msgspec.to_builtins(device.attributes), msgspec.to_builtins(device.capacity))
    return Specimen(f"{where}/{device.name}", kind.bound)
