"""A command whose output nobody can take ends with one line or none, and never with a traceback."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from modelplane.cli import main, reading
from modelplane.cli.options import run as run_work
from modelplane.cli.output import BROKEN_PIPE
from modelplane.errors import InvalidKubeconfig
from tests.kube.fake_api import FakeApi

ROOT = Path(__file__).parent.parent
DEVICES = str(ROOT / "tests" / "plan" / "data" / "devices.json")
FLEET = '{"apiVersion": "v1", "kind": "List", "items": []}'
PRINTING = [
    ["--help"],
    ["--version"],
    ["plan", "--snapshot", "-", "-o", "json"],
    ["match", "true", "--devices", DEVICES],
    ["check", str(ROOT / "examples")],
    ["down", "--data-dir", "/nonexistent/modelplane"],
]


def run(arguments: list[str], **streams: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", *arguments], input=FLEET.encode(), check=False, timeout=60, **streams
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("arguments", PRINTING, ids=lambda words: " ".join(map(os.path.basename, words)))
def test_a_full_disk_is_said_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        code, told = run(arguments, stdout=full.fileno(), stderr=subprocess.PIPE)
    assert (code, told) == (1, "Error: the output cannot be written: No space left on device\n")


def closed(stream: str, *arguments: str) -> tuple[int, str]:
    """What a command says whose standard input (``<&-``) or output (``>&-``) was closed before it began, as some daemons do."""
    command = ["sh", "-c", f'exec "$@" {stream}', "sh", sys.executable, "-m", "modelplane", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_output_that_was_closed_before_is_said_in_one_line() -> None:
    assert closed(">&-", "match", "true", "--devices", DEVICES) == (
        1,
        "Error: the output cannot be written: Bad file descriptor\n",
    )


@pytest.mark.parametrize(
    "arguments",
    [["plan", "-f", "-", "--snapshot", DEVICES], ["match", "true", "--devices", "-"], ["plan", "--snapshot", "-"]],
    ids=" ".join,
)
def test_input_that_was_closed_before_is_said_in_one_line(arguments: list[str]) -> None:
    assert closed("<&-", *arguments) == (1, "Error: - is standard input, which is closed; give a file\n")


def test_a_command_that_is_interrupted_ends_as_a_shell_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(reading, "everything", interrupted)
    done = CliRunner().invoke(main, ["match", "true", "--devices", "-"])
    assert (done.exit_code, done.output) == (130, "")


@pytest.mark.parametrize("arguments", PRINTING, ids=lambda words: " ".join(map(os.path.basename, words)))
def test_a_reader_that_has_gone_away_ends_the_command_quietly(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert run(arguments, stdout=writer, stderr=subprocess.PIPE) == (BROKEN_PIPE, "")
    finally:
        os.close(writer)


def test_work_of_several_tasks_ends_in_the_words_of_the_first_that_failed() -> None:
    """`status --watch` reads and prints at once."""

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            async with asyncio.TaskGroup():
                raise InvalidKubeconfig("users[0].name is missing")

    with pytest.raises(click.ClickException, match=r"^users\[0\]\.name is missing$"):
        run_work(work())


async def test_a_snapshot_that_cannot_be_finished_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "fleet.json"
    kept.write_text("older")
    async with FakeApi() as api:
        config = tmp_path / "kubeconfig"
        config.write_text(api.kubeconfig_text())
        arguments = ["snapshot", str(kept), "--kubeconfig", str(config)]
        before = sorted(tmp_path.iterdir())

        def full(self: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", full)
            result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert (result.exit_code, result.stderr) == (1, f"Error: {kept} cannot be written: No space left on device\n")
        assert (kept.read_text(), sorted(tmp_path.iterdir())) == ("older", before)
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert (result.exit_code, json.loads(kept.read_text())["items"]) == (0, [])
        link = tmp_path / "link"
        link.symlink_to(kept)
        result = await asyncio.to_thread(CliRunner().invoke, main, ["snapshot", str(link), *arguments[2:]])
        assert (result.exit_code, link.is_symlink()) == (0, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_complaint_that_cannot_be_written_ends_with_1() -> None:
    with open("/dev/full", "w") as full:
        code, _ = run(["nonsense"], stdout=subprocess.DEVNULL, stderr=full.fileno())
    assert code == 1


def test_what_the_terminals_encoding_lacks_is_escaped() -> None:
    """A terminal of the eighties, and a selector with a letter that it does not have."""
    devices = '{"日": {"driver": "d"}}'
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", "match", "true", "--devices", "-", "-o", "json"],
        input=devices.encode(),
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert done.stdout == b'{"results": {"\\u65e5": true}}\n'
