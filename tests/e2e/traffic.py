"""Requests through a front door, one by one or at a constant rate."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp

BODY = {"model": "mock", "messages": [{"role": "user", "content": "who are you?"}]}


def ask(base: str) -> dict[str, object]:
    """One chat completion; raises on anything but 200."""
    request = urllib.request.Request(
        f"{base}/v1/chat/completions", json.dumps(BODY).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        completion: dict[str, object] = json.load(answer)
        return completion


def answering_pods(base: str, count: int) -> list[str]:
    """The pods that answered ``count`` requests made one after the other."""
    return [pod_of(ask(base)) for _ in range(count)]


def pod_of(completion: dict[str, object]) -> str:
    """The mock engine begins its answer with the name of its pod and a colon."""
    choices = completion["choices"]
    assert isinstance(choices, list)
    return str(choices[0]["message"]["content"]).partition(":")[0]


def replica_of(pod: str) -> str:
    """The ModelReplica behind a pod's name: REPLICA-ENGINE-HASH (the Deployment), -TEMPLATE (the ReplicaSet), -POD."""
    return pod.rsplit("-", 4)[0]


@dataclass
class Outcome:
    """What happened to a stream of requests. Times are of `time.monotonic`."""

    answered: int = 0
    failures: list[tuple[float, str]] = field(default_factory=list)

    def failed_between(self, since: float, until: float) -> list[str]:
        return [what for when, what in self.failures if since <= when <= until]


@contextmanager
def constant_rate(base: str, rate: float = 50.0) -> Iterator[Outcome]:
    """Send ``rate`` requests a second, each at its own time whether or not earlier ones were answered."""
    outcome = Outcome()
    stop = threading.Event()

    async def one(session: aiohttp.ClientSession) -> None:
        sent = time.monotonic()
        try:
            async with session.post(f"{base}/v1/chat/completions", json=BODY) as answer:
                body = await answer.text()
                if answer.status == 200:
                    outcome.answered += 1
                else:
                    outcome.failures.append((sent, f"{answer.status} {body[:200]}"))
        except (aiohttp.ClientError, TimeoutError) as error:
            outcome.failures.append((sent, repr(error)))

    async def pump() -> None:
        timeout = aiohttp.ClientTimeout(total=15)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            due = time.monotonic()
            while not stop.is_set():
                group.create_task(one(session))
                due += 1 / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=lambda: asyncio.run(pump()), daemon=True)
    thread.start()
    try:
        yield outcome
    finally:
        stop.set()
        thread.join(30)
