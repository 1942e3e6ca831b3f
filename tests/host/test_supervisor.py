"""Units are kept running, adopted after a crash of the supervisor, and stopped for good when asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane import processes
from modelplane.local.supervisor import Supervisor, Unit, UnitFailed
from tests.conftest import Eventually


def unit(tmp_path: Path, code: str = "import signal; signal.pause()") -> Unit:
    return Unit(
        name="pause",
        argv=(sys.executable, "-c", code),
        log=tmp_path / "pause.log",
        record=tmp_path / "pause.json",
    )


async def test_a_killed_unit_is_started_again(tmp_path: Path, eventually: Eventually) -> None:
    supervisor = Supervisor()
    await supervisor.start(unit(tmp_path))
    await eventually(lambda: "pause" in supervisor.running)
    first = supervisor.running["pause"]
    os.kill(first.pid, 9)
    await eventually(lambda: supervisor.running.get("pause") not in (None, first))
    second = supervisor.running["pause"]
    await supervisor.stop("pause")
    assert not second.alive
    assert not (tmp_path / "pause.json").exists()


async def test_a_unit_left_by_a_crashed_supervisor_is_adopted(tmp_path: Path, eventually: Eventually) -> None:
    left = processes.spawn(unit(tmp_path).argv, log=tmp_path / "pause.log")
    processes.remember(tmp_path / "pause.json", left)
    supervisor = Supervisor()
    await supervisor.start(unit(tmp_path))
    await eventually(lambda: supervisor.running.get("pause") == left)
    await supervisor.stop("pause")
    assert not left.alive


async def test_a_unit_with_other_arguments_is_replaced(tmp_path: Path, eventually: Eventually) -> None:
    left = processes.spawn((*unit(tmp_path).argv, "older"), log=tmp_path / "pause.log")
    processes.remember(tmp_path / "pause.json", left)
    supervisor = Supervisor()
    await supervisor.start(unit(tmp_path))
    await eventually(lambda: supervisor.running.get("pause") not in (None, left))
    assert not left.alive, "two of one unit would fight over its port"
    await supervisor.stop("pause")


async def test_a_unit_whose_program_is_gone_for_a_while_comes_back(
    tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "program"
    wanted = unit(tmp_path)
    wanted = msgspec.structs.replace(wanted, argv=(str(program), *wanted.argv[1:]))
    supervisor = Supervisor()
    await supervisor.start(wanted)
    await eventually(lambda: "cannot be started" in caplog.text)
    assert f"pause cannot be started, which is tried again: {program}: No such file or directory" in caplog.text
    program.symlink_to(sys.executable)
    await eventually(lambda: "pause" in supervisor.running)
    await supervisor.stop("pause")


async def test_one_that_nobody_waited_for_and_keeps_ending_fails_the_start(
    tmp_path: Path, eventually: Eventually
) -> None:
    supervisor = Supervisor()
    supervisor.judge()
    await supervisor.start(msgspec.structs.replace(unit(tmp_path), argv=("/nowhere/program",)))

    def hopeless() -> bool:
        with contextlib.suppress(UnitFailed):
            supervisor.judge()
            return False
        return True

    await eventually(hopeless)
    with pytest.raises(
        UnitFailed, match=r"(?s)pause keeps ending.*pause cannot be started: /nowhere/program: No such file"
    ):
        supervisor.judge()
    await supervisor.stop("pause")


async def test_a_process_that_cannot_be_remembered_does_not_run_on(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be started a second time."""
    started: list[processes.Record] = []
    spawn = processes.spawn

    def noted(*args: Any, **options: Any) -> processes.Record:
        started.append(spawn(*args, **options))
        return started[-1]

    monkeypatch.setattr(processes, "spawn", noted)
    wanted = unit(tmp_path)
    wanted.record.mkdir()
    supervisor = Supervisor()
    await supervisor.start(wanted)
    await eventually(lambda: len(started) > 1)
    wanted.record.rmdir()
    await eventually(lambda: "pause" in supervisor.running)
    assert [one for one in started if one.alive] == [supervisor.running["pause"]]
    await supervisor.stop("pause")


async def test_a_unit_that_cannot_run_says_why(tmp_path: Path) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    supervisor = Supervisor()
    with pytest.raises(UnitFailed, match="port is taken"):
        await supervisor.start(unit(tmp_path, "raise SystemExit('port is taken')"), ready=never)
    await supervisor.stop("pause")
