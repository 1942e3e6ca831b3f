"""Every part of a simulated cluster runs alone, by kubeconfig, as a process of its own against an API server of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from modelplane import processes
from modelplane.api.meta import Object
from modelplane.kube import Client, Kubeconfig
from modelplane.kube.resources import known
from modelplane.local.kinds import CONFIG_MAP, NAMESPACE, POD, REPLICA_SET
from modelplane.local.nodes.addresses import HOST_PORT
from modelplane.server.testing import start_server

from .cluster_process import FLEET
from .test_cluster import bare_pod, deployment, engine_spec, missing, ready_pods, template


@contextmanager
def verb(directory: Path, kubeconfig: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [sys.executable, "-m", "modelplane", name, "--kubeconfig", str(kubeconfig), *arguments]
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, (directory / f"{name}.log").read_text()


async def test_scheduler_controllers_and_nodes_are_separate_clients(tmp_path: Path, eventually: Any) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    server = start_server(tmp_path / "api", "--no-install-crds")
    nodes = ("--data-dir", str(tmp_path / "nodes"), "--fleet", str(tmp_path / "fleet.yaml"), "--name", "test")
    try:
        with (
            verb(tmp_path, server.kubeconfig, "controllers"),
            verb(tmp_path, server.kubeconfig, "scheduler"),
            verb(tmp_path, server.kubeconfig, "nodes", *nodes),
        ):
            async with Client(Kubeconfig.load(server.kubeconfig)) as client:
                await client.create(template("default"))
                await client.create(deployment("default", gpu=True))
                [pod] = await eventually(lambda: ready_pods(client, "default", 1), within=90)
                assert pod["spec"]["nodeName"] == "gpu-0"
                await client.delete(
                    REPLICA_SET, pod["metadata"]["ownerReferences"][0]["name"], "default", propagation="Background"
                )

                async def replaced() -> bool:
                    found = await ready_pods(client, "default", 1)
                    return bool(found) and found[0]["metadata"]["uid"] != pod["metadata"]["uid"]

                await eventually(replaced, within=90)
        left = [processes.recall(path) for path in (tmp_path / "nodes" / "run").glob("*.json")]
        assert any(record is not None for record in left), "engines outlive the node runtime"
    finally:
        server.stop()
        for path in (tmp_path / "nodes" / "run").glob("*.json"):
            record = processes.recall(path)
            if record is not None:
                os.kill(record.pid, signal.SIGKILL)


async def test_a_control_cluster_runs_only_the_controllers_that_it_needs(tmp_path: Path, eventually: Any) -> None:
    server = start_server(tmp_path / "api", "--no-install-crds")
    try:
        with verb(
            tmp_path, server.kubeconfig, "controllers", "--controllers", "garbagecollector,namespace,serviceaccount"
        ):
            async with Client(Kubeconfig.load(server.kubeconfig)) as client:
                await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
                owner = await client.create(config("owner"))
                reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
                await client.create(config("owned", ownerReferences=[reference]))
                await client.request("DELETE", "/api/v1/namespaces/team/configmaps/owner")
                await eventually(lambda: missing(client, CONFIG_MAP, "owned", "team"))
                await client.create(deployment("team"))
                await client.request("DELETE", "/api/v1/namespaces/team")
                await eventually(lambda: missing(client, NAMESPACE, "team"))
                assert (await client.list(POD)).items == []
    finally:
        server.stop()


def config(name: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "data": {},
    }


ROLE = known("rbac.authorization.k8s.io", "v1", "Role")

BAD = [
    ("an unknown controller is named", ["controllers", "--kubeconfig", "k", "--controllers", "deployment,nonsense"], "nonsense"),
    ("a kubeconfig that is not there", ["scheduler", "--kubeconfig", "nowhere.yaml"], "nowhere.yaml cannot be read"),
    ("a cluster that the fleet lacks", ["cluster", "--data-dir", "d", "--name", "mars"], "no cluster 'mars' in the fleet"),
    ("a fleet file that is not there",
     ["nodes", "--kubeconfig", "k", "--data-dir", "d", "--name", "x", "--fleet", "no.yaml"], "no.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "arguments", "want"), BAD, ids=[b[0] for b in BAD])
def test_bad_arguments_are_explained(reason: str, arguments: list[str], want: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode != 0
    assert want in done.stderr, reason
    assert "Traceback" not in done.stderr


async def test_a_kind_that_was_empty_is_collected_too(tmp_path: Path, eventually: Any) -> None:
    """Role is a kind that nobody watches before it has objects."""
    server = start_server(tmp_path / "api", "--no-install-crds")
    try:
        with verb(tmp_path, server.kubeconfig, "controllers", "--controllers", "garbagecollector"):
            async with Client(Kubeconfig.load(server.kubeconfig)) as client:
                await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
                for propagation in ("Foreground", "Orphan"):
                    owner = await client.create(config("owner"))
                    reference = {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": "owner",
                        "uid": owner["metadata"]["uid"],
                    }
                    name = f"role-{propagation.lower()}"
                    role = {
                        "name": name,
                        "namespace": "team",
                        "ownerReferences": [{**reference, "blockOwnerDeletion": True}],
                    }
                    await client.create(
                        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": role, "rules": []}
                    )
                    await client.delete(CONFIG_MAP, "owner", "team", propagation=propagation)
                    await eventually(lambda: missing(client, CONFIG_MAP, "owner", "team"))
                    gone = await missing(client, ROLE, name, "team")
                    assert gone == (propagation == "Foreground"), propagation
    finally:
        server.stop()


async def test_where_pods_share_one_address_each_has_a_port_of_its_own(tmp_path: Path, eventually: Any) -> None:
    """As on macOS; no scheduler runs, since the pods name their node."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    server = start_server(tmp_path / "api", "--no-install-crds")
    nodes = ("--data-dir", str(tmp_path / "nodes"), "--fleet", str(tmp_path / "fleet.yaml"), "--name", "test")
    try:
        with verb(tmp_path, server.kubeconfig, "nodes", *nodes, "--pod-cidr", "127.0.0.1/32"):
            async with Client(Kubeconfig.load(server.kubeconfig)) as client:
                for name in ("a", "b"):
                    await client.create(bare_pod("default", {**engine_spec(), "nodeName": "cpu-0"}, name))
                pods = await eventually(lambda: ready_pods(client, "default", 2))
                places = {p["metadata"]["name"]: p["metadata"]["annotations"][HOST_PORT] for p in pods}
                assert {p["status"]["podIP"] for p in pods} == {"127.0.0.1"}
                assert len(set(places.values())) == 2
                async with aiohttp.ClientSession() as session:
                    for name, place in places.items():
                        async with session.post(f"http://{place}/v1/completions", json={"prompt": "x"}) as answer:
                            assert (await answer.json())["choices"][0]["text"].startswith(f"{name}:")
                    await client.delete(POD, "a", "default")
                    await eventually(lambda: missing(client, POD, "a", "default"))
                    with pytest.raises(aiohttp.ClientError):
                        await session.get(f"http://{places['a']}/health")
                await client.delete(POD, "b", "default")
                await eventually(lambda: missing(client, POD, "b", "default"))
    finally:
        server.stop()
