"""A process is known by pid and start time, and is found again by whoever comes next."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane import processes
from tests.conftest import Eventually

SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")


async def test_a_recorded_process_is_adopted_and_stopped_by_a_successor(tmp_path: Path) -> None:
    record = processes.spawn(SLEEPER, log=tmp_path / "log")
    processes.remember(tmp_path / "run" / "sleeper.json", record)
    assert processes.recall(tmp_path / "run" / "sleeper.json") == record
    assert os.getsid(record.pid) == record.pid, "a terminal's Ctrl-C must not reach it"
    assert await processes.stop(record)
    assert processes.recall(tmp_path / "run" / "sleeper.json") is None


async def test_a_pid_that_came_round_again_is_not_ours(tmp_path: Path) -> None:
    record = processes.spawn(SLEEPER, log=tmp_path / "log")
    other = processes.Record(record.pid, "an earlier start", record.argv)
    processes.remember(tmp_path / "other.json", other)
    try:
        assert processes.recall(tmp_path / "other.json") is None
        assert await processes.stop(other), "nothing of ours runs, so there is nothing to stop"
        assert record.alive, "a stranger with the same pid is left alone"
    finally:
        await processes.stop(record)


async def test_the_end_of_a_process_is_noticed_at_once(tmp_path: Path) -> None:
    record = processes.spawn(SLEEPER, log=tmp_path / "log")
    waiter = asyncio.create_task(processes.ended(record))
    await asyncio.sleep(0)
    os.kill(record.pid, 9)
    await asyncio.wait_for(waiter, 5)
    assert not record.alive


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path, eventually: Eventually) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    record = processes.spawn((sys.executable, "-c", code), log=tmp_path / "log")
    await eventually(lambda: "deaf" in (tmp_path / "log").read_text())
    assert not await processes.stop(record, grace=0.1)
    assert not record.alive


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(SLEEPER) as child:
        record = processes.Record(child.pid, processes.start_time(child.pid) or "", SLEEPER)
        assert record.alive
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not record.alive, "its parent has not reaped it, yet nothing runs any more"


@pytest.mark.parametrize(
    ("pids", "reason"),
    [
        ([os.getpid()], "a running interpreter uses memory"),
        ([os.getpid(), 2**22 + 1], "a pid that is gone counts nothing"),
    ],
)
def test_memory_is_summed_over_what_runs(pids: list[int], reason: str) -> None:
    assert processes.memory(pids) > 1 << 20, reason


async def test_descendants_are_found_however_deep(tmp_path: Path, eventually: Eventually) -> None:
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    record = processes.spawn((sys.executable, "-c", nested), log=tmp_path / "log")
    await eventually(lambda: len(processes.descendants([record.pid])) == 2)
    family = processes.descendants([record.pid])
    assert record.pid in family
    for pid in family:
        os.kill(pid, 9)
    await processes.ended(record)
