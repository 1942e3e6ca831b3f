"""VultrCluster: a cluster on Vultr Kubernetes Engine, made for an InferenceCluster.

Vultr has no zones, disk sizes, fabrics or cache storage, and pool sizes take effect at creation alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from modelplane.api.cloud import Region, Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import (
    FLOOR_NEEDS_CEILING,
    GPU_BLOCK,
    BasePool,
    BaseSpec,
    BaseStatus,
    Gpu,
    KubeconfigSecret,
)
from modelplane.api.shape import Column, Definition, Owner, Root, keyed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "VultrCluster")
RESOURCE: Final = Resource(KIND, "vultrclusters", True)


class NodePool(BasePool, frozen=True, kw_only=True):
    """Nodes of one plan."""

    name: Annotated[str, text(1, 40)]
    """Name of the pool."""
    plan: Word
    """Plan id."""
    node_count: Annotated[int, number(1, 1000)] = 1
    """Number of nodes, never zero; fixed unless maxNodeCount is set."""
    min_node_count: Annotated[int, number(1, 1000)] | None = None
    """Fewest nodes; nodeCount when unset."""
    max_node_count: Annotated[int, number(1, 1000)] | None = None
    """Most nodes; a pool without it has a fixed size."""
    gpu: Gpu | None = None
    """GPU settings, for role GPU."""

    RULES = (GPU_BLOCK, FLOOR_NEEDS_CEILING)


class Spec(BaseSpec, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    region: Region
    """Vultr region."""
    kubernetes_version: Annotated[str, text(1, 16)] = "v1.36.1+3"
    """Full VKE version with its build suffix."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """Node pools; a system pool is added."""


class Status(BaseStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[KubeconfigSecret, ...] = ()
    """Credentials that others may use: a kubeconfig with client certificates."""


class VultrCluster(Root, frozen=True, kw_only=True):
    """A cluster on Vultr Kubernetes Engine. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=VultrCluster,
    owner=Owner.COMPOSED,
    short_names=("vke",),
    columns=(Column(name="REGION", path=".spec.region"),),
)


def parse(obj: Mapping[str, Any]) -> VultrCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(VultrCluster, obj)
