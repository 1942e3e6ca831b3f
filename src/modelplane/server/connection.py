"""HTTP/1.1 in and out: one connection of a client, and all of them together.

Written for one purpose, so that a request costs little: llhttp reads, the connection's task answers, and head and body leave
in one write. A client sends the same header fields again and again: what llhttp made of a block of them is remembered by its
bytes. Requests of a connection are answered one after the other; what a client sends ahead waits. A body is read whole before
it is looked at, and kept only as far as any object may be long.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import logging
import re
import ssl
import time
from collections import deque
from email.utils import formatdate
from functools import lru_cache
from pathlib import Path
from socket import socket
from typing import Final, NamedTuple, cast

import httptools

from modelplane.server.application import Application
from modelplane.server.call import Answer, Stream
from modelplane.server.objects import new_uid
from modelplane.server.request import MAX_BODY

LOG: Final = logging.getLogger(__name__)
IDLE_SECONDS: Final = 120.0
GRACE_SECONDS: Final = 1.0
READ: Final = 1 << 16
"""So much is read at a time; a read of its own for each request would cost memory that comes and goes."""
LONG: Final = 1 << 16
"""From here on a copy of a body costs more than a write of its own."""
USUAL: Final = 1 << 13
"""A request up to this size is looked for among what is known."""
HEADS: Final = 512
"""So many blocks of header fields are remembered."""
_LINE: Final = re.compile(rb"(DELETE|GET|HEAD|PATCH|POST|PUT) (/[!\"$-~]*) HTTP/1\.1")
_SPECIAL: Final = frozenset({"expect", "transfer-encoding", "upgrade"})
"""Fields that say how to read on: a block with one of them is not remembered."""
_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_AUDIT: Final = new_uid()[:-12]
"""How the identities of this process' answers start; they end with their number."""
_numbers: Final = itertools.count(1)
_BROKEN: Final = b"Invalid HTTP request received."


class _Exchange:
    """One request while it is read."""

    __slots__ = ("body", "headers", "keep_alive", "method", "size", "url", "version")

    def __init__(self) -> None:
        self.method = ""
        self.url = b""
        self.version = ""
        self.keep_alive = True
        self.headers: list[tuple[str, str]] = []
        self.body: list[bytes] = []
        self.size = 0

    @classmethod
    def known(cls, line: re.Match[bytes], head: _Head, body: bytes) -> _Exchange:
        """A request whose header fields were read before."""
        made = cls()
        made.method, made.url = line[1].decode("latin-1"), line[2]
        made.version, made.headers = "1.1", head.headers
        if body:
            made.body.append(body)
            made.size = len(body)
        return made

    def ordinary(self, size: int) -> bool:
        """Whether nothing but its line and its body of this size tells this request from others with the same header fields."""
        return self.keep_alive and self.size == size and _SPECIAL.isdisjoint([name for name, _ in self.headers])


class _Head(NamedTuple):
    """What a block of header fields says."""

    headers: list[tuple[str, str]]
    size: int
    """Bytes of the body."""


class Connection(asyncio.BufferedProtocol):
    """Reads requests of one client, and writes the answers of the application."""

    def __init__(self, application: Application, every: Connections) -> None:
        self._application = application
        self._every = every
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._reading = _Exchange()
        self._waiting: deque[_Exchange] = deque()
        self._task: asyncio.Task[None] | None = None
        """Answers one request after the other; made for the first one."""
        self._more: asyncio.Future[None] | None = None
        """What the task waits for between requests."""
        self._answered: _Exchange | None = None
        """The request that it works on."""
        self._between = True
        """Whether the parser is at the end of a request."""
        self._streaming = False
        self._closing = False
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self.used = self._loop.time()
        """When the last request or answer passed."""

    @property
    def idle(self) -> bool:
        return self._answered is None

    def close(self) -> None:
        """Close now, or after the answer that is on its way."""
        self._closing = True
        if self.idle:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._every.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._every.lost(self)
        self._closing = True
        self._waiting.clear()
        self.resume_writing()
        if self._task is not None and (self._streaming or self.idle):
            self._task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._every.buffer

    def buffer_updated(self, nbytes: int) -> None:
        block = b""
        if self._between and nbytes <= USUAL:
            data = bytes(self._every.buffer[:nbytes])
            start, end = data.find(b"\r\n"), data.find(b"\r\n\r\n")
            block = data[start : end + 4] if end > 0 else b""
            head = self._every.heads.get(block)
            if head is not None and nbytes == end + 4 + head.size:
                line = _LINE.fullmatch(data, 0, start)
                if line is not None:
                    self._complete(_Exchange.known(line, head, data[end + 4 :]))
                    return
        try:
            self._parser.feed_data(self._every.buffer[:nbytes])
            if block and self._between and self._reading.ordinary(nbytes - end - 4):
                self._every.remember(block, self._reading)
        except httptools.HttpParserUpgrade:
            self._closing = True  # an answer that refuses, and then the end: nothing here speaks another protocol
        except httptools.HttpParserError:
            self._closing = True
            if self.idle:
                self.write(_head(400, "text/plain; charset=utf-8", len(_BROKEN), "connection: close\r\n") + _BROKEN)
                self._transport.close()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._between = False
        self._reading = _Exchange()

    def on_url(self, url: bytes) -> None:
        self._reading.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._reading.headers.append((_name(name), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        exchange = self._reading
        exchange.method = self._parser.get_method().decode("latin-1")
        exchange.version = self._parser.get_http_version()
        exchange.keep_alive = self._parser.should_keep_alive()
        if self.idle and ("expect", "100-continue") in exchange.headers:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        exchange = self._reading
        exchange.size += len(body)
        if exchange.size <= MAX_BODY or exchange.size - len(body) <= MAX_BODY:
            exchange.body.append(body)

    def on_message_complete(self) -> None:
        self._between = True
        self._complete(self._reading)

    def _complete(self, exchange: _Exchange) -> None:
        """A request was read whole."""
        if not self.idle:
            self._waiting.append(exchange)
            self._paused = True
            self._transport.pause_reading()
            return
        self._answered = exchange
        if self._task is None:
            self._task = self._loop.create_task(self._serve())
        elif self._more is not None and not self._more.done():
            self._more.set_result(None)

    # Answering.

    async def _serve(self) -> None:
        """Answer what was read, until the connection ends."""
        while True:
            while self._answered is not None:
                try:
                    await self._answer(self._answered)
                except Exception:  # whatever it is, the client gets no wrong answer
                    LOG.exception("%s could not be answered", self._answered.method)
                    self._closing = True
                finally:
                    self._done()
            if self._closing:
                self._transport.close()
                return
            self._more = self._loop.create_future()
            await self._more

    async def _answer(self, exchange: _Exchange) -> None:
        url = exchange.url.decode("latin-1")
        body = exchange.body[0] if len(exchange.body) == 1 else b"".join(exchange.body)
        found, warnings = await self._application.answer(exchange.method, url, exchange.headers, body)
        keep_alive = exchange.keep_alive and not self._closing
        extra = "".join([f'warning: 299 - "{_quotable(text)}"\r\n' for text in warnings]) if warnings else ""
        if not keep_alive:
            extra += "connection: close\r\n"
        if isinstance(found, Stream):
            await self._stream(found, exchange, extra)
        else:
            head, body = _whole(found, extra), found.body if exchange.method != "HEAD" else b""
            if len(body) < LONG:
                self.write(head + body)
            else:
                self.write(head)
                self.write(body)
            if self._writable is not None:
                await self._writable
        if not keep_alive:
            self._closing = True

    def _done(self) -> None:
        self.used = self._loop.time()
        self._answered = self._waiting.popleft() if self._waiting else None
        if self._paused and not self._waiting and not self._closing:
            self._paused = False
            self._transport.resume_reading()

    async def _stream(self, stream: Stream, exchange: _Exchange, extra: str) -> None:
        self._streaming = True
        chunked = exchange.version != "1.0"
        self.write(_head(stream.code, stream.type, None, extra + ("transfer-encoding: chunked\r\n" if chunked else "")))
        try:
            if exchange.method != "HEAD":
                await stream.run(_Body(self, chunked=chunked))
            if chunked and exchange.method != "HEAD":
                self.write(b"0\r\n\r\n")
            else:
                self._closing = True
        except Exception:  # the answer has begun: all that can be told is that it ends early
            LOG.exception("%s %s ended early", exchange.method, exchange.url.decode("latin-1"))
            self._closing = True
        finally:
            self._streaming = False

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    @property
    def full(self) -> bool:
        return self._writable is not None

    async def ready(self) -> None:
        """Return when the client has taken most of what was written, or is gone."""
        if self._writable is not None:
            await self._writable


class _Body:
    """The sink of one streamed answer."""

    __slots__ = ("_chunked", "_connection")

    def __init__(self, connection: Connection, *, chunked: bool) -> None:
        self._connection = connection
        self._chunked = chunked

    @property
    def full(self) -> bool:
        return self._connection.full

    def write(self, chunk: bytes) -> None:
        if chunk:
            self._connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk)

    async def ready(self) -> None:
        await self._connection.ready()


class Connections:
    """Every open connection of one listener."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.buffer = memoryview(bytearray(READ))
        """What was just read, whoever sent it: a connection parses it before the next one reads."""
        self.heads: dict[bytes, _Head] = {}
        """By the bytes of a block, from the end of the request line to that of the empty one."""
        self._open: set[Connection] = set()
        self._none_open = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None

    def remember(self, block: bytes, read: _Exchange) -> None:
        """What llhttp made of a block."""
        if len(self.heads) >= HEADS:
            self.heads.clear()
        self.heads[block] = _Head(read.headers, read.size)

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()

    async def listen(self, listener: socket, certificate: Path, key: Path) -> None:
        """Accept from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._application, self), sock=listener, ssl=context, backlog=1024
        )
        self._watching = loop.create_task(self._close_unused())

    async def stop(self) -> None:
        """Accept no more, let answers that are on their way pass, and cut off what is not done within the grace time."""
        if self._server is None or self._watching is None:
            return
        self._server.close()
        self._watching.cancel()
        for connection in list(self._open):
            connection.close()
        if self._open:
            self._none_open.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._none_open.wait()
        for connection in list(self._open):
            connection.abort()

    async def _close_unused(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(IDLE_SECONDS / 4)
            for connection in [one for one in self._open if one.idle and loop.time() - one.used > IDLE_SECONDS]:
                connection.close()


@lru_cache(maxsize=256)
def _name(name: bytes) -> str:
    """The name of a header, of which clients use few."""
    return name.decode("latin-1").lower()


def _quotable(text: str) -> str:
    plain = _CONTROL.sub(" ", text.replace("\\", "\\\\").replace('"', '\\"'))
    return plain.encode("ascii", "backslashreplace").decode()


def _whole(answer: Answer, extra: str) -> bytes:
    for name, value in answer.headers.items():
        extra += f"{name.lower()}: {_CONTROL.sub(' ', value)}\r\n"
    length = None if answer.code in (204, 304) else len(answer.body)
    return _head(answer.code, answer.type, length, extra, cached="Cache-Control" in answer.headers)


def _head(code: int, type_: str, length: int | None, extra: str, *, cached: bool = False) -> bytes:
    """The status line and headers of an answer; ``extra`` are whole lines."""
    start = _start(int(time.time()), code, type_, cached)
    size = b"" if length is None else b"content-length: %d\r\n" % length
    lines = extra.encode("latin-1", "replace") if extra else b""
    return b"%b%012x\r\n%b%b\r\n" % (start, next(_numbers), size, lines)


@lru_cache(maxsize=16)
def _start(second: int, code: int, type_: str, cached: bool) -> bytes:
    """What answers of one kind have in common within a second: all up to the number in their identity."""
    control = "" if cached else "cache-control: no-cache, private\r\n"
    kind = f"content-type: {type_}\r\n" if type_ else ""
    return (
        f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\ndate: {formatdate(second, usegmt=True)}\r\n{kind}{control}"
        f"audit-id: {_AUDIT}"
    ).encode("latin-1", "replace")
