"""One pair of servers for a whole session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import library, namespace
from tests.kubernetes.binaries import WITHOUT, folder, helm
from tests.kubernetes.pair import Pair, running_pair
from tests.kubernetes.tally import close, counted


def pytest_configure(config: pytest.Config) -> None:
    namespace.register(config)


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The programs of real Kubernetes; a test that asks for them is skipped where there are none."""
    found = folder()
    if found is None:
        pytest.skip(WITHOUT)
    return found


@pytest.fixture(scope="session")
def helm_binary(binaries: Path) -> Path:
    del binaries  # a Helm alone is not enough
    found = helm()
    if found is None:
        pytest.skip(WITHOUT)
    return found


@pytest.fixture(scope="session")
def pair(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running_pair(binaries, tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def judge(binaries: Path) -> Path:
    """Kubernetes' own CEL library as a program."""
    return library.judge(binaries)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing table of `make conformance`, where anything was compared."""
    if counted():
        close(terminalreporter)
