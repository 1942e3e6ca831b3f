"""One pair of servers for a whole session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import library, namespace
from tests.kubernetes.binaries import WITHOUT, folder
from tests.kubernetes.pair import Pair, running_pair
from tests.kubernetes.tally import close, counted


def pytest_configure(config: pytest.Config) -> None:
    namespace.register(config)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    binaries = folder()
    if binaries is None:
        pytest.skip(WITHOUT)
    with running_pair(binaries, tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def judge() -> Path:
    """Kubernetes' own CEL library as a program."""
    return library.judge()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing table of `make conformance`, where anything was compared."""
    if counted():
        close(terminalreporter)
