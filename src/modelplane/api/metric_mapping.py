"""MetricMapping: what the metrics of an engine are called here. Data for a collector; nothing is composed from it.

Platform teams write one per kind of engine, so that dashboards need not know which engine answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import Definition, Owner, Root, Shape, keyed, read

KIND: Final = GVK(GROUP, VERSION, "MetricMapping")
RESOURCE: Final = Resource(KIND, "metricmappings", False)


class PodSelector(Shape, frozen=True, kw_only=True):
    """Pods by their labels."""

    match_labels: Mapping[str, str] = {}
    """Labels that a pod has to have, such as modelplane.ai/engine."""


class LabelRewrites(Shape, frozen=True, kw_only=True):
    """What happens to the labels of a series."""

    add: Mapping[str, str] = {}
    """Labels that matched series receive."""


class Spec(Shape, frozen=True, kw_only=True):
    """The mapping."""

    selector: PodSelector | None = None
    """Pods that the mapping applies to; all engines when absent."""
    rename: Mapping[str, str] = {}
    """From the engine's name of a metric to its modelplane_ name."""
    labels: LabelRewrites | None = None
    """What happens to the labels of a series."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Ready and Synced."""


class MetricMapping(Root, frozen=True, kw_only=True):
    """Names of an engine's metrics, for a collector that reads them."""

    spec: Spec
    """The mapping."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=MetricMapping,
    owner=Owner.PLATFORM,
    short_names=("mm",),
)


def parse(obj: Mapping[str, Any]) -> MetricMapping:
    """A stored mapping as its type. Raises InvalidObject."""
    return read(MetricMapping, obj)
