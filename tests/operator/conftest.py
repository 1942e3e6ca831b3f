"""One embedded API server per file, with the operator's service account and rights, and operators as processes against it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from modelplane.kube import Client, Kubeconfig

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "src/modelplane/operator/rbac.yaml"


class Operator:
    """A running `modelplane operator`."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "modelplane", "operator", "--kubeconfig", str(kubeconfig)]
        command += ["--health-port", "0", "--chart-installer", "local", *arguments]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def said(self, words: str) -> bool:
        return words in self.log.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path of the health port; (0, "") while nothing listens."""
        marks = [line for line in self.log.read_text().splitlines() if "health on port" in line]
        if not marks:
            return 0, ""
        port = int(marks[-1].split("health on port ")[1].split('"')[0])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory: admin.kubeconfig, and operator.kubeconfig with the rights of rbac.yaml and no more."""
    pytest.importorskip("uvloop", reason="the embedded API server needs the extra `local`")
    from modelplane.server.testing import start_server

    directory = tmp_path_factory.mktemp("control")
    server = start_server(directory)
    try:
        asyncio.run(_prepare(directory))
        yield directory
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.stop()


async def _prepare(directory: Path) -> None:
    from modelplane.local import bootstrap

    async with Client(Kubeconfig.load(directory / "admin.kubeconfig")) as client:
        for name in ("modelplane-system", "ml-team"):
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await bootstrap.operator_identity(
            client, directory / "admin.kubeconfig", RBAC, directory / "operator.kubeconfig"
        )


@pytest.fixture
def start(control: Path, tmp_path: Path) -> Iterator[Callable[..., Operator]]:
    """Starts operators by name, and ends what is left of them."""
    started: list[Operator] = []

    def begin(name: str, *arguments: str) -> Operator:
        started.append(Operator(control / "operator.kubeconfig", tmp_path / f"{name}.log", *arguments))
        return started[-1]

    yield begin
    for operator in started:
        operator.kill()


def example(name: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all((ROOT / f"examples/two-regions/{name}.yaml").read_text()))
