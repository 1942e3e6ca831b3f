"""VultrBaremetalCluster: bare-metal servers on Vultr that run k3s, made for an InferenceCluster.

Pools have a fixed size: a server is rented by the month, so nothing grows or shrinks by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from modelplane.api.bare_metal import VultrBaremetalSettings
from modelplane.api.cloud import Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import BaseStatus, Gpu, KubeconfigSecret
from modelplane.api.shape import Column, Definition, Owner, Root, Shape, keyed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "VultrBaremetalCluster")
RESOURCE: Final = Resource(KIND, "vultrbaremetalclusters", True)


class NodePool(Shape, frozen=True, kw_only=True):
    """GPU servers of one plan."""

    name: Annotated[str, text(1, 40)]
    """Name of the pool."""
    plan: Word
    """Bare-metal plan."""
    node_count: Annotated[int, number(1, 64)] = 1
    """Number of servers."""
    os_id: int | None = None
    """Id of the operating system image; that of the management server when unset."""
    gpu: Gpu
    """GPU settings."""


class Spec(VultrBaremetalSettings, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    node_pools: Annotated[tuple[NodePool, ...], keyed("name", least=1, most=8)]
    """GPU pools of a fixed size."""


class Status(BaseStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[KubeconfigSecret, ...] = ()
    """Credentials that others may use: a kubeconfig with client certificates."""


class VultrBaremetalCluster(Root, frozen=True, kw_only=True):
    """Bare-metal servers on Vultr that run k3s. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=VultrBaremetalCluster,
    owner=Owner.COMPOSED,
    categories=("crossplane", "modelplane", "infrastructure"),
    columns=(Column(name="REGION", path=".spec.region"),),
)


def parse(obj: Mapping[str, Any]) -> VultrBaremetalCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(VultrBaremetalCluster, obj)
