"""NebiusCluster: a cluster on Nebius Managed Kubernetes, made for an InferenceCluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.cloud import Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import FLOOR_NEEDS_CEILING, GPU_BLOCK, BasePool, BaseSpec, CachingStatus, Gpu
from modelplane.api.shape import Definition, Owner, Root, Rule, Shape, keyed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "NebiusCluster")
RESOURCE: Final = Resource(KIND, "nebiusclusters", True)


class NebiusGpu(Gpu, frozen=True, kw_only=True):
    """GPU settings of a pool."""

    drivers_preset: Word = "cuda13.0"
    """Driver bundle that the cloud installs."""


class FabricType(StrEnum):
    """Network between the nodes of a pool."""

    NONE = "None"
    INFINIBAND = "InfiniBand"


class InfiniBand(Shape, frozen=True, kw_only=True):
    """An InfiniBand network."""

    fabric: Word
    """Id of a physical fabric that exists."""


class Fabric(Shape, frozen=True, kw_only=True):
    """The RDMA network between the nodes of a pool."""

    type: FabricType = FabricType.NONE
    """Kind of network."""
    infiniband: InfiniBand | None = None
    """Detail of InfiniBand."""

    RULES = (
        Rule(
            rule="self.type != 'InfiniBand' || has(self.infiniband)",
            message="set infiniband.fabric: type InfiniBand needs the id of the physical fabric",
        ),
        Rule(
            rule="!has(self.infiniband) || self.type == 'InfiniBand'",
            message="remove infiniband or set type: InfiniBand: the block belongs to that type",
        ),
    )


class NodePool(BasePool, frozen=True, kw_only=True):
    """Nodes of one platform and preset."""

    name: Annotated[str, text(1, 40)]
    """Name of the pool."""
    platform: Word
    """Compute platform."""
    preset: Word
    """Size on the platform."""
    disk_size_gb: Annotated[int, number(10, 65536)] = 100
    """Disk per node in GB."""
    node_count: Annotated[int, number(0, 1000)] = 1
    """Number of nodes; fixed unless maxNodeCount is set."""
    min_node_count: Annotated[int, number(0, 1000)] | None = None
    """Fewest nodes; nodeCount when unset."""
    max_node_count: Annotated[int, number(1, 1000)] | None = None
    """Most nodes; a pool without it has a fixed size."""
    gpu: NebiusGpu | None = None
    """GPU settings, for role GPU."""
    fabric: Fabric | None = None
    """RDMA network between the nodes; plain TCP when absent."""

    RULES = (GPU_BLOCK, FLOOR_NEEDS_CEILING)


class Spec(BaseSpec, frozen=True, kw_only=True):
    """The cluster that is wanted; the credentials' project fixes the region."""

    kubernetes_version: Annotated[str, text(1, 16)] = "1.34"
    """Version of the control plane."""
    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """Node pools; a system pool is added."""


class SecretKind(StrEnum):
    """What a published Secret holds."""

    KUBECONFIG = "Kubeconfig"
    NEBIUS = "NebiusServiceAccountCredentials"


class PublishedSecret(Shape, frozen=True, kw_only=True):
    """A Secret that others may use."""

    type: SecretKind
    """A kubeconfig with address and authority alone, or the service account that acts as identity."""
    name: Annotated[str, text(most=253)]
    """Name of the Secret."""
    key: Annotated[str, text(most=253)]
    """Key in the Secret."""
    namespace: Annotated[str, text(most=253)] = ""
    """Namespace of the Secret when it is not this object's."""


class Status(CachingStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[PublishedSecret, ...] = ()
    """Credentials that others may use."""


class NebiusCluster(Root, frozen=True, kw_only=True):
    """A cluster on Nebius Managed Kubernetes. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(resource=RESOURCE, type=NebiusCluster, owner=Owner.COMPOSED, short_names=("mk8s",))


def parse(obj: Mapping[str, Any]) -> NebiusCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(NebiusCluster, obj)
