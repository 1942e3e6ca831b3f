"""ModelEndpoint: one place that requests can go to. Composed for each serving replica, or authored for an outside provider.

Two shapes of one kind: `url` with `rewritePath`, and `origin` with `api`, `model` and `credential`. `Spec.target` is the internal
form of both, so that nobody else asks which one an endpoint has.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from modelplane.api.children import Children
from modelplane.api.cloud import Name
from modelplane.api.meta import GROUP, GVK, VERSION, Condition, Resource
from modelplane.api.shape import Column, Definition, Owner, Root, Rule, Shape, keyed, listed, read, ruled, text
from modelplane.errors import PermanentError

KIND: Final = GVK(GROUP, VERSION, "ModelEndpoint")
RESOURCE: Final = Resource(KIND, "modelendpoints", True)


class ConditionType(StrEnum):
    """Condition types of a ModelEndpoint."""

    ROUTING_READY = "RoutingReady"
    """Services can route to the endpoint."""
    ENDPOINT_READY = "EndpointReady"
    """The endpoint needs no credential, or its credential was found."""


class Reason(StrEnum):
    """Condition reasons of a ModelEndpoint."""

    INVALID_URL = "InvalidURL"
    """spec.url has no host, one that no gateway can reach, or a bad port; correct it."""
    WAITING_FOR_BACKEND = "WaitingForBackend"
    """The Service or EndpointSlice was not seen yet."""
    BACKEND_CONFIGURED = "BackendConfigured"
    """Service and EndpointSlice were seen."""
    ENDPOINT_USABLE = "EndpointUsable"
    """Requests can go there."""
    WAITING_FOR_CREDENTIAL = "WaitingForCredential"
    """The credential's Secret was not read yet."""
    CREDENTIAL_MISSING = "CredentialMissing"
    """The credential's Secret or its key is missing in the endpoint's namespace; create it."""
    UNSUPPORTED = "Unsupported"
    """The API takes it and this version does not carry it out; the message says what to use instead."""


class ApiSchema(StrEnum):
    """API dialect of a backend."""

    OPENAI = "OpenAI"
    ANTHROPIC = "Anthropic"


class EndpointApi(Shape, frozen=True, kw_only=True):
    """What the backend speaks."""

    schema: ApiSchema = ApiSchema.OPENAI
    """API dialect. Anthropic requests can be translated for OpenAI backends, not the reverse."""
    prefix: Annotated[
        str,
        text(1, 512),
        ruled(
            Rule(
                rule="self.startsWith('/')",
                message="the prefix must begin with a slash, as in /v1",
            )
        ),
    ] = "/v1"
    """Path under which the API is served."""


class CredentialMethod(StrEnum):
    """How we prove to a backend who we are."""

    API_KEY = "APIKey"


class SecretKeyRef(Shape, frozen=True, kw_only=True):
    """A Secret in the endpoint's namespace."""

    name: Name
    """Name of the Secret."""
    key: Name = "apiKey"
    """Key in the Secret; sent as x-api-key to Anthropic backends, else as a bearer token."""


class ApiKey(Shape, frozen=True, kw_only=True):
    """An API key."""

    secret_ref: SecretKeyRef
    """Secret in the endpoint's namespace."""


class Credential(Shape, frozen=True, kw_only=True):
    """How we prove to the backend who we are."""

    method: CredentialMethod
    """The method."""
    api_key: ApiKey | None = None
    """The API key."""

    RULES = (
        Rule(
            rule="has(self.apiKey) == (self.method == 'APIKey')",
            message="set apiKey exactly when method is APIKey",
        ),
    )


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go, whichever shape the endpoint has."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """A name or an address; an IPv6 address without brackets."""
    port: int
    rewrite_path: str | None
    """What takes the place of /NAMESPACE/SERVICE/ on the way; None when only the API's own prefix is replaced."""
    prefix: str
    """Path under which the backend serves its API, such as /v1."""
    schema: ApiSchema = ApiSchema.OPENAI
    model: str | None = None
    """The name that the backend knows; None lets the caller's pass through."""
    secret: SecretKeyRef | None = None


class InvalidUrl(PermanentError):
    """An endpoint's URL cannot be used; the message quotes it."""


def _split(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path of an absolute URL. Raises InvalidUrl."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidUrl(f"{url!r} is not a URL ({error}); write http://host:port/path") from error
    if not parts.hostname:
        raise InvalidUrl(f"{url!r} has no host; write an absolute URL such as https://api.example.com/v1")
    if parts.scheme not in ("http", "https"):
        raise InvalidUrl(f"{url!r} has scheme {parts.scheme!r}; use http or https")
    if port == 0:
        raise InvalidUrl(f"{url!r} has port 0; use a port from 1 to 65535")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), parts.path


ORIGIN_RULES: Final = (
    Rule(
        rule="self.startsWith('http://') || self.startsWith('https://')",
        message="the origin must begin with http:// or https://",
    ),
    Rule(
        rule="!self.matches('^https?://[^/?#]*[/?#]')",
        message="the origin ends after host and port, without a trailing slash; put a path into spec.api.prefix",
    ),
    Rule(
        rule="!self.matches('^https?://(:|/|$)')",
        message="the origin has no host; write https://host or https://host:port",
    ),
    Rule(
        rule=r"!self.matches('^https?://[^/\\[]*:') || self.matches('^https?://[^/:]*:([1-9][0-9]{0,3}|[1-5][0-9]{4}"
        r"|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])([/?#].*)?$')",
        message="the port of the origin must be one number from 1 to 65535",
    ),
    Rule(
        rule=r"!self.matches('^https?://\\[') && !self.matches('^https?://[0-9]{1,3}(\\.[0-9]{1,3}){3}(:|/|$)')",
        message="the host of the origin must be a name: certificates are checked against it, so addresses are not accepted",
    ),
)


class Spec(Shape, frozen=True, kw_only=True):
    """The endpoint that is wanted: exactly one of url and origin, unless composed."""

    url: Annotated[str, text(1)] | None = None
    """Absolute URL of the endpoint. Host and port count (443 for https, else 80, when there is no port)."""
    rewrite_path: str | None = None
    """Prefix that takes the place of /NAMESPACE/SERVICE/ on the way to this endpoint."""
    origin: Annotated[str, text(1, 2048), ruled(*ORIGIN_RULES)] | None = None
    """Scheme and host, and a port if need be; https means TLS towards the backend."""
    api: EndpointApi = EndpointApi()
    """What the backend speaks."""
    model: Annotated[str, text(1, 253)] | None = None
    """Name that the backend knows; the caller's passes through when unset."""
    credential: Credential | None = None
    """How we prove to the backend who we are."""

    RULES = (
        Rule(
            rule="has(self.url) || has(self.origin)",
            message="set url or origin: the endpoint has to be somewhere",
        ),
        Rule(
            rule="!(has(self.url) && has(self.origin)) || has(self.rewritePath)",
            message="set exactly one of url and origin",
        ),
        Rule(
            rule="!has(self.rewritePath) || has(self.url)",
            message="rewritePath belongs to url; with origin put the path into api.prefix",
        ),
    )

    @property
    def target(self) -> Target:
        """Where requests go. Raises InvalidUrl, which admission leaves to a condition for the older shape."""
        secret = self.credential.api_key.secret_ref if self.credential and self.credential.api_key else None
        if self.url is not None:
            scheme, host, port, _ = _split(self.url)
            rewrite = self.rewrite_path
            if not rewrite:
                rewrite = "/"
            elif not rewrite.startswith("/"):
                rewrite = "/" + rewrite
            prefix = rewrite.rstrip("/") + self.api.prefix
        else:
            scheme, host, port, _ = _split(self.origin or "")
            prefix = self.api.prefix.rstrip("/") or "/"
            rewrite = prefix[: -len("v1")] if prefix.endswith("/v1") else None
        return Target(
            scheme=scheme,
            host=host,
            port=port,
            rewrite_path=rewrite,
            prefix=prefix,
            schema=self.api.schema,
            model=self.model,
            secret=secret,
        )


class Routing(Shape, frozen=True, kw_only=True):
    """What services route to."""

    backend_name: str = ""
    """Name of the generated Service; set once its EndpointSlice exists too."""


class Status(Shape, frozen=True, kw_only=True):
    """What was last seen."""

    routing: Routing = Routing()
    """What services route to."""
    models: Annotated[tuple[str, ...], listed(most=64)] = ()
    """Names of models that the endpoint answered with; requests by service name are rewritten to one of them."""
    children: Children = ()
    """Objects of ours on clusters, written down before they are created."""
    conditions: Annotated[tuple[Condition, ...], keyed("type")] = ()
    """RoutingReady, EndpointReady, Ready and Synced."""


class ModelEndpoint(Root, frozen=True, kw_only=True):
    """One place that requests can go to: a replica of ours or an outside provider."""

    spec: Spec
    """The endpoint that is wanted."""
    status: Status = Status()
    """What was last seen."""


DEFINITION: Final = Definition(
    resource=RESOURCE,
    type=ModelEndpoint,
    owner=Owner.DEVELOPER,
    conditions=ConditionType,
    reasons=Reason,
    short_names=("me",),
    categories=("crossplane", "modelplane", "models"),
    columns=(
        Column(name="URL", path=".spec.url"),
        Column(name="ORIGIN", path=".spec.origin", priority=1),
        Column(name="MODEL", path=".spec.model", priority=1),
    ),
)


def parse(obj: Mapping[str, Any]) -> ModelEndpoint:
    """A stored endpoint as its type. Raises InvalidObject."""
    return read(ModelEndpoint, obj)
