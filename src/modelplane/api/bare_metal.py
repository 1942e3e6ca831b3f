"""Machines of one's own as a cluster: how they are reached over SSH, and which k3s they get.

VultrBaremetalCluster and InferenceCluster share the shapes, so that the cluster's settings are copied word for word.
"""

from __future__ import annotations

from typing import Annotated, Final

from modelplane.api.cloud import Credentials, Name, Region, Word
from modelplane.api.shape import EMPTY, Shape, text

Release = Annotated[str, text(1, 32)]
"""A k3s release or the channel that leads to one."""

STABLE_CHANNEL: Final = "v1.34"


class Management(Shape, frozen=True, kw_only=True):
    """The server without GPU that runs the control plane of the cluster."""

    plan: Word = "vbm-6c-32gb-amd"
    """Its bare-metal plan."""
    os_id: int = 2284
    """Id of its operating system image."""


class KeyPairRef(Shape, frozen=True, kw_only=True):
    """A Secret with both halves of an SSH key pair."""

    name: Name
    """Name of the Secret."""
    private_key_key: Name = "ssh-privatekey"
    """Key of the private half."""
    public_key_key: Name = "ssh-publickey"
    """Key of the public half."""


class Ssh(Shape, frozen=True, kw_only=True):
    """How the servers are logged in to; the same on all of them."""

    secret_ref: KeyPairRef
    """The key pair's Secret: in modelplane-system for an InferenceCluster, else in the namespace of the object."""
    username: Word = "root"
    """User to log in as."""


class Channel(Shape, frozen=True, kw_only=True):
    """The k3s that is installed."""

    channel: Release = STABLE_CHANNEL
    """Release channel."""


class VultrBaremetalSettings(Shape, frozen=True, kw_only=True):
    """A cluster of bare-metal servers on Vultr."""

    region: Region
    """Vultr region."""
    management: Annotated[Management, EMPTY] = Management()
    """The server that runs the control plane of the cluster."""
    ssh: Ssh
    """How the servers are logged in to; the same on all of them."""
    credentials: Credentials | None = None
    """Provider configuration with the Vultr credentials; ClusterProviderConfig default when absent."""
    k3s: Annotated[Channel, EMPTY] = Channel()
    """The k3s that is installed."""
