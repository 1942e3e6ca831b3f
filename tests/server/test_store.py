"""The store: revisions, compare-and-swap, watches that resume, and pages of the past."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from modelplane.errors import ModelplaneError
from modelplane.server import store as module
from modelplane.server.store import (
    FORGET,
    LOG_EVENTS,
    Change,
    Compacted,
    Draft,
    Event,
    Key,
    KeyExists,
    StaleRevision,
    Store,
    StoreInUse,
)

BODY = Draft(b'{"revision":"', b'"}')


def key(name: str, namespace: str = "a", resource: str = "things") -> Key:
    return Key(resource, namespace, name)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    await opened.close()


async def test_a_write_gets_the_next_revision_and_carries_it_in_its_body(store: Store) -> None:
    first = await store.create(key("x"), BODY)
    second = await store.update(key("x"), BODY, first.revision)
    assert (first.revision, second.revision) == (1, 2)
    assert store.get(key("x")) is second
    assert second.body == b'{"revision":"2"}'


async def test_a_create_finds_its_name_taken(store: Store) -> None:
    await store.create(key("x"), BODY)
    with pytest.raises(KeyExists):
        await store.create(key("x"), BODY)


@pytest.mark.parametrize("change", ["update", "delete"])
async def test_a_write_over_an_old_revision_is_refused(store: Store, change: str) -> None:
    first = await store.create(key("x"), BODY)
    await store.update(key("x"), BODY, first.revision)
    with pytest.raises(StaleRevision):
        await getattr(store, change)(key("x"), BODY, first.revision)


async def test_of_concurrent_writes_over_one_revision_exactly_one_wins(store: Store) -> None:
    first = await store.create(key("x"), BODY)
    writes = [store.update(key("x"), BODY, first.revision) for _ in range(50)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(not isinstance(outcome, StaleRevision) for outcome in outcomes) == 1


async def test_a_closed_store_opens_as_it_was(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    await store.create(key("x"), BODY)
    gone = await store.create(key("y"), BODY)
    await store.delete(key("y"), BODY, gone.revision)
    await store.close()
    again = Store.open(tmp_path)
    try:
        assert [entry.key.name for entry in again.scan("things")] == ["x"]
        assert again.revision == 3
        assert (await again.create(key("z"), BODY)).revision == 4
    finally:
        await again.close()


async def test_a_second_server_is_refused_the_directory(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreInUse, match="in use by another API server"):
        Store.open(tmp_path)


async def test_a_watch_resumes_with_the_changes_since_a_revision_also_after_a_restart(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    first = await store.create(key("x"), BODY)
    await store.create(key("y", resource="others"), BODY)
    second = await store.update(key("x"), BODY, first.revision)
    await store.delete(key("x"), BODY, second.revision)
    await store.close()
    again = Store.open(tmp_path)
    try:
        events = again.subscribe("things", since=first.revision).take()
        assert [(event.change, event.entry.revision) for event in events] == [(Change.MODIFIED, 3), (Change.DELETED, 4)]
        assert events[1].previous is not None
        assert events[1].previous.revision == 3
    finally:
        await again.close()


async def test_a_watch_from_before_the_log_is_told_so(store: Store) -> None:
    entry = await store.create(key("x"), BODY)
    for start in range(0, LOG_EVENTS + 10, 512):
        for _ in range(min(512, LOG_EVENTS + 10 - start)):
            entry = await store.update(key("x"), BODY, entry.revision)
    with pytest.raises(Compacted):
        store.subscribe("things", since=1)
    assert store.subscribe("things", since=entry.revision - 1).take()[0].entry is entry


async def test_a_past_revision_is_read_by_undoing_what_came_after(store: Store) -> None:
    a = await store.create(key("a"), BODY)
    await store.create(key("b"), BODY)
    at = store.revision
    await store.delete(key("a"), BODY, a.revision)
    await store.create(key("c"), BODY)
    assert [entry.key.name for entry in store.scan_at("things", "", at)] == ["a", "b"]
    assert [entry.key.name for entry in store.scan("things")] == ["b", "c"]


async def test_a_scan_of_one_namespace_is_ordered_and_has_nothing_of_its_neighbours(store: Store) -> None:
    for namespace in ("a", "aa", "b"):
        for name in ("z", "x"):
            await store.create(key(name, namespace), BODY)
    assert [tuple(entry.key[1:]) for entry in store.scan("things", "aa")] == [("aa", "x"), ("aa", "z")]
    assert len(store.scan("things")) == 6


async def test_a_write_that_cannot_be_stored_fails_alone(store: Store) -> None:
    unhashable = Key("things", "a", ["x"])  # type: ignore[arg-type]
    with pytest.raises(ModelplaneError, match="could not write"):
        await store.create(unhashable, BODY)
    assert (await store.create(key("x"), BODY)).revision == 1


async def test_a_listener_that_fails_does_not_keep_the_writer_waiting(store: Store) -> None:
    def fail(_: Event) -> None:
        raise ValueError("no")

    store.listen("things", fail)
    assert (await store.create(key("x"), BODY)).revision == 1


async def test_a_name_that_went_and_came_back_is_listed_once_in_its_place(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.create(key(name), BODY)
    assert [entry.key.name for entry in store.scan("things", "a")] == ["a", "b", "c"]
    gone = store.get(key("b"))
    assert gone is not None
    await store.delete(key("b"), BODY, gone.revision)
    assert [entry.key.name for entry in store.scan("things", "a")] == ["a", "c"]
    await store.create(key("b"), BODY)
    await store.create(key("aa"), BODY)
    assert [entry.key.name for entry in store.scan("things", "a")] == ["a", "aa", "b", "c"]


async def test_a_batch_that_the_disk_refuses_leaves_nothing_and_the_next_one_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    await store.create(key("kept"), BODY)
    monkeypatch.setattr(store, "_database", Full())
    writes = [store.create(key(name), BODY) for name in ("x", "y")]
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        assert isinstance(outcome, ModelplaneError)
        assert "disk is full" in str(outcome)
    monkeypatch.undo()
    assert [entry.key.name for entry in store.scan("things")] == ["kept"]
    assert (await store.create(key("x"), BODY)).revision == 2


async def test_what_is_superseded_leaves_the_disk_and_nothing_deleted_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_EVENTS", 8)
    store = Store.open(tmp_path)
    kept = await store.create(key("kept"), BODY)
    gone = await store.create(key("gone"), BODY)
    gone = await store.update(key("gone"), BODY, gone.revision)
    await store.delete(key("gone"), BODY, gone.revision)
    changing = await store.create(key("changing"), BODY)
    for _ in range(FORGET + 20):
        changing = await store.update(key("changing"), BODY, changing.revision)
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as database:
        revisions = [revision for (revision,) in database.execute("SELECT revision FROM changes ORDER BY revision")]
    assert revisions[:2] == [kept.revision, revisions[-1] - len(revisions) + 2]
    assert len(revisions) < 40
    again = Store.open(tmp_path)
    try:
        found = [(entry.key.name, entry.revision) for entry in again.scan("things")]
        assert found == [("changing", changing.revision), ("kept", kept.revision)]
        assert again.revision == changing.revision
        with pytest.raises(Compacted):
            again.subscribe("things", since=kept.revision)
        assert again.subscribe("things", since=changing.revision - 1).take()[0].entry.revision == changing.revision
    finally:
        await again.close()


async def test_a_log_whose_start_is_gone_does_not_claim_changes_from_before_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    entry = await store.create(key("first"), BODY)
    entry = await store.create(key("x"), BODY)
    for _ in range(4):
        entry = await store.update(key("x"), BODY, entry.revision)
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("DELETE FROM changes WHERE revision IN (2, 3)")  # as the store does with what is superseded
    again = Store.open(tmp_path)
    try:
        with pytest.raises(Compacted):
            again.subscribe("things", since=2)
        assert [event.entry.revision for event in again.subscribe("things", since=3).take()] == [4, 5, 6]
        assert [entry.key.name for entry in again.scan("things")] == ["first", "x"]
    finally:
        await again.close()


async def test_a_store_with_its_objects_beside_the_log_is_taken_over(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.executescript(
            """
            CREATE TABLE objects (resource TEXT, namespace TEXT, name TEXT, revision INTEGER, body BLOB,
              PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID;
            CREATE TABLE changes (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL,
              name TEXT NOT NULL, change INTEGER NOT NULL, body BLOB NOT NULL);
            CREATE TRIGGER kept AFTER INSERT ON changes WHEN NEW.change <> 2 BEGIN
              INSERT OR REPLACE INTO objects VALUES (NEW.resource, NEW.namespace, NEW.name, NEW.revision, NEW.body);
            END;
            INSERT INTO changes VALUES (7, 'things', 'a', 'old', 0, '{"revision":"7"}');
            INSERT INTO changes VALUES (20, 'things', 'a', 'gone', 0, 'x'), (21, 'things', 'a', 'gone', 2, 'x');
            INSERT INTO changes VALUES (22, 'things', 'a', 'new', 0, '{"revision":"22"}');
            DELETE FROM objects WHERE name = 'gone';
            DELETE FROM changes WHERE revision = 7;
            """
        )
    for _ in range(2):
        store = Store.open(tmp_path)
        try:
            assert [(entry.key.name, entry.revision) for entry in store.scan("things")] == [("new", 22), ("old", 7)]
            assert [event.change for event in store.subscribe("things", since=19).take()] == [
                Change.ADDED, Change.DELETED, Change.ADDED,
            ]  # fmt: skip
        finally:
            await store.close()
