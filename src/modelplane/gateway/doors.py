"""A proxy's port stays open while the proxy is away.

A killed Envoy is back within half a second, but callers who connect meanwhile would be refused. So this process listens on the
port as well. A program of one instruction in the kernel gives connections to Envoy as long as Envoy listens; without it they come
here. Callers then wait until the new Envoy is there, and are passed on through a Unix socket of its own; the trade is that those
few pass through this process until they end. The new Envoy's first health checks, which it sends to its own port before it listens
there, are forwarded from here, so that no endpoint counts as ill for want of an answer. Linux alone can do this; elsewhere a
caller is refused until the proxy is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from modelplane.gateway.xds.names import HEALTH_HEADER

log = logging.getLogger(__name__)

BACKLOG: Final = 4096
"""Callers who may wait; the kernel has a limit of its own."""
PATIENCE: Final = 30.0
"""Seconds that a caller waits for a proxy."""
CHECK: Final = 1.0
"""Seconds for a health check, as the proxy itself allows."""
_AGAIN: Final = 0.005
_CHUNK: Final = 1 << 16
_ATTACH_FILTER: Final = (
    51  # SO_ATTACH_REUSEPORT_CBPF of Linux' asm-generic/socket.h; the module socket does not name it
)
_RETURN: Final = 0x06  # BPF_RET | BPF_K


Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What becomes of a connection; it may end with an OSError, and is closed afterwards."""


class Door:
    """One port of a proxy whose listener allows sharing; ``meet`` gets what comes while the proxy does not listen.

    The port has to be nobody's, or with ``ours`` the proxy's, which was left running. Raises OSError where it is somebody
    else's, and where the system cannot do this.
    """

    def __init__(self, address: str, port: int, meet: Meet, *, ours: bool) -> None:
        if sys.platform != "linux":
            raise OSError("sockets that share a port are told apart by Linux alone")
        self._port = port
        self._meet = meet
        self._connections: set[asyncio.Task[None]] = set()
        try:
            self._socket = _bound(address, port, shared=False)
            number = 1
        except OSError:
            if not ours:
                raise
            self._socket = _bound(address, port, shared=True)
            number = 0
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.listen(BACKLOG)
            # The kernel numbers the sockets of a port as they come; when one goes, the last takes its number.
            self._choose(number)
        except OSError:
            self._socket.close()
            raise
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def alone(self) -> None:
        """To be called when the proxy has ended: this socket is number 0 now, and the next proxy's will be number 1."""
        self._choose(1)

    def close(self) -> None:
        """Let go of the port; connections that are passed on are cut."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        for connection in self._connections:
            connection.cancel()

    def _choose(self, number: int) -> None:
        """Have the kernel give connections to the socket of this number; where there is none it takes one that there is."""
        instruction = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, number))
        program = struct.pack("HL", 1, ctypes.addressof(instruction))
        self._socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("a caller of port %d is lost: %s", self._port, error)
                return
            task = asyncio.create_task(self._met(caller))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _met(self, caller: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=caller)
        try:
            await self._meet(reader, writer)
        except OSError as error:  # TimeoutError is one
            log.info("a caller of port %d, while its proxy was away: %s", self._port, error)
        finally:
            writer.close()


def passing_on(inner: Path) -> Meet:
    """Wait for the proxy's listener on this Unix socket, and carry bytes both ways until both sides have ended."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                there_reader, there_writer = await _reach(inner)
        except TimeoutError:
            raise TimeoutError(f"nobody listens at {inner} after {PATIENCE:.0f} s") from None
        copies = [
            asyncio.ensure_future(_copy(reader, there_writer)),
            asyncio.ensure_future(_copy(there_reader, writer)),
        ]
        try:
            await asyncio.gather(*copies)
        finally:
            for copy in copies:
                copy.cancel()
            there_writer.close()

    return meet


async def check(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Do what a proxy's health listener does: ask the address and path in the headers, and answer with its status."""
    async with asyncio.timeout(CHECK):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = (line.partition(":") for line in head.split("\r\n")[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        host, _, port = headers.get("x-envoy-original-dst-host", "").rpartition(":")
        path = headers.get(HEALTH_HEADER, "") or "/"
        status = "503 Service Unavailable"
        with contextlib.suppress(OSError, ValueError):
            there_reader, there_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                there_writer.write(f"GET {path} HTTP/1.1\r\nhost: health-check\r\nconnection: close\r\n\r\n".encode())
                status = (await there_reader.readline()).decode("latin-1").partition(" ")[2].strip() or status
            finally:
                there_writer.close()
        # Closed, so that the next check finds the proxy's own listener.
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()


async def _reach(inner: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with contextlib.suppress(OSError):
            return await asyncio.open_unix_connection(str(inner))
        await asyncio.sleep(_AGAIN)


def _bound(address: str, port: int, *, shared: bool) -> socket.socket:
    """Bound before it may be shared, it has the port for itself, so that two proxies never meet on one by accident."""
    made = socket.socket()
    made.setblocking(False)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Everything until the end, and the end."""
    while chunk := await source.read(_CHUNK):
        to.write(chunk)
        await to.drain()
    if to.can_write_eof():
        to.write_eof()
