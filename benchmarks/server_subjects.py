"""The two API servers that `benchmarks.server` loads: started fresh, asked for their CPU time and memory, stopped.

Both get the same users by the same kind of token file, loopback, a data directory each, and durable writes: SQLite with
``synchronous=FULL`` here, etcd with fsync there. Neither has a controller beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from modelplane import processes
from modelplane.local import ports
from modelplane.local.kubernetes import ControlPlane, Ports

TOKEN: Final = "token-of-the-benchmark"
USERS: Final = f'{TOKEN},admin,admin,"system:masters"\n'


class Subject(Protocol):
    """One API server. ``protocols`` are the versions of HTTP that it speaks."""

    name: str
    protocols: Sequence[str]

    @property
    def url(self) -> str: ...

    @property
    def authority(self) -> Path:
        """PEM file of what its clients trust; there once it is ready."""

    def start(self) -> None:
        """Start the processes, and return without waiting for them."""

    def stop(self) -> None: ...

    @property
    def pids(self) -> Sequence[int]: ...


class _Running:
    """Child processes that are ended together, each with its output in a file of the directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stack = ExitStack()
        self.pids: list[int] = []

    def add(self, name: str, argv: Sequence[str]) -> None:
        log = self._stack.enter_context((self._root / f"{name}.log").open("wb"))
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        self.pids.append(process.pid)

    def stop(self) -> None:
        """In the opposite order of their start, each after the one before has ended."""
        self._stack.close()
        self.pids.clear()


class Embedded:
    """`modelplane apiserver`."""

    name = "embedded"
    protocols = ("http1",)

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        self._root = root
        self._users = root / "users.csv"
        self._users.write_text(USERS)
        self._port = ports.keep(root / "ports.json", ("apiserver",))["apiserver"]
        self._running = _Running(root)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def authority(self) -> Path:
        return self._root / "data" / "ca.crt"

    @property
    def pids(self) -> Sequence[int]:
        return self._running.pids

    def start(self) -> None:
        command = "from modelplane.cli import main; main()"
        options = ("--data-dir", self._root / "data", "--port", self._port, "--token-file", self._users)
        self._running.add("apiserver", (sys.executable, "-c", command, "apiserver", *map(str, options)))

    def stop(self) -> None:
        self._running.stop()


class Kubernetes:
    """etcd and kube-apiserver."""

    name = "etcd + kube-apiserver"
    protocols = ("http1", "http2")

    def __init__(self, root: Path, binaries: Path) -> None:
        root.mkdir(parents=True)
        (root / "tokens.csv").write_text(USERS)
        places = Ports.of(ports.keep(root / "ports.json", Ports.names()))
        self._plane = ControlPlane(binaries, root, places, durable=True)
        self._plane.prepare()
        self._running = _Running(root)

    @property
    def url(self) -> str:
        return self._plane.server

    @property
    def authority(self) -> Path:
        return self._plane.root / "certificates" / "apiserver.crt"

    @property
    def pids(self) -> Sequence[int]:
        return self._running.pids

    def start(self) -> None:
        for unit in (self._plane.etcd(), self._plane.apiserver()):
            self._running.add(unit.name, unit.argv)

    def stop(self) -> None:
        self._running.stop()


def cpu_seconds(subject: Subject) -> float:
    """What its processes have used so far, in user and system mode."""
    ticks = 0
    for pid in subject.pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(subject: Subject) -> float:
    """The proportional set size of its processes."""
    return processes.memory(subject.pids) / 1e6


def settle(seconds: float = 0.5) -> None:
    """Let what a load left behind (compaction, garbage) pass before the next one is timed."""
    os.sync()
    time.sleep(seconds)
