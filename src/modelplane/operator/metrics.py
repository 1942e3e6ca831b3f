"""What the operator counts, as Prometheus reads it.

The text format is a dozen lines to write; the usual library costs megabytes of memory and a registry that is global. Label values
come from kinds, verbs, error classes and cluster names only, so the number of series is bounded by the size of the fleet.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from modelplane import __version__
from modelplane.control.index import Parent
from modelplane.control.queue import Depth
from modelplane.operator import process
from modelplane.plan.fleet import Fleet
from modelplane.plan.outcome import Plan, State
from modelplane.plan.request import PlacementRequest

Labels: TypeAlias = tuple[str, ...]
Reading: TypeAlias = Callable[[], Mapping[Labels, float]]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: a plan takes about a millisecond, a pass over a slow cluster some seconds."""


class Counter:
    """Grows until the process ends."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, by: float = 1.0) -> None:
        self._values[values] = self._values.get(values, 0.0) + by

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, self.meaning, "counter")
        for values in sorted(self._values):
            yield f"{self.name}{_labels(self.labels, values)} {_number(self._values[values])}"


class Gauge:
    """Is read when it is asked for; so are counters that others keep."""

    def __init__(self, name: str, meaning: str, labels: Labels, read: Reading, type_: str = "gauge") -> None:
        self.name, self.meaning, self.labels, self._read, self._type = name, meaning, labels, read, type_

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, self.meaning, self._type)
        for values, value in sorted(self._read().items()):
            yield f"{self.name}{_labels(self.labels, values)} {_number(value)}"


class Histogram:
    """How long something took, in seconds."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def add(self, *values: str, seconds: float) -> None:
        counts = self._counts.setdefault(values, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[values] = self._sums.get(values, 0.0) + seconds

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, self.meaning, "histogram")
        names = (*self.labels, "le")
        for values in sorted(self._counts):
            total = 0
            for bound, count in zip((*map(_number, BUCKETS), "+Inf"), self._counts[values], strict=True):
                total += count
                yield f"{self.name}_bucket{_labels(names, (*values, bound))} {total}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {_number(self._sums[values])}"
            yield f"{self.name}_count{_labels(self.labels, values)} {total}"


class Metrics:
    """Everything that is counted. The methods are what clients, reconciler and planner call."""

    def __init__(
        self, *, depth: Callable[[], Depth], leading: Callable[[], bool], unplaced: Callable[[], Mapping[str, int]]
    ) -> None:
        self._passes = Histogram("modelplane_pass_seconds", "Time of one pass over an object, by kind.", ("kind",))
        self._errors = Counter(
            "modelplane_pass_errors_total", "Passes that failed, by kind and error.", ("kind", "error")
        )
        self._requests = Counter(
            "modelplane_api_requests_total",
            "Requests to Kubernetes APIs, by cluster asked (control is the control cluster), verb, and status code (0: no answer).",
            ("target_cluster", "verb", "code"),
        )
        self._plans = Histogram("modelplane_plan_seconds", "Time to place one deployment.")
        self._placements = Counter("modelplane_placements_total", "Replicas that were given a place.")
        self._refusals = Counter(
            "modelplane_placement_refusals_total",
            "Replicas that were found to have no place, by reason; counted again only when they had one or the reason changed.",
            ("reason",),
        )
        started = time.time()
        self._all: Sequence[Counter | Gauge | Histogram] = (
            Gauge("modelplane_build_info", "The version that runs.", ("version",), lambda: {(__version__,): 1.0}),
            Gauge(
                "modelplane_leading", "1 where this operator works, 0 where it stands by.", (), lambda: {(): leading()}
            ),
            Gauge("modelplane_queue_depth", "Objects to pass over, by state.", ("state",), lambda: _depth(depth())),
            self._passes,
            self._errors,
            self._requests,
            self._plans,
            self._placements,
            self._refusals,
            Gauge(
                "modelplane_replicas_unplaced",
                "Replicas without a place now, by reason.",
                ("reason",),
                lambda: {(reason,): float(count) for reason, count in unplaced().items()},
            ),
            *(
                Gauge(
                    name, meaning, (), partial(process.reading, name), "counter" if name.endswith("_total") else "gauge"
                )
                for name, (meaning, _) in process.READERS.items()
            ),
            Gauge("process_start_time_seconds", "When it started, since the epoch.", (), lambda: {(): started}),
        )

    def passed(self, parent: Parent, seconds: float, error: Exception | None) -> None:
        """A pass ended."""
        self._passes.add(parent.kind.kind, seconds=seconds)
        if error is not None:
            self._errors.add(parent.kind.kind, type(error).__name__)

    def answered(self, cluster: str, verb: str, code: int) -> None:
        """An API answered, or did not."""
        self._requests.add(cluster, verb, str(code))

    def timed(self, planner: Callable[[Fleet, PlacementRequest], Plan]) -> Callable[[Fleet, PlacementRequest], Plan]:
        """The planner, with its plans counted."""

        def plan(fleet: Fleet, request: PlacementRequest) -> Plan:
            began = time.perf_counter()
            made = planner(fleet, request)
            self._plans.add(seconds=time.perf_counter() - began)
            placed = sum(placement.state is State.NEW for placement in made.placements)
            if placed:
                self._placements.add(by=placed)
            return made

        return plan

    def refused(self, reason: str, replicas: int) -> None:
        """Replicas have become without a place."""
        self._refusals.add(reason, by=replicas)

    def text(self) -> str:
        """All of them in the text format 0.0.4."""
        return "\n".join(line for metric in self._all for line in metric.lines()) + "\n"


def _depth(depth: Depth) -> Mapping[Labels, float]:
    return {("ready",): depth.ready, ("active",): depth.active, ("later",): depth.later}


def _head(name: str, meaning: str, kind: str) -> Iterable[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
