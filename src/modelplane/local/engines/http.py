"""HTTP/1.1 for the mock engine, on asyncio's bare protocol: enough of it, strictly read, and little memory.

Requests of one connection are answered one after another; a body is read whole, an answer may be streamed. Anything
malformed is answered 400 and the connection closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 64 * 1024 * 1024
NONE: Final[Mapping[str, str]] = {}
REASONS: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
    413: "Content Too Large", 429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class Malformed(Exception):
    """The peer does not speak HTTP/1.1 as we understand it."""


class Request:
    """One request, its body read."""

    __slots__ = ("body", "headers", "method", "path", "query")

    def __init__(self, method: str, target: str, headers: dict[str, str]) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.body = b""

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class Exchange:
    """The answer's side of one request."""

    __slots__ = ("_connection", "_head_only", "request", "started")

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._head_only = request.method == "HEAD"
        self.request = request
        self.started = False

    def send(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] = NONE) -> None:
        self._head(status, content_type, headers, f"content-length: {len(body)}\r\n", b"" if self._head_only else body)

    def start_stream(self, content_type: str, headers: Mapping[str, str] = NONE) -> None:
        self._head(200, content_type, headers, "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n", b"")

    def write(self, data: bytes) -> None:
        self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self._connection.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Drop the connection in the middle, as a crashed server would."""
        self._connection.abort()

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._connection.closed

    def _head(self, status: int, content_type: str, headers: Mapping[str, str], framing: str, body: bytes) -> None:
        self.started = True
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if self._connection.closing or not self.request.keeps_alive:
            self._connection.closing = True
            extra += "connection: close\r\n"
        reason = REASONS.get(status, "Unknown")
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\n{extra}{framing}\r\n"
        self._connection.write(head.encode("latin-1") + body)


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client connection. `closing` set: the next answer says so and is the last."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._request: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self.closing = False
        self.closed = False

    @property
    def idle(self) -> bool:
        return self._task is None and not self._buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._open.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def eof_received(self) -> bool:
        self._ended = True
        return self._task is not None

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        if self._task is not None or self.closed:
            return
        try:
            request = self._parse()
        except Malformed as error:
            self.closing = True
            Exchange(self, Request("GET", "/", {})).send(400, f"{error}\n".encode(), "text/plain")
            self.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        exchange = Exchange(self, request)
        try:
            await self._handler(exchange)
        except asyncio.CancelledError:
            return
        except Exception as error:
            if exchange.started:
                self.abort()
            else:
                exchange.send(500, f"mock engine failed: {error!r}\n".encode(), "text/plain")
            raise
        finally:
            self._task = None
            if self.closing or (self._ended and not self._buffer):
                self.close()
            else:
                self._next()

    def _parse(self) -> Request | None:
        if self._request is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise Malformed("the request's head is larger than 64 KiB")
                return None
            self._request = _head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if self._request.headers.get("expect", "").lower() == "100-continue":
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = self._request
        if "chunked" in request.headers.get("transfer-encoding", "").lower():
            body = _chunks(self._buffer)
            if body is None:
                return None
            request.body = body
        else:
            length = _length(request.headers.get("content-length", "0"))
            if len(self._buffer) < length:
                return None
            request.body = bytes(self._buffer[:length])
            del self._buffer[:length]
        self._request = None
        return request


def _head(data: bytes) -> Request:
    lines = data.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Malformed("the request line is not `METHOD target HTTP/1.1`")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"a header line has no colon: {line[:60]!r}")
        headers[name.strip().lower()] = value.strip()
    return Request(words[0], words[1], headers)


def _length(text: str) -> int:
    if not text.isdigit() or int(text) > MAX_BODY:
        raise Malformed("content-length is not a number up to 64 MiB")
    return int(text)


def _chunks(buffer: bytearray) -> bytes | None:
    """The body of a chunked message, taken off the buffer; None while it is incomplete."""
    parts: list[bytes] = []
    at = 0
    total = 0
    while True:
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        try:
            size = int(bytes(buffer[at:line]).split(b";")[0], 16)
        except ValueError:
            raise Malformed("a chunk's size is not hexadecimal") from None
        total += size
        if size < 0 or total > MAX_BODY:
            raise Malformed("the body is larger than 64 MiB")
        if len(buffer) < line + 2 + size + 2:
            return None
        if size == 0:
            end = buffer.find(b"\r\n", line + 2)
            del buffer[: end + 2]
            return b"".join(parts)
        parts.append(bytes(buffer[line + 2 : line + 2 + size]))
        at = line + 2 + size + 2
