"""K3sCluster: k3s, installed over SSH on machines that are there already."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from modelplane.api.bare_metal import Release
from modelplane.api.cloud import Name, Word
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Resource
from modelplane.api.provisioned import BaseStatus, KubeconfigSecret
from modelplane.api.shape import Column, Definition, Owner, Root, Rule, Shape, keyed, listed, number, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "K3sCluster")
RESOURCE: Final = Resource(KIND, "k3sclusters", True)

Port = Annotated[int, number(1, 65535)]


class ControlPlane(Shape, frozen=True, kw_only=True):
    """The machine that runs the k3s server."""

    host: Name
    """DNS name or IP address."""
    port: Port = 22
    """Port of its SSH server."""


class NodeTaintEffect(StrEnum):
    """What a node's taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class NodeTaint(Shape, frozen=True, kw_only=True):
    """A taint of a node."""

    key: Name
    """Taint key."""
    value: Annotated[str, text(most=63)] = ""
    """Taint value."""
    effect: NodeTaintEffect
    """What the taint does to pods that do not tolerate it."""


class Worker(Shape, frozen=True, kw_only=True):
    """A machine that joins as a k3s agent."""

    name: Word
    """Name of the worker."""
    host: Name
    """DNS name or IP address."""
    port: Port = 22
    """Port of its SSH server."""
    labels: Mapping[str, str] = {}
    """Labels of its node."""
    taints: Annotated[tuple[NodeTaint, ...], listed(most=8)] = ()
    """Taints of its node."""


class PrivateKeyRef(Shape, frozen=True, kw_only=True):
    """A Secret with the private half of an SSH key pair, in this object's namespace."""

    name: Name
    """Name of the Secret."""
    key: Name = "ssh-privatekey"
    """Key in the Secret."""


class Login(Shape, frozen=True, kw_only=True):
    """How the machines are logged in to; the same on all of them."""

    username: Word = "root"
    """User to log in as: root, or one that may use sudo without a password."""
    secret_ref: PrivateKeyRef
    """The private key's Secret."""


class ReleaseChoice(Shape, frozen=True, kw_only=True):
    """The k3s that is installed: the newest of a channel, or one exactly."""

    channel: Release | None = None
    """Release channel."""
    version: Release | None = None
    """Exact release."""

    RULES = (
        Rule(
            rule="!has(self.channel) || !has(self.version)",
            message="remove channel or version: an exact release needs no channel",
            field=".version",
        ),
    )


class Spec(Shape, frozen=True, kw_only=True):
    """The cluster that is wanted."""

    control_plane: ControlPlane
    """The machine that runs the k3s server."""
    workers: Annotated[tuple[Worker, ...], keyed("name", most=64)] = ()
    """Machines that join as agents."""
    auth: Login
    """How the machines are logged in to; the same on all of them."""
    version: ReleaseChoice | None = None
    """The k3s that is installed; channel v1.34 when absent."""


class Status(BaseStatus, frozen=True, kw_only=True):
    """What was last seen."""

    secrets: tuple[KubeconfigSecret, ...] = ()
    """Credentials that others may use: the cluster's kubeconfig."""


class K3sCluster(Root, frozen=True, kw_only=True):
    """k3s on given machines. Composed; do not write it yourself."""

    spec: Spec
    """The cluster that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=K3sCluster,
    owner=Owner.COMPOSED,
    columns=(Column(name="CONTROL-PLANE", path=".spec.controlPlane.host"),),
)


def parse(obj: Mapping[str, Any]) -> K3sCluster:
    """A stored cluster as its type. Raises InvalidObject."""
    return read(K3sCluster, obj)
