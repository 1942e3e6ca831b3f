"""One server per test module, and a namespace of its own for every test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.server.testing import ServerProcess, running_server
from tests.server.api import Api
from tests.server.kubectl import Kubectl


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Api:
    return Api(server.kubeconfig)


@pytest.fixture(scope="module")
def kubectl(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    name = "ns-" + re.sub("[^a-z0-9]+", "-", request.node.name.lower())[-50:].strip("-")
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
