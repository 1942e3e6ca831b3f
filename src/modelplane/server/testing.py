"""An API server as a child process, for tests and benchmarks of every room that talks to one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COMMAND: Final = "from modelplane.cli import main; main()"


@dataclass(frozen=True)
class ServerProcess:
    """A running `modelplane apiserver`."""

    process: subprocess.Popen[str]
    url: str
    kubeconfig: Path
    said: list[str]
    """What it printed; read all the time, so that it never waits for a reader."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 10.0) -> int:
        """SIGTERM; answers with the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def start_server(
    data_dir: Path, *arguments: str, wrapper: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> ServerProcess:
    """Start a server on a free port of loopback (the port of the last start, if there was one) and wait for it.

    ``arguments`` go to the command; ``wrapper`` comes before it (a tracer, for instance). Raises RuntimeError with
    what the process said when it ends instead of getting ready.
    """
    command = [*wrapper, sys.executable, "-c", _COMMAND, "apiserver", "--data-dir", str(data_dir), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("ready: "):
            url, _, config = line.removeprefix("ready: ").strip().partition(" kubeconfig=")
            threading.Thread(target=said.extend, args=(process.stdout,), daemon=True).start()
            return ServerProcess(process, url, Path(config), said)
    process.wait()
    raise RuntimeError(f"the API server did not start:\n{''.join(said)}")


@contextmanager
def running_server(data_dir: Path, *arguments: str) -> Iterator[ServerProcess]:
    """A server that is stopped at the end of the block."""
    server = start_server(data_dir, *arguments)
    try:
        yield server
    finally:
        server.stop()
