"""Hands configuration to proxies over gRPC, on a Unix socket.

A proxy without a snapshot gets no answer at all: after a restart of this process it keeps serving what it has until
the caches here are whole again, instead of being told that there is nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Final

from modelplane.gateway.xds.calls import Call, CallServer
from modelplane.gateway.xds.snapshot import Snapshot
from modelplane.gateway.xds.subscription import Subscription, Verdict

log = logging.getLogger(__name__)

METHOD: Final = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"


class Proxy:
    """What the server knows of one proxy: what it should have, whether it has it, and what it complained about."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.complaints: dict[tuple[str, str], str] = {}
        """By type and name of the resource that the proxy refused."""
        self.serial = 0
        self.settled = -1
        """The last snapshot, by serial, whose every resource has been answered by the proxy."""
        self.streams: set[asyncio.Event] = set()


class Server:
    """One ADS endpoint for all proxies of this process."""

    def __init__(self, socket: Path, changed: Callable[[str], None] = lambda node: None) -> None:
        self.socket = socket
        self._changed = changed
        self._proxies: dict[str, Proxy] = {}
        self._calls = CallServer(socket, {METHOD: self._stream})

    async def start(self) -> None:
        await self._calls.start()

    async def stop(self) -> None:
        await self._calls.stop()

    def proxy(self, node: str) -> Proxy:
        return self._proxies.setdefault(node, Proxy())

    def publish(self, node: str, snapshot: Snapshot) -> int:
        """What the proxy should have from now on; gives the serial that `Proxy.settled` reaches when it has it."""
        proxy = self.proxy(node)
        if proxy.snapshot is None or proxy.snapshot.entries != snapshot.entries:
            proxy.serial += 1
            proxy.snapshot = snapshot
            for type_, name in list(proxy.complaints):
                if snapshot.version(type_, name) is None:
                    del proxy.complaints[type_, name]
            for wake in proxy.streams:
                wake.set()
        return proxy.serial

    def forget(self, node: str) -> None:
        self._proxies.pop(node, None)

    async def _stream(self, call: Call) -> None:
        subscription, wake = Subscription(), asyncio.Event()
        reader = asyncio.create_task(self._read(call, subscription, wake))
        proxy: Proxy | None = None
        try:
            while True:
                await wake.wait()
                wake.clear()
                if reader.done():
                    if (error := reader.exception()) is not None:
                        log.warning("proxy %s: its stream ends: %s", subscription.node, error)
                    return
                if not subscription.node:
                    continue
                if proxy is None:
                    proxy = self.proxy(subscription.node)
                    proxy.streams.add(wake)
                snapshot, serial = proxy.snapshot, proxy.serial
                if snapshot is None:
                    continue
                for response in subscription.responses(snapshot):
                    await call.write(response)
                if proxy.settled != serial and subscription.settled(snapshot, refused=bool(proxy.complaints)):
                    proxy.settled = serial
                    self._changed(subscription.node)
        finally:
            reader.cancel()
            if proxy is not None:
                proxy.streams.discard(wake)

    async def _read(self, requests: AsyncIterable[bytes], subscription: Subscription, wake: asyncio.Event) -> None:
        try:
            async for request in requests:
                verdict = subscription.take(request)
                if verdict is not None:
                    self._judge(subscription.node, verdict)
                wake.set()
        finally:
            wake.set()

    def _judge(self, node: str, verdict: Verdict) -> None:
        complaints = self.proxy(node).complaints
        before = dict(complaints)
        for name in verdict.names:
            if verdict.complaint:
                complaints[verdict.type, name] = verdict.complaint
                log.warning("proxy %s refused %s %s: %s", node, verdict.type, name, verdict.complaint)
            else:
                complaints.pop((verdict.type, name), None)
        if complaints != before:
            self._changed(node)
