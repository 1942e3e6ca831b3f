"""Starts engines through the zygote, and tells when one has ended and how.

The zygote is started when it is first needed and again when it died; engines do not mind. An engine that is not the
zygote's child any more (adopted after a crash) is watched by its pid, and its exit code is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from pathlib import Path
from typing import Any, Final

import modelplane
from modelplane import processes
from modelplane.errors import TemporaryError
from modelplane.local.engines.settings import Settings
from modelplane.processes import Record

log = logging.getLogger(__name__)

_CODE: Final = (
    "import sys; sys.modules['ssl'] = None; sys.path.insert(0, {root!r}); "
    "from modelplane.local.engines.zygote import main; main()"
)
ARGV: Final = ("mock-engine",)
STATUS_WAIT: Final = 0.2
"""Seconds between the end of an engine and the zygote's word of its status."""


class CannotStart(TemporaryError):
    """The engine was not started; the message says why."""


class Forge:
    """Makes engine processes. `close` leaves them running."""

    def __init__(self) -> None:
        self._zygote: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._statuses: dict[int, asyncio.Future[int]] = {}
        self._number = 0

    async def warm(self) -> asyncio.subprocess.Process:
        """Have a zygote ready."""
        async with self._starting:
            if self._zygote is not None and self._zygote.returncode is None:
                return self._zygote
            root = str(Path(modelplane.__file__).parent.parent)
            self._zygote = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                _CODE.format(root=root),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            self._reader = asyncio.create_task(self._read(self._zygote), name="zygote")
            return self._zygote

    async def start(self, settings: Settings, *, log_file: Path, settings_file: Path) -> Record:
        """A running engine that listens already. Raises `CannotStart`."""
        zygote = await self.warm()
        self._number += 1
        number = self._number
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        request = {
            "id": number,
            "settings": settings.to_json(),
            "log": str(log_file),
            "settings_file": str(settings_file),
        }
        try:
            assert zygote.stdin is not None
            zygote.stdin.write(json.dumps(request).encode() + b"\n")
            async with asyncio.timeout(10):
                found = await answer
        except (TimeoutError, OSError) as error:
            raise CannotStart(f"the engine's parent process does not answer: {error}") from error
        finally:
            self._answers.pop(number, None)
        if "error" in found:
            raise CannotStart(found["error"])
        started = processes.start_time(found["pid"])
        return Record(found["pid"], started or "", ARGV)

    async def ended(self, record: Record) -> int | None:
        """Wait for the end of an engine: its exit code, negative for a signal, None when nobody can tell."""
        await processes.ended(record)
        status = self._statuses.get(record.pid)
        if status is None:
            return None
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(STATUS_WAIT):
                await asyncio.shield(status)
        self._statuses.pop(record.pid, None)
        return status.result() if status.done() and not status.cancelled() else None

    async def close(self) -> None:
        """End the zygote; engines live on."""
        if self._zygote is not None and self._zygote.returncode is None:
            assert self._zygote.stdin is not None
            self._zygote.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self._zygote.wait()
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, zygote: asyncio.subprocess.Process) -> None:
        assert zygote.stdout is not None
        while line := await zygote.stdout.readline():
            message = json.loads(line)
            if "exited" in message:
                status = self._statuses.get(message["exited"])
                if status is not None and not status.done():
                    status.set_result(message["status"])
            elif message["id"] in self._answers:
                if "pid" in message:
                    self._statuses[message["pid"]] = asyncio.get_running_loop().create_future()
                if not self._answers[message["id"]].done():
                    self._answers[message["id"]].set_result(message)
        await zygote.wait()
        log.info("the engines' parent process has ended")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result({"error": "the engines' parent process has ended"})
        for status in self._statuses.values():
            status.cancel()
        self._statuses.clear()
