"""Core v1 Events about parents, once per change.

What was said last is remembered per parent and reason, so that a level-triggered pass that finds the same thing again
stays silent. An event with a cause is news when its cause is, whatever the figures in its message do, and when it comes back.
Names are made from the content: a restart that says it again meets its own event and leaves it. An event is never worth a
failed pass.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.compose.contract import Event
from modelplane.errors import AlreadyExists, ApiError, LeaseLost
from modelplane.kube import Client

log = logging.getLogger(__name__)

EVENT: Final = GVK("", "v1", "Event")
REMEMBERED: Final = 10_000
LONGEST: Final = 1024
"""Bytes of a message, as Kubernetes has it."""


class Recorder:
    """Writes events of one component at one API server. ``clock`` gives RFC 3339."""

    def __init__(self, client: Client, *, clock: Callable[[], str], component: str = "modelplane") -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._said: dict[tuple[str, str], frozenset[str]] = {}
        self._causes: dict[str, set[str]] = {}
        """Reasons with a cause that were said about a parent."""
        self._waiting: deque[tuple[Object, Event, bool]] = deque(maxlen=REMEMBERED)
        self._task: asyncio.Task[None] | None = None

    def record(self, about: Object, events: Sequence[Event]) -> None:
        """Say what is new, in the background. ``about`` is the object that the events are listed under."""
        uid = about["metadata"]["uid"]
        for reason in self._causes.pop(uid, set()) - {event.reason for event in events}:
            # It no longer holds. When it does again, it is said again.
            self._causes.setdefault(uid, set()).add(reason)
            self._said[uid, reason] = frozenset()
        for reason in dict.fromkeys(event.reason for event in events):
            topic = uid, reason
            said = self._said.pop(topic, None)
            told = {f"{event.type} {event.cause or event.message}": event for event in events if event.reason == reason}
            if any(event.cause for event in told.values()):
                self._causes.setdefault(uid, set()).add(reason)
            if said is None and len(self._said) >= REMEMBERED:
                oldest = next(iter(self._said))
                del self._said[oldest]
                self._causes.get(oldest[0], set()).discard(oldest[1])
            self._said[topic] = frozenset(told)
            for text, event in told.items():
                if text not in (said or ()):
                    self._waiting.append((about, event, said is not None))
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._drain(), name="events")

    async def _drain(self) -> None:
        while self._waiting:
            about, event, again = self._waiting.popleft()
            await self._write(about, event, again=again)

    async def flush(self, seconds: float = 2.0) -> None:
        """Wait until everything is written, but not for long."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)
            self._task.cancel()

    def forget(self, uid: str) -> None:
        for topic in [topic for topic in self._said if topic[0] == uid]:
            del self._said[topic]
        self._causes.pop(uid, None)

    async def _write(self, about: Object, event: Event, *, again: bool) -> None:
        metadata = about["metadata"]
        now = self._clock()
        namespace = metadata.get("namespace") or "default"
        said = f"{metadata['uid']} {event.type} {event.reason} {event.cause or event.message}"
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        message = event.message.encode()[:LONGEST].decode(errors="ignore")
        name = f"{metadata['name'][:230]}.{digest}"
        involved = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        body: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                **involved,
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            },
            "type": event.type,
            "reason": event.reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(body)
        except AlreadyExists:
            if again:
                await self._repeat(name, namespace, {"lastTimestamp": now, "message": message})
        except (ApiError, LeaseLost) as error:
            log.debug("event %s of %s was not written: %s", event.reason, metadata["name"], error)

    async def _repeat(self, name: str, namespace: str, news: Object) -> None:
        try:
            known = await self._client.get(EVENT, name, namespace)
            count = int(known.get("count") or 1) + 1
            await self._client.patch(EVENT, name, namespace, {"count": count, **news})
        except (ApiError, LeaseLost) as error:
            log.debug("event %s was not counted: %s", name, error)
