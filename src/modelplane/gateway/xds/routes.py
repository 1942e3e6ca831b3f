"""A listener's routes as one Envoy RouteConfiguration.

Paths go into a prefix map, not a list: with five thousand services the last one is as quick as the first. The map
takes the longest key and never looks back, so every entry ends with the routes of the shorter prefixes above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.gateway.attachment import hosts
from modelplane.gateway.model import Balance, HeaderEdit, Listener, Match, PathKind, Rewrite, RewriteKind, Route, Rule
from modelplane.gateway.wire import Shared
from modelplane.gateway.xds.clusters import late
from modelplane.gateway.xds.names import PATH_HEADER, TYPE

_BODY_KEPT_FOR_RETRIES: Final = 16 * 1024 * 1024


class _Candidate(msgspec.Struct, frozen=True):
    """One match of one rule, with what orders it among those of the same path."""

    match: Match
    rule: Rule
    order: tuple[object, ...]


def route_configuration(name: str, listener: Listener) -> Object:
    """Everything that the listener routes; what nothing matches is answered 404."""
    domains: dict[str, list[tuple[int, Route]]] = {}
    for route in listener.routes:
        for host in hosts(route.hostnames, listener.hostname):
            domains.setdefault(host, [])
    domains.setdefault("*", [])
    for route in listener.routes:
        names = hosts(route.hostnames, listener.hostname)
        for domain, members in domains.items():
            fits = [len(host) for host in names if _covers(host, domain)]
            if fits:
                members.append((max(fits), route))
    return {
        "name": name,
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [_virtual_host(domain, members) for domain, members in sorted(domains.items())],
    }


def _covers(host: str, domain: str) -> bool:
    return host in ("*", domain) or (host.startswith("*.") and domain.endswith(host[1:]))


def _virtual_host(domain: str, members: list[tuple[int, Route]]) -> Object:
    by_path: dict[str, list[_Candidate]] = {}
    for specific, route in members:
        for index, rule in enumerate(route.rules):
            for match in rule.matches:
                order = (
                    match.kind is not PathKind.EXACT,
                    -specific,
                    not match.method,
                    -len(match.headers),
                    -len(match.query),
                    route.created,
                    route.namespace,
                    route.name,
                    index,
                )
                by_path.setdefault(match.path, []).append(_Candidate(match, rule, order))
    result: Object = {"name": domain, "domains": [domain]}
    if not by_path:
        return result
    lists: dict[str, Object] = {}
    for path in by_path:
        routes = [
            _route(candidate)
            for prefix in _upwards(path)
            for candidate in sorted(by_path.get(prefix, ()), key=lambda candidate: candidate.order)
            if prefix == path or candidate.match.kind is PathKind.PREFIX
        ]
        lists[path] = {
            "action": {
                "name": path,
                "typed_config": {"@type": f"{TYPE}envoy.config.route.v3.RouteList", "routes": routes},
            }
        }
    result["matcher"] = {
        "matcher_tree": {
            "input": {
                "name": "path",
                "typed_config": {
                    "@type": f"{TYPE}envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
                    "header_name": ":path",
                },
            },
            "prefix_match_map": {"map": lists},
        }
    }
    return result


def _upwards(path: str) -> Iterable[str]:
    """The path itself, then each shorter prefix at a slash, then "/"."""
    yield path
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path
    if path != "/":
        yield "/"


def _route(candidate: _Candidate) -> Object:
    rule = candidate.rule
    return _shared_route(
        candidate.match,
        rule.name,
        late(rule),
        rule.rewrite,
        (rule.request_headers, rule.response_headers),
        (rule.timeout, rule.backend_timeout, rule.idle),
        pooled=bool(rule.backends) and all(backend.balance is Balance.LEAST_REQUEST for backend in rule.backends),
    )


@lru_cache(maxsize=16384)
def _shared_route(
    match: Match,
    cluster: str,
    late_rewrite: bool,
    rewrite: Rewrite | None,
    headers: tuple[HeaderEdit | None, HeaderEdit | None],
    timeouts: tuple[float | None, float | None, float | None],
    *,
    pooled: bool,
) -> Object:
    """A route without its endpoints, which is why it stays the same, bytes included, while they come and go."""
    timeout, backend_timeout, idle = timeouts
    retry: Object = _RETRY_LOST if pooled else _RETRY
    if backend_timeout:
        retry = {**retry, "per_try_timeout": _seconds(backend_timeout)}
    if idle:
        retry = {**retry, "per_try_idle_timeout": _seconds(idle)}
    action: Object = {"cluster": cluster, "timeout": _seconds(timeout or 0), "retry_policy": retry}
    add, remove = _edits(headers[0])
    if late_rewrite:
        length = 0 if match.path == "/" else len(match.path)
        add.append(_header(PATH_HEADER, f"{length} %REQ(:path)%", replace=True))
    else:
        remove.append(PATH_HEADER)
    if rewrite and rewrite.hostname:
        action["host_rewrite_literal"] = rewrite.hostname
    else:
        action["auto_host_rewrite"] = True
    if rewrite and rewrite.kind:
        action["regex_rewrite"] = _rewrite(rewrite, match.path)
    route: Object = Shared(
        {
            "match": _match(match),
            "route": action,
            "request_body_buffer_limit": _BODY_KEPT_FOR_RETRIES,
            "request_headers_to_add": add,
            "request_headers_to_remove": remove,
        }
    )
    answer_add, answer_remove = _edits(headers[1])
    if answer_add:
        route["response_headers_to_add"] = answer_add
    if answer_remove:
        route["response_headers_to_remove"] = answer_remove
    return route


_RETRY: Final = Shared(
    {
        "retry_on": "connect-failure,refused-stream,reset,retriable-status-codes",
        "retriable_status_codes": [503],
        "num_retries": 3,
        "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.05s"},
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{TYPE}envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 5,
    }
)

# A pool's engines share their load: where one says 503, trying the others is left to the front door, so that the tries
# of two hops do not multiply just when a cluster has too much to do.
_RETRY_LOST: Final = Shared(
    {
        **{name: value for name, value in _RETRY.items() if name != "retriable_status_codes"},
        "retry_on": "connect-failure,refused-stream,reset",
    }
)


def _match(match: Match) -> Object:
    headers = [_exact(name, value) for name, value in match.headers]
    if match.method:
        headers.append(_exact(":method", match.method))
    result: Object
    if match.kind is PathKind.EXACT:
        result = {"path": match.path}
    elif match.path == "/":
        result = {"prefix": "/"}
    else:
        result = {"path_separated_prefix": match.path}
    if headers:
        result["headers"] = headers
    if match.query:
        result["query_parameters"] = [_exact(name, value) for name, value in match.query]
    return result


def _exact(name: str, value: str) -> Object:
    return {"name": name, "string_match": {"exact": value}}


def _rewrite(rewrite: Rewrite, path: str) -> Object:
    """The rewrite as a substitution on the path without its query."""
    replacement = rewrite.path.rstrip("/").replace("\\", "\\\\")
    prefix = "" if path == "/" else re.escape(path)
    if rewrite.kind is RewriteKind.FULL:
        return {"pattern": {"regex": "^.*$"}, "substitution": rewrite.path.replace("\\", "\\\\")}
    if replacement:
        return {"pattern": {"regex": f"^{prefix}(.*)$"}, "substitution": f"{replacement}\\1"}
    return {"pattern": {"regex": f"^{prefix}/?(.*)$"}, "substitution": "/\\1"}


def _edits(edit: HeaderEdit | None) -> tuple[list[Object], list[str]]:
    if edit is None:
        return [], []
    add = [_header(name, value.replace("%", "%%"), replace=True) for name, value in edit.set]
    add += [_header(name, value.replace("%", "%%"), replace=False) for name, value in edit.add]
    return add, list(edit.remove)


def _header(name: str, value: str, *, replace: bool) -> Object:
    action = "OVERWRITE_IF_EXISTS_OR_ADD" if replace else "APPEND_IF_EXISTS_OR_ADD"
    return {"header": {"key": name, "value": value}, "append_action": action}


def _seconds(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"
