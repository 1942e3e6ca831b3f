"""Watch caches shared by the pieces of one process: a kind is watched once, however many controllers read it."""

from __future__ import annotations

import asyncio

from modelplane.api.meta import Resource
from modelplane.kube import Client, Informer


class Caches:
    """Informers by kind over one client. Ask for them before or after `run` has begun."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[Resource, Informer] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._running = False

    def of(self, resource: Resource) -> Informer:
        """The shared informer of a kind in all namespaces."""
        if resource not in self._informers:
            self._informers[resource] = Informer(self.client, resource)
            if self._running:
                self._start(resource)
        return self._informers[resource]

    def drop(self, resource: Resource) -> None:
        """Stop watching a kind that is not served any more."""
        self._informers.pop(resource, None)
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()

    def _start(self, resource: Resource) -> None:
        self._tasks[resource] = asyncio.create_task(self._informers[resource].run(), name=f"watch {resource.plural}")

    async def run(self) -> None:
        """Keep every informer current until cancelled."""
        self._running = True
        try:
            for resource in self._informers:
                self._start(resource)
            await asyncio.Event().wait()
        finally:
            self._running = False
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    async def synced(self, *resources: Resource) -> None:
        """Return when the first complete list of each kind is there."""
        for resource in resources:
            await self.of(resource).synced.wait()
