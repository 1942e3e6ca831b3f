"""A real Envoy fed by the real ADS server, from Kubernetes objects, without a Kubernetes API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import aiohttp
import msgspec

from modelplane.api.meta import Key, Object
from modelplane.gateway.attachment import CLUSTER_GATEWAY, FRONT_DOOR, Objects, attach
from modelplane.gateway.ports import KeptPorts
from modelplane.gateway.proxies import EnvoyProcess, forget_sockets, socket_directory
from modelplane.gateway.xds.configuration import Place, configuration
from modelplane.gateway.xds.server import Server
from modelplane.gateway.xds.snapshot import snapshot
from tests.gateway import objects as make

KINDS = {
    "GatewayClass": "classes",
    "Gateway": "gateways",
    "HTTPRoute": "routes",
    "Service": "services",
    "EndpointSlice": "slices",
    "InferencePool": "pools",
    "Pod": "pods",
    "Namespace": "namespaces",
}

NODE = "test/modelplane-system/modelplane"


async def until(condition, within: float = 30.0, what: str = "") -> None:
    """Wait for a condition of ours that has no event of its own."""
    async with asyncio.timeout(within):
        while True:
            result = condition()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.01)


class Rig:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        sockets = socket_directory(directory)
        (sockets / "proxies").mkdir(parents=True, exist_ok=True)
        self.changed = asyncio.Event()
        self.server = Server(sockets / "ads.sock", lambda node: self.changed.set())
        self.process = EnvoyProcess(NODE, directory, sockets, sockets / "ads.sock")
        ports = KeptPorts(directory / "ports.json")
        self.port = ports.take("web")
        self._place = Place("127.0.0.1", {"web": self.port}, ports.take("health"))
        self.http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def picture(self, objects: Iterable[Object]):
        by_kind: dict[str, list[Object]] = {}
        for obj in (make.gateway_class(), make.gateway(), *objects):
            by_kind.setdefault(KINDS[obj["kind"]], []).append(obj)
        read = Objects(**{part: tuple(items) for part, items in by_kind.items()})
        return attach(read, {FRONT_DOOR, CLUSTER_GATEWAY})

    def trust(self, file: Path) -> None:
        """Check TLS backends against this file from the next publish on."""
        self._place = msgspec.structs.replace(self._place, trust_store=str(file))

    async def publish(self, *objects: Object | list[Object]) -> None:
        """Serve these objects, beside a Gateway and its class, and wait until Envoy has taken them."""
        flat = [obj for entry in objects for obj in (entry if isinstance(entry, list) else [entry])]
        gateway = self.picture(flat).gateways[Key("modelplane-system", "modelplane")]
        known = self.server.proxy(NODE)
        serial = self.server.publish(NODE, snapshot(configuration(gateway, self._place), known.snapshot))
        async with asyncio.timeout(30):
            while known.settled < serial:
                self.changed.clear()
                await self.changed.wait()

    async def get(self, path: str, **more) -> tuple[int, dict, dict[str, str]]:
        async with self.http.get(self.url + path, **more) as response:
            body = await response.json(content_type=None)
            return response.status, body, dict(response.headers)

    async def names(self, path: str, count: int) -> list[str]:
        """Which backends answer `count` requests, one after the other."""
        found = []
        for _ in range(count):
            status, body, _ = await self.get(path)
            found.append(body["name"] if status == 200 else str(status))
        return found

    async def answered(self, path: str, names: Iterable[str]) -> None:
        """Wait until each of these backends answers and nobody else does."""
        wanted = set(names)

        async def reached() -> bool:
            return set(await self.names(path, 2 * len(wanted))) == wanted

        await until(reached)

    async def eventually(self, condition) -> None:
        await until(condition)

    async def admin(self, path: str) -> dict:
        connector = aiohttp.UnixConnector(path=str(self.process.admin))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://admin{path}") as response,
        ):
            return await response.json(content_type=None)


@contextlib.asynccontextmanager
async def rig(directory: Path) -> AsyncIterator[Rig]:
    made = Rig(directory)
    await made.server.start()
    made.process.start()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as made.http:
            yield made
    finally:
        await made.process.stop()
        await made.server.stop()
        forget_sockets(made.directory)
