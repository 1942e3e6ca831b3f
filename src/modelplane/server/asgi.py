"""HTTP in and out: a bare ASGI application that reads a request, finds the user, and writes what the router answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from modelplane.errors import BadBody, ModelplaneError, Refusal
from modelplane.server import refusals
from modelplane.server.call import Answer, Backend, Stream
from modelplane.server.impersonation import impersonated
from modelplane.server.request import MAX_BODY, Media, Query, Request, locate
from modelplane.server.router import Router, refused

LOG: Final = logging.getLogger(__name__)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Application:
    """The ASGI callable."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._router = Router(backend)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            return
        listed = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = dict(listed)
        query = Query(scope["query_string"].decode("latin-1"))
        path = scope.get("raw_path", b"").decode("latin-1") or scope["path"]
        method: str = scope["method"]
        request = Request(method, locate(method, path, query), query, headers, b"")
        found = await self._answer(
            request, receive, listed if any(name.startswith("impersonate-") for name in headers) else ()
        )
        if isinstance(found, Stream):
            await self._stream(found, request, receive, send)
        else:
            await _send_whole(found, request, send, head=method == "HEAD")

    async def _answer(self, request: Request, receive: Receive, headers: Sequence[tuple[str, str]]) -> Answer | Stream:
        try:
            request.user = self._backend.authenticator.user(request.headers.get("authorization", ""))
            if headers:
                request.user = impersonated(request.user, headers, self._backend.authorizer)
            if request.method not in ("GET", "HEAD"):
                request.body = await _read(receive)
            return await self._router.answer(request)
        except Refusal as refusal:
            return refused(Media(), refusal)
        except BadBody as error:
            return refused(Media(), refusals.bad_request(str(error)))
        except ModelplaneError as error:
            return refused(Media(), refusals.internal(str(error)))
        except Exception as error:
            LOG.exception("%s %s failed", request.method, request.target.path)
            return refused(Media(), refusals.internal(f"{type(error).__name__}: {error}"))

    async def _stream(self, stream: Stream, request: Request, receive: Receive, send: Send) -> None:
        headers = _headers(request, stream.type)
        await send({"type": "http.response.start", "status": stream.code, "headers": headers})
        sending = asyncio.create_task(_send_chunks(stream.chunks, send))
        leaving = asyncio.create_task(_wait_for_leave(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        with contextlib.suppress(Exception):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_chunks(chunks: AsyncIterator[bytes], send: Send) -> None:
    async with contextlib.aclosing(chunks) as closing:  # type: ignore[type-var]
        async for chunk in closing:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _wait_for_leave(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive) -> bytes:
    """The whole body. Raises a 413 when it is larger than any object may be."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise refusals.too_large()
    return b"".join(parts)


def _headers(request: Request, type_: str, *, cached: bool = False) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", type_.encode()),
        *(() if cached else ((b"cache-control", b"no-cache, private"),)),
        (b"audit-id", str(uuid.uuid4()).encode()),
    ]
    for text in request.warnings:
        headers.append((b"warning", b'299 - "' + _quotable(text) + b'"'))
    return headers


def _quotable(text: str) -> bytes:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return plain.encode("ascii", "backslashreplace")


async def _send_whole(found: Answer, request: Request, send: Send, *, head: bool) -> None:
    headers = _headers(request, found.type, cached="Cache-Control" in found.headers)
    headers += [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
    headers.append((b"content-length", str(len(found.body)).encode()))
    await send({"type": "http.response.start", "status": found.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else found.body})
