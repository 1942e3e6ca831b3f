"""What a gateway has to do, free of Kubernetes' shapes and of Envoy's: listeners, routes, rules, backends, endpoints.

Reading Gateway API objects ends here and writing Envoy configuration starts here, so each half is tested alone, and
another way to choose a backend (a model name in the body) is one more kind of match, not another pipeline.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class PathKind(StrEnum):
    EXACT = "Exact"
    PREFIX = "PathPrefix"


class Match(msgspec.Struct, frozen=True):
    """One entry of a rule's `matches`: all parts hold. A prefix is kept without its trailing slash; "/" is "/"."""

    path: str = "/"
    kind: PathKind = PathKind.PREFIX
    method: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()


class RewriteKind(StrEnum):
    PREFIX = "ReplacePrefixMatch"
    FULL = "ReplaceFullPath"


class Rewrite(msgspec.Struct, frozen=True):
    """A URLRewrite: a new host name, and a new path or prefix. Empty parts are left as they came."""

    hostname: str = ""
    kind: RewriteKind | None = None
    path: str = ""


class HeaderEdit(msgspec.Struct, frozen=True):
    """A header modifier: `set` replaces, `add` appends, `remove` drops."""

    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


class Endpoint(msgspec.Struct, frozen=True, order=True):
    """Where bytes go: an IP address or, when `named`, a DNS name, and a port."""

    address: str
    port: int
    named: bool = False


class Balance(StrEnum):
    """How a backend wants its own endpoints chosen: in turn, or the one with the fewest requests in flight."""

    ROUND_ROBIN = "RoundRobin"
    LEAST_REQUEST = "LeastRequest"


class Backend(msgspec.Struct, frozen=True):
    """One backendRef, resolved. `health` is a path below the rewritten prefix that answers 200 when requests would."""

    name: str
    weight: int
    endpoints: tuple[Endpoint, ...]
    balance: Balance = Balance.ROUND_ROBIN
    rewrite: Rewrite | None = None
    health: str = ""
    tls: bool = False


class Rule(msgspec.Struct, frozen=True):
    """One rule of a route. Times are seconds; None is no limit. `name` is unique in its gateway and stays the same."""

    name: str
    matches: tuple[Match, ...]
    backends: tuple[Backend, ...]
    rewrite: Rewrite | None = None
    request_headers: HeaderEdit | None = None
    response_headers: HeaderEdit | None = None
    timeout: float | None = None
    backend_timeout: float | None = None
    idle: float | None = None
    """Silence allowed: before the first byte it means another try, after it the end of the stream."""


class Route(msgspec.Struct, frozen=True):
    """An HTTPRoute. `created` and the name order routes that match equally well."""

    namespace: str
    name: str
    created: str
    hostnames: tuple[str, ...]
    rules: tuple[Rule, ...]


class Listener(msgspec.Struct, frozen=True):
    """An HTTP listener and the routes attached to it. `port` is the one asked for, not the one on this machine."""

    name: str
    port: int
    hostname: str
    routes: tuple[Route, ...]


class Gateway(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    listeners: tuple[Listener, ...]
