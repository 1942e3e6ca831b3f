"""InferenceGateway: a front door that callers use.

Two shapes of one kind. The older one (`backend`, `traefik`) puts the door on the control cluster; the current one
(`clusterName`) puts it on an inference cluster. `Spec.cluster_name` is the internal form: None is the control cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import field

from modelplane.api.children import Children
from modelplane.api.cloud import Name
from modelplane.api.labels import MatchLabels
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import IMMUTABLE, Column, Definition, Owner, Root, Rule, Shape, keyed, read, ruled, text

KIND: Final = GVK(GROUP, VERSION, "InferenceGateway")
RESOURCE: Final = Resource(KIND, "inferencegateways", False)

DEFAULT_NAME: Final = "default"
"""The gateway of the older shape that ModelServices use."""


class ConditionType(StrEnum):
    """Condition types of an InferenceGateway."""

    CONTROLLER_READY = "ControllerReady"
    """The gateway's controller runs (door on the control cluster)."""
    GATEWAY_READY = "GatewayReady"
    """The gateway has an address and accepts its settings (door on an inference cluster)."""


class Reason(StrEnum):
    """Condition reasons of an InferenceGateway."""

    CONTROLLER_HEALTHY = "ControllerHealthy"
    """The controller is installed and healthy."""
    INSTALLING = "Installing"
    """The controller is being installed."""
    GATEWAY_PROGRAMMED = "GatewayProgrammed"
    """The gateway has an address and, with auth, its caller policy is accepted."""
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    """The hosting cluster is missing or not usable yet."""
    CLUSTER_ALREADY_HAS_GATEWAY = "ClusterAlreadyHasGateway"
    """Another gateway is on that cluster; choose another cluster or delete one of the two."""
    SECRETS_MISSING = "SecretsMissing"
    """No Secret with caller keys matches, or a TLS Secret is missing in modelplane-system."""
    CALLER_AUTH_NOT_ACCEPTED = "CallerAuthNotAccepted"
    """The caller policy is refused, for instance because two callers share a key."""
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    """The gateway is not programmed yet."""
    UNSUPPORTED = "Unsupported"
    """The API takes it and this version does not carry it out; the message says what to use instead."""


class Backend(StrEnum):
    """Implementation of a front door on the control cluster."""

    TRAEFIK = "Traefik"


class LoadBalancer(StrEnum):
    """A load balancer that is installed along."""

    METALLB = "MetalLB"


class MetalLB(Shape, frozen=True, kw_only=True):
    """Settings of MetalLB."""

    address_pool: str
    """Addresses that MetalLB may hand out, such as 172.18.255.200-172.18.255.250; they have to be in the cluster's network."""


class Traefik(Shape, frozen=True, kw_only=True):
    """Settings of Traefik."""

    version: str
    """Version of the Helm chart, such as 40.2.0."""
    load_balancer: LoadBalancer | None = None
    """A load balancer to install along; leave it out where the cloud has one."""
    metallb: MetalLB | None = None
    """Settings of MetalLB."""

    RULES = (
        Rule(
            rule="!has(self.loadBalancer) || self.loadBalancer != 'MetalLB' || has(self.metallb)",
            message="set metallb.addressPool: loadBalancer MetalLB needs addresses to hand out",
        ),
    )


class CertificateRef(Shape, frozen=True, kw_only=True):
    """A TLS Secret in modelplane-system."""

    name: Name
    """Name of the Secret, of type kubernetes.io/tls."""


class Tls(Shape, frozen=True, kw_only=True):
    """HTTPS for callers."""

    certificate_refs: Annotated[tuple[CertificateRef, ...], keyed("name", least=1, most=8)]
    """Secrets of type kubernetes.io/tls in modelplane-system, copied to the cluster and chosen by server name."""


class LabelSelector(Shape, frozen=True, kw_only=True):
    """Objects by label."""

    match_labels: MatchLabels
    """Labels that all have to match."""


class AuthMethod(StrEnum):
    """How callers prove who they are."""

    API_KEY = "APIKey"


class CallerKeys(Shape, frozen=True, kw_only=True):
    """Keys of callers."""

    secret_selector: LabelSelector
    """Secrets in modelplane-system. Each entry of their data is a caller: the name is the identity, the value the key."""


class Auth(Shape, frozen=True, kw_only=True):
    """Authentication of callers."""

    method: AuthMethod
    """How callers prove who they are."""
    api_key: CallerKeys | None = None
    """Where the callers' keys are."""

    RULES = (
        Rule(
            rule="has(self.apiKey) == (self.method == 'APIKey')",
            message="set apiKey exactly when method is APIKey",
        ),
    )


class Spec(Shape, frozen=True, kw_only=True):
    """The front door that is wanted: exactly one of backend and clusterName."""

    backend: Backend | None = None
    """Front door on the control cluster, addressed by path /NAMESPACE/SERVICE; names the block with its settings."""
    traefik: Traefik | None = None
    """Settings of backend Traefik."""
    cluster_name: Annotated[Name, ruled(IMMUTABLE)] | None = None
    """Front door on this InferenceCluster, addressed by the request's model. At most one gateway per cluster."""
    tls: Tls | None = None
    """HTTPS for callers; plain HTTP when absent."""
    auth: Auth | None = None
    """Authentication of callers; open to all who reach it when absent."""
    service_selector: LabelSelector | None = None
    """ModelServices that the door serves, by label; all when absent."""

    RULES = (
        Rule(
            rule="has(self.backend) != has(self.clusterName)",
            message="set exactly one of backend (door on the control cluster) and clusterName (door on that cluster)",
        ),
        Rule(
            rule="!has(self.backend) || self.backend != 'Traefik' || has(self.traefik)",
            message="set traefik: backend Traefik needs the block",
        ),
        Rule(
            rule="!has(self.traefik) || has(self.backend)",
            message="remove traefik or set backend: Traefik: the block belongs to that backend",
        ),
        Rule(
            rule="has(self.clusterName) || !(has(self.tls) || has(self.auth) || has(self.serviceSelector))",
            message="tls, auth and serviceSelector belong to a door on an inference cluster: set clusterName instead of backend",
        ),
        Rule(
            rule="has(self.clusterName) == has(oldSelf.clusterName)",
            message="a front door cannot move between the control cluster and an inference cluster; create a new one",
        ),
    )


class BaseUrls(Shape, frozen=True, kw_only=True):
    """Base URLs for clients."""

    openai: str = field(name="openAI", default="")
    """Base URL of the OpenAI API: http://ADDRESS/v1."""
    anthropic: str = ""
    """Base URL of the Anthropic API: http://ADDRESS/anthropic/v1."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    address: str = ""
    """Address for callers and DNS: a host, or host:port where the port is not the scheme's own."""
    client_ca_certificate: Annotated[str, text(most=16384)] = field(name="clientCACertificate", default="")
    """PEM of the authority behind the gateway's client certificate; clusters accept certificates from it."""
    endpoints: BaseUrls | None = None
    """Base URLs for clients, without tls alone."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """ControllerReady or GatewayReady, Ready and Synced."""


class InferenceGateway(Root, frozen=True, kw_only=True):
    """A front door that callers use."""

    spec: Spec
    """The front door that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=InferenceGateway,
    owner=Owner.PLATFORM,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("ig",),
    categories=("crossplane", "modelplane", "platform"),
    columns=(
        Column(name="GATEWAY", path=".spec.backend"),
        Column(name="ADDRESS", path=".status.address"),
        Column(name="CLUSTER", path=".spec.clusterName", priority=1),
    ),
)


def parse(obj: Mapping[str, Any]) -> InferenceGateway:
    """A stored gateway as its type. Raises InvalidObject."""
    return read(InferenceGateway, obj)
