"""AKSCluster: a cluster on Azure Kubernetes Service, made for an InferenceCluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.cloud import Region, Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import GPU_BLOCK, BasePool, BaseSpec, CachingStatus, Gpu, KubeconfigSecret
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, listed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "AKSCluster")
RESOURCE: Final = Resource(KIND, "aksclusters", True)


class Networking(Shape, frozen=True, kw_only=True):
    """Address ranges of the virtual network; they stay clear of 10.96.0.0/16 (services) and 10.244.0.0/16 (pods)."""

    vnet_cidr: Annotated[str, text(most=18)] = "10.0.0.0/16"
    """Range of the virtual network."""
    subnet_cidr: Annotated[str, text(most=18)] = "10.0.0.0/20"
    """Range of nodes inside it; one subnet for all zones."""


class FabricType(StrEnum):
    """Network between the nodes of a pool."""

    NONE = "None"
    INFINIBAND = "InfiniBand"


class NodePool(BasePool, frozen=True, kw_only=True):
    """Nodes of one VM size."""

    name: Annotated[str, text(1, 12, pattern="^[a-z][a-z0-9]{0,11}$")]
    """Name of the pool; AKS allows twelve lower-case letters and digits."""
    vm_size: Word
    """Azure VM size."""
    disk_size_gb: Annotated[int, number(10, 65536)] = 100
    """Disk per node in GB."""
    node_count: Annotated[int, number(0, 1000)] = 1
    """Initial number of nodes."""
    min_node_count: Annotated[int, number(0, 1000)] = 0
    """Fewest nodes; keep GPU pools at 1 or more, since AKS does not grow DRA pools from zero."""
    max_node_count: Annotated[int, number(0, 1000)] = 8
    """Most nodes."""
    zones: Annotated[tuple[Annotated[str, text(1, 8)], ...], listed(1, 3)] | None = None
    """Zones that the pool may use."""
    gpu: Gpu | None = None
    """GPU settings, for role GPU."""
    fabric: FabricType = FabricType.NONE
    """InfiniBand needs a VM size with RDMA and the subscription's feature flag, and brings in the network operator."""

    RULES = (GPU_BLOCK,)


class Spec(BaseSpec, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    location: Region
    """Azure region."""
    kubernetes_version: Annotated[str, text(1, 16)] = "1.34"
    """Version of the control plane."""
    networking: Networking | None = None
    """Address ranges of the virtual network; they stay clear of 10.96.0.0/16 (services) and 10.244.0.0/16 (pods)."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """Node pools; a system pool is added."""


class Status(CachingStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[KubeconfigSecret, ...] = ()
    """Credentials that others may use: a kubeconfig with a client certificate inside."""


class AKSCluster(Root, frozen=True, kw_only=True):
    """A cluster on Azure Kubernetes Service. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=AKSCluster,
    owner=Owner.COMPOSED,
    short_names=("aks",),
    columns=(Column(name="LOCATION", path=".spec.location"),),
)


def parse(obj: Mapping[str, Any]) -> AKSCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(AKSCluster, obj)
