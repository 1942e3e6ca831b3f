"""The reconciler: one level-triggered loop for all kinds, over composers that only know values.

A change wakes the parents that looked at it, own it, or hold it; each is then passed over once, however many changes there were.
Wakes are immediate. Failed passes come again by a jittered back-off of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from modelplane.api.meta import GVK, Key, Object
from modelplane.compose.contract import Composer, Host
from modelplane.control.apply import Applier
from modelplane.control.book import Book
from modelplane.control.caches import Caches
from modelplane.control.charts import RELEASE, SECRET, ChartInstaller, release_of
from modelplane.control.deletion import Bounds, Deletion
from modelplane.control.events import Recorder
from modelplane.control.index import Parent, Place
from modelplane.control.ownership import Ref, owner_uid
from modelplane.control.passes import Holders, Overlays, Passes, Placer
from modelplane.control.projection import body, differs
from modelplane.control.prune import Pruner
from modelplane.control.queue import Rank, WorkQueue
from modelplane.control.told import Told, topic
from modelplane.errors import ApiError, LeaseLost, TemporaryError, Unreachable
from modelplane.kube import Client

log = logging.getLogger(__name__)

WORKERS: Final = 8
LASTING: Final = 8
"""Failures in a row, which take some seconds, before one that should pass by itself is told."""
PARENT_PATHS: Final = (
    "spec",
    "metadata.generation",
    "metadata.labels",
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "metadata.finalizers",
    "metadata.uid",
)
"""What of a parent itself makes a pass. Its status does not: we write that."""


class Reconciler:
    """All parents of all kinds of one control plane. ``clock`` gives RFC 3339, ``now`` seconds since the epoch;
    ``observe`` is told of every pass: the parent, its seconds, and what failed."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        composers: Mapping[GVK, Composer],
        *,
        host: Callable[[], Host],
        clock: Callable[[], str],
        now: Callable[[], float],
        holders: Mapping[GVK, Holders] | None = None,
        placer: Placer | None = None,
        charts: ChartInstaller | None = None,
        overlays: Mapping[GVK, Overlays] | None = None,
        rank: Callable[[Parent], Rank] = lambda parent: (),
        bounds: Bounds | None = None,
        workers: int = WORKERS,
        observe: Callable[[Parent, float, Exception | None], None] = lambda parent, seconds, error: None,
    ) -> None:
        self._caches = caches
        self._composers = composers
        self._workers = workers
        self._observe = observe
        self._book = Book()
        self._recorder = Recorder(client, clock=clock)
        self.queue: WorkQueue[Parent] = WorkQueue(rank)
        self.started = asyncio.Event()
        self._told = Told()
        self._failures: dict[Parent, int] = {}
        """Passes that failed in a row."""
        self.count = 0
        """Passes so far."""
        applier = Applier(caches, charts, self._book.parents.__contains__)
        pruner = Pruner(caches, applier, self._book.inventories)
        self._passes = Passes(
            client,
            caches,
            self._book,
            composers,
            host=host,
            clock=clock,
            applier=applier,
            pruner=pruner,
            deletion=Deletion(pruner, now, bounds or Bounds()),
            recorder=self._recorder,
            holders=holders or {},
            placer=placer,
            overlays=overlays or {},
        )

    async def run(self) -> None:
        """Until cancelled. Begins once every parent is known, so that nothing is judged by half a picture."""
        watches = [self._caches.watch(None, kind) for kind in self._composers]
        for watch in watches:
            for obj in watch.informer.items():
                self._changed((None, watch.slot.kind), None, obj)
        self._caches.on_change(self._changed)
        self._caches.on_fresh(self._fresh)
        await asyncio.gather(*(watch.informer.synced.wait() for watch in watches))
        self.started.set()
        workers = [asyncio.create_task(self._work(), name=f"reconcile {n}") for n in range(self._workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            self.queue.close()
            for worker in workers:
                worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*workers, return_exceptions=True)
            await self._recorder.flush()

    def wake(self, parent: Parent) -> None:
        """Make a pass over a parent now."""
        self.queue.add(parent)

    def _changed(self, place: Place, old: Object | None, new: Object | None) -> None:
        cluster, kind = place
        obj = new if new is not None else old
        if obj is None:
            return
        if cluster is None and kind in self._composers:
            parent = Parent(kind, Key.of(obj))
            self._book.seen(parent, old, new)
            if differs(old, new, PARENT_PATHS):
                self.queue.add(parent)
            if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
                self._recorder.forget(old["metadata"]["uid"])
        for reader in self._book.index.readers(place, old, new):
            self.queue.add(reader)
        if old is not None and new is not None and old.get("status") == new.get("status") and body(old) == body(new):
            return
        release = release_of(obj, cluster)
        if release is not None:
            for holder in self._book.inventories.holders(release):
                self.queue.add(holder)
        owner = self._book.parents.get(owner_uid(obj) or "")
        for holder in [owner] if owner is not None else self._book.inventories.holders(Ref.of(obj, cluster)):
            self.queue.add(holder)

    def _fresh(self, cluster: str | None, kind: GVK | None) -> None:
        """A cache became ready, was lost, or came back: whoever reads there or has children there looks again. After an outage of
        the control cluster that is everybody, since passes failed meanwhile."""
        if cluster is None and kind in self._composers and self.started.is_set():
            for parent in self._book.parents.values():
                if parent.kind == kind:
                    self.queue.add(parent)
        for reader in self._book.index.readers_at(cluster, kind):
            self.queue.add(reader)
        for holder in self._book.inventories.at(cluster or "", kind):
            self.queue.add(holder)
        for parent, clusters in self._book.waiting.items():
            if cluster in clusters:
                self.queue.add(parent)
        if kind == SECRET:
            # A release is kept in Secrets.
            for holder in self._book.inventories.at(cluster or "", RELEASE):
                self.queue.add(holder)

    async def _work(self) -> None:
        while True:
            parent = await self.queue.take()
            try:
                await self._guarded(parent)
            finally:
                self.queue.done(parent)

    async def _guarded(self, parent: Parent) -> None:
        """One pass, and when to come again."""
        self.count += 1
        backoff = self._book.backoff(parent)
        began = time.perf_counter()
        failed: Exception | None = None
        try:
            then = await self._passes.make(parent)
        except (ApiError, TemporaryError) as error:
            failed = error
            self._log_failure(parent, error)
            self.queue.add_after(parent, max(error.after or 0.0, backoff.next()))
        except LeaseLost as error:
            # Another operator goes on with it.
            failed = error
            log.debug("%s: %s", parent, error)
        except Exception as error:
            failed = error
            log.error("%s: a pass failed: %r", parent, error, exc_info=self._told.news(parent, repr(error)))
            self.queue.add_after(parent, backoff.next())
        else:
            self._failures.pop(parent, None)
            self._told.forget(parent)
            if then.unfinished:
                pause = backoff.next()
                self.queue.add_after(parent, pause if then.after is None else max(0.02, min(pause, then.after)))
            else:
                backoff.reset()
                if then.after is not None:
                    self.queue.add_after(parent, then.after)
        self._observe(parent, time.perf_counter() - began, failed)

    def _log_failure(self, parent: Parent, error: ApiError | TemporaryError) -> None:
        """A refusal is a warning, once. A conflict says that the cache is behind, and the change that it misses is on its way: what
        passes by itself is worth a word when it has not. Of a lost API server its host tells, for all parents at once."""
        count = self._failures[parent] = self._failures.get(parent, 0) + 1
        expected = isinstance(error, Unreachable) or (isinstance(error, TemporaryError) and count < LASTING)
        shared = topic(error)
        if not expected and self._told.news(shared or parent, shared or str(error)):
            log.warning("%s: %s", parent, error)
        else:
            log.debug("%s: %s", parent, error)
