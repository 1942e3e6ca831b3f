"""Running pieces of a simulated cluster as a process: one client, shared watch caches, an end on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from modelplane import eventloop
from modelplane.kube import Client, Kubeconfig
from modelplane.local.caches import Caches

log = logging.getLogger(__name__)

Part: TypeAlias = Callable[[Client, Caches], Coroutine[Any, Any, None]]
"""A piece that runs until it is cancelled."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run as a process of the fleet, whose standard error is its log."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    eventloop.run(work)


async def until_signalled(work: Awaitable[None]) -> None:
    """Run until the work ends by itself (its exception is raised) or SIGTERM or SIGINT asks for the end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
        return
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def run_parts(kubeconfig: Path, agent: str, parts: Sequence[Part]) -> None:
    """Run parts over one client until cancelled."""
    async with Client(Kubeconfig.load(kubeconfig), user_agent=f"modelplane-{agent}", field_manager=agent) as client:
        caches = Caches(client)
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part(client, caches))
            group.create_task(caches.run())
