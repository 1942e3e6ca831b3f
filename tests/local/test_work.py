"""The work queue: one worker per key, nothing lost, failures tried again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from modelplane.errors import Conflict
from modelplane.local.work import Work


async def running(work: Work[str], condition: Callable[[], Any], eventually: Any) -> None:
    task = asyncio.create_task(work.run())
    try:
        await eventually(condition, within=5)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_is_worked_on_by_one_worker_at_a_time_and_again_when_it_changed_meanwhile(eventually: Any) -> None:
    active: Counter[str] = Counter()
    done: Counter[str] = Counter()
    go = asyncio.Event()

    async def reconcile(key: str) -> None:
        active[key] += 1
        assert active[key] == 1, "two workers have one key"
        await go.wait()
        active[key] -= 1
        done[key] += 1

    work: Work[str] = Work("test", reconcile, workers=3)
    work.add("a")

    async def meanwhile() -> bool:
        if active["a"]:
            for _ in range(5):
                work.add("a")
            go.set()
        return done["a"] >= 2

    await running(work, meanwhile, eventually)
    assert done["a"] == 2, "five changes during one pass are one more pass"


async def test_a_failure_is_tried_again_and_hurts_no_other_key(eventually: Any) -> None:
    tries: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        tries[key] += 1
        if key == "bad" and tries[key] < 3:
            raise Conflict("somebody wrote first") if tries[key] == 1 else ValueError("a mistake of ours")

    work: Work[str] = Work("test", reconcile, workers=1)
    work.add("bad")
    work.add("good")
    await running(work, lambda: tries["bad"] == 3 and tries["good"] == 1, eventually)


async def test_a_pass_may_ask_to_come_back_and_an_earlier_appointment_stands(eventually: Any) -> None:
    times: list[float] = []
    clock = asyncio.get_running_loop().time

    async def reconcile(key: str) -> float | None:
        times.append(clock())
        return 0.02 if len(times) == 1 else None

    work: Work[str] = Work("test", reconcile)
    work.add("a")
    began = clock()

    async def twice() -> bool:
        if len(times) == 1:
            work.add_after("a", 60)
        return len(times) == 2

    await running(work, twice, eventually)
    assert 0.02 <= times[1] - times[0] <= clock() - began


async def test_cancelling_ends_the_workers(eventually: Any) -> None:
    started = asyncio.Event()
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(key)

    work: Work[str] = Work("test", reconcile)
    work.add("a")
    waiting: Callable[[], Awaitable[bool]] = started.wait
    await running(work, waiting, eventually)
    assert ended == ["a"]
