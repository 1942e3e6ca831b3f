"""What the command refuses before it works, and that it says why: numbers, ports that are taken, and the last line of its log."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli import main
from modelplane.cli.operator import _unhandled
from modelplane.errors import PermanentError
from modelplane.operator.health import Health
from tests.conftest import Eventually
from tests.kube.fake_api import FakeApi

NOBODY = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A kubeconfig whose server is never asked."""
    file = tmp_path / "config"
    file.write_text(json.dumps({**NOBODY, "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}))
    return file


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("verb", "option", "value", "words"),
    [
        ("operator", "--health-port", "99999", "'99999' is no port: give a number from 0 to 65535"),
        ("operator", "--health-port", "-1", "'-1' is no port"),
        ("operator", "--webhook-port", "65536", "'65536' is no port"),
        ("operator", "--front-door-port", "-3", "'-3' is no port: give a number from 1 to 65535"),
        ("operator", "--front-door-port", "0", "'0' is no port"),
        ("operator", "--cluster-gateway-port", "99999", "'99999' is no port"),
        ("operator", "--cluster-gateway-port", "east=0", "'0' is no port"),
        ("operator", "--unreachable-bound", "nan", "'nan' is no time: give seconds, 0 or more"),
        ("operator", "--unreachable-bound", "inf", "'inf' is no time"),
        ("operator", "--unreachable-bound", "-5", "'-5' is no time"),
        ("apiserver", "--port", "99999", "'99999' is no port"),
        ("cluster", "--port", "-1", "'-1' is no port"),
        ("gateway", "--front-door-port", "70000", "'70000' is no port"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused_with_its_option(
    verb: str, option: str, value: str, words: str
) -> None:
    """A port is sixteen bits of a number, and a time that is no number is never over."""
    result = CliRunner().invoke(main, [verb, option, value])
    assert result.exit_code == 2
    assert words in result.stderr
    assert option in result.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_port_that_is_taken_is_said_with_its_option_in_the_form_of_the_log(
    form: str, config: Path, taken: int
) -> None:
    """A collector that reads JSON gets the line that matters most, too."""
    arguments = ["--kubeconfig", str(config), "--health-port", str(taken), "--log-format", form]
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", "operator", *arguments], capture_output=True, timeout=60, check=False
    )
    words = f"port {taken} of 127.0.0.1 is taken; choose another with --health-port"
    assert done.returncode == 1
    if form == "text":
        assert done.stderr.decode() == f"Error: {words}\n"
    else:
        [entry] = [json.loads(line) for line in done.stderr.decode().splitlines()]
        assert (entry["level"], entry["message"]) == ("error", words)


@pytest.mark.parametrize("address", ["203.0.113.7", "no such address"])
async def test_an_address_of_another_machine_is_said_with_its_option(address: str) -> None:
    with pytest.raises(PermanentError, match=r"is no address of this machine; choose another with --health-address"):
        await Health({}).start(0, address)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/metrics", 405),
        ("DELETE", "/readyz", 405),
        ("POST", "/nothing", 404),
        ("GET", "/metrics", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/readyz", 503),
    ],
)
async def test_the_health_port_is_read_and_nothing_else(method: str, path: str, status: int) -> None:
    """Who posts there means another server."""
    import aiohttp

    health = Health({"/readyz": lambda: "not yet"}, {"/metrics": ("text/plain", lambda: "figures")})
    await health.start(0)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{health.port}{path}") as answer,
        ):
            assert answer.status == status
            assert answer.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)
            assert (await answer.read() == b"") == (method == "HEAD")
    finally:
        await health.close()


async def test_several_kubeconfigs_in_the_environment_are_one(tmp_path: Path, eventually: Eventually) -> None:
    """Where kubectl works, the operator works: the context is in one file and the cluster in another."""
    async with FakeApi() as api:
        whole = json.loads(api.kubeconfig_text())
        first, second = tmp_path / "first", tmp_path / "second"
        first.write_text(json.dumps({key: whole[key] for key in ("current-context", "contexts", "users")}))
        second.write_text(json.dumps({"current-context": "another", "clusters": whole["clusters"]}))
        environment = {**os.environ, "KUBECONFIG": os.pathsep.join(map(str, (tmp_path / "missing", first, second)))}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "modelplane", "operator", env=environment, stderr=subprocess.DEVNULL
        )
        try:
            await eventually(lambda: any("kube-system" in path for _, path in api.requests), within=40)
        finally:
            process.kill()
            await process.wait()


async def test_a_connection_that_breaks_while_nobody_waits_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """uvloop tells of it with a traceback, which a leader that slept showed for each of its connections."""

    class Transport:
        def __init__(self, closing: bool) -> None:
            self.is_closing = lambda: closing

    loop = asyncio.get_running_loop()
    for context in ({"transport": Transport(closing=False)}, {}):
        _unhandled(loop, {"message": "a bug", "exception": RuntimeError("told"), **context})
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    caplog.clear()
    _unhandled(
        loop, {"message": "Fatal error", "exception": RuntimeError("closed"), "transport": Transport(closing=True)}
    )
    assert caplog.records == []
