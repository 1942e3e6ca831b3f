"""Up, down, purge, Ctrl-C: state survives what it should, and nothing survives that should not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from modelplane import processes
from modelplane.gateway.proxies import socket_directory
from modelplane.local.layout import Layout
from tests.e2e.conftest import Fleet, serve_example
from tests.e2e.traffic import answering_pods


@pytest.fixture
def lasting(request: pytest.FixtureRequest, tmp_path: Path, binaries: Path | None) -> Iterator[Fleet]:
    """A fleet to be stopped: one of its own, but on real Kubernetes that of the session, since another takes a minute."""
    if binaries is not None:
        yield request.getfixturevalue("fleet")
        return
    fleet = Fleet(tmp_path / "state", None)
    fleet.layout.root.mkdir()
    try:
        started = fleet.up()
        assert f"export KUBECONFIG={fleet.layout.kubeconfig}" in started
        yield fleet
    finally:
        fleet.modelplane("down", "--purge")
    assert not fleet.layout.root.exists(), "--purge removes the state"
    assert not socket_directory(fleet.layout.gateway).exists(), "and where its sockets lay"


def test_state_survives_down_and_up(lasting: Fleet) -> None:
    fleet = lasting
    assert "already runs" in fleet.up(check=False)
    serve_example(fleet)
    address = fleet.get("modelservice", "mock", "-n", "ml-team")["status"]["address"]
    uid = fleet.get("modeldeployment", "mock-demo", "-n", "ml-team")["metadata"]["uid"]
    fleet.modelplane("down")
    assert not fleet.sessions()
    fleet.up()
    assert fleet.get("modeldeployment", "mock-demo", "-n", "ml-team")["metadata"]["uid"] == uid
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=60s")
    fleet.until("an answer at the same address", lambda: _answers(address))


def _answers(address: str) -> bool:
    try:
        return len(answering_pods(address, 1)) == 1
    except OSError:
        return False


@pytest.mark.parametrize("when", ["while starting", "when up"])
def test_ctrl_c_leaves_no_process_and_no_port(tmp_path: Path, binaries: Path | None, when: str) -> None:
    layout = Layout(tmp_path / "state")
    real = [] if binaries is None else ["--kubernetes", str(binaries)]
    with subprocess.Popen(
        [sys.executable, "-m", "modelplane", "up", "--data-dir", str(layout.root), *real],
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
            if line.startswith(("export", "reach it with") if when == "when up" else "control plane API"):
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


def test_the_demo_runs_twice_and_reports_what_it_took(tmp_path: Path, binaries: Path | None) -> None:
    if binaries is not None:
        pytest.skip("tests/kubernetes/test_fleet.py runs the demo on real Kubernetes, and compares what it tells")
    for _ in range(2):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "modelplane", "demo"],
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
