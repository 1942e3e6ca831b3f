"""Every command block of the pages is run, in order, against one fleet in a home directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ORDER, REASON, ROOT, Step, blocks, pattern, steps

LOOKS = (
    "kubectl get",
    "kubectl --context",
    "kubectl --kubeconfig",
    "kubectl logs",
    "modelplane chat",
    "modelplane status",
    "modelplane explain",
)
"""Commands that change nothing: a reader whose fleet has just come up would look again."""
AGAIN = 30.0
SAVE = '\n"$DOCS_PYTHON" -c \'import json, os; json.dump(dict(os.environ), open(os.environ["DOCS_STATE"], "w"))\'\n'


class Shell:
    """A reader's terminal: what one block exports, the next one has."""

    def __init__(self, home: Path) -> None:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE") if name in os.environ}
        bin_ = str(Path(sys.executable).parent)
        self._state = home / "environment.json"
        self._env = {
            **kept,
            "HOME": str(home),
            "PATH": os.pathsep.join((bin_, os.environ.get("PATH", os.defpath))),
            # Port 80 of this machine belongs to whoever uses it.
            "MODELPLANE_FRONT_DOOR_PORT": "0",
            "DOCS_PYTHON": sys.executable,
            "DOCS_STATE": str(self._state),
        }

    def run(self, command: str) -> tuple[int, str]:
        exports = "export " in command
        done = subprocess.run(
            ["sh", "-c", f"set -eu\n{command}\n{SAVE if exports else ''}"],
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )
        if exports and done.returncode == 0:
            self._env = json.loads(self._state.read_text())
        return done.returncode, done.stdout

    def follow(self, step: Step) -> None:
        """Run a step; fails with what it printed."""
        deadline = time.monotonic() + (AGAIN if step.command.startswith(LOOKS) else 0.0)
        while True:
            code, output = self.run(step.command)
            fits = step.expected is None or pattern(step.expected).fullmatch(output.rstrip("\n") + "\n") is not None
            if code == 0 and fits:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        why = f"exit status {code}" if code else "not what the page shows"
        pytest.fail(f"{step.where}: {why}\n$ {step.command}\n{output}\nthe page has:\n{step.expected}")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    try:
        yield opened
    finally:
        opened.run("modelplane down --purge")


def test_the_order_has_every_page_once() -> None:
    pages = {"README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))}
    assert set(ORDER) == pages, "a new page has to say when its commands are tried"
    assert len(ORDER) == len(pages)


@pytest.mark.parametrize("page", ORDER)
def test_a_block_that_is_not_run_says_why(page: str) -> None:
    for block in blocks(page):
        assert block.info in ("sh", "console", "sh no-test", "text", "yaml", "python"), (
            f"{block.where}: a block of commands is sh or console; what is none is text, yaml or python"
        )
        if block.info == "sh no-test":
            assert REASON.match(block.before), f"{block.where}: the line before says <!-- not run by the tests: WHY -->"
        else:
            assert not REASON.match(block.before), f"{block.where}: it has a reason not to run and runs"
        if block.info == "text":
            assert "$ " not in block.text, (
                f"{block.where}: a command that is shown has to be run; make it a console block"
            )


@pytest.mark.timeout(240)
def test_every_command_block_does_what_its_page_says(shell: Shell) -> None:
    todo = [step for page in ORDER for block in blocks(page) if block.runs for step in steps(block)]
    assert len(todo) > 20, "the blocks were found"
    for step in todo:
        shell.follow(step)


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a  b", "a      b\n", True),
        ("a ...s", "a 12s\n", True),
        ("a ...", "a\nb\n", False),
        ("a\n...\nz", "a\nb\nc\nz\n", True),
        ("a\n...", "a\n", True),
        ("a", "a\nb\n", False),
        ("", "surprise\n", False),
    ],
)
def test_shown_output_is_compared_line_by_line(shown: str, printed: str, fits: bool) -> None:
    assert (pattern(shown).fullmatch(printed) is not None) is fits
