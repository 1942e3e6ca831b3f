"""An HTTPRoute's rules in our own terms, or what keeps the route out.

Every field is either understood or named: a field that this gateway does not implement makes the route not accepted,
with its path, because a route that quietly ignores half of its author's wishes is worse than one that says no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final

import msgspec

from modelplane.api.labels import IDLE_TIMEOUT
from modelplane.api.meta import Key, Object
from modelplane.gateway.backends import Resolved, Unresolved
from modelplane.gateway.model import Backend, HeaderEdit, Match, PathKind, Rewrite, RewriteKind, Route, Rule

Resolve = Callable[[Mapping[str, object], str], Resolved | Unresolved]

_DURATION: Final = re.compile(r"(?:\d{1,5}(?:h|m|s|ms)){1,4}")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_ATTACHMENT: Final = frozenset({"parentRefs", "hostnames", "rules"})
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")


class Refused(msgspec.Struct, frozen=True):
    """The first field that keeps a route out."""

    reason: str
    message: str


class Read(msgspec.Struct, frozen=True):
    """A route as far as it can be read. Unresolved references keep their share out; the rest serves."""

    route: Route | None
    refused: Refused | None = None
    unresolved: tuple[Unresolved, ...] = ()


class _Unsupported(Exception):
    """Carries a field's path and what is wrong with it to the one place that makes a condition of it."""


def read(obj: Object, resolve: Resolve) -> Read:
    """Reads an HTTPRoute; `resolve` finds the endpoints of a reference."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    unresolved: list[Unresolved] = []
    try:
        _only(spec, _ATTACHMENT, "spec")
        idle = _idle(metadata)
        rules = tuple(
            msgspec.structs.replace(
                _rule(rule, index, f"{namespace}/{name}", namespace, resolve, unresolved), idle=idle
            )
            for index, rule in enumerate(spec.get("rules") or [{}])
        )
    except _Unsupported as problem:
        return Read(
            None, Refused("UnsupportedValue", f"{problem}. The route carries no traffic until this is changed.")
        )
    route = Route(
        namespace=namespace,
        name=name,
        created=metadata.get("creationTimestamp") or "",
        hostnames=tuple(host.lower() for host in spec.get("hostnames") or ()),
        rules=rules,
    )
    return Read(route, None, tuple(dict.fromkeys(unresolved)))


class Reader:
    """Reads routes again and again: one that is the same object and whose references lead where they led is not read
    anew. That makes a pass over thousands of routes cheap when one endpoint changes."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Object, list[tuple[Mapping[str, object], Resolved | Unresolved]], Read]] = {}

    def read(self, obj: Object, resolve: Resolve) -> Read:
        key = Key.of(obj)
        known = self._known.get(key)
        if (
            known is not None
            and known[0] is obj
            and all(resolve(ref, key.namespace) == found for ref, found in known[1])
        ):
            return known[2]
        seen: list[tuple[Mapping[str, object], Resolved | Unresolved]] = []

        def resolving(ref: Mapping[str, object], namespace: str) -> Resolved | Unresolved:
            found = resolve(ref, namespace)
            seen.append((ref, found))
            return found

        result = read(obj, resolving)
        self._known[key] = (obj, seen, result)
        return result

    def keep(self, keys: Set[Key]) -> None:
        """Forget the routes that are gone."""
        for key in self._known.keys() - keys:
            del self._known[key]


def duration(text: str) -> float | None:
    """Seconds of a Gateway API duration; None for zero, which means no limit."""
    if not _DURATION.fullmatch(text):
        raise ValueError(text)
    parts: list[tuple[str, str]] = re.findall(r"(\d+)(ms|h|m|s)", text)
    return sum(int(number) * _UNITS[unit] for number, unit in parts) or None


def _only(value: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for field in value:
        if field not in known:
            raise _Unsupported(f"{where}.{field} is not supported by this gateway")


def _rule(rule: Object, index: int, route: str, namespace: str, resolve: Resolve, unresolved: list[Unresolved]) -> Rule:
    where = f"spec.rules[{index}]"
    _only(rule, frozenset({"name", "matches", "filters", "backendRefs", "timeouts"}), where)
    matches = tuple(
        _match(match, f"{where}.matches[{number}]") for number, match in enumerate(rule.get("matches") or [{}])
    )
    rewrite, request, response = _filters(rule.get("filters") or (), f"{where}.filters")
    backends: list[Backend] = []
    prefix = rewrite is not None and rewrite.kind is RewriteKind.PREFIX
    for number, ref in enumerate(rule.get("backendRefs") or ()):
        at = f"{where}.backendRefs[{number}]"
        _only(ref, frozenset({"group", "kind", "name", "namespace", "port", "weight", "filters"}), at)
        own, edits, answers = _filters(ref.get("filters") or (), f"{at}.filters")
        if edits or answers:
            raise _Unsupported(f"{at}.filters: header modifiers belong in {where}.filters, for all backends alike")
        if own and rewrite:
            raise _Unsupported(f"{at}.filters: URLRewrite is in {where}.filters already; keep one of the two")
        prefix = prefix or (own is not None and own.kind is RewriteKind.PREFIX)
        found = resolve(ref, namespace)
        if isinstance(found, Unresolved):
            unresolved.append(found)
            continue
        backends.append(
            Backend(
                name=str(ref["name"]),
                weight=1 if ref.get("weight") is None else ref["weight"],
                endpoints=found.endpoints,
                balance=found.balance,
                rewrite=own,
                health=found.health,
                tls=found.tls,
            )
        )
    if prefix and any(match.kind is not PathKind.PREFIX for match in matches):
        raise _Unsupported(f"{where}: ReplacePrefixMatch needs a path match of type PathPrefix")
    timeouts = rule.get("timeouts") or {}
    _only(timeouts, frozenset({"request", "backendRequest"}), f"{where}.timeouts")
    return Rule(
        name=f"{route}/{index}",
        matches=matches,
        backends=tuple(backends),
        rewrite=rewrite,
        request_headers=request,
        response_headers=response,
        timeout=_timeout(timeouts, "request", where),
        backend_timeout=_timeout(timeouts, "backendRequest", where),
    )


def _idle(metadata: Mapping[str, Any]) -> float | None:
    """The silence that the route's annotation allows."""
    text = (metadata.get("annotations") or {}).get(IDLE_TIMEOUT)
    try:
        return duration(text) if text else None
    except ValueError:
        where = f"metadata.annotations[{IDLE_TIMEOUT}]"
        raise _Unsupported(f"{where}: {text!r} is not a duration such as 60s") from None


def _timeout(timeouts: Mapping[str, Any], name: str, where: str) -> float | None:
    try:
        return duration(timeouts[name]) if timeouts.get(name) else None
    except ValueError:
        raise _Unsupported(f"{where}.timeouts.{name}: {timeouts[name]!r} is not a duration such as 90s") from None


def _match(match: Object, where: str) -> Match:
    _only(match, frozenset({"path", "headers", "queryParams", "method"}), where)
    path = match.get("path") or {}
    kind, value = path.get("type") or PathKind.PREFIX, path.get("value") or "/"
    if kind not in (PathKind.EXACT, PathKind.PREFIX):
        raise _Unsupported(f"{where}.path.type: {kind} is not supported by this gateway; use PathPrefix or Exact")
    if not value.startswith("/") or "?" in value or "#" in value:
        raise _Unsupported(f"{where}.path.value: {value!r} must start with / and have no ? or #")
    if kind == PathKind.PREFIX and value != "/":
        value = value.rstrip("/") or "/"
    return Match(
        path=value,
        kind=PathKind(kind),
        method=match.get("method") or "",
        headers=tuple((_name(name, where), text) for name, text in _pairs(match.get("headers"), f"{where}.headers")),
        query=tuple(_pairs(match.get("queryParams"), f"{where}.queryParams")),
    )


def _pairs(entries: list[Object] | None, where: str) -> Iterator[tuple[str, str]]:
    for number, entry in enumerate(entries or ()):
        if (entry.get("type") or "Exact") != "Exact":
            raise _Unsupported(f"{where}[{number}].type: {entry['type']} is not supported by this gateway; use Exact")
        if _CONTROL.search(entry["name"] + entry["value"]):
            raise _Unsupported(f"{where}[{number}] has a control character")
        yield entry["name"], entry["value"]


def _filters(filters: Any, where: str) -> tuple[Rewrite | None, HeaderEdit | None, HeaderEdit | None]:
    rewrite = request = response = None
    for number, entry in enumerate(filters):
        at, type_ = f"{where}[{number}]", entry.get("type")
        if type_ == "URLRewrite":
            rewrite = _rewrite(entry.get("urlRewrite") or {}, f"{at}.urlRewrite")
        elif type_ == "RequestHeaderModifier":
            request = _edit(entry.get("requestHeaderModifier") or {}, f"{at}.requestHeaderModifier")
        elif type_ == "ResponseHeaderModifier":
            response = _edit(entry.get("responseHeaderModifier") or {}, f"{at}.responseHeaderModifier")
        else:
            raise _Unsupported(
                f"{at}.type: {type_} is not supported by this gateway; it knows URLRewrite, RequestHeaderModifier "
                "and ResponseHeaderModifier"
            )
    return rewrite, request, response


def _rewrite(value: Object, where: str) -> Rewrite:
    _only(value, frozenset({"hostname", "path"}), where)
    path = value.get("path") or {}
    kind = path.get("type")
    if kind is None:
        return Rewrite(hostname=value.get("hostname") or "")
    if kind not in (RewriteKind.PREFIX, RewriteKind.FULL):
        raise _Unsupported(f"{where}.path.type: {kind} is not supported by this gateway")
    text = path.get("replacePrefixMatch" if kind == RewriteKind.PREFIX else "replaceFullPath") or "/"
    if not text.startswith("/") or "?" in text or "#" in text:
        raise _Unsupported(f"{where}.path: {text!r} must start with / and have no ? or #")
    return Rewrite(value.get("hostname") or "", RewriteKind(kind), text)


def _edit(value: Object, where: str) -> HeaderEdit:
    _only(value, frozenset({"set", "add", "remove"}), where)
    edit = HeaderEdit(
        set=tuple((entry["name"].lower(), entry["value"]) for entry in value.get("set") or ()),
        add=tuple((entry["name"].lower(), entry["value"]) for entry in value.get("add") or ()),
        remove=tuple(name.lower() for name in value.get("remove") or ()),
    )
    for name in (*dict(edit.set), *dict(edit.add), *edit.remove):
        if _name(name, where) == "host":
            raise _Unsupported(f"{where}: header 'host' may not be changed; a host name is changed by URLRewrite")
    for _, text in (*edit.set, *edit.add):
        if _CONTROL.search(text):
            raise _Unsupported(f"{where}: header value {text!r} has a control character")
    return edit


def _name(name: str, where: str) -> str:
    """A header's name; Envoy refuses all routes of a listener for one name that is none."""
    if not _TOKEN.fullmatch(name):
        raise _Unsupported(f"{where}: {name!r} is no header name")
    return name.lower()
