"""A work queue of keys: each key is worked on by one worker at a time, what changes meanwhile is worked on again, and a
failure is retried with back-off. The only loop that the controllers share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from modelplane.errors import ApiError, Conflict, Forbidden, NotFound
from modelplane.kube.backoff import Backoff

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


class Work(Generic[K]):
    """`reconcile` may return seconds after which the key is to be looked at again; what it raises is logged and retried."""

    def __init__(self, name: str, reconcile: Callable[[K], Awaitable[float | None]], *, workers: int = 4) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._waiting: dict[K, None] = {}
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._backoffs: dict[K, Backoff] = {}
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        if key in self._active:
            self._again.add(key)
        else:
            self._waiting[key] = None
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later; an earlier appointment of the key stands."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._active.add(key)
            try:
                await self._once(key)
            finally:
                self._active.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _once(self, key: K) -> None:
        try:
            after = await self._reconcile(key)
        except ApiError as error:
            level = logging.DEBUG if isinstance(error, Conflict | NotFound | Forbidden) else logging.WARNING
            log.log(level, "%s %s: %s", self._name, key, error)
            self._retry(key)
        except Exception:
            log.exception("%s %s failed", self._name, key)
            self._retry(key)
        else:
            self._backoffs.pop(key, None)
            if after is not None:
                self.add_after(key, after)

    def _retry(self, key: K) -> None:
        backoff = self._backoffs.setdefault(key, Backoff(first=0.02, last=10.0))
        self.add_after(key, backoff.next())
