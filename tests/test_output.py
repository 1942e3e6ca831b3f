"""A command whose output nobody can take ends with one line or none, and never with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.cli.output import BROKEN_PIPE

ROOT = Path(__file__).parent.parent
DEVICES = str(ROOT / "tests" / "plan" / "data" / "devices.json")
FLEET = '{"apiVersion": "v1", "kind": "List", "items": []}'
PRINTING = [
    ["--help"],
    ["--version"],
    ["plan", "--help"],
    ["plan", "--snapshot", "-"],
    ["plan", "--snapshot", "-", "-o", "json"],
    ["match", "true", "--devices", DEVICES],
    ["match", "true", "--devices", DEVICES, "-o", "json"],
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


@pytest.mark.parametrize("arguments", PRINTING, ids=lambda words: " ".join(map(os.path.basename, words)))
def test_a_reader_that_has_gone_away_ends_the_command_quietly(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert run(arguments, stdout=writer, stderr=subprocess.PIPE) == (BROKEN_PIPE, "")
    finally:
        os.close(writer)


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
