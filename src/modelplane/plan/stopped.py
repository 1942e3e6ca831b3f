"""The account of a deployment with a selector that does not compile: nothing is judged, and what is there stays.

Every selector is told, by engine and request and with its position, so that all of them can be mended at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from modelplane.api.model_deployment import ModelDeployment
from modelplane.plan.cel import SelectorError, compile_selector
from modelplane.plan.explanation import Seat
from modelplane.plan.figures import overcommitted
from modelplane.plan.fleet import Fleet
from modelplane.plan.outcome import State

REASON = "InvalidNodeSelector"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A selector that does not compile: whose it is, its path, and line and column (0: the whole)."""

    engine: str
    role: str
    request: str
    path: str
    message: str
    line: int
    column: int

    @property
    def whose(self) -> str:
        who = f"engine {self.engine}" if self.role == "Standalone" else f"{self.role} of engine {self.engine}"
        return f"{who}, request {self.request}"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return msgspec.structs.asdict(self)


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What is there, and why nothing moves."""

    deployment: str
    wanted: int
    seats: tuple[Seat, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    overcommitted: tuple[str, ...] = ()
    asked: str = ""

    @property
    def message(self) -> str:
        """As the condition has it: the first of them."""
        return f"{self.faults[0].path}: {self.faults[0].message}; nothing moves until it is corrected"

    def document(self) -> dict[str, Any]:
        """For programs, with the fields of any other account."""
        return {
            "asOf": self.asked or None,
            "deployment": self.deployment,
            "wanted": self.wanted,
            "placed": len(self.seats),
            "missing": max(0, self.wanted - len(self.seats)),
            "reason": REASON,
            "message": self.message,
            "invalidSelectors": [fault.document() for fault in self.faults],
            "replicas": [seat.document() for seat in self.seats],
            "removed": [],
            "clusters": [],
            "smallestChange": None,
            "overcommitted": list(self.overcommitted),
            "notes": list(self.notes),
        }


def stopped(fleet: Fleet, deployment: ModelDeployment, notes: Iterable[str] = (), asked: str = "") -> Stopped:
    """The account of a deployment that has a selector which does not compile."""
    seats = tuple(
        Seat(
            replica=one.key.name,
            cluster=one.cluster,
            index=one.index,
            pools=tuple(sorted({member.pool for engine in one.engines for member in engine.members})),
            state=str(State.RETAINED),
            code=one.code or str(State.RETAINED),
            why=one.message,
            ready=one.ready,
        )
        for one in fleet.of_deployment(deployment.metadata.key)
    )
    return Stopped(
        deployment=str(deployment.metadata.key),
        wanted=deployment.spec.replicas,
        seats=seats,
        faults=tuple(faults(deployment)),
        notes=tuple(notes),
        overcommitted=tuple(overcommitted(fleet, {seat.cluster for seat in seats})),
        asked=asked,
    )


def faults(deployment: ModelDeployment) -> Iterator[Fault]:
    """Its selectors that do not compile."""
    for e, engine in enumerate(deployment.spec.template.spec.engines):
        for m, member in enumerate(engine.members):
            for d, ask in enumerate(member.node_selector.devices if member.node_selector else ()):
                for s, selector in enumerate(ask.selectors):
                    path = f"engines[{e}].members[{m}].nodeSelector.devices[{d}].selectors[{s}].cel"
                    try:
                        compile_selector(selector.cel or "true")
                    except SelectorError as error:
                        yield Fault(
                            engine=engine.name,
                            role=str(member.role),
                            request=ask.name,
                            path=f"spec.template.spec.{path}",
                            message=str(error),
                            line=error.line,
                            column=error.column,
                        )
