"""What an InferenceCluster says of itself while nothing observes it: one rule for its composer, which publishes it, and for a
rehearsal, which foresees it.

Growth is counted where we provision the pool: on a cluster that was brought along nobody would add the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelplane.api.cloud import Source
from modelplane.api.inference_cluster import CapacitySource, InferenceCluster, NodePool
from modelplane.api.meta import Object


def missing_classes(cluster: InferenceCluster, classes: Mapping[str, Object]) -> list[str]:
    """InferenceClasses that its pools name and that are not there. While there is one, nothing new is published."""
    return sorted({pool.class_name for pool in cluster.spec.node_pools} - classes.keys())


def declared_pools(cluster: InferenceCluster, classes: Mapping[str, Object]) -> list[Object]:
    """``status.gpuPools``, every class being there: the devices of each pool's class, and nodes as declared."""
    provisioned = cluster.spec.cluster.source is not Source.EXISTING
    return [_declared(pool, classes[pool.class_name], provisioned) for pool in cluster.spec.node_pools]


def _declared(pool: NodePool, class_: Object, provisioned: bool) -> Object:
    most = pool.max_node_count or pool.node_count
    return {
        "name": pool.name,
        "nodes": most,
        "devices": class_["spec"]["devices"],
        "capacity": {
            "source": str(CapacitySource.DECLARED),
            "growNodes": max(0, most - pool.node_count) if provisioned else 0,
        },
    }


def cache_storage(cluster: InferenceCluster) -> str:
    """The storage class for model caches that the cluster offers; empty where it offers none."""
    existing = cluster.spec.cluster.existing
    return (existing.cache.storage_class_name if existing and existing.cache else None) or ""
