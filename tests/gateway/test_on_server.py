"""The gateway process against the embedded API server: its schemas, defaults and status rules instead of a fake's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from modelplane.api.meta import GVK, Object, is_true
from modelplane.gateway.serve import Cluster, serve
from modelplane.kube import Client, Kubeconfig
from modelplane.server.testing import running_server
from tests.gateway import objects as make
from tests.gateway.backends import Backend
from tests.gateway.rig import until

BOTH = frozenset({"traefik.io/gateway-controller", "gateway.envoyproxy.io/gatewayclass-controller"})
GATEWAY = GVK("gateway.networking.k8s.io", "v1", "Gateway")
ROUTE = GVK("gateway.networking.k8s.io", "v1", "HTTPRoute")
POOL = GVK("inference.networking.k8s.io", "v1", "InferencePool")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    with running_server(tmp_path / "server") as server:
        stop = asyncio.Event()
        target = Cluster(name="one", kubeconfig=server.kubeconfig, controllers=BOTH)
        task = asyncio.create_task(serve(tmp_path / "gateway", [target], stop))
        try:
            async with Client(Kubeconfig.load(server.kubeconfig)) as made:
                yield made
        finally:
            stop.set()
            await task


async def create(client: Client, *objects: Object) -> None:
    for obj in objects:
        obj["metadata"].pop("generation", None)
        status = obj.pop("status", None)
        made = await client.create(obj)
        if status:
            await client.replace({**made, "status": status}, "status")


async def test_a_request_reaches_a_pod_and_every_status_settles(client: Client) -> None:
    engine = await Backend("engine").start()
    pod = make.pod("engine", host_port=f"127.0.0.1:{engine.port}", serving="p")
    pod["spec"] = {"containers": [{"name": "engine", "image": "engine"}]}
    pool_ref = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}
    await create(
        client,
        *(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in ("modelplane-system", "ml-team")
        ),
        make.gateway_class("envoy", "gateway.envoyproxy.io/gatewayclass-controller"),
        make.gateway("inference-gateway", "envoy"),
        make.pool("p", serving="p"),
        pod,
        make.route(
            "mock",
            make.rule("/ml-team/mock/", pool_ref, filters=[make.rewrite("/")], timeouts={"request": "0s"}),
            gateway="inference-gateway",
        ),
    )

    async def settled() -> bool:
        gateway = await client.get(GATEWAY, "inference-gateway", "modelplane-system")
        route = await client.get(ROUTE, "mock", "ml-team")
        pool = await client.get(POOL, "p", "ml-team")
        parents = [
            *((route.get("status") or {}).get("parents") or ()),
            *((pool.get("status") or {}).get("parents") or ()),
        ]
        return (
            is_true(gateway, "Programmed")
            and len(parents) == 2
            and all(is_true({"status": parent}, "Accepted") for parent in parents)
        )

    try:
        await until(settled)
        gateway = await client.get(GATEWAY, "inference-gateway", "modelplane-system")
        url = f"http://{gateway['status']['addresses'][0]['value']}/ml-team/mock/v1/chat/completions"
        async with aiohttp.ClientSession() as http, http.post(url, data=b"{}") as response:
            assert (await response.json())["path"] == "/v1/chat/completions"
        versions = await _versions(client)
        # An event that changes nothing here makes a pass; a status that never settles would be written again.
        await create(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}})
        second = make.route("second", make.rule("/second", pool_ref), gateway="inference-gateway")
        await create(client, second)

        async def attached() -> bool:
            found = await client.get(GATEWAY, "inference-gateway", "modelplane-system")
            return bool(found["status"]["listeners"][0]["attachedRoutes"] == 2)

        await until(attached)
        after = await _versions(client)
        assert {name for name in versions if versions[name] != after[name]} == {"inference-gateway"}
    finally:
        with contextlib.suppress(ConnectionError):
            await engine.stop()


async def _versions(client: Client) -> dict[str, str]:
    found = {}
    for kind in (GVK("gateway.networking.k8s.io", "v1", "GatewayClass"), GATEWAY, ROUTE, POOL):
        for obj in (await client.list(kind)).items:
            found[obj["metadata"]["name"]] = obj["metadata"]["resourceVersion"]
    return found
