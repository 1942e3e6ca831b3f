"""Which composer is responsible for which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from modelplane.api.meta import GVK, Object
from modelplane.compose import (
    inference_class,
    inference_cluster,
    inference_gateway,
    metric_mapping,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
    serving_stack,
)
from modelplane.compose.contract import Composer, Read

_MODULES: Final[tuple[Composer, ...]] = (
    inference_class,
    inference_cluster,
    serving_stack,
    inference_gateway,
    model_replica,
    model_deployment,
    model_endpoint,
    model_service,
    metric_mapping,
)

COMPOSERS: Final[Mapping[GVK, Composer]] = {module.KIND: module for module in _MODULES}

Holders: TypeAlias = Callable[[Object], Sequence[Read]]

HOLDERS: Final[Mapping[GVK, Holders]] = {inference_cluster.KIND: inference_cluster.holders}
"""What holds a deletion: while a read of these lists any object, the parent's finalizer stays, and the objects' names are told."""
