"""EKSCluster: a cluster on Amazon EKS, made for an InferenceCluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.cloud import Region, Word
from modelplane.api.inference_cluster import CapacityBlock
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import GPU_BLOCK, GPU_ZONES, BasePool, BaseSpec, CachingStatus, Gpu, KubeconfigSecret
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, listed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "EKSCluster")
RESOURCE: Final = Resource(KIND, "eksclusters", True)


class Networking(Shape, frozen=True, kw_only=True):
    """Address ranges of the VPC."""

    vpc_cidr: Annotated[str, text(most=18)] = "10.0.0.0/16"
    """Range of the VPC."""
    subnet_cidrs: Annotated[tuple[Annotated[str, text(most=18)], ...], listed(2, 6)] = (
        "10.0.0.0/20",
        "10.0.16.0/20",
        "10.0.32.0/20",
    )
    """One range per availability zone, in the alphabetical order of the zones; at least two."""


class FabricType(StrEnum):
    """Network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"


class NodePool(BasePool, frozen=True, kw_only=True):
    """Nodes of one instance type."""

    name: Annotated[str, text(1, 40)]
    """Name of the pool."""
    instance_type: Word
    """EC2 instance type."""
    disk_size_gb: Annotated[int, number(10, 65536)] = 100
    """Disk per node in GB."""
    node_count: Annotated[int, number(0, 1000)] = 1
    """Initial number of nodes."""
    min_node_count: Annotated[int, number(0, 1000)] = 0
    """Fewest nodes."""
    max_node_count: Annotated[int, number(0, 1000)] = 8
    """Most nodes."""
    gpu: Gpu | None = None
    """GPU settings, for role GPU."""
    capacity_block: CapacityBlock | None = None
    """A purchased capacity block; the group buys through it by a launch template."""
    zones: Annotated[tuple[Annotated[str, text(1, 63)], ...], listed(1, 8)] | None = None
    """Zones that the pool may use."""
    fabric: FabricType = FabricType.NONE
    """EFA adds adapters and a security group, and brings in the EFA DRA driver."""

    RULES = (GPU_BLOCK, GPU_ZONES)


class Spec(BaseSpec, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    region: Region
    """AWS region."""
    kubernetes_version: Annotated[str, text(1, 16)] = "1.36"
    """Version of the control plane."""
    networking: Networking | None = None
    """Address ranges of the VPC."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """Node pools; a system pool is added."""


class Status(CachingStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[KubeconfigSecret, ...] = ()
    """Credentials that others may use: a kubeconfig with a bearer token that is refreshed."""


class EKSCluster(Root, frozen=True, kw_only=True):
    """A cluster on Amazon EKS. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=EKSCluster,
    owner=Owner.COMPOSED,
    short_names=("eks",),
    columns=(Column(name="REGION", path=".spec.region"),),
)


def parse(obj: Mapping[str, Any]) -> EKSCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(EKSCluster, obj)
