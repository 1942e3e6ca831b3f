"""InferenceClass: data that clusters name. It composes nothing, so it is accepted and ready at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelplane.api.inference_class import KIND as KIND
from modelplane.api.inference_class import ConditionType, Reason, parse
from modelplane.api.meta import Object
from modelplane.compose.conditions import AVAILABLE, READY, true
from modelplane.compose.contract import After, Answer, Composition, Read, World


def reads(xr: Object, known: Mapping[Read, Answer]) -> frozenset[Read]:
    return frozenset()


def compose(xr: Object, world: World) -> Composition:
    parse(xr)
    return Composition(
        conditions=(true(ConditionType.ACCEPTED, Reason.AVAILABLE),),
        ready=true(READY, AVAILABLE),
    )


def deletion_order(xr: Object) -> Sequence[After]:
    return ()
