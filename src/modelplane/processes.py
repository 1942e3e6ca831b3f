"""Processes that outlive whoever started them: spawn, remember, adopt, stop, weigh.

A process is known by its pid *and* its start time, because pids come round again. A record of both lies in a small JSON
file, so that a successor of a crashed parent finds its children instead of starting them twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

logger = logging.getLogger(__name__)


class Record(msgspec.Struct, frozen=True):
    """One running process. ``started`` is opaque: it only has to equal what `start_time` says now."""

    pid: int
    started: str
    argv: tuple[str, ...]

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> str | None:
    """When the process started, in the system's own words; None when there is no such process (a zombie is none)."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The command may contain spaces and parentheses; everything after the last one is fixed (proc(5), fields 3 and 22).
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Record:
    """Start a process in a session of its own, its output appended to ``log``. Signals of our terminal do not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(  # the child's end is noticed by `ended`, which reaps it
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
    process.returncode = 0  # keeps Popen's finaliser from warning about a child that is meant to live on
    return Record(process.pid, start_time(process.pid) or "", tuple(argv))


def remember(path: Path, record: Record) -> None:
    """Write the record atomically, so that a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_bytes(msgspec.json.encode(record))
    scratch.replace(path)


def recall(path: Path) -> Record | None:
    """The recorded process when it still runs, else None."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None
    return record if record.alive else None


async def ended(record: Record, *, poll: float = 0.05) -> None:
    """Return once the process has ended, whether or not it is our child."""
    loop = asyncio.get_running_loop()
    if sys.platform == "linux":
        try:
            fd = os.pidfd_open(record.pid)
        except OSError:
            return
        gone = asyncio.Event()
        try:
            if not record.alive:
                return
            loop.add_reader(fd, gone.set)
            await gone.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
            _reap(record.pid)
        return
    while record.alive:
        await asyncio.sleep(poll)
        _reap(record.pid)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """How soon a process that ended is started again, in seconds: at once after it ran for ``steady``, else doubling."""

    first: float = 0.1
    longest: float = 5.0
    steady: float = 10.0


USUAL: Final = Restarts()


async def keep(
    argv: Sequence[str],
    *,
    log: Path,
    record: Path,
    changed: Callable[[Record | None], None],
    env: Mapping[str, str] | None = None,
    name: str = "",
    restarts: Restarts = USUAL,
) -> None:
    """Keep a process running until cancelled: adopt the recorded one, start it, start it again when it ends.

    ``changed`` hears of every start (the process) and of every end (None), and one that cannot be started has ended. A recorded
    process with another command is replaced. ``name`` is what the log calls it.
    """
    name = name or record.stem
    delay = restarts.first
    while True:
        running = recall(record)
        if running is not None and running.argv != tuple(argv):
            await stop(running)
            running = None
        began = time.monotonic()
        try:
            if running is None:
                running = await _started(argv, log, record, env)
        except OSError as error:
            changed(None)
            why = f"{error.filename or argv[0]}: {error.strerror or error}"
            logger.warning("%s cannot be started, which is tried again: %s", name, why)
            with contextlib.suppress(OSError), log.open("a") as said:
                said.write(f"{name} cannot be started: {why}\n")
        else:
            changed(running)
            await ended(running)
            changed(None)
            lived = time.monotonic() - began
            logger.warning("%s ended after %.1f s; starting it again; its log is %s", name, lived, log)
            if lived > restarts.steady:
                delay = restarts.first
        await asyncio.sleep(delay)
        delay = min(delay * 2, restarts.longest)


async def _started(argv: Sequence[str], log: Path, record: Path, env: Mapping[str, str] | None) -> Record:
    """Raises OSError, and then nothing runs: one that nobody remembers would be started twice."""
    running = spawn(argv, log=log, env=env)
    try:
        remember(record, running)
    except OSError:
        await stop(running)
        raise
    return running


async def stop(record: Record, *, grace: float = 5.0) -> bool:
    """SIGTERM, then SIGKILL after ``grace`` seconds. True when the process ended by itself."""
    if not record.alive:
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(ended(record), grace)
        return True
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)
        await ended(record)
        return False


def descendants(pids: Iterable[int]) -> set[int]:
    """The processes themselves and everything that they started, however deep."""
    children: dict[int, list[int]] = {}
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        child, parent = line.split()
        children.setdefault(int(parent), []).append(int(child))
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def memory(pids: Iterable[int]) -> int:
    """Bytes that the processes use together: proportional set size, or resident size where a system has none.

    A process that ends while we look counts for nothing.
    """
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
            total += int(shown.stdout.strip() or 0) * 1024
        else:
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
    return total
