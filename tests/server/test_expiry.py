"""Events go after an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from modelplane.server.expiry import expired, sweep
from modelplane.server.objects import draft
from modelplane.server.store import Key, Store

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def event(**more: object) -> dict[str, object]:
    return {"metadata": {"name": "e", "namespace": "default", "creationTimestamp": _ago(120)}, **more}


def _ago(minutes: int) -> str:
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


CASES = [
    (event(), True, "nothing but its creation, two hours ago"),
    (event(lastTimestamp=_ago(30)), False, "seen again half an hour ago"),
    (event(lastTimestamp=None, eventTime=_ago(61)), True, "an event of the newer form"),
    (event(eventTime=_ago(90), series={"lastObservedTime": _ago(5)}), False, "a series that goes on"),
]


@pytest.mark.parametrize(("obj", "wanted", "reason"), CASES)
def test_the_last_time_that_an_event_was_seen_counts(obj: dict[str, object], wanted: bool, reason: str) -> None:
    assert expired(obj, NOW) is wanted, reason


async def test_a_sweep_deletes_what_is_expired_and_nothing_else(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    try:
        for name, obj in (("old", event()), ("new", event(lastTimestamp=_ago(1)))):
            await store.create(Key("events", "default", name), draft(obj))
        assert await sweep(store, NOW) == 1
        assert [entry.key.name for entry in store.scan("events")] == ["new"]
    finally:
        await store.close()
