"""The registry: every kind of the API, in the order in which people meet them."""

from __future__ import annotations

from typing import Final

from modelplane.api import (
    aks_cluster,
    eks_cluster,
    gke_cluster,
    inference_class,
    inference_cluster,
    inference_gateway,
    k3s_cluster,
    metric_mapping,
    model_cache,
    model_deployment,
    model_endpoint,
    model_replica,
    model_route,
    model_service,
    nebius_cluster,
    pool_observation,
    replica_observation,
    serving_stack,
    vultr_baremetal_cluster,
    vultr_cluster,
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
    model_route.DEFINITION,
    model_cache.DEFINITION,
    metric_mapping.DEFINITION,
    serving_stack.DEFINITION,
    gke_cluster.DEFINITION,
    eks_cluster.DEFINITION,
    aks_cluster.DEFINITION,
    nebius_cluster.DEFINITION,
    vultr_cluster.DEFINITION,
    vultr_baremetal_cluster.DEFINITION,
    k3s_cluster.DEFINITION,
    pool_observation.DEFINITION,
    replica_observation.DEFINITION,
)

AGENT_DEFINITIONS: Final = (pool_observation.DEFINITION, replica_observation.DEFINITION)
"""Kinds that live on inference clusters, not on the control cluster."""

BY_KIND: Final[dict[GVK, Definition]] = {definition.resource.gvk: definition for definition in DEFINITIONS}
