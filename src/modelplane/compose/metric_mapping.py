"""MetricMapping: data that a metrics collector reads. It composes nothing, so it is ready at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelplane.api.meta import Object
from modelplane.api.metric_mapping import KIND as KIND
from modelplane.api.metric_mapping import parse
from modelplane.compose.conditions import AVAILABLE, READY, true
from modelplane.compose.contract import After, Answer, Composition, Read, World


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    return frozenset()


def compose(xr: Object, world: World) -> Composition:
    parse(xr)
    return Composition(ready=true(READY, AVAILABLE))


def deletion_order(xr: Object) -> Sequence[After]:
    return ()
