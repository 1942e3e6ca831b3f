"""A revisioned key-value store over SQLite: what an acknowledged write means, in one file.

One writer thread owns the database and decides every compare-and-swap; it drains its queue into one transaction
(group commit) and answers only after its commit with ``synchronous=FULL``, so an acknowledged write is on disk. The transaction is
a single INSERT into the log of changes, and triggers do the rest: SQLite works and waits for the disk without Python's lock, while
the event loop prepares the next batch. Reads come from memory and are made of bytes that nobody changes; memory follows the commits
in revision order. The bounded log lets a watch resume, also after a restart, and lets a list page read a past revision. The store
knows nothing of Kubernetes: a resource is a string, a body is bytes, and the writer splices the revision in where the caller asks.
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
SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
  revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  change INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS kept AFTER INSERT ON changes WHEN NEW.change <> 2 BEGIN
  INSERT OR REPLACE INTO objects VALUES (NEW.resource, NEW.namespace, NEW.name, NEW.revision, NEW.body);
END;
CREATE TRIGGER IF NOT EXISTS gone AFTER INSERT ON changes WHEN NEW.change = 2 BEGIN
  DELETE FROM objects WHERE resource = NEW.resource AND namespace = NEW.namespace AND name = NEW.name;
END;
CREATE TRIGGER IF NOT EXISTS forgotten AFTER INSERT ON changes WHEN NEW.revision % 512 = 0 BEGIN
  DELETE FROM changes WHERE revision <= NEW.revision - {LOG_EVENTS};
END;
"""
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


_INSERTIONS: Final = {rows: _insertion(rows) for rows in (1, 4, 16, 64, BATCH)}
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
            self._store.soon(self._call)

    def listen(self, heard: Callable[[], None] | None) -> None:
        """Have ``heard`` called for what is due, once for all changes that were committed together, instead of a wake."""
        self._heard = heard

    def _call(self) -> None:
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
        self.revision = 0
        try:
            self._database = sqlite3.connect(directory / "store.db", isolation_level=None, check_same_thread=False)
            for pragma in PRAGMAS:
                self._database.execute(f"PRAGMA {pragma}")
            self._database.executescript(SCHEMA)
            self._load()
        except (sqlite3.Error, TypeError, ValueError) as error:
            self._lock.close()
            raise StoreDamaged(
                f"{directory / 'store.db'} cannot be read: {error}. If the disk is full or the file not writable, mend that; "
                "else stop here and put back a copy of store.db, store.db-wal and store.db-shm, or move the three away to "
                "start with nothing"
            ) from error
        self._heads = {e.key: e.revision for shelf in self._shelves.values() for e in shelf.all()}
        self._next = self.revision + 1
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, directory: Path) -> Store:
        """Raises StoreInUse when another process serves the same directory, StoreDamaged when its files are none of ours."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(directory)

    def _load(self) -> None:
        for resource, namespace, name, revision, body in self._database.execute(
            "SELECT resource, namespace, name, revision, body FROM objects"
        ):
            key = Key(resource, namespace, name)
            self._shelf(resource).put(Entry(key, body, revision))
        ((oldest, newest),) = self._database.execute("SELECT min(revision), max(revision) FROM changes")
        self.revision = newest or 0
        self._floor = (oldest or 1) - 1
        last: dict[Key, Entry] = {}
        for revision, resource, namespace, name, change, body in self._database.execute(
            "SELECT revision, resource, namespace, name, change, body FROM changes ORDER BY revision"
        ):
            key = Key(resource, namespace, name)
            live = self._shelf(resource).get(key)
            entry = live if live is not None and live.revision == revision else Entry(key, body, revision)
            self._remember(Event(Change(change), entry, last.get(key)))
            last[key] = entry

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

    def soon(self, call: Callable[[], None]) -> None:
        """Call after what happens now."""
        self._loop.call_soon(call)

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
        self._queue.put(_Write(change, key, draft, expected, done))
        return done

    async def close(self) -> None:
        """Finish what is queued, then let go of the files."""
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join)
        self._database.close()
        self._lock.close()

    def _write_forever(self) -> None:
        stopping = False
        while not stopping:
            batch: list[_Write] = []
            item = self._queue.get()
            while True:
                if item is None:
                    stopping = True
                    break
                batch.append(item)
                if len(batch) >= BATCH:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._commit(batch)

    def _commit(self, batch: list[_Write]) -> None:
        outcomes: list[tuple[_Write, Entry | ModelplaneError]] = []
        undo: list[tuple[Key, int | None]] = []
        rows: list[object] = []
        first = self._next
        try:
            for write in batch:
                head = self._heads.get(write.key)
                if write.change is Change.ADDED and head is not None:
                    outcomes.append((write, KeyExists(f"{write.key.name} exists")))
                elif write.change is not Change.ADDED and head != write.expected:
                    outcomes.append((write, StaleRevision(f"{write.key.name} is not at revision {write.expected}")))
                else:
                    undo.append((write.key, head))
                    entry = self._decided(write)
                    rows += (entry.revision, *entry.key, int(write.change), entry.body)
                    outcomes.append((write, entry))
            if undo:
                size = next(size for size in _INSERTIONS if size >= len(undo))
                rows += _NO_ROW * (size - len(undo))
                self._database.execute(_INSERTIONS[size], rows)
        except Exception as error:  # whatever it is, the writer lives on and nobody waits in vain
            for key, head in reversed(undo):
                if head is None:
                    self._heads.pop(key, None)
                else:
                    self._heads[key] = head
            self._next = first
            failure = ModelplaneError(f"the store could not write: {error}; is the disk full?")
            outcomes = [(write, failure) for write in batch]
        self._loop.call_soon_threadsafe(self._committed, outcomes)

    def _decided(self, write: _Write) -> Entry:
        """What a write leaves, at the next revision."""
        revision = self._next
        self._next += 1
        if write.change is Change.DELETED:
            del self._heads[write.key]
        else:
            self._heads[write.key] = revision
        return Entry(write.key, b"%b%d%b" % (write.draft.head, revision, write.draft.tail), revision)

    def _committed(self, outcomes: list[tuple[_Write, Entry | ModelplaneError]]) -> None:
        for write, outcome in outcomes:
            if isinstance(outcome, Entry):
                self._publish(write.change, outcome)
            if write.done.done():  # the caller went away
                continue
            if isinstance(outcome, Entry):
                write.done.set_result(outcome)
            else:
                write.done.set_exception(outcome)

    def _publish(self, change: Change, entry: Entry) -> None:
        shelf = self._shelf(entry.key.resource)
        previous = shelf.take(entry.key) if change is Change.DELETED else shelf.put(entry)
        self.revision = entry.revision
        event = Event(change, entry, previous)
        self._remember(event)
        for heard in self._listeners.get(entry.key.resource, ()):
            try:
                heard(event)
            except Exception:  # a write that is on disk is answered, whatever a listener makes of it
                LOG.exception("a listener to %s failed on %s", entry.key.resource, entry.key.name)
        for subscription in self._subscriptions.get(entry.key.resource, ()):
            subscription.publish(event)

    def _remember(self, event: Event) -> None:
        self._log.append(event)
        self._log_bytes += len(event.entry.body)
        while len(self._log) > LOG_EVENTS or (self._log_bytes > LOG_BYTES and len(self._log) > 1):
            dropped = self._log.popleft()
            self._log_bytes -= len(dropped.entry.body)
            self._floor = max(self._floor, dropped.entry.revision)
        # The oldest event needs no earlier body: nobody can read at a revision before it.
