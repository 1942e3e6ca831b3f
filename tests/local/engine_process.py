"""One mock engine as a real process on a port of its own, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp


class EngineProcess:
    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.process = process
        self.address = address
        self.session = aiohttp.ClientSession(f"http://{address}")

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.session.get(path) as response:
            return response.status, await response.read()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        async with self.session.post(path, json=body) as response:
            return response.status, json.loads(await response.read())

    async def events(self, path: str, body: Any) -> list[str]:
        async with self.session.post(path, json=body) as response:
            return [line for line in (await response.text()).split("\n") if line]

    async def exited(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 10)


@contextlib.asynccontextmanager
async def engine(*arguments: str, **behaviour: str) -> AsyncIterator[EngineProcess]:
    """`behaviour` has underscores for dashes: ``load_seconds="1"``."""
    settings = [f"--set={name.replace('_', '-')}={value}" for name, value in behaviour.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "modelplane.local.engines",
        "--port",
        "0",
        *arguments,
        *settings,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    running = EngineProcess(process, line.rsplit(" ", 1)[-1].strip())
    try:
        yield running
    finally:
        await running.session.close()
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
