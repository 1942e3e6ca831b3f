"""What every verb works with: the server's parts, and one request resolved to a kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import refusals
from modelplane.server.conversions import from_stored
from modelplane.server.objects import decode, encode
from modelplane.server.request import JSON, YAML, Media, Request
from modelplane.server.resource import ResourceType
from modelplane.server.store import Entry, Key, Store

if TYPE_CHECKING:
    from modelplane.server.admission import Admission
    from modelplane.server.authn import Authenticator
    from modelplane.server.authz import Authorizer
    from modelplane.server.registry import Registry


@dataclass(slots=True)
class Backend:
    """The parts of one API server."""

    store: Store
    registry: Registry
    authenticator: Authenticator
    authorizer: Authorizer
    admission: Admission
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one write of a kind whose writes wait for each other."""
    closing: set[str] = field(default_factory=set)
    """Namespaces whose deletion is on its way to the disk: nothing new may come in behind it."""
    stopping: bool = False


@dataclass(slots=True)
class Answer:
    """A whole answer in memory."""

    code: int
    body: bytes
    type: str = JSON
    """Its content type; empty for an answer without content."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """Where the chunks of a stream go."""

    @property
    def full(self) -> bool:
        """Whether the client is behind with reading; what is written now waits in memory."""

    def write(self, chunk: bytes) -> None: ...

    async def ready(self) -> None:
        """Return when it is not full."""


@dataclass(slots=True)
class Stream:
    """An answer that is written as it happens. ``run`` ends with it, and is cancelled when the client leaves."""

    run: Callable[[Sink], Awaitable[None]]
    type: str = JSON
    code: int = 200


@dataclass(slots=True)
class Call:
    """One request for one kind. ``namespace`` and ``name`` come from the URL."""

    backend: Backend
    type: ResourceType
    request: Request
    media: Media
    namespace: str
    name: str
    subresource: str = ""
    sound: bool = False
    """Whether the schema had nothing against the body as it was sent."""

    @property
    def key(self) -> Key:
        return self.key_of(self.name)

    def key_of(self, name: str) -> Key:
        return Key(storage(self.type), self.namespace, name)

    def entry(self) -> Entry:
        """The stored object that the URL names. Raises a 404."""
        entry = self.backend.store.get(self.key)
        if entry is None:
            raise self.not_found()
        return entry

    def not_found(self) -> Refusal:
        return refusals.not_found(self.type.plural, self.type.gvk.group, self.name)

    def conflict(self, name: str, why: str = refusals.MODIFIED) -> Refusal:
        return refusals.conflict(self.type.plural, self.type.gvk.group, name, why)

    def forbidden(self, name: str, why: str, causes: list[Object] | None = None) -> Refusal:
        return refusals.forbidden(self.type.plural, self.type.gvk.group, name, why, causes or ())

    def invalid(self, name: str, path: str, body: str, reason: str = "FieldValueInvalid") -> Refusal:
        return refusals.invalid_field(self.type.gvk.kind, self.type.gvk.group, name, path, body, reason)


_SHARED: Final = {"events.events.k8s.io": "events"}
"""Kinds that are two views of one stored object."""


def storage(type_: ResourceType) -> str:
    """The store's resource of a kind: the same for all its versions."""
    return _SHARED.get(type_.group_resource, type_.group_resource)


def view(type_: ResourceType, entry: Entry) -> Object:
    """A fresh copy of a stored object, in the version that was asked for."""
    return as_version(type_, decode(entry.body))


def as_version(type_: ResourceType, obj: Object) -> Object:
    return obj if type_.storage_version else from_stored(type_.gvk, obj)


def view_bytes(type_: ResourceType, entry: Entry) -> bytes:
    """The same as JSON; the stored bytes themselves where they are in the right version."""
    return entry.body if type_.storage_version else encode(view(type_, entry))


def answer(media: Media, obj: Object, code: int = 200) -> Answer:
    return rendered(media, encode(obj), code)


def rendered(media: Media, body: bytes, code: int = 200) -> Answer:
    """JSON as the client wants it."""
    if media.type == YAML:
        import yaml

        return Answer(code, yaml.safe_dump(decode(body), sort_keys=True).encode(), YAML)
    return Answer(code, body)
