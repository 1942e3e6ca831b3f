"""Two Kubernetes APIs, a gateway process for both, and an engine: the way of a request from end to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from modelplane import processes
from modelplane.api.meta import Object, is_true
from tests.gateway import objects as make
from tests.gateway.backends import Backend
from tests.gateway.rig import until
from tests.kube.fake_api import FakeApi

CLUSTER_GATEWAY = "gateway.envoyproxy.io/gatewayclass-controller"
NAMESPACE = "modelplane-system"


class Fleet:
    """`start`, `kill` and `stop` the gateway process; `control` and `cluster` are the APIs."""

    def __init__(self, directory: Path, control: FakeApi, cluster: FakeApi, engine: Backend) -> None:
        self.directory = directory
        self.data = directory / "gateway"
        self.control = control
        self.cluster = cluster
        self.engine = engine
        self.process: asyncio.subprocess.Process | None = None
        self.http: aiohttp.ClientSession

    async def start(self) -> None:
        files = {}
        for name, api in (("control", self.control), ("east", self.cluster)):
            files[name] = self.directory / f"{name}.kubeconfig"
            files[name].write_text(api.kubeconfig_text())
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from modelplane.cli import main; main()",
            "gateway",
            "--data-dir",
            str(self.data),
            "--control",
            str(files["control"]),
            "--cluster",
            f"east={files['east']}",
            "--front-door-port",
            "0",
            stderr=(self.directory / "gateway.log").open("ab"),
        )

    async def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM; gives the exit code."""
        if self.process is None:
            return 0
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(15):
            return await self.process.wait()

    def proxies(self) -> dict[str, processes.Record]:
        found = {}
        for path in (self.data / "run").glob("*.json"):
            record = processes.recall(path)
            if record is not None:
                found[path.name] = record
        return found

    async def put(self, api: FakeApi, *objects: Object | list[Object]) -> None:
        for entry in objects:
            for obj in entry if isinstance(entry, list) else [entry]:
                await api.put(obj)

    async def deploy(self) -> None:
        """A front door, a cluster gateway, one replica, and the service that leads there."""
        await self.put(
            self.cluster,
            make.gateway_class("envoy", CLUSTER_GATEWAY),
            make.gateway("inference-gateway", "envoy", name="http", port=80),
            make.pool("mock-pool", 8000, serving="mock-demo-49b71"),
            make.pod("engine", host_port=f"127.0.0.1:{self.engine.port}", serving="mock-demo-49b71"),
            make.route(
                "mock-demo-49b71",
                make.rule(
                    "/ml-team/mock-demo-49b71/",
                    {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "mock-pool"},
                    filters=[make.rewrite("/")],
                    timeouts={"request": "0s"},
                ),
                gateway="inference-gateway",
            ),
        )
        address = await self.address(self.cluster, "inference-gateway")
        host, _, port = address.partition(":")
        await self.put(
            self.control,
            make.gateway_class(),
            make.gateway(),
            make.service("mock-demo", (host, int(port)), health="/health"),
            make.route("mock", make.rule("/ml-team/mock/", make.ref("mock-demo", "/ml-team/mock-demo-49b71/"))),
        )

    async def address(self, api: FakeApi, name: str) -> str:
        def programmed() -> bool:
            gateway = api.find("Gateway", name, NAMESPACE)
            return gateway is not None and is_true(gateway, "Programmed")

        await until(programmed)
        gateway = api.find("Gateway", name, NAMESPACE)
        assert gateway is not None
        value: str = gateway["status"]["addresses"][0]["value"]
        return value

    async def url(self) -> str:
        return f"http://{await self.address(self.control, 'modelplane')}/ml-team/mock"

    async def answers(self, url: str) -> bool:
        try:
            async with self.http.get(f"{url}/v1/models") as response:
                return response.status == 200
        except OSError:
            return False


@contextlib.asynccontextmanager
async def fleet(directory: Path) -> AsyncIterator[Fleet]:
    engine = await Backend("engine").start()
    async with FakeApi() as control, FakeApi() as cluster, aiohttp.ClientSession() as http:
        made = Fleet(directory, control, cluster, engine)
        made.http = http
        await made.start()
        try:
            yield made
        finally:
            with contextlib.suppress(ProcessLookupError):
                await made.stop()
            for record in made.proxies().values():
                await processes.stop(record)
            await engine.stop()
