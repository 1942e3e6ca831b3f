"""A network namespace is made, found and joined by whoever may, with as few rights as that takes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane import processes
from modelplane.local import network
from modelplane.local.fleet import stop_strays
from modelplane.local.layout import Layout

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("ip")),
    reason="network namespaces need Linux with util-linux and iproute2",
)
INSIDE = "import sys; from modelplane.local import network; sys.exit(not network.inside())"


def call(function: str, *arguments: object, prefix: list[str]) -> list[str]:
    """The command of a process that becomes another one by a function of `network`."""
    code = f"from modelplane.local import network; network.{function}({', '.join(map(repr, arguments))})"
    return [*prefix, sys.executable, "-c", code]


def _rights() -> list[list[str]]:
    """As this user, and as root in a container: without the capability that a namespace usually takes."""
    bounded = "-sys_admin,-net_admin"
    container = ["setpriv", f"--bounding-set={bounded}", f"--inh-caps={bounded}"]
    return [[], container] if os.geteuid() == 0 and shutil.which("setpriv") else [[]]


@pytest.fixture(params=_rights(), ids=lambda prefix: "in a container" if prefix else "as this user")
def prefix(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    if subprocess.run([*found, "unshare", "--user", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are not allowed here")
    return found


@pytest.fixture
def resident(prefix: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in a namespace that was made for it."""
    waits = [sys.executable, "-c", "print('here', flush=True); import signal; signal.pause()"]
    with subprocess.Popen(call("enter", waits, prefix=prefix), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def test_a_namespace_is_made_and_joined_also_by_root_without_the_rights_of_root(
    prefix: list[str], resident: subprocess.Popen[str]
) -> None:
    assert network.foreign(resident.pid)
    assert network.shared_by_most([os.getpid(), resident.pid]) == resident.pid
    assert network.shared_by_most([os.getpid()]) is None
    joined = call("join", resident.pid, [sys.executable, "-c", INSIDE], prefix=prefix)
    assert subprocess.run(joined, check=False).returncode == 0
    assert not network.inside()


def test_who_may_not_join_is_told_whose_the_namespace_is(
    resident: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nsenter").write_text("#!/bin/sh\necho 'nsenter: Operation not permitted' >&2; exit 1\n")
    (tmp_path / "nsenter").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(network.PermanentError, match=rf"process {resident.pid} .*not permitted.*who started the fleet"):
        network.join(resident.pid, ["true"])


def test_a_machine_with_some_addresses_of_the_range_is_not_taken_for_such_a_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes of other clusters have 10.244.0.1 on a bridge; a fleet there would be in the machine's own network."""
    theirs = {network.GATEWAYS}

    class Opened:
        def close(self) -> None:
            """Nothing was opened."""

    def create_server(address: tuple[str, int]) -> Opened:
        if address[0] not in theirs:
            raise OSError("Cannot assign requested address")
        return Opened()

    monkeypatch.setattr(socket, "create_server", create_server)
    assert not network.inside()
    theirs.add("10.244.255.254")
    assert network.inside()


async def test_what_a_crash_left_in_another_network_is_ended_and_the_rest_is_kept(
    tmp_path: Path, resident: subprocess.Popen[str]
) -> None:
    layout = Layout(tmp_path)
    waits = processes.spawn([sys.executable, "-c", "import signal; signal.pause()"], log=tmp_path / "log")
    stray = processes.Record(resident.pid, processes.start_time(resident.pid) or "", ())
    processes.remember(layout.record("operator"), waits)
    processes.remember(layout.cluster("a") / "run" / "etcd.json", stray)
    try:
        assert await stop_strays(layout) == 1
        assert not stray.alive
        assert dict(layout.running()) == {layout.record("operator"): waits}
    finally:
        os.kill(waits.pid, signal.SIGKILL)
