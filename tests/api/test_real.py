"""A real kube-apiserver as the judge of the definitions: each is Established, and the golden set ends there as it does here.

Runs where MODELPLANE_KUBERNETES names a folder with etcd and kube-apiserver.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from modelplane.api.meta import GVK, Object, Resource, is_true
from modelplane.errors import ModelplaneError
from modelplane.kube import Client, Kubeconfig
from modelplane.local.kubernetes import ControlPlane, Ports
from modelplane.server.offline import Judge
from tests.api.test_generated import generate
from tests.api.test_served import CASES, manifest, refusal

BINARIES = os.environ.get("MODELPLANE_KUBERNETES", "")
CRD = Resource(GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "customresourcedefinitions", False)

pytestmark = pytest.mark.skipif(
    not BINARIES, reason="MODELPLANE_KUBERNETES names no folder with etcd and kube-apiserver"
)


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(name="plane")
def _plane(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(Path(BINARIES), tmp_path, Ports(*free_ports(5)), durable=False)
    plane.prepare()
    with ExitStack() as running:
        for unit in (plane.etcd(), plane.apiserver()):
            process = subprocess.Popen(unit.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running.callback(process.wait)
            running.callback(process.terminate)
        yield plane


@pytest.fixture(name="client")
async def _client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with asyncio.timeout(60):
        while not plane.write_kubeconfig():
            await asyncio.sleep(0.1)
    async with Client(Kubeconfig.load(plane.kubeconfig)) as client:
        async with asyncio.timeout(60):
            while not await _ready(client):
                await asyncio.sleep(0.1)
        yield client


async def _ready(client: Client) -> bool:
    try:
        await client.ready()
    except ModelplaneError:
        return False
    return True


async def _install(client: Client) -> None:
    definitions: list[Object] = json.loads(generate.BUNDLE.read_text())
    for definition in definitions:
        await client.create(definition)
    async with asyncio.timeout(30):
        while not all(is_true(obj, "Established") for obj in (await client.list(CRD)).items):
            await asyncio.sleep(0.2)


@pytest.mark.timeout(300)
async def test_definitions_are_established_and_the_golden_set_ends_the_same(client: Client) -> None:
    await _install(client)
    judge = Judge()
    differing: list[tuple[object, ...]] = []
    for kind, spec in CASES:
        obj = manifest(kind, spec)
        # What a review refuses is no business of the schema; the operator's webhook says it on a real cluster.
        told = [found.message for found in judge.judge(obj) if found.severity == "error" and ".cel" not in found.path]
        told = [words for words in told if "device drivers cannot publish" not in words]
        said = await refusal(client, obj)
        if bool(said) != bool(told) or any(words not in said for words in told):
            differing.append((kind, spec, said, told))
    assert differing == []
