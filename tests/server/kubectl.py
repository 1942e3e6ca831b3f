"""Real kubectl against a server under test, with a cache of its own so that ports used twice do not confuse it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KUBECTL = Path(sys.executable).with_name("kubectl")


@dataclass(frozen=True)
class Kubectl:
    kubeconfig: Path
    home: Path

    def command(self, *arguments: str) -> list[str]:
        return [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.home / "cache"), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "KUBECTL_KUBERC": "false"}

    def run(self, *arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**self.environment, **environment},
        )

    def __call__(self, *arguments: str, stdin: str | None = None, **environment: str) -> str:
        """What it prints; fails the test when it fails."""
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, stdin: str | None = None) -> str:
        """What it complains about; fails the test when it does not."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr
