"""The clouds, and what the kinds that name one share: credentials, accelerators, fabrics, published Secrets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from modelplane.api.shape import Rule, Shape, number, text

Name: TypeAlias = Annotated[str, text(1, 253)]
"""The name of a Kubernetes object."""
Word: TypeAlias = Annotated[str, text(1, 63)]
"""A machine type, plan, pool or preset."""
Region: TypeAlias = Annotated[str, text(1, 32)]


class Provider(StrEnum):
    """A cloud that we can make clusters on."""

    GKE = "GKE"
    EKS = "EKS"
    AKS = "AKS"
    NEBIUS = "Nebius"
    VULTR = "Vultr"
    VULTR_BAREMETAL = "VultrBaremetal"
    """Bare-metal servers of Vultr that run k3s."""


class Source(StrEnum):
    """Where a cluster comes from."""

    GKE = "GKE"
    EKS = "EKS"
    AKS = "AKS"
    NEBIUS = "Nebius"
    VULTR = "Vultr"
    VULTR_BAREMETAL = "VultrBaremetal"
    """Bare-metal servers of Vultr that run k3s."""
    EXISTING = "Existing"
    """Somebody else made the cluster; a kubeconfig Secret reaches it."""


class Stack(StrEnum):
    """The serving layer of a cluster."""

    STANDARD = "Standard"
    """A gang runs as a LeaderWorkerSet, without gang scheduling."""
    DYNAMO = "Dynamo"
    """A gang runs as a Grove PodCliqueSet under the KAI scheduler, beside a ModelExpress server for peer-to-peer weights."""


class CredentialKind(StrEnum):
    """Scope of a provider's configuration."""

    NAMESPACED = "ProviderConfig"
    CLUSTER = "ClusterProviderConfig"


class Credentials(Shape, frozen=True, kw_only=True):
    """Which provider configuration holds the cloud credentials; ClusterProviderConfig default when the block is absent."""

    type: CredentialKind = CredentialKind.CLUSTER
    """Whether the provider configuration is namespaced or cluster-wide."""
    name: Name = "default"
    """Name of the provider configuration."""


class SecretType(StrEnum):
    """What a published Secret is good for."""

    KUBECONFIG = "Kubeconfig"
    GOOGLE = "GoogleApplicationCredentials"
    AWS = "AWSWebIdentityCredentials"
    NEBIUS = "NebiusServiceAccountCredentials"


class Accelerator(Shape, frozen=True, kw_only=True):
    """GPU facts for provisioning alone; placement reads spec.devices."""

    type: Annotated[str, text(1, 63)]
    """GPU model name: given to GCP, which attaches it; a node label on the other clouds."""
    count: Annotated[int, number(1, 16)]
    """GPUs on one machine."""


def block_for(discriminator: str, value: str, block: str) -> Rule:
    """The rule that a chosen value brings its sibling block."""
    return Rule(
        rule=f"self.{discriminator} != '{value}' || has(self.{block})",
        message=f"set {block}: {discriminator} {value} needs the block",
    )
