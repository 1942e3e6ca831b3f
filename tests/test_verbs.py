"""What the verbs say when somebody mistypes: what there is instead, and never the address of an API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli import main
from modelplane.plan.edits import NAMED
from tests.kube.fake_api import FakeApi
from tests.rehearse.words import GROUP, inference_cluster

SERVICE = {
    "apiVersion": GROUP,
    "kind": "ModelService",
    "metadata": {"name": "mock", "namespace": "ml-team"},
    "spec": {},
}


async def said(api: FakeApi, tmp_path: Path, *arguments: str) -> str:
    config = tmp_path / "kubeconfig"
    config.write_text(api.kubeconfig_text())
    result = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--kubeconfig", str(config)])
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["drain", "nope"], "there is no InferenceCluster nope; there are: east, west"),
        (["undrain", "nope"], "there is no InferenceCluster nope; there are: east, west"),
        (["chat", "ml-team/nope", "hi"], "there is no ModelService ml-team/nope; there are: ml-team/mock"),
        (["match", "true", "--cluster", "nope"], "there is no InferenceCluster nope; there are: east, west"),
        (["drain", ""], "there is no InferenceCluster with an empty name; there are: east"),
        (["drain", "east/status"], "there is no InferenceCluster east/status; there are: east, west"),
        (["match", "true", "--cluster", "east?watch=true"], "there is no InferenceCluster east?watch=true; there are"),
        (["chat", "ml-team?x/mock", "hi"], "there is no ModelService ml-team?x/mock; there are: ml-team/mock"),
        (["match", "true", "--class", "nope"], "there is no InferenceClass nope; there are: none"),
        (["plan", "--drain", "nope"], "there is no InferenceCluster nope; there are: east, west"),
        (["explain", "md/nope"], "there is no ModelDeployment default/nope; there are: none"),
        (["snapshot", "/no/such/folder/fleet.json"], "/no/such/folder/fleet.json cannot be written: No such file"),
    ],
)
async def test_what_is_not_there_is_answered_with_what_is(tmp_path: Path, arguments: list[str], expected: str) -> None:
    async with FakeApi() as api:
        for name in ("west", "east"):
            await api.put(inference_cluster(name))
        await api.put(SERVICE)
        error = await said(api, tmp_path, *arguments)
        assert not [path for method, path in api.requests if method != "GET"]
    assert expected in error
    assert "http" not in error


async def test_of_many_names_those_that_are_most_alike_are_named(tmp_path: Path) -> None:
    async with FakeApi() as api:
        for number in range(40):
            await api.put(inference_cluster(f"gpu-{number}"))
        await api.put(inference_cluster("frankfurt"))
        error = await said(api, tmp_path, "drain", "frankfrut")
    assert "there are: frankfurt, " in error
    assert error.rstrip().endswith(f" and {41 - NAMED} more")


@pytest.mark.parametrize("arguments", [["status"], ["plan"], ["snapshot"], ["match", "true"], ["drain", "x"]])
async def test_a_cluster_of_the_fleet_is_not_taken_for_its_control_plane(tmp_path: Path, arguments: list[str]) -> None:
    async with FakeApi() as api:
        api.refuse = 404
        error = await said(api, tmp_path, *arguments)
    assert "is this the kubeconfig of a control plane?" in error
