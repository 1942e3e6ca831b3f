"""The event loop keeps the sockets of one connection apart from those of another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from modelplane import eventloop
from modelplane.eventloop import loop_factory

pytest.importorskip("uvloop", reason="asyncio's own loop is not ours to test")


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a server that takes every connection and resets it at once, as a process does that dies."""
    server = socket.create_server(("127.0.0.1", 0), backlog=512)

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed below
            while True:
                taken, _ = server.accept()
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                taken.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(10)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_is_reset_leaves_no_socket_that_claims_a_descriptor_of_others(
    resetting: int, scheme: str
) -> None:
    """It would close that number when it is collected, whoever has it by then: watches of other clusters broke so."""
    made: list[socket.socket] = []

    def keep(address: Any) -> socket.socket:
        made.append(socket.socket(*address[:3]))
        return made[-1]

    async def one(session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{scheme}://127.0.0.1:{resetting}/")

    async def work() -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=False, socket_factory=keep)
        async with aiohttp.ClientSession(connector=connector) as session:
            for _ in range(10):
                await asyncio.gather(*(one(session) for _ in range(20)))

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work())
    assert len(made) >= 200
    assert {found.fileno() for found in made} == {-1}


def test_work_runs_on_uvloop_where_it_is_installed() -> None:
    import uvloop

    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.get_running_loop())

    eventloop.run(work())
    assert isinstance(seen[0], uvloop.Loop)
