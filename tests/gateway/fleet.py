"""Kubernetes APIs of a control cluster and of regions, a gateway process for all, an engine per region."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson

from modelplane import processes
from modelplane.api.meta import Object, is_true
from tests.gateway import objects as make
from tests.gateway.backends import Backend
from tests.gateway.rig import until
from tests.kube.fake_api import FakeApi

CLUSTER_GATEWAY = "gateway.envoyproxy.io/gatewayclass-controller"
NAMESPACE = "modelplane-system"


class Fleet:
    """`start`, `kill` and `stop` the gateway process; `control` and `clusters` are the APIs, `cluster` and `engine` those of
    the first region."""

    def __init__(
        self, directory: Path, control: FakeApi, clusters: dict[str, FakeApi], engines: dict[str, Backend]
    ) -> None:
        self.directory = directory
        self.data = directory / "gateway"
        self.control = control
        self.clusters = clusters
        self.engines = engines
        self.cluster, *_ = clusters.values()
        self.engine, *_ = engines.values()
        self.process: asyncio.subprocess.Process | None = None
        self.http: aiohttp.ClientSession

    async def start(self) -> None:
        files = {}
        for name, api in (("control", self.control), *self.clusters.items()):
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
            *(f"--cluster={name}={files[name]}" for name in self.clusters),
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
        async with asyncio.timeout(30):
            return await self.process.wait()

    def proxy(self, region: str) -> processes.Record:
        """The proxy of a region's gateway, or of the front door for "control"."""
        for path in (self.data / "proxies").glob("*.bootstrap.json"):
            if orjson.loads(path.read_bytes())["node"]["id"].startswith(f"{region}/"):
                record = processes.recall(self.data / "run" / path.name.replace(".bootstrap", ""))
                assert record is not None
                return record
        raise AssertionError(f"{region} has no proxy")

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
        """A front door, and in every region a cluster gateway and a replica; one service that leads to them all."""
        refs: list[Object] = []
        for region, api in self.clusters.items():
            replica = f"mock-{region}"
            await self.put(
                api,
                make.gateway_class("envoy", CLUSTER_GATEWAY),
                make.gateway("inference-gateway", "envoy", name="http", port=80),
                make.pool("mock-pool", 8000, serving=replica),
                make.pod("engine", host_port=f"127.0.0.1:{self.engines[region].port}", serving=replica),
                make.route(
                    replica,
                    make.rule(
                        f"/ml-team/{replica}/",
                        {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "mock-pool"},
                        filters=[make.rewrite("/")],
                        timeouts={"request": "0s"},
                    ),
                    gateway="inference-gateway",
                ),
            )
            host, _, port = (await self.address(api, "inference-gateway")).partition(":")
            await self.put(self.control, make.service(replica, (host, int(port)), health="/health"))
            refs.append(make.ref(replica, f"/ml-team/{replica}/"))
        await self.put(
            self.control,
            make.gateway_class(),
            make.gateway(),
            make.route("mock", make.rule("/ml-team/mock/", *refs)),
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

    async def listens(self, address: str) -> bool:
        host, _, port = address.partition(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True

    async def answers(self, url: str) -> bool:
        try:
            async with self.http.get(f"{url}/v1/models") as response:
                return response.status == 200
        except OSError:
            return False


@contextlib.asynccontextmanager
async def fleet(directory: Path, *regions: str) -> AsyncIterator[Fleet]:
    async with contextlib.AsyncExitStack() as stack:
        control = await stack.enter_async_context(FakeApi())
        clusters = {region: await stack.enter_async_context(FakeApi()) for region in regions}
        engines = {region: await Backend(region).start() for region in regions}
        made = Fleet(directory, control, clusters, engines)
        made.http = await stack.enter_async_context(aiohttp.ClientSession())
        await made.start()
        try:
            yield made
        finally:
            with contextlib.suppress(ProcessLookupError):
                await made.stop()
            for record in made.proxies().values():
                await processes.stop(record)
            for engine in engines.values():
                await engine.stop()
