"""What the cloud kinds share: a Kubernetes cluster that a provider makes, its node pools and the Secrets that it publishes.

The kinds are internal children of an InferenceCluster, one per cloud, each with the pool fields of its cloud.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from modelplane.api.children import Children
from modelplane.api.cloud import Credentials, Word
from modelplane.api.meta import Condition
from modelplane.api.shape import Rule, Shape, keyed, text


class PoolRole(StrEnum):
    """What a pool is for."""

    SYSTEM = "System"
    """Controllers and gateways."""
    GPU = "GPU"
    """Engines."""


GPU_BLOCK = Rule(
    rule="self.role != 'GPU' || has(self.gpu)",
    message="set gpu: a pool with role GPU names its accelerator",
)
GPU_ZONES = Rule(
    rule="self.role != 'GPU' || has(self.zones)",
    message="set zones: a pool with role GPU names the zones that have the accelerator",
)
FLOOR_NEEDS_CEILING = Rule(
    rule="!has(self.minNodeCount) || has(self.maxNodeCount)",
    message="set maxNodeCount too: minNodeCount alone does not let a pool grow",
)


class BaseSpec(Shape, frozen=True, kw_only=True):
    """What every cloud's cluster has."""

    credentials: Credentials | None = None
    """Provider configuration with the cloud's credentials; ClusterProviderConfig default when absent."""


class BasePool(Shape, frozen=True, kw_only=True):
    """What every cloud's pool has."""

    role: PoolRole
    """System hosts controllers and gateways; GPU hosts engines."""


class Gpu(Shape, frozen=True, kw_only=True):
    """GPU settings of a pool."""

    accelerator_type: Word
    """GPU model name, used as a node label."""


class CacheStatus(Shape, frozen=True, kw_only=True):
    """Storage for model caches."""

    storage_class_name: Annotated[str, text(most=253)] = ""
    """Managed ReadWriteMany storage class on the cluster."""


class BaseStatus(Shape, frozen=True, kw_only=True):
    """What every cloud's cluster reports."""

    children: Children = ()
    """Objects of ours on the cluster, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Ready and Synced."""


class CachingStatus(BaseStatus, frozen=True, kw_only=True):
    """What a cloud's cluster with cache storage reports."""

    cache: CacheStatus = CacheStatus()
    """Storage for model caches."""


class KubeconfigOnly(StrEnum):
    """Type of a published Secret on clouds whose kubeconfig carries its own credential."""

    KUBECONFIG = "Kubeconfig"


class KubeconfigSecret(Shape, frozen=True, kw_only=True):
    """A Secret that others may use, in this object's namespace."""

    type: KubeconfigOnly
    """What the Secret holds: a kubeconfig."""
    name: Annotated[str, text(most=253)]
    """Name of the Secret."""
    key: Annotated[str, text(most=253)]
    """Key in the Secret."""
