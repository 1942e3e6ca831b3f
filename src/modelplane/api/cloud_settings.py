"""What an InferenceCluster says about the cluster that a cloud is to make: one block per managed Kubernetes service."""

from __future__ import annotations

from modelplane.api.cloud import Credentials, Region
from modelplane.api.shape import Shape


class GkeSettings(Shape, frozen=True, kw_only=True):
    """A cluster on Google Kubernetes Engine."""

    region: Region
    """GCP region."""
    kubernetes_version: str = "1.35"
    """Kubernetes version that GKE offers."""
    credentials: Credentials | None = None
    """Provider configuration with the GCP credentials; ClusterProviderConfig default when absent."""


class EksSettings(Shape, frozen=True, kw_only=True):
    """A cluster on Amazon EKS."""

    region: Region
    """AWS region."""
    kubernetes_version: str = "1.36"
    """Kubernetes version that EKS offers."""
    credentials: Credentials | None = None
    """Provider configuration with the AWS credentials; ClusterProviderConfig default when absent."""


class AksSettings(Shape, frozen=True, kw_only=True):
    """A cluster on Azure Kubernetes Service."""

    location: Region
    """Azure region."""
    kubernetes_version: str = "1.34"
    """Kubernetes version that AKS offers."""
    credentials: Credentials | None = None
    """Provider configuration with the Azure credentials; ClusterProviderConfig default when absent."""


class NebiusSettings(Shape, frozen=True, kw_only=True):
    """A cluster on Nebius Managed Kubernetes; an empty block is enough."""

    kubernetes_version: str = "1.34"
    """Kubernetes version that Nebius offers."""
    credentials: Credentials | None = None
    """Provider configuration with the Nebius credentials; its project fixes the region."""


class VultrSettings(Shape, frozen=True, kw_only=True):
    """A cluster on Vultr Kubernetes Engine."""

    region: Region
    """Vultr region."""
    kubernetes_version: str = "v1.36.1+3"
    """Full VKE version with its build suffix."""
    credentials: Credentials | None = None
    """Provider configuration with the Vultr credentials; ClusterProviderConfig default when absent."""
