"""How the start of a fleet waits for an API server: with few connections, and for the one that its kubeconfig names now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from modelplane.local.fleet import LocalFleet


class Starting:
    """An API server that is not ready for so many questions."""

    def __init__(self, unready: float) -> None:
        self.unready = unready
        self.connections = 0
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            self.asked += 1
            status = "503 Service Unavailable" if self.asked <= self.unready else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok".encode())
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its address."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()


def kubeconfig(path: Path, server: str) -> Path:
    document = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_server_that_is_not_ready_yet_is_asked_over_one_connection(tmp_path: Path) -> None:
    api = Starting(unready=5)
    async with api.running() as address:
        await LocalFleet._answers(kubeconfig(tmp_path / "kubeconfig", address))
    assert (api.asked, api.connections) == (6, 1)


async def test_a_kubeconfig_that_is_written_anew_meanwhile_is_taken(tmp_path: Path) -> None:
    """An embedded server finds the kubeconfig of an earlier start, and writes its own when it serves."""
    old, new = Starting(unready=float("inf")), Starting(unready=0)
    async with old.running() as before, new.running() as now:
        waiting = asyncio.create_task(LocalFleet._answers(kubeconfig(tmp_path / "kubeconfig", before)))
        async with asyncio.timeout(30):
            while not old.asked:
                await asyncio.sleep(0)
            kubeconfig(tmp_path / "kubeconfig", now)
            await waiting
    assert new.asked == 1
