"""What a request asks for, before anything is looked up: its place in the API, its parameters, its media types.

The URL alone decides the verb that authorization judges (``list`` against ``get``, ``deletecollection`` against
``delete``), exactly as a real API server derives it, so that RBAC rules mean the same here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from modelplane.server import refusals

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MAX_BODY: Final = 3 << 20
NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as authentication found out."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


class Target(msgspec.Struct, frozen=True, cache_hash=True):
    """The place in the API that a path names. ``resource`` is empty for everything that is not a resource path."""

    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    named: bool = False
    """Whether the path has the name, as opposed to a field selector that pins one."""
    tail: tuple[str, ...] = ()
    """Segments after the subresource, such as a proxied path; no endpoint here takes any."""


class Media(msgspec.Struct, frozen=True):
    """How the answer should look: plain JSON or YAML, and ``as_`` Table or PartialObjectMetadata(List) if asked."""

    type: str = JSON
    as_: str = ""
    version: str = ""

    @property
    def table(self) -> bool:
        return self.as_ == "Table"

    @property
    def partial(self) -> bool:
        return self.as_ in ("PartialObjectMetadata", "PartialObjectMetadataList")


_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class Query:
    """Query parameters with Kubernetes' reading of booleans and numbers."""

    def __init__(self, raw: str) -> None:
        self._values = _parsed(raw) if raw else {}

    def get(self, name: str) -> str:
        values = self._values.get(name)
        return values[0] if values else ""

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def flag(self, name: str) -> bool:
        values = self._values.get(name)
        return values is not None and values[0].lower() not in ("false", "0")

    def has(self, name: str) -> bool:
        return name in self._values

    def number(self, name: str) -> int | None:
        """None when it is not asked for. Raises a 400 for something that is not a number of 64 bits."""
        if not self.has(name):
            return None
        text = self.get(name)
        if not _NUMBER.fullmatch(text):
            raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if not -(1 << 63) <= int(text) < 1 << 63:
            raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)


@lru_cache(maxsize=256)
def _parsed(raw: str) -> Mapping[str, list[str]]:
    """Most clients ask with few sets of parameters."""
    return parse_qs(raw, keep_blank_values=True)


@dataclass(slots=True)
class Request:
    """One request with its body read. ``warnings`` collects what the answer's Warning headers say."""

    method: str
    target: Target
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User = ANONYMOUS
    warnings: list[str] = field(default_factory=list)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def dry_run(self) -> bool:
        values = self.query.all("dryRun")
        for value in values:
            if value != "All":
                body = f'Unsupported value: ["{value}"]: supported values: "All"'
                raise refusals.invalid_field(
                    _OPTIONS.get(self.method, "CreateOptions"),
                    "meta.k8s.io",
                    "",
                    "dryRun",
                    body,
                    "FieldValueNotSupported",
                )
        return bool(values)


_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}


def locate(method: str, path: str, query: Query) -> Target:
    """Read a path the way a real API server does; percent-encoded segments are decoded after the split."""
    return _located(method, path, query.flag("watch"), query.get("fieldSelector"))


@lru_cache(maxsize=256)
def _located(method: str, path: str, watch: bool, field_selector: str) -> Target:
    """Collections are written to and listed again and again, and so are the objects that somebody keeps up to date."""
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    plain = Target(path=path, verb=method.lower())
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return plain
    old_watch = rest[0] == "watch" and len(rest) > 1
    if old_watch:  # /api/v1/watch/...: how the first clients asked
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 2 and not (group == "" and _namespace_itself(rest)):
        namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and group == "" and len(rest) >= 2:
        namespace = rest[1]
    verb = _VERBS.get(method, method.lower())
    name = rest[1] if len(rest) > 1 else ""
    if not name:
        if verb == "get":
            verb = "watch" if watch else "list"
            name = _single(field_selector)
        elif verb == "delete":
            verb = "deletecollection"
    if old_watch:
        verb = "watch"
    return Target(
        path=path,
        verb=verb,
        group=group,
        version=version,
        resource=rest[0],
        namespace=namespace,
        name=name,
        subresource=rest[2] if len(rest) > 2 else "",
        named=len(rest) > 1,
        tail=tuple(rest[3:]),
    )


def _namespace_itself(rest: list[str]) -> bool:
    """Whether the path is about a Namespace object and not about something in it."""
    return len(rest) == 2 or (len(rest) == 3 and rest[2] in NAMESPACE_SUBRESOURCES)


def _single(selector: str) -> str:
    """The name in a field selector that pins metadata.name: authorization may then match resourceNames."""
    for term in selector.split(","):
        field_name, equals, value = term.partition("=")
        if equals and field_name.strip() == "metadata.name" and not value.startswith("="):
            return value.strip()
    return ""


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Media:
    """The first form in an Accept header that we can answer. Raises a 406 when there is none."""
    if not accept:
        return Media()
    for option in accept.split(","):
        kind, _, rest = option.strip().partition(";")
        kind = kind.strip().lower()
        if kind in ("*/*", "application/*"):
            kind = JSON
        if kind not in (JSON, YAML):
            continue
        parameters: dict[str, str] = {}
        for parameter in rest.split(";"):
            key, _, value = parameter.strip().partition("=")
            if key:
                parameters[key] = value
        as_ = parameters.get("as", "")
        if not as_:
            return Media(kind)
        known = as_ in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        if known and parameters.get("g") == "meta.k8s.io" and parameters.get("v") in ("v1", "v1beta1"):
            return Media(kind, as_, parameters["v"])
    raise refusals.not_acceptable([JSON, YAML])
