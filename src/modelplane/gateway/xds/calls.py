"""gRPC's wire form, as far as ADS needs it: bidirectional calls without compression, over HTTP/2 on a Unix socket.

The full library costs every user 10 MB of memory in this process and 30 MB of disk for one method with one kind of
client. What is given up: TLS, deadlines, compression, and peers that are not our own proxies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

_OK: Final = "0"
_INTERNAL: Final = "13"
_UNIMPLEMENTED: Final = "12"
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one message; a proxy's requests are far smaller."""


class Call:
    """One call: iterate over it for the client's messages, `write` to answer."""

    def __init__(self, connection: _Connection, stream: int) -> None:
        self._connection = connection
        self._stream = stream
        self._buffer = bytearray()
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._inbox.get()) is not None:
            yield message

    async def write(self, message: bytes) -> None:
        """Send one message; waits where the client is slow. Raises ConnectionError when it is gone."""
        await self._connection.send(self._stream, b"\0" + len(message).to_bytes(4) + message)

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream. Raises ProtocolError for what is not a plain gRPC message."""
        self._buffer += data
        while len(self._buffer) >= 5:
            size = int.from_bytes(self._buffer[1:5])
            if self._buffer[0] or size > _LARGEST:
                raise ProtocolError("a compressed or oversized message")
            if len(self._buffer) < 5 + size:
                return
            self._inbox.put_nowait(bytes(self._buffer[5 : 5 + size]))
            del self._buffer[: 5 + size]

    def end(self) -> None:
        self._inbox.put_nowait(None)


Handler: TypeAlias = Callable[[Call], Awaitable[None]]


class _Connection(asyncio.Protocol):
    """One client's connection and its calls."""

    def __init__(self, handlers: Mapping[str, Handler], open_connections: set[_Connection]) -> None:
        self._handlers = handlers
        self._open = open_connections
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._calls: dict[int, tuple[Call, asyncio.Task[None]]] = {}
        self._room = asyncio.Event()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)
        self._http.initiate_connection()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self)
        for call, task in self._calls.values():
            call.end()
            task.cancel()
        self._calls.clear()
        self._room.set()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._http.receive_data(data):
                self._take(event)
        except ProtocolError:
            self._flush()
            self._transport.close()
            return
        self._flush()

    def resume_writing(self) -> None:
        self._room.set()

    def close(self) -> None:
        self._transport.abort()

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(stream), headers=headers):
                texts = {str(name): str(value) for name, value in headers or ()}
                self._begin(stream, texts.get(":path", ""))
            case DataReceived(stream_id=int(stream), data=bytes(data), flow_controlled_length=int(length)):
                self._http.acknowledge_received_data(length, stream)
                if stream in self._calls:
                    self._calls[stream][0].feed(data)
            case StreamEnded(stream_id=int(stream)) if stream in self._calls:
                self._calls[stream][0].end()
            case StreamReset(stream_id=int(stream)) if stream in self._calls:
                call, task = self._calls.pop(stream)
                call.end()
                task.cancel()
            case WindowUpdated() | RemoteSettingsChanged():
                self._room.set()
            case ConnectionTerminated():
                self._transport.close()

    def _begin(self, stream: int, path: str) -> None:
        answer = [(":status", "200"), ("content-type", "application/grpc")]
        handler = self._handlers.get(path)
        if handler is None:
            self._http.send_headers(stream, [*answer, ("grpc-status", _UNIMPLEMENTED)], end_stream=True)
            return
        self._http.send_headers(stream, answer)
        call = Call(self, stream)
        self._calls[stream] = call, asyncio.ensure_future(self._run(stream, call, handler))

    async def _run(self, stream: int, call: Call, handler: Handler) -> None:
        status = _INTERNAL
        try:
            await handler(call)
            status = _OK
        except ConnectionError:
            return
        finally:
            if self._calls.pop(stream, None) is not None and not self._transport.is_closing():
                with contextlib.suppress(ProtocolError):
                    self._http.send_headers(stream, [("grpc-status", status)], end_stream=True)
                    self._flush()

    async def send(self, stream: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            size = 0
            while not size:
                if stream not in self._calls or self._transport.is_closing():
                    raise ConnectionError("the proxy is gone")
                window = self._http.local_flow_control_window(stream)
                size = min(window, self._http.max_outbound_frame_size, len(rest))
                if not size:
                    self._room.clear()
                    await self._room.wait()
            self._http.send_data(stream, bytes(rest[:size]))
            self._flush()
            rest = rest[size:]

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._transport.write(data)


class CallServer:
    """Serves `handlers`, by method path, on a Unix socket."""

    def __init__(self, socket: Path, handlers: Mapping[str, Handler]) -> None:
        self._socket = socket
        self._handlers = handlers
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; a socket that a crashed predecessor left is replaced."""
        loop = asyncio.get_running_loop()
        make = lambda: _Connection(self._handlers, self._connections)  # noqa: E731
        self._server = await loop.create_unix_server(make, str(self._socket))

    async def stop(self) -> None:
        """Break every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.close()
        self._socket.unlink(missing_ok=True)
