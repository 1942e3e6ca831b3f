"""GKECluster: a cluster on Google Kubernetes Engine, made for an InferenceCluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.cloud import Region, Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import GPU_BLOCK, GPU_ZONES, BasePool, BaseSpec, CachingStatus, Gpu
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, listed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "GKECluster")
RESOURCE: Final = Resource(KIND, "gkeclusters", True)


class Networking(Shape, frozen=True, kw_only=True):
    """Address ranges of the VPC."""

    pod_cidr: Annotated[str, text(most=18)] = "10.1.0.0/16"
    """Range of pods."""
    service_cidr: Annotated[str, text(most=18)] = "10.2.0.0/16"
    """Range of services."""
    node_cidr: Annotated[str, text(most=18)] = "10.0.0.0/24"
    """Range of nodes."""


class GkeGpu(Gpu, frozen=True, kw_only=True):
    """GPU settings of a pool."""

    accelerator_type: Word
    """GPU model that is attached to each node."""
    accelerator_count: Annotated[int, number(1, 16)] = 1
    """GPUs per node."""


class NodePool(BasePool, frozen=True, kw_only=True):
    """Nodes of one machine type."""

    name: Annotated[str, text(1, 40)]
    """Name of the pool."""
    machine_type: Word
    """GCE machine type."""
    disk_size_gb: Annotated[int, number(10, 65536)] = 100
    """Disk per node in GB."""
    node_count: Annotated[int, number(0, 1000)] = 1
    """Initial number of nodes."""
    min_node_count: Annotated[int, number(0, 1000)] = 0
    """Fewest nodes."""
    max_node_count: Annotated[int, number(0, 1000)] = 8
    """Most nodes."""
    gpu: GkeGpu | None = None
    """GPU settings, for role GPU."""
    zones: Annotated[tuple[Annotated[str, text(1, 63)], ...], listed(1, 8)] | None = None
    """Zones that the pool may use."""

    RULES = (GPU_BLOCK, GPU_ZONES)


class Spec(BaseSpec, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    region: Region
    """GCP region."""
    kubernetes_version: Annotated[str, text(1, 16)] = "1.35"
    """Version that the regular release channel offers."""
    networking: Networking | None = None
    """Address ranges of the VPC."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """Node pools; a system pool is added."""


class SecretKind(StrEnum):
    """What a published Secret holds."""

    KUBECONFIG = "Kubeconfig"
    GOOGLE = "GoogleApplicationCredentials"


class PublishedSecret(Shape, frozen=True, kw_only=True):
    """A Secret that others may use, in this object's namespace."""

    type: SecretKind
    """A kubeconfig, or the key of a service account that acts as identity."""
    name: Annotated[str, text(most=253)]
    """Name of the Secret."""
    key: Annotated[str, text(most=253)]
    """Key in the Secret."""


class Status(CachingStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[PublishedSecret, ...] = ()
    """Credentials that others may use."""


class GKECluster(Root, frozen=True, kw_only=True):
    """A cluster on Google Kubernetes Engine. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=GKECluster,
    owner=Owner.COMPOSED,
    short_names=("gke",),
    columns=(Column(name="REGION", path=".spec.region"),),
)


def parse(obj: Mapping[str, Any]) -> GKECluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(GKECluster, obj)
