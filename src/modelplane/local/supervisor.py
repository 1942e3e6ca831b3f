"""Keeps the processes of a local fleet running: start, notice an end at once, start again, stop in order.

Deliberately small: it knows argument vectors and readiness, nothing of Kubernetes. A unit that was left running by a crashed
supervisor is adopted by pid and start time; the trade is that its exit status is unknown, so every end counts alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from modelplane import processes
from modelplane.errors import PermanentError

HOPELESS: Final = 3
"""Ends after which a start has failed."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A supervised process. ``grace`` is how long SIGTERM may take, in seconds."""

    name: str
    argv: tuple[str, ...]
    log: Path
    record: Path
    env: Mapping[str, str] = {}
    grace: float = 8.0


class UnitFailed(PermanentError):
    """A unit never became ready; the message has the end of its log."""


class Supervisor:
    """Runs units until stopped. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._units: dict[str, Unit] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, processes.Record] = {}
        self._deaths: dict[str, int] = {}

    @property
    def running(self) -> Mapping[str, processes.Record]:
        """The processes of now, by unit."""
        return dict(self._running)

    async def start(
        self, unit: Unit, *, ready: Callable[[], Awaitable[None]] | None = None, within: float = 30.0
    ) -> None:
        """Adopt or start the unit, keep it running from now on, and return once ``ready`` has returned.

        Raises `UnitFailed` when it is not ready in time or keeps ending.
        """
        self._units[unit.name] = unit
        self._deaths[unit.name] = 0
        keeping = processes.keep(
            unit.argv,
            log=unit.log,
            record=unit.record,
            env=unit.env,
            name=unit.name,
            changed=lambda record: self._changed(unit, record),
        )
        self._tasks[unit.name] = asyncio.create_task(keeping, name=f"unit {unit.name}")
        if ready is None:
            return
        answered = asyncio.ensure_future(ready())
        deadline = time.monotonic() + within
        try:
            while not answered.done():
                await asyncio.wait((answered,), timeout=0.1)
                if self._deaths[unit.name] >= HOPELESS or time.monotonic() > deadline:
                    raise UnitFailed(f"{unit.name} did not become ready; the end of {unit.log}:\n{tail(unit.log)}")
            await answered
        finally:
            answered.cancel()

    def judge(self) -> None:
        """Raises `UnitFailed` for a unit that keeps ending, as those do whose readiness nobody waited for."""
        for name, unit in self._units.items():
            if self._deaths[name] >= HOPELESS:
                raise UnitFailed(f"{name} keeps ending; the end of {unit.log}:\n{tail(unit.log)}")

    def _changed(self, unit: Unit, record: processes.Record | None) -> None:
        if record is not None:
            self._running[unit.name] = record
        else:
            self._running.pop(unit.name, None)
            self._deaths[unit.name] += 1

    async def stop(self, *names: str) -> None:
        """Stop the named units at the same time and forget them."""
        await asyncio.gather(*(self._stop(name) for name in names))

    async def _stop(self, name: str) -> None:
        unit = self._units.pop(name, None)
        task = self._tasks.pop(name, None)
        if unit is None or task is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._running.pop(name, None)
        record = processes.recall(unit.record)
        if record is not None:
            await processes.stop(record, grace=unit.grace)
        unit.record.unlink(missing_ok=True)


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log was written)"
