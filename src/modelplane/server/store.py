"""A revisioned key-value store over SQLite: what an acknowledged write means, in one file.

The event loop decides every compare-and-swap and hands all writes that wait to the writer thread, as one INSERT into the log of
changes (group commit). Nobody is answered before its commit with ``synchronous=FULL``, so an acknowledged write is on disk; the
thread needs Python's lock only to begin and to end, while the loop prepares the next batch. A change is stored once: an object is
the last change of its key, and what is superseded goes when the log is done with it. Reads come from memory and are made of bytes
that nobody changes. The bounded log lets a watch resume, also after a restart, and lets a list page read a past revision. The
store knows nothing of Kubernetes: a resource is a string, a body is bytes, and the revision is spliced in where the caller asks.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from modelplane.errors import ModelplaneError, PermanentError
from modelplane.server.entries import Change, Draft, Entry, Event, Key
from modelplane.server.shelf import Shelf

__all__ = [
    "Change", "Compacted", "Draft", "Entry", "Event", "Key", "KeyExists", "StaleRevision", "Store", "StoreInUse", "Subscription",
]  # fmt: skip

BATCH: Final = 256
LOG_EVENTS: Final = 4096
LOG_BYTES: Final = 8 << 20
SUBSCRIPTION_BACKLOG: Final = 10_000
TOLD_AT_ONCE: Final = 25
FORGET: Final = 256
"""How many superseded changes leave the disk at a time."""
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS changes (
  revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  change INTEGER NOT NULL, body BLOB NOT NULL);
"""
EARLIER: Final = """
BEGIN;
INSERT OR IGNORE INTO changes (resource, namespace, name, revision, change, body)
  SELECT resource, namespace, name, revision, 1, body FROM objects;
DROP TRIGGER IF EXISTS kept;
DROP TRIGGER IF EXISTS gone;
DROP TRIGGER IF EXISTS forgotten;
DROP TABLE objects;
COMMIT;
"""
"""Takes over a store whose objects were beside the log."""
PRAGMAS: Final = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "fullfsync=ON",
    "wal_autocheckpoint=2000",
    "cache_size=-2000",
)
LOG: Final = logging.getLogger(__name__)


def _insertion(rows: int) -> str:
    """One statement for so many changes; those whose revision is null are left out."""
    values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * rows)
    return f"INSERT INTO changes SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"


_INSERTIONS: Final = {rows: _insertion(rows) for rows in (1, 4, 16, 32, 64, 128, BATCH)}
_FORGETTING: Final = f"DELETE FROM changes WHERE revision IN ({', '.join('?' * FORGET)})"
_NO_ROW: Final = (None,) * 6


class KeyExists(ModelplaneError):
    """A create found the key taken."""


class StaleRevision(ModelplaneError):
    """The key is gone or has another revision than the writer expected."""


class Compacted(ModelplaneError):
    """The revision asked for is older than the log of changes."""


class StoreInUse(PermanentError):
    """Another process has the data directory open."""


class StoreDamaged(PermanentError):
    """The files of the data directory are not what a store left there."""


class _Write(NamedTuple):
    change: Change
    key: Key
    draft: Draft
    expected: int
    done: asyncio.Future[Entry]


class _Batch(NamedTuple):
    """Writes that are committed together, with what becomes of each; ``statement`` is empty when none is to be stored."""

    outcomes: list[tuple[_Write, Entry | ModelplaneError]]
    statement: str
    rows: list[object]


class Subscription:
    """The changes of one resource from a revision on, in order. ``progress`` is the last revision looked at."""

    def __init__(self, store: Store, resource: str, backlog: list[Event]) -> None:
        self._store = store
        self._resource = resource
        self._pending: deque[Event] = deque(backlog)
        self._wake = asyncio.Event()
        self._heard: Callable[[], None] | None = None
        self._calling = False
        self.overrun = False
        self.progress = store.revision
        if backlog:
            self._wake.set()

    def publish(self, event: Event) -> None:
        if len(self._pending) >= SUBSCRIPTION_BACKLOG:
            self.overrun = True
        else:
            self._pending.append(event)
        if self._heard is None or self.overrun:
            self._wake.set()
        elif not self._calling:
            self._calling = True
            self._store.due(self)

    def listen(self, heard: Callable[[], None] | None) -> None:
        """Have ``heard`` called for what is due, once for all changes that were committed together, instead of a wake."""
        self._heard = heard

    def tell(self) -> None:
        """Call who listens."""
        self._calling = False
        if self._heard is None:
            self._wake.set()
        else:
            self._heard()

    def wake(self) -> None:
        """Let a waiting reader look around, for instance because the server stops."""
        self._wake.set()

    async def wait(self) -> None:
        await self._wake.wait()

    def take(self) -> list[Event]:
        """Everything that is due now; afterwards ``progress`` is the revision up to which the reader has seen all."""
        taken = list(self._pending)
        self._pending.clear()
        self._wake.clear()
        self.progress = self._store.revision
        return taken

    def close(self) -> None:
        self._heard = None
        self._store._subscriptions.get(self._resource, set()).discard(self)


class Store:
    """Open with `Store.open`, inside a running event loop; close before the loop ends."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = (directory / "store.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StoreInUse(
                f"{directory} is in use by another API server; stop it or choose another --data-dir"
            ) from error
        self._shelves: dict[str, Shelf] = {}
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}
        self._log: deque[Event] = deque()
        self._log_bytes = 0
        self._floor = 0
        self._superseded: list[int] = []
        """Revisions that the log is done with and no object has: they may leave the disk."""
        self.revision = 0
        try:
            self._database = sqlite3.connect(directory / "store.db", isolation_level=None, check_same_thread=False)
            for pragma in PRAGMAS:
                self._database.execute(f"PRAGMA {pragma}")
            self._database.executescript(SCHEMA)
            if self._database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'objects'").fetchone():
                self._database.executescript(EARLIER)
            self._load()
        except (sqlite3.Error, TypeError, ValueError) as error:
            self._lock.close()
            raise StoreDamaged(
                f"{directory / 'store.db'} cannot be read: {error}. If the disk is full or the file not writable, mend that; "
                "else stop here and put back a copy of store.db, store.db-wal and store.db-shm, or move the three away to "
                "start with nothing"
            ) from error
        self._due: deque[Subscription] = deque()
        self._waiting: list[_Write] = []
        self._idle = asyncio.Event()
        """Set while nothing waits and nothing is on its way to the disk."""
        self._idle.set()
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, directory: Path) -> Store:
        """Raises StoreInUse when another process serves the same directory, StoreDamaged when its files are none of ours."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(directory)

    def _load(self) -> None:
        """Go through all that is kept, in order. Revisions follow each other as far back as the log reaches without a gap."""
        for revision, resource, namespace, name, change, body in self._database.execute(
            "SELECT revision, resource, namespace, name, change, body FROM changes ORDER BY revision"
        ):
            if revision != self.revision + 1:
                self._forget(0)
                self._floor = revision - 1
            self._keep(Change(change), Entry(Key(resource, namespace, name), body, revision))

    def _shelf(self, resource: str) -> Shelf:
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = Shelf()
        return shelf

    # Reading, on the event loop.

    def get(self, key: Key) -> Entry | None:
        shelf = self._shelves.get(key.resource)
        return None if shelf is None else shelf.get(key)

    def scan(self, resource: str, namespace: str = "") -> list[Entry]:
        """Every entry of a resource, or of one namespace of it, ordered by namespace and name."""
        shelf = self._shelves.get(resource)
        if shelf is None:
            return []
        return shelf.within(namespace) if namespace else shelf.all()

    def count(self, resource: str) -> int:
        shelf = self._shelves.get(resource)
        return 0 if shelf is None else len(shelf)

    def resources(self) -> list[str]:
        """The resources that have entries."""
        return [resource for resource, shelf in self._shelves.items() if len(shelf)]

    def scan_at(self, resource: str, namespace: str, revision: int) -> list[Entry]:
        """The same as `scan` at a past revision, by undoing the changes since. Raises Compacted."""
        if revision < self._floor:
            raise Compacted(f"revision {revision} is compacted; the log starts after {self._floor}")
        entries = {entry.key: entry for entry in self.scan(resource, namespace)}
        for event in reversed(self._log):
            entry = event.entry
            if entry.revision <= revision:
                break
            if entry.key.resource != resource or (namespace and entry.key.namespace != namespace):
                continue
            if event.previous is not None:
                entries[entry.key] = event.previous
            elif event.change is Change.ADDED:
                entries.pop(entry.key, None)
            else:
                raise Compacted(f"revision {revision} of {entry.key.name} is compacted")
        return [entries[key] for key in sorted(entries)]

    def subscribe(self, resource: str, since: int | None = None) -> Subscription:
        """Changes after ``since``, or from now on. Raises Compacted when the log does not reach back that far."""
        backlog: list[Event] = []
        if since is not None and since < self.revision:
            if since < self._floor:
                raise Compacted(f"revision {since} is compacted; the log starts after {self._floor}")
            for event in reversed(self._log):
                if event.entry.revision <= since:
                    break
                if event.entry.key.resource == resource:
                    backlog.append(event)
            backlog.reverse()
        subscription = Subscription(self, resource, backlog)
        self._subscriptions.setdefault(resource, set()).add(subscription)
        return subscription

    def listen(self, resource: str, heard: Callable[[Event], None]) -> None:
        """Call ``heard`` with every change of a resource, before the writer of that change gets its answer."""
        self._listeners.setdefault(resource, []).append(heard)

    def due(self, subscription: Subscription) -> None:
        """Tell a subscription after what happens now."""
        if not self._due:
            self._loop.call_soon(self._tell)
        self._due.append(subscription)

    def _tell(self) -> None:
        """Tell some of those that are due. What they write goes out before the next ones are told: their clients read
        meanwhile."""
        for _ in range(min(len(self._due), TOLD_AT_ONCE)):
            try:
                self._due.popleft().tell()
            except Exception:  # the others hear of it nevertheless
                LOG.exception("a subscription failed on what it was told")
        if self._due:
            self._loop.call_soon(self._tell)

    def wake_all(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.wake()

    # Writing: from the event loop to the writer thread and back.

    def create(self, key: Key, draft: Draft) -> asyncio.Future[Entry]:
        """Raises KeyExists."""
        return self._submit(Change.ADDED, key, draft, 0)

    def update(self, key: Key, draft: Draft, expected: int) -> asyncio.Future[Entry]:
        """Raises StaleRevision unless the key is at revision ``expected``."""
        return self._submit(Change.MODIFIED, key, draft, expected)

    def delete(self, key: Key, draft: Draft, expected: int) -> asyncio.Future[Entry]:
        """Remove the key; ``draft`` is the last body that watchers get. Raises StaleRevision as `update` does."""
        return self._submit(Change.DELETED, key, draft, expected)

    def _submit(self, change: Change, key: Key, draft: Draft, expected: int) -> asyncio.Future[Entry]:
        done: asyncio.Future[Entry] = self._loop.create_future()
        self._waiting.append(_Write(change, key, draft, expected, done))
        if self._idle.is_set():  # else they go when what is on its way is on disk
            self._idle.clear()
            self._loop.call_soon(self._begin)
        return done

    async def close(self) -> None:
        """Finish what is queued, then let go of the files."""
        await self._idle.wait()
        self._batches.put(None)
        await asyncio.to_thread(self._writer.join)
        self._database.close()
        self._lock.close()

    def _begin(self) -> None:
        """Send what waits to the disk. Nothing else is on its way then, so that memory tells the revision of every key."""
        writes, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        try:
            batch = self._decided(writes)
        except Exception as error:  # whatever it is, nobody waits in vain
            batch = _refused(writes, error)
        self._batches.put(batch)

    def _decided(self, writes: list[_Write]) -> _Batch:
        outcomes: list[tuple[_Write, Entry | ModelplaneError]] = []
        heads: dict[Key, int] = {}
        """The revisions of the keys that were written in this batch; zero for one that is gone."""
        rows: list[object] = []
        revision = self.revision
        for write in writes:
            change, key, draft, expected, _ = write
            head = heads.get(key)
            if head is None:
                known = self.get(key)
                head = 0 if known is None else known.revision
            if change is Change.ADDED and head:
                outcomes.append((write, KeyExists(f"{key.name} exists")))
            elif change is not Change.ADDED and head != expected:
                outcomes.append((write, StaleRevision(f"{key.name} is not at revision {expected}")))
            else:
                revision += 1
                heads[key] = 0 if change is Change.DELETED else revision
                entry = Entry(key, b"%b%d%b" % (draft.head, revision, draft.tail), revision)
                rows += (revision, *key, int(change), entry.body)
                outcomes.append((write, entry))
        count = revision - self.revision
        if not count:
            return _Batch(outcomes, "", rows)
        size = next(size for size in _INSERTIONS if size >= count)
        rows += _NO_ROW * (size - count)
        return _Batch(outcomes, _INSERTIONS[size], rows)

    def _write_forever(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                if batch.statement:
                    self._database.execute(batch.statement, batch.rows)
            except Exception as error:  # whatever it is, the writer lives on
                batch = _refused([write for write, _ in batch.outcomes], error)
            self._loop.call_soon_threadsafe(self._committed, batch)
            if len(self._superseded) >= FORGET:
                self._tidy()

    def _tidy(self) -> None:
        """Take superseded changes off the disk, the oldest first: else what was deleted could be there again."""
        try:
            self._database.execute(_FORGETTING, self._superseded[:FORGET])
        except sqlite3.Error as error:
            LOG.warning("superseded changes stay on the disk until a later write takes them off: %s", error)
        else:
            del self._superseded[:FORGET]

    def _committed(self, batch: _Batch) -> None:
        for write, outcome in batch.outcomes:
            if isinstance(outcome, Entry):
                self._publish(write.change, outcome)
        if self._waiting:
            self._begin()
        else:
            self._idle.set()
        for write, outcome in batch.outcomes:
            if write.done.done():  # the caller went away
                continue
            if isinstance(outcome, Entry):
                write.done.set_result(outcome)
            else:
                write.done.set_exception(outcome)

    def _publish(self, change: Change, entry: Entry) -> None:
        event = self._keep(change, entry)
        for heard in self._listeners.get(entry.key.resource, ()):
            try:
                heard(event)
            except Exception:  # a write that is on disk is answered, whatever a listener makes of it
                LOG.exception("a listener to %s failed on %s", entry.key.resource, entry.key.name)
        for subscription in self._subscriptions.get(entry.key.resource, ()):
            subscription.publish(event)

    def _keep(self, change: Change, entry: Entry) -> Event:
        """Take a change that is on disk into memory."""
        shelf = self._shelf(entry.key.resource)
        previous = shelf.take(entry.key) if change is Change.DELETED else shelf.put(entry)
        self.revision = entry.revision
        event = Event(change, entry, previous)
        self._log.append(event)
        self._log_bytes += len(entry.body)
        if previous is not None and previous.revision <= self._floor:
            self._superseded.append(previous.revision)
        if len(self._log) > LOG_EVENTS or self._log_bytes > LOG_BYTES:
            self._forget(1)
        return event

    def _forget(self, least: int) -> None:
        """Shorten the log to its limits, or to ``least`` changes when that is none."""
        # The oldest event needs no earlier body: nobody can read at a revision before it.
        while len(self._log) > least and (not least or len(self._log) > LOG_EVENTS or self._log_bytes > LOG_BYTES):
            dropped = self._log.popleft().entry
            self._log_bytes -= len(dropped.body)
            self._floor = max(self._floor, dropped.revision)
            if self.get(dropped.key) is not dropped:
                self._superseded.append(dropped.revision)


def _refused(writes: list[_Write], error: Exception) -> _Batch:
    failure = ModelplaneError(f"the store could not write: {error}; is the disk full?")
    return _Batch([(write, failure) for write in writes], "", [])
