"""Up, down, purge, Ctrl-C: state survives what it should, and nothing survives that should not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from modelplane import processes
from modelplane.local.layout import Layout
from tests.e2e.conftest import EXAMPLE, Fleet
from tests.e2e.traffic import answering_pods


def test_state_survives_down_and_up_and_purge_removes_it(tmp_path: Path, binaries: Path | None) -> None:
    fleet = Fleet(tmp_path / "state", binaries)
    fleet.layout.root.mkdir()
    try:
        started = fleet.up()
        assert f"export KUBECONFIG={fleet.layout.kubeconfig}" in started
        assert "already runs" in fleet.up(check=False)
        fleet.kubectl("apply", "-f", str(EXAMPLE))
        fleet.kubectl("wait", "--for=condition=Ready", "modelservice/mock", "-n", "ml-team", "--timeout=60s")
        address = fleet.get("modelservice", "mock", "-n", "ml-team")["status"]["address"]
        uid = fleet.get("modeldeployment", "mock-demo", "-n", "ml-team")["metadata"]["uid"]
        fleet.modelplane("down")
        assert not fleet.sessions()
        fleet.up()
        assert fleet.get("modeldeployment", "mock-demo", "-n", "ml-team")["metadata"]["uid"] == uid
        fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=60s")
        fleet.until("an answer at the same address", lambda: _answers(address))
    finally:
        fleet.modelplane("down", "--purge")
    assert not fleet.layout.root.exists()


def _answers(address: str) -> bool:
    try:
        return len(answering_pods(address, 1)) == 1
    except OSError:
        return False


@pytest.mark.parametrize("when", ["while starting", "when up"])
def test_ctrl_c_leaves_no_process_and_no_port(tmp_path: Path, binaries: Path | None, when: str) -> None:
    layout = Layout(tmp_path / "state")
    with subprocess.Popen(
        [sys.executable, "-m", "modelplane", "up", "--data-dir", str(layout.root), *_real(binaries)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "MODELPLANE_FRONT_DOOR_PORT": "0"},
    ) as up:
        assert up.stdout is not None
        seen: list[processes.Record] = []
        for line in up.stdout:
            seen = [r for p in layout.root.glob("**/run/*.json") if (r := processes.recall(p)) is not None]
            if line.startswith("export" if when == "when up" else "control plane API"):
                break
        assert seen, "something was running"
        os.killpg(up.pid, signal.SIGINT)  # what a terminal does
        rest = up.stdout.read()
        assert up.wait(40) == 0, rest
    assert [r for r in seen if r.alive] == []
    for file in layout.root.glob("*ports.json"):
        for port in msgspec.json.decode(file.read_bytes(), type=dict[str, int]).values():
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is still open"


def _real(binaries: Path | None) -> list[str]:
    return [] if binaries is None else ["--kubernetes", str(binaries)]


def test_the_demo_runs_twice_and_reports_what_it_took(tmp_path: Path, binaries: Path | None) -> None:
    # On real Kubernetes once, since it is slow: there the other run is that of tests/kubernetes/test_fleet.py.
    for _ in range(2 if binaries is None else 1):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "modelplane", "demo", *_real(binaries)],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "MODELPLANE_FRONT_DOOR_PORT": "0"},
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        first, memory = done.stdout.strip().splitlines()[-2:]
        assert first.startswith("time from `up` to the first answered request: ")
        assert memory.startswith("memory of all its processes: ")
        assert float(first.split()[-2]) < time.monotonic() - began
        assert list(tmp_path.glob("modelplane-demo-*")) == [], "it cleans up after itself"
