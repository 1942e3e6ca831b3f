"""ServingStack: what a cluster needs to serve models: gateway, drivers, controllers. Composed by InferenceCluster alone.

Component versions are fixed per release of ours and therefore no fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import field

from modelplane.api.children import Children
from modelplane.api.cloud import Name, SecretType, Source, Stack
from modelplane.api.meta import GVK, INFRASTRUCTURE_GROUP, VERSION, Condition, Resource
from modelplane.api.shape import Column, Definition, Owner, Root, Rule, Shape, keyed, listed, read, text

KIND: Final = GVK(INFRASTRUCTURE_GROUP, VERSION, "ServingStack")
RESOURCE: Final = Resource(KIND, "servingstacks", True)


class StackSecret(Shape, frozen=True, kw_only=True):
    """A credential for the cluster."""

    type: SecretType
    """Kubeconfig once; any other type makes the stack act as that cloud identity."""
    name: Annotated[str, text(most=253)]
    """Name of the Secret."""
    key: Annotated[str, text(most=253)]
    """Key in the Secret."""
    namespace: Annotated[str, text(most=253)] = ""
    """Namespace of the Secret; that of the stack when unset."""


class ClientAuthority(Shape, frozen=True, kw_only=True):
    """An authority whose client certificates are accepted."""

    name: Name
    """The InferenceGateway."""
    certificate: Annotated[str, text(1, 16384)]
    """PEM of the authority's certificate."""


class Gateway(Shape, frozen=True, kw_only=True):
    """The cluster's gateway."""

    class_name: Annotated[str, text(1, 63)] = "envoy"
    """GatewayClass."""
    hostname: Annotated[str, text(1, 253)]
    """Name that the gateway gets a certificate for."""
    client_cas: Annotated[tuple[ClientAuthority, ...], keyed("name", most=32)] = field(name="clientCAs", default=())
    """Authorities whose client certificates are accepted, one per InferenceGateway."""


class Spec(Shape, frozen=True, kw_only=True):
    """The stack that is wanted."""

    cloud: Source
    """Picks the set of components; the cluster's source."""
    secrets: Annotated[tuple[StackSecret, ...], listed(1, 8)]
    """Credentials for the cluster."""
    stack: Stack = Stack.STANDARD
    """Serving layer, copied from the cluster."""
    gateway: Gateway
    """The cluster's gateway."""

    RULES = (
        Rule(
            rule="self.secrets.exists(s, s.type == 'Kubeconfig')",
            message="add an entry of type Kubeconfig: the cluster cannot be reached without it",
            field=".secrets",
        ),
    )

    @property
    def kubeconfig(self) -> StackSecret:
        """The entry that reaches the cluster."""
        return next(secret for secret in self.secrets if secret.type is SecretType.KUBECONFIG)


class GatewayStatus(Shape, frozen=True, kw_only=True):
    """The gateway as last seen."""

    address: Annotated[str, text(most=256)] = ""
    """External address once assigned: a host, or host:port where the port is not the scheme's own."""
    ca_certificate: Annotated[str, text(most=16384)] = ""
    """PEM of the authority behind the serving certificate."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    gateway: GatewayStatus = GatewayStatus()
    """The gateway as last seen."""
    children: Children = ()
    """Objects of ours on the cluster, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """Ready and Synced."""


class ServingStack(Root, frozen=True, kw_only=True):
    """What a cluster needs to serve models. Composed; do not write it yourself."""

    spec: Spec
    """The stack that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ServingStack,
    owner=Owner.COMPOSED,
    short_names=("ss",),
    categories=("crossplane", "modelplane", "infrastructure"),
    columns=(Column(name="GATEWAY", path=".status.gateway.address"),),
)


def parse(obj: Mapping[str, Any]) -> ServingStack:
    """A stored stack as its type. Raises InvalidObject."""
    return read(ServingStack, obj)
