"""Events are kept for an hour, as a real API server keeps them; nothing else expires."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.objects import draft, read
from modelplane.server.store import StaleRevision, Store

KEPT: Final = timedelta(hours=1)
EVERY_SECONDS: Final = 60.0


def expired(event: Object, now: datetime) -> bool:
    """Whether an event was last written more than an hour ago."""
    times = [event.get("lastTimestamp"), (event.get("series") or {}).get("lastObservedTime"), event.get("eventTime")]
    last = next((time for time in times if time), event["metadata"]["creationTimestamp"])
    return datetime.fromisoformat(last) < now - KEPT


async def sweep(store: Store, now: datetime) -> int:
    """Delete what is expired; answers with how many that were."""
    gone = 0
    for entry in store.scan("events"):
        event = read(entry)
        if expired(event, now):
            with contextlib.suppress(StaleRevision):  # somebody wrote it just now
                await store.delete(entry.key, draft(event), entry.revision)
                gone += 1
    return gone


async def sweep_forever(store: Store) -> None:
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        await sweep(store, datetime.now(UTC))
