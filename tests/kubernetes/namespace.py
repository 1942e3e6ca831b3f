"""Tests marked `namespace` run in a network namespace of their own, where every address of one range is local.

A process does not change its namespace once it has threads, so the marked tests of a file run in a pytest of their own, which is
started with the first of them, and what it reports about a test stands for the test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from modelplane.errors import PermanentError
from modelplane.local import network
from tests.kubernetes import tally

REPORTS: Final = "MODELPLANE_TEST_REPORTS"
"""Set in the inner pytest: the file that it writes its reports to."""
MARK: Final = "namespace"
_SETUP: Final = f'ip link set lo up && ip route add local {network.RANGE} dev lo && exec "$@"'
_done: Final[dict[str, dict[str, list[dict[str, object]]]]] = {}


def possible() -> str:
    """Why there can be no such namespace; empty where there can."""
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("ip")):
        return "network namespaces need Linux with util-linux and iproute2"
    try:
        _unshare()
    except PermanentError as error:
        return f"this user may not make a network namespace ({error})"
    return ""


def _unshare() -> Sequence[str]:
    # Whatever a test leaves running ends with its pytest, which is the first process of a PID namespace.
    rest = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return network.allowed(["unshare"], ["--user", "--map-root-user"], rest)


class Plugin:
    """Registered by the conftest of this folder."""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line(
            "markers", f"{MARK}: runs in a network namespace of its own (tests/kubernetes/namespace.py)"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if item.get_closest_marker(MARK) is None or REPORTS in os.environ or possible():
            return None
        # All tests of the file run within the first one: each has its limit inside.
        item.config.hook.pytest_timeout_cancel_timer(item=item)
        reports = _reports(item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in reports:
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            if isinstance(report.longrepr, list):
                # Where and why a test was skipped is a tuple, which JSON does not know.
                report.longrepr = tuple(report.longrepr)
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class Recorder:
    """Registered in the inner pytest."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config, self._file = config, file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._file.open("a") as out:
            out.write(f"{json.dumps(data)}\n")

    def pytest_sessionfinish(self) -> None:
        tally.save(self._file.with_name("tally"))


def register(config: pytest.Config) -> None:
    """To be called when pytest is configured."""
    config.pluginmanager.register(Plugin(), "modelplane-namespace")
    if REPORTS in os.environ:
        config.pluginmanager.register(Recorder(config, Path(os.environ[REPORTS])), "modelplane-reports")


def _reports(item: pytest.Item) -> list[dict[str, object]]:
    """What the inner pytest said about a test; runs it for all marked tests of the file that were chosen."""
    file = item.nodeid.partition("::")[0]
    if file not in _done:
        chosen = [
            one for one in item.session.items if one.nodeid.startswith(f"{file}::") and one.get_closest_marker(MARK)
        ]
        _done[file] = _run([one.nodeid for one in chosen], item.config)
    found = _done[file].get(item.nodeid)
    if not found:
        raise pytest.UsageError(f"the pytest inside the namespace ended before it came to {item.nodeid}")
    return found


def _run(nodeids: Sequence[str], config: pytest.Config) -> dict[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory(prefix="modelplane-namespace-") as scratch:
        reports = Path(scratch) / "reports"
        argv = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *nodeids]
        with (Path(scratch) / "log").open("w+") as log:
            subprocess.run(
                [*_unshare(), "sh", "-c", _SETUP, "sh", *argv],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, REPORTS: str(reports)},
                cwd=config.rootpath,
                check=False,
            )
            log.seek(0)
            said = log.read()
        if not reports.exists():
            raise pytest.UsageError(f"the pytest inside the namespace ran nothing:\n{said[-4000:]}")
        tally.load(Path(scratch) / "tally")
        found = defaultdict(list)
        for line in reports.read_text().splitlines():
            data = json.loads(line)
            found[data["nodeid"]].append(data)
        return dict(found)
