"""The operator as it is deployed: a process with its service account, against embedded API servers as control cluster and cluster.

Nothing here is a fake but the cluster's hardware: server-side apply, RBAC, schemas and watches are those of the server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import yaml

from modelplane.api.meta import GVK, Object, condition_of
from modelplane.errors import ApiError, NotFound
from modelplane.kube import Client, Kubeconfig
from modelplane.local.bootstrap import RECORDING

pytest.importorskip("uvloop", reason="the embedded API server needs the extra `local`")

from modelplane.server.testing import ServerProcess, start_server

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "src/modelplane/operator/rbac.yaml"
CLUSTER = GVK("modelplane.ai", "v1alpha1", "InferenceCluster")
DEPLOYMENT = GVK("modelplane.ai", "v1alpha1", "ModelDeployment")
STACK = GVK("infrastructure.modelplane.ai", "v1alpha1", "ServingStack")
SECRET = GVK("", "v1", "Secret")
NAME = "gpu-eu-west"


class Operator:
    """A running `modelplane operator`."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "modelplane", "operator", "--kubeconfig", str(kubeconfig)]
        command += ["--health-port", "0", "--chart-installer", "local", "--log-level", "debug"]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    @property
    def health_port(self) -> int | None:
        marks = [line for line in self.log.read_text().splitlines() if "health on port" in line]
        return int(marks[-1].rsplit(" ", 1)[1]) if marks else None

    def ready(self) -> bool:
        port = self.health_port
        if port is None:
            return False
        with contextlib.suppress(OSError):
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).status == 200)
        return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServerProcess, Path]]:
    """Data directories and processes: control cluster, then the cluster east."""
    control, east = tmp_path_factory.mktemp("control"), tmp_path_factory.mktemp("east")
    first, second = start_server(control), start_server(east)
    try:
        asyncio.run(_prepare(first.kubeconfig, second.kubeconfig, control / "operator.kubeconfig"))
        yield control, first, east
    finally:
        first.stop()
        with contextlib.suppress(ProcessLookupError):
            second.stop()


async def _prepare(control: Path, east: Path, operator: Path) -> None:
    """What a platform team does: namespaces, the operator's account and a kubeconfig of it, the cluster's Secret."""
    async with Client(Kubeconfig.load(control)) as client:
        for name in ("modelplane-system", "ml-team"):
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in (*yaml.safe_load_all(RBAC.read_text()), *RECORDING):
            await client.apply(document)
        token = await client.request(
            "POST",
            "/api/v1/namespaces/modelplane-system/serviceaccounts/modelplane-operator/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600},
            },
        )
        config = yaml.safe_load(control.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        operator.write_text(yaml.safe_dump(config))
        await client.apply(_secret(east.read_text()))


def _secret(kubeconfig: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "eu-west-kubeconfig", "namespace": "modelplane-system"},
        "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
    }


@pytest.fixture
async def control(servers: tuple[Path, ServerProcess, Path]) -> AsyncIterator[Client]:
    async with Client(Kubeconfig.load(servers[0] / "admin.kubeconfig")) as client:
        yield client


@pytest.fixture
async def east(servers: tuple[Path, ServerProcess, Path]) -> AsyncIterator[Client]:
    async with Client(Kubeconfig.load(servers[2] / "admin.kubeconfig")) as client:
        yield client


@pytest.fixture
async def operator(servers: tuple[Path, ServerProcess, Path], tmp_path: Path) -> AsyncIterator[Operator]:
    running = Operator(servers[0] / "operator.kubeconfig", tmp_path / "operator.log")
    try:
        await eventually(lambda: asyncio.to_thread(running.ready))
        yield running
    finally:
        running.stop()


async def eventually(check: Callable[[], object], limit: float = 40) -> None:
    """Wait for what other processes bring about."""
    async with asyncio.timeout(limit):
        while True:
            with contextlib.suppress(ApiError):
                answer = check()
                if await answer if asyncio.iscoroutine(answer) else answer:
                    return
            await asyncio.sleep(0.05)


async def says(
    client: Client, kind: GVK, name: str, namespace: str | None, type_: str, status: str, reason: str
) -> bool:
    found = condition_of(await client.get(kind, name, namespace), type_)
    return found is not None and (found.status, found.reason) == (status, reason)


async def apply_example(client: Client, *names: str) -> None:
    for name in names:
        for document in yaml.safe_load_all((ROOT / f"examples/two-regions/{name}.yaml").read_text()):
            await client.apply(document, field_manager="a-user")


@pytest.mark.timeout(180)
async def test_a_cluster_gets_its_stack_with_the_rights_of_the_manifest_alone(
    operator: Operator, control: Client, east: Client
) -> None:
    await apply_example(control, "20-inference-class", "30-inference-clusters", "40-model-deployment")
    await eventually(lambda: says(control, CLUSTER, NAME, None, "Reachable", "True", "Answering"))
    await eventually(lambda: says(control, CLUSTER, "gpu-us-east", None, "Reachable", "False", "CredentialMissing"))
    await eventually(lambda: says(control, CLUSTER, NAME, None, "PoolsLabelled", "False", "LabelMissing"))

    async def charted() -> bool:
        releases = await east.list(SECRET, labels={"owner": "helm", "status": "deployed"})
        gateways = await east.list(GVK("gateway.networking.k8s.io", "v1", "Gateway"), labels="modelplane.ai/owner-uid")
        return len(releases.items) >= 5 and len(gateways.items) == 1

    await eventually(charted)
    await eventually(
        lambda: says(control, DEPLOYMENT, "mock-demo", "ml-team", "ReplicasScheduled", "False", "InsufficientCapacity")
    )
    [stack] = [s for s in (await control.list(STACK)).items if s["metadata"]["ownerReferences"][0]["name"] == NAME]
    assert {entry["cluster"] for entry in stack["status"]["children"]} == {NAME}
    assert "modelplane.ai/cleanup" in stack["metadata"]["finalizers"]
    assert "forbidden" not in operator.log.read_text().lower()


@pytest.mark.timeout(180)
async def test_it_ends_within_ten_seconds_and_a_successor_changes_nothing(
    operator: Operator, control: Client, east: Client, servers: tuple[Path, ServerProcess, Path], tmp_path: Path
) -> None:
    async def versions() -> dict[str, object]:
        found = [*(await control.list(CLUSTER)).items, *(await control.list(STACK)).items]
        found += (await east.list(SECRET, labels={"owner": "helm"})).items
        # The other cluster has no credential; what is said of it has the time since when, as far as the operator knows.
        return {
            f"{obj['kind']}/{obj['metadata']['name']}": (obj["metadata"]["resourceVersion"], obj.get("status"))
            for obj in found
            if "gpu-us-east" not in obj["metadata"]["name"]
        }

    await apply_example(control, "20-inference-class", "30-inference-clusters")
    await eventually(lambda: says(control, CLUSTER, NAME, None, "Reachable", "True", "Answering"))
    [stack] = [s for s in (await control.list(STACK)).items if s["metadata"]["ownerReferences"][0]["name"] == NAME]

    async def settled() -> bool:
        """All is there but an address, which no controller gives here."""
        found = condition_of(await control.get(STACK, stack["metadata"]["name"], "modelplane-system"), "Ready")
        return found is not None and found.message.startswith(f"unready on {NAME}: gateway;")

    await eventually(settled)
    assert operator.stop() == 0
    before = await versions()
    successor = Operator(servers[0] / "operator.kubeconfig", tmp_path / "successor.log")
    try:
        await eventually(lambda: asyncio.to_thread(successor.ready))
        await apply_example(control, "10-inference-gateway")
        gateway = GVK("modelplane.ai", "v1alpha1", "InferenceGateway")
        await eventually(lambda: says(control, gateway, "default", None, "Synced", "True", "ReconcileSuccess"))
        assert await versions() == before
    finally:
        successor.stop()


@pytest.mark.timeout(180)
async def test_a_deleted_cluster_leaves_nothing_of_ours_behind(
    operator: Operator, control: Client, east: Client
) -> None:
    await apply_example(control, "20-inference-class", "30-inference-clusters")
    await eventually(lambda: says(control, CLUSTER, NAME, None, "Reachable", "True", "Answering"))

    async def installed() -> bool:
        return bool((await east.list(SECRET, labels={"owner": "helm"})).items)

    await eventually(installed)
    await control.delete(CLUSTER, NAME)
    # There is no garbage collector here: the stack is deleted as it would do.
    [stack] = [s for s in (await control.list(STACK)).items if s["metadata"]["ownerReferences"][0]["name"] == NAME]
    with contextlib.suppress(NotFound):
        await control.delete(STACK, stack["metadata"]["name"], "modelplane-system")

    async def gone() -> bool:
        left = [*(await control.list(STACK)).items, *(await control.list(CLUSTER)).items]
        return not [obj for obj in left if NAME in obj["metadata"]["name"]]

    await eventually(gone)
    assert (await east.list(SECRET, labels={"owner": "helm"})).items == []
    assert (await east.list(GVK("gateway.networking.k8s.io", "v1", "Gateway"))).items == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--kubeconfig", "/nothing/here"], "cannot be read"),
        (["--kubeconfig", "/dev/null"], "is no kubeconfig"),
        (["--cluster-gateway-port", "x=y", "--kubeconfig", "/dev/null"], "is no [CLUSTER=]PORT"),
    ],
)
def test_a_bad_option_ends_it_with_a_sentence(arguments: list[str], word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelplane", "operator", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert word in done.stderr
    assert "Traceback" not in done.stderr
