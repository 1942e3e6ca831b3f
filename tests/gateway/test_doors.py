"""A port that stays open while the proxy behind it is away; sockets in this process stand for the proxy's."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from modelplane.gateway.doors import Door, check, passing_on
from modelplane.gateway.xds.names import HEALTH_HEADER
from tests.gateway.backends import Backend

pytestmark = [
    pytest.mark.linux,
    pytest.mark.skipif(sys.platform != "linux", reason="sockets that share a port are told apart by Linux alone"),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


class Proxy:
    """Listens where a proxy does, and answers each line with where it came in."""

    def __init__(self, port: int, inner: Path) -> None:
        self._port = port
        self._inner = inner
        self._servers: list[asyncio.Server] = []

    async def start(self) -> Proxy:
        outer = socket.socket()
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        outer.bind(("127.0.0.1", self._port))
        self._servers = [
            await asyncio.start_server(lambda r, w: self._answer("port", r, w), sock=outer),
            await asyncio.start_unix_server(lambda r, w: self._answer("inner", r, w), str(self._inner)),
        ]
        return self

    async def _answer(self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(f"{where} {line.decode()}".encode())
            writer.write(b"end")
            writer.close()

    def stop(self) -> None:
        for server in self._servers:
            server.close()


async def asked(port: int) -> str:
    """One whole exchange over a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    writer.write_eof()
    said = (await reader.read()).decode()
    writer.close()
    return said


@asynccontextmanager
async def opened(port: int, inner: Path, *, ours: bool) -> AsyncIterator[Door]:
    door = Door("127.0.0.1", port, passing_on(inner), ours=ours)
    try:
        yield door
    finally:
        door.close()


FIRST_HAND, PASSED_ON = "port hello\nend", "inner hello\nend"


async def test_the_proxy_gets_every_connection_itself_while_it_listens(tmp_path: Path) -> None:
    port, inner = free_port(), tmp_path / "inner"
    async with opened(port, inner, ours=False):
        proxy = await Proxy(port, inner).start()
        assert {await asked(port) for _ in range(50)} == {FIRST_HAND}
        proxy.stop()


async def test_who_calls_while_it_is_away_waits_and_is_passed_on(tmp_path: Path) -> None:
    port, inner = free_port(), tmp_path / "inner"
    async with opened(port, inner, ours=False) as door:
        for _ in range(3):
            waiting = [asyncio.create_task(asked(port)) for _ in range(20)]
            await asyncio.wait(waiting, timeout=0.05)
            assert not any(task.done() for task in waiting), "nobody is refused, and nobody is answered yet"
            proxy = await Proxy(port, inner).start()
            assert set(await asyncio.gather(*waiting)) == {PASSED_ON}
            assert {await asked(port) for _ in range(20)} == {FIRST_HAND}, "the new one gets later callers itself"
            proxy.stop()
            door.alone()


async def test_a_proxy_that_was_left_running_keeps_its_callers_and_is_covered_from_then_on(tmp_path: Path) -> None:
    port, inner = free_port(), tmp_path / "inner"
    async with opened(port, inner, ours=False):
        proxy = await Proxy(port, inner).start()
    assert await asked(port) == FIRST_HAND, "whoever held the door may end"
    async with opened(port, inner, ours=True) as door:
        assert {await asked(port) for _ in range(50)} == {FIRST_HAND}
        proxy.stop()
        door.alone()
        waiting = asyncio.create_task(asked(port))
        assert not (await asyncio.wait({waiting}, timeout=0.05))[0]
        again = await Proxy(port, inner).start()
        assert await waiting == PASSED_ON
        assert {await asked(port) for _ in range(50)} == {FIRST_HAND}
        again.stop()


@pytest.mark.parametrize("ours", [False, True])
async def test_somebody_elses_port_is_not_shared(tmp_path: Path, ours: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody, pytest.raises(OSError, match="in use"):
        Door("127.0.0.1", somebody.getsockname()[1], check, ours=ours)
    port = free_port()
    async with opened(port, tmp_path / "a", ours=False):
        with pytest.raises(OSError, match="in use"):
            Door("127.0.0.1", port, check, ours=False)


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/r/one/health", 200, "the endpoint's own path is asked for"),
        ("/r/ill/health", 503, "its answer is passed on"),
        (None, 503, "nobody listens there"),
    ],
)
async def test_a_health_check_that_finds_no_proxy_is_forwarded_to_its_endpoint(
    path: str | None, status: int, reason: str
) -> None:
    backend = await Backend("a").start()
    backend.healthy = lambda asked: asked == "/r/one/health"
    address = f"127.0.0.1:{backend.port if path else free_port()}"
    port = free_port()
    door = Door("127.0.0.1", port, check, ours=False)
    try:
        headers = {"x-envoy-original-dst-host": address, HEALTH_HEADER: path or "/"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/health", headers=headers) as answer,
        ):
            assert answer.status == status, reason
            assert answer.headers["Connection"] == "close", "the next check finds the proxy's own listener"
    finally:
        door.close()
        await backend.stop()
