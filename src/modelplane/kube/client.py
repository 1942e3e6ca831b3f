"""A Kubernetes API over HTTP: plain dictionaries in, plain dictionaries out, failures as exceptions.

Thin on purpose: no models, no retries of its own (a reconciler retries whole passes), one connection pool. It knows when it last
heard from the server, which is what tells a quiet server from a hung one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

import aiohttp
import msgspec
import orjson
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from yarl import URL

from modelplane import __version__
from modelplane.api.meta import GVK, Object, Resource
from modelplane.errors import ApiError, Gone, ModelplaneError, NotFound, Unauthorized, Unreachable
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.kube.resources import KNOWN
from modelplane.kube.status import error_of, error_of_event
from modelplane.kube.unserved import sentence, unserved

Kind: TypeAlias = Resource | GVK
Selector: TypeAlias = str | Mapping[str, str] | None
Param: TypeAlias = str | int | bool | None
Observe: TypeAlias = Callable[[str, int], None]
"""Told of every request: the HTTP method or WATCH, and the status code, 0 for no answer."""
Guard: TypeAlias = Callable[[], None]
"""Asked before a write goes out; what it raises is what the caller gets, and nothing is sent."""

PAGE: Final = 500
PING_TIMEOUT: Final = 4.0
REQUEST_TIMEOUT: Final = 30.0
TOKEN_REREAD: Final = 30.0


class PatchType(StrEnum):
    """The media types of PATCH."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ObjectList(msgspec.Struct, frozen=True):
    """A list answer; items carry apiVersion and kind even where the server left them out."""

    items: Sequence[Object]
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR is raised instead."""

    type: str
    object: Object


class Client:
    """One identity at one API server. An asynchronous context manager; usable from one event loop."""

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        *,
        user_agent: str = "",
        field_manager: str = "modelplane",
        timeout: float = REQUEST_TIMEOUT,
        observe: Observe = lambda verb, code: None,
        guard: Guard = lambda: None,
    ) -> None:
        self.kubeconfig = kubeconfig
        self.field_manager = field_manager
        self.last_contact = 0.0
        """`time.monotonic()` when the server last answered anything at all, 0 for never."""
        self.watch_list_offered = True
        self._agent = user_agent or f"modelplane/{__version__}"
        self._timeout = timeout
        self._observe = observe
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None
        self._resources: dict[GVK, Resource] = {}
        self._ping: asyncio.Task[None] | None = None
        self._token = kubeconfig.token
        self._token_read = 0.0

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = self.kubeconfig.ssl_context()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context if context else True, limit=0, keepalive_timeout=30),
                headers={"User-Agent": self._agent, "Accept": "application/json"},
                auto_decompress=True,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                request_class=_guarded(self._guard),
            )
        return self._session

    async def close(self) -> None:
        """End every connection, watches included."""
        if self._ping is not None:
            self._ping.cancel()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # --- objects ---------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        resource = await self.resource_for(kind)
        return await self.request("GET", resource.path(namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Selector = None, fields: Selector = None
    ) -> ObjectList:
        """All matching objects at one resource version, in pages."""
        resource = await self.resource_for(kind)
        path = resource.path(namespace)
        params: dict[str, Param] = {"labelSelector": selector(labels), "fieldSelector": selector(fields), "limit": PAGE}
        items: list[Object] = []
        while True:
            try:
                page = await self.request("GET", path, params=params)
            except Gone:
                if "continue" not in params:
                    raise
                items.clear()
                params = {key: value for key, value in params.items() if key not in ("continue", "limit")}
                continue
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.gvk.api_version)
                item.setdefault("kind", resource.gvk.kind)
                items.append(item)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return ObjectList(items, str(metadata.get("resourceVersion") or ""))
            params["continue"] = metadata["continue"]

    async def create(self, obj: Object, *, field_manager: str | None = None) -> Object:
        resource = await self.resource_for(GVK.of(obj))
        path = resource.path(obj["metadata"].get("namespace"))
        return await self.request("POST", path, body=obj, params={"fieldManager": field_manager or self.field_manager})

    async def replace(self, obj: Object, subresource: str | None = None, *, field_manager: str | None = None) -> Object:
        """PUT; with a resourceVersion in the object a concurrent write is a Conflict."""
        path = await self._path(obj, subresource)
        return await self.request("PUT", path, body=obj, params={"fieldManager": field_manager or self.field_manager})

    async def apply(
        self, obj: Object, field_manager: str | None = None, force: bool = True, subresource: str | None = None
    ) -> Object:
        """Server-side apply: these fields are ours; creates the object when it is not there."""
        params: dict[str, Param] = {"fieldManager": field_manager or self.field_manager, "force": force}
        path = await self._path(obj, subresource)
        return await self.request(
            "PATCH", path, body=obj, params=params, headers={"Content-Type": PatchType.APPLY.value}
        )

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        patch: Object | Sequence[Object],
        patch_type: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        *,
        field_manager: str | None = None,
    ) -> Object:
        resource = await self.resource_for(kind)
        return await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=patch,
            params={"fieldManager": field_manager or self.field_manager},
            headers={"Content-Type": patch_type.value},
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period: int | None = None,
    ) -> Object:
        """Delete by name; with ``uid`` or ``resource_version`` only that very object (Conflict otherwise). Raises NotFound."""
        resource = await self.resource_for(kind)
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        return await self.request("DELETE", resource.path(namespace, name), body=options)

    async def _path(self, obj: Object, subresource: str | None) -> str:
        resource = await self.resource_for(GVK.of(obj))
        return resource.path(obj["metadata"].get("namespace"), obj["metadata"]["name"], subresource)

    async def resource_for(self, kind: Kind) -> Resource:
        """How a kind is spelled in a URL: from the table, else by discovery (cached). NotFound when the server lacks it."""
        if isinstance(kind, Resource):
            return kind
        found = KNOWN.get(kind) or self._resources.get(kind)
        if found is not None:
            return found
        prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            served = await self.request("GET", prefix)
        except NotFound as error:
            raise NotFound(sentence(self.kubeconfig.server, kind), code=404) from error
        for entry in served.get("resources") or ():
            if "/" not in entry["name"]:
                gvk = GVK(kind.group, kind.version, entry["kind"])
                self._resources[gvk] = Resource(gvk, entry["name"], bool(entry["namespaced"]))
        if kind not in self._resources:
            raise NotFound(sentence(self.kubeconfig.server, kind), code=404)
        return self._resources[kind]

    # --- the wire --------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        body: Object | Sequence[Object] | None = None,
        params: Mapping[str, Param] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        within: float | None = None,
    ) -> Object:
        """One exchange; JSON both ways. Raises a subclass of `ApiError`; no answer within ``within`` s is Unreachable."""
        payload = await self._exchange(method, path, body, params, headers, within)
        try:
            value: Object = orjson.loads(payload) if payload else {}
        except orjson.JSONDecodeError as error:
            raise ApiError(f"the answer is no JSON ({method} {self.kubeconfig.server}{path})", code=200) from error
        return value

    async def ready(self) -> None:
        """Return when the server says that it is ready (`/readyz`, which answers in plain text). Raises as `request` does."""
        await self._exchange("GET", "/readyz", None, None, None, 5.0)

    async def _exchange(
        self,
        method: str,
        path: str,
        body: Object | Sequence[Object] | None,
        params: Mapping[str, Param] | None,
        headers: Mapping[str, str] | None,
        within: float | None,
    ) -> bytes:
        where = f"{method} {self.kubeconfig.server}{path}"
        data = None if body is None else orjson.dumps(body)
        content = {"Content-Type": "application/json"} if data is not None else {}
        limit = within or self._timeout
        try:
            async with self._open().request(
                method,
                self._url(path, params),
                data=data,
                headers={**content, **self._authorization(), **(headers or {})},
                timeout=aiohttp.ClientTimeout(total=limit, sock_connect=min(limit, 5)),
                server_hostname=self.kubeconfig.server_name or None,
                allow_redirects=False,
            ) as response:
                payload = await response.read()
                self.last_contact = time.monotonic()
                self._observe(method, response.status)
                if response.status >= 300:
                    error = error_of(
                        response.status, payload, where=where, retry_after=response.headers.get("Retry-After")
                    )
                    raise self._meant(error, path)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._observe(method, 0)
            raise unreachable(error, where) from error
        return payload

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        params: Mapping[str, Param] | None = None,
        *,
        quiet: float = 2.0,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events until the server ends the stream; ``opened`` is called when it has begun. After ``quiet`` seconds without a byte
        the server is pinged, so a hung one is noticed within ``quiet`` + 4 s. Raises Gone for a version that is too old,
        Unreachable for a broken stream. Close it (`aclosing`) when you leave early."""
        path = resource.path(namespace)
        where = f"WATCH {self.kubeconfig.server}{path}"
        query: dict[str, Param] = {"watch": True, "allowWatchBookmarks": True, **(params or {})}
        buffer = bytearray()
        try:
            async with asyncio.timeout(quiet + PING_TIMEOUT):
                response = await self._open().get(
                    self._url(path, query),
                    headers=self._authorization(),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
                    server_hostname=self.kubeconfig.server_name or None,
                    allow_redirects=False,
                )
            async with response:
                self._observe("WATCH", response.status)
                if response.status >= 300:
                    raise self._meant(error_of(response.status, await response.read(), where=where), path)
                opened()
                while chunk := await self._chunk(response, quiet):
                    buffer += chunk
                    *lines, rest = buffer.split(b"\n")
                    buffer = bytearray(rest)
                    for line in filter(None, lines):
                        event = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise error_of_event(event["object"], where=where)
                        yield WatchEvent(event["type"], event["object"])
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError) as error:
            raise unreachable(error, where) from error

    def _meant(self, error: ApiError, path: str) -> ApiError:
        return unserved(error, self.kubeconfig.server, path, self._resources.values()) or error

    async def _chunk(self, response: aiohttp.ClientResponse, quiet: float) -> bytes:
        """The next bytes of a stream, however long that takes, as long as the server answers pings."""
        while True:
            try:
                async with asyncio.timeout(quiet):
                    chunk = await response.content.readany()
            except TimeoutError:
                await self.check(quiet)
                continue
            self.last_contact = time.monotonic()
            return chunk

    async def check(self, max_age: float = 0.0) -> None:
        """Raise Unreachable or Unauthorized unless the server answered within ``max_age`` s, or answers now. Callers that ask at
        the same time share one request."""
        if time.monotonic() - self.last_contact < max_age:
            return
        if self._ping is None or self._ping.done():
            self._ping = asyncio.ensure_future(self._knock())
        await asyncio.shield(self._ping)

    async def _knock(self) -> None:
        try:
            await self.request("GET", "/version", within=PING_TIMEOUT)
        except (Unreachable, Unauthorized):
            raise
        except ApiError:
            return

    def _url(self, path: str, params: Mapping[str, Param] | None) -> URL:
        query = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in (params or {}).items()
            if value is not None and value != ""
        }
        return URL(self.kubeconfig.server + path).update_query(query)

    def _authorization(self) -> Mapping[str, str]:
        file = self.kubeconfig.token_file
        if file and time.monotonic() - self._token_read > TOKEN_REREAD:
            try:
                self._token = Path(file).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Unauthorized(f"token file {file} cannot be read: {error.strerror}") from error
            self._token_read = time.monotonic()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _guarded(guard: Guard) -> type[aiohttp.ClientRequest]:
    """Requests that ask when their connection is there and nothing is sent yet: opening one may take any time. They ask again
    where the body goes out with the headers, which is in a task of its own."""

    class Guarded(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            if self.method != "GET":
                guard()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            try:
                guard()
            except ModelplaneError as error:
                # Whoever waits for the answer gets it, and the connection is not used again.
                if conn.protocol is not None:
                    conn.protocol.set_exception(error)
                return
            await super().write_bytes(writer, conn, content_length)

    return Guarded


def selector(value: Selector) -> str | None:
    """A label or field selector as the wire wants it."""
    if value is None or isinstance(value, str):
        return value
    return ",".join(f"{key}={wanted}" for key, wanted in sorted(value.items()))


def unreachable(error: Exception, where: str) -> Unreachable:
    """What a broken exchange means, in words for a person."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Unreachable(f"the server's certificate is not signed by the kubeconfig's authority ({where}): {error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unreachable(f"nothing answers ({where}): {error.os_error.strerror or error.os_error}")
    if isinstance(error, TimeoutError):
        return Unreachable(f"no answer in time ({where})")
    return Unreachable(f"the connection broke ({where}): {error or type(error).__name__}")
