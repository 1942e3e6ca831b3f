"""A simulated cluster as a real process, and an administrator's client for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from modelplane import processes
from modelplane.kube import Client, Kubeconfig
from modelplane.local.nodes.records import PodRecord

FLEET = """
clusters:
- name: test
  secret: {name: test-kubeconfig}
  pools:
  - name: gpu
    nodes: 1
    devices: [{driver: gpu.example.com, count: 3, capacity: {memory: 80Gi}, attributes: {model: {string: fake}}}]
  - name: cpu
    nodes: 1
    labels: {tier: spare}
"""


@dataclass
class ClusterProcess:
    """`modelplane cluster` on a data directory. Engines that outlive it are stopped by `close`."""

    directory: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        (self.directory / "fleet.yaml").write_text(FLEET)
        said = len(self.log()) if (self.directory / "cluster.log").exists() else 0
        command = [sys.executable, "-m", "modelplane", "cluster", "--data-dir", str(self.directory)]
        with (self.directory / "cluster.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--fleet", str(self.directory / "fleet.yaml"), "--name", "test"], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while b"are registered" not in self.log()[said:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(self.log().decode())
            time.sleep(0.02)

    def log(self) -> bytes:
        return (self.directory / "cluster.log").read_bytes()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def client(self) -> Client:
        return Client(Kubeconfig.load(self.directory / "admin.kubeconfig"))

    def engine(self, uid: str) -> processes.Record | None:
        """The engine process of a pod, if one runs."""
        try:
            data = (self.directory / "nodes" / "pods" / uid / "record.json").read_bytes()
        except FileNotFoundError:
            return None
        process = msgspec.json.decode(data, type=PodRecord).process
        return process if process is not None and process.alive else None

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(15)
        for path in self.directory.glob("nodes/run/*.json"):
            record = processes.recall(path)
            if record is not None:
                os.kill(record.pid, signal.SIGKILL)
