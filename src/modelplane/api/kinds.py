"""The registry: every kind of the API, in the order in which people meet them."""

from __future__ import annotations

from typing import Final

from modelplane.api import (
    inference_class,
    inference_cluster,
    inference_gateway,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
    serving_stack,
)
from modelplane.api.meta import GVK
from modelplane.api.shape import Definition

DEFINITIONS: Final[tuple[Definition, ...]] = (
    inference_class.DEFINITION,
    inference_cluster.DEFINITION,
    inference_gateway.DEFINITION,
    model_deployment.DEFINITION,
    model_service.DEFINITION,
    model_endpoint.DEFINITION,
    model_replica.DEFINITION,
    serving_stack.DEFINITION,
)

BY_KIND: Final[dict[GVK, Definition]] = {definition.resource.gvk: definition for definition in DEFINITIONS}
