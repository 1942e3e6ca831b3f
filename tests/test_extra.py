"""Without the extra `local` a verb that needs it says so in one line, and all others go on working."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

from modelplane.cli import VERBS, extra

ROOT = Path(__file__).parents[1]
MODULES = ("uvloop", *extra.DEMO)
PLAIN = f"""
import json, sys
for module in {MODULES!r}:
    sys.modules[module] = None  # what is not installed cannot be imported
from click.testing import CliRunner
from modelplane.cli import main
for words in json.load(sys.stdin):
    done = CliRunner().invoke(main, words, prog_name="modelplane")
    print(json.dumps([done.exit_code, done.stdout, done.stderr, done.exception and repr(done.exception)]))
"""


class Said(NamedTuple):
    code: int
    stdout: str
    stderr: str
    exception: str | None


NEEDY = {
    "apiserver": ["--data-dir", "state"],
    "cluster": ["--data-dir", "state", "--name", "gpu-us-east"],
    "demo": [],
    "gateway": ["--data-dir", "state", "--kubeconfig", "nowhere"],
    "nodes": ["--kubeconfig", "nowhere", "--data-dir", "state", "--name", "gpu-us-east"],
    "up": ["--data-dir", "state"],
    "up --detach": ["--data-dir", "state"],
}


def plainly(cwd: Path, *commands: Sequence[str]) -> list[Said]:
    """What each command says after `pip install .`; all in one process."""
    argv, given = [sys.executable, "-c", PLAIN], json.dumps(commands)
    done = subprocess.run(argv, input=given, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [Said(*json.loads(line)) for line in done.stdout.splitlines()]


def test_a_verb_that_needs_the_extra_says_how_to_install_it_and_starts_nothing(tmp_path: Path) -> None:
    every = plainly(tmp_path, *([*verb.split(), *words] for verb, words in NEEDY.items()))
    for verb, said in zip(NEEDY, every, strict=True):
        assert (said.code, said.stdout) == (1, ""), f"{verb}: {said}"
        (line,) = said.stderr.splitlines()
        assert line.startswith(f"Error: `modelplane {verb.split()[0]}` needs ")
        assert line.endswith(" of the extra `local`; install it with: pip install 'modelplane[local]'")
    assert list(tmp_path.iterdir()) == []


OTHERS = {
    "check": [str(ROOT / "examples")],
    "chat": ["ml-team/mock", "hello", "--kubeconfig", "nowhere"],
    "controllers": ["--kubeconfig", "nowhere"],
    "down": ["--data-dir", "state"],
    "drain": ["gpu-us-east", "--kubeconfig", "nowhere"],
    "explain": ["modeldeployment/a", "--kubeconfig", "nowhere"],
    "match": ["true", "--kubeconfig", "nowhere"],
    "operator": ["--kubeconfig", "nowhere"],
    "plan": ["--kubeconfig", "nowhere"],
    "scheduler": ["--kubeconfig", "nowhere"],
    "shell": ["--data-dir", "state"],
    "snapshot": ["--kubeconfig", "nowhere"],
    "status": ["--kubeconfig", "nowhere"],
    "undrain": ["gpu-us-east", "--kubeconfig", "nowhere"],
}


def test_all_other_verbs_come_to_their_work_without_it(tmp_path: Path) -> None:
    assert {*OTHERS, *(verb.split()[0] for verb in NEEDY)} == set(VERBS)
    every = plainly(tmp_path, *([verb, *words] for verb, words in OTHERS.items()))
    for verb, said in zip(OTHERS, every, strict=True):
        assert said.exception in (None, "SystemExit(1)"), f"{verb}: {said}"
        assert "extra" not in said.stderr, verb


def test_what_is_asked_for_is_what_the_extra_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {line.partition(">=")[0] for line in project["optional-dependencies"]["local"]}
    found = packages_distributions()
    assert {name for module in MODULES for name in found[module]} == listed
