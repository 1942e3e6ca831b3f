"""One simulated cluster for the tests of a worker process; every test has a namespace of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from modelplane.kube import Client, Kubeconfig
from modelplane.server.testing import start_server

from .cluster_process import ClusterProcess


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Shared: leave it running, and leave devices free."""
    found = ClusterProcess(tmp_path_factory.mktemp("cluster"))
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """A cluster that the test may kill."""
    found = ClusterProcess(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture
async def client(cluster: ClusterProcess) -> AsyncIterator[Client]:
    async with cluster.client() as found:
        yield found


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"test-{os.urandom(4).hex()}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def server_alone(tmp_path: Path) -> AsyncIterator[Client]:
    """The client of an API server that nothing else uses."""
    server = start_server(tmp_path, "--no-install-crds")
    try:
        async with Client(Kubeconfig.load(server.kubeconfig)) as found:
            yield found
    finally:
        server.stop()
