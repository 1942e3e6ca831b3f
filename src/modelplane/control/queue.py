"""What is to be reconciled next: every parent at most once, never twice at a time, in a fixed order where order decides.

Placement is first come, first served by age, so deployments that wait together are taken by (creationTimestamp, namespace,
name), not by which event came first. Waking is immediate: there is no tick.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeAlias, TypeVar

import msgspec

Item = TypeVar("Item", bound=Hashable)
Rank: TypeAlias = tuple[str | int, ...]


class Depth(msgspec.Struct, frozen=True):
    """How many items are ready, being worked on, and waiting for their time."""

    ready: int
    active: int
    later: int


class WorkQueue(Generic[Item]):
    """``rank`` orders items that are ready at the same time; equal ranks go by arrival."""

    def __init__(self, rank: Callable[[Item], Rank]) -> None:
        self._rank = rank
        self._ready: list[tuple[Rank, int, Item]] = []
        self._queued: set[Item] = set()
        self._active: set[Item] = set()
        self._again: set[Item] = set()
        self._later: dict[Item, asyncio.TimerHandle] = {}
        self._sequence = 0
        self._wake = asyncio.Event()

    def add(self, item: Item) -> None:
        """Make an item ready now. One that is being worked on is taken again afterwards."""
        timer = self._later.pop(item, None)
        if timer is not None:
            timer.cancel()
        if item in self._active:
            self._again.add(item)
        elif item not in self._queued:
            self._sequence += 1
            self._queued.add(item)
            heapq.heappush(self._ready, (self._rank(item), self._sequence, item))
            self._wake.set()

    def add_after(self, item: Item, seconds: float) -> None:
        """Make an item ready later, unless something makes it ready earlier."""
        loop = asyncio.get_running_loop()
        timer = self._later.get(item)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._later[item] = loop.call_later(seconds, self._due, item)

    def _due(self, item: Item) -> None:
        self._later.pop(item, None)
        self.add(item)

    async def take(self) -> Item:
        """The next item, which is then ours until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        _, _, item = heapq.heappop(self._ready)
        self._queued.discard(item)
        self._active.add(item)
        if self._ready:
            self._wake.set()
        return item

    def done(self, item: Item) -> None:
        self._active.discard(item)
        if item in self._again:
            self._again.discard(item)
            self.add(item)

    def forget(self, item: Item) -> None:
        """Drop a waiting retry of an item that is gone."""
        timer = self._later.pop(item, None)
        if timer is not None:
            timer.cancel()
        self._again.discard(item)

    @property
    def idle(self) -> bool:
        """Nothing is ready or being worked on; retries may still wait."""
        return not self._queued and not self._active

    @property
    def depth(self) -> Depth:
        return Depth(len(self._queued), len(self._active), len(self._later))

    def close(self) -> None:
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
