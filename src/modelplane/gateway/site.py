"""One cluster's gateways: its objects watched, its proxies run and fed, its statuses written.

A change of any object leads to one pass over all of them a few milliseconds later; passes are cheap, because only what
differs is encoded and sent. Nothing happens before every watch has its first complete list, and nothing is taken away
while the API server is unreachable: the proxies keep what they have.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from modelplane.api.meta import GVK, Key, Object
from modelplane.errors import ApiError, Conflict, NotFound
from modelplane.gateway import statuses
from modelplane.gateway.attachment import GROUP, Objects, Picture, attach
from modelplane.gateway.backends import POOL_GROUP
from modelplane.gateway.doors import Door, check, passing_on
from modelplane.gateway.httproutes import Reader
from modelplane.gateway.model import Gateway
from modelplane.gateway.ports import KeptPorts
from modelplane.gateway.proxies import EnvoyProcess, stop_leftovers
from modelplane.gateway.statuses import ProxyFacts
from modelplane.gateway.wire import WireError
from modelplane.gateway.xds.configuration import Place, configuration
from modelplane.gateway.xds.names import CLUSTER, ENDPOINTS
from modelplane.gateway.xds.server import Server
from modelplane.gateway.xds.snapshot import snapshot
from modelplane.kube import Backoff, Client, Informer, Kubeconfig, PatchType

log = logging.getLogger(__name__)

COALESCE: Final = 0.002
"""Seconds between a change and the pass that it causes; changes of one apply arrive together."""

PATIENCE: Final = 1.0
"""Seconds that a route's status waits for the proxy to confirm its configuration."""

KINDS: Final = {
    "classes": GVK(GROUP, "v1", "GatewayClass"),
    "gateways": GVK(GROUP, "v1", "Gateway"),
    "routes": GVK(GROUP, "v1", "HTTPRoute"),
    "services": GVK("", "v1", "Service"),
    "slices": GVK("discovery.k8s.io", "v1", "EndpointSlice"),
    "pods": GVK("", "v1", "Pod"),
    "namespaces": GVK("", "v1", "Namespace"),
    "pools": GVK(POOL_GROUP, "v1", "InferencePool"),
}

HEALTH_PORT: Final = "#health"
"""Beside the ports of listeners, whose names have no such character."""

OPTIONAL: Final = frozenset({"pools"})
"""Kinds that a cluster may lack."""


_TRUST_STORES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Debian, Fedora, SUSE; Alpine and macOS."""


def trust_store() -> str:
    """The file with this system's certificate authorities; SSL_CERT_FILE overrules it, as for other programs."""
    paths = (ssl.get_default_verify_paths().cafile, *_TRUST_STORES)
    return next((path for path in paths if path and Path(path).is_file()), _TRUST_STORES[0])


class Host:
    """What the sites of one process share: where files are, ports, the ADS server, and the address to listen on."""

    def __init__(self, directory: Path, sockets: Path, server: Server, address: str = "127.0.0.1") -> None:
        self.directory = directory
        self.sockets = sockets
        self.ads = sockets / "ads.sock"
        self.server = server
        self.address = address
        self.ports = KeptPorts(directory / "ports.json", address)
        self.trust_store = trust_store()


class Site:
    """The Gateways of one cluster whose classes name one of `controllers`. `port` is the wish of the first listener."""

    def __init__(self, name: str, host: Host, controllers: Iterable[str], *, port: int = 0) -> None:
        self.name = name
        self._host = host
        self._controllers = frozenset(controllers)
        self._port = port
        self._informers: dict[str, Informer] = {}
        self._client: Client | None = None
        self._proxies: dict[Key, EnvoyProcess] = {}
        self._doors: dict[Key, dict[tuple[str, int], Door | None]] = {}
        self._problems: dict[Key, str] = {}
        self._published: dict[Key, tuple[int, float]] = {}
        self._scheduled: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._again = False
        self._reader = Reader()
        self._serving: dict[Key, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._swept = False

    async def run(self, kubeconfig: Kubeconfig) -> None:
        """Serve until cancelled. The proxies are left running; `stop` ends them."""
        async with Client(
            kubeconfig, user_agent=f"modelplane-gateway/{self.name}", field_manager="modelplane-gateway"
        ) as client:
            self._client = client
            for part, gvk in KINDS.items():
                informer = Informer(client, gvk, backoff=Backoff(0.05, 1.0))
                informer.subscribe(lambda old, new: self.schedule())
                informer.on_health(self.schedule)
                self._informers[part] = informer
            async with asyncio.TaskGroup() as group:
                for informer in self._informers.values():
                    group.create_task(informer.run())

    async def stop(self) -> None:
        """End this site's proxies."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        if self._writing is not None:
            self._writing.cancel()
        for key in list(self._doors):
            self._shut(key)
        await asyncio.gather(*(proxy.stop() for proxy in self._proxies.values()), *self._tasks, return_exceptions=True)
        self._proxies.clear()

    def schedule(self, delay: float = COALESCE) -> None:
        """Make a pass soon. Cheap; called for every event."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        if self._scheduled is not None:
            if self._scheduled.when() <= due:
                return
            self._scheduled.cancel()
        self._scheduled = loop.call_at(due, self._pass)

    def node(self, key: Key) -> str:
        return f"{self.name}/{key.namespace}/{key.name}"

    @property
    def proxies(self) -> Mapping[Key, EnvoyProcess]:
        return dict(self._proxies)

    # --- one pass --------------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        self._scheduled = None
        if not self._whole():
            return
        objects = Objects(**{part: tuple(informer.items()) for part, informer in self._informers.items()})
        picture = attach(objects, self._controllers, self._reader, self._serving)
        self._serving = {key: picture.controllers[key] for key in picture.gateways}
        for key in [key for key in self._proxies if key not in picture.gateways]:
            self._retire(key)
        for key, gateway in sorted(picture.gateways.items()):
            self._serve(key, gateway)
        if not self._swept:
            self._swept = True
            keep = {self.node(Key.of(obj)) for obj in objects.gateways}
            self._background(stop_leftovers(self._host.directory, site=self.name, keep=keep))
        self._write(objects, picture)

    def _whole(self) -> bool:
        """Whether every watch has had a complete list; a kind that the cluster does not serve is empty if it may be."""
        return all(
            informer.synced.is_set() or (part in OPTIONAL and isinstance(informer.error, NotFound))
            for part, informer in self._informers.items()
        )

    def _serve(self, key: Key, gateway: Gateway) -> None:
        node = self.node(key)
        proxy = self._proxies.get(key)
        if proxy is None:
            proxy = EnvoyProcess(node, self._host.directory, self._host.sockets, self._host.ads)
            proxy.changed = lambda: self._proxy_changed(key)
            self._proxies[key] = proxy
            proxy.start()
        ours = proxy.running
        ports = {
            listener.name: self._host.ports.take(
                f"{node}/{listener.name}", self._port if index == 0 else 0, ours=ours or key in self._published
            )
            for index, listener in enumerate(gateway.listeners)
        }
        health = self._host.ports.take(f"{node}{HEALTH_PORT}", ours=ours or key in self._published)
        known = self._host.server.proxy(node)
        shared = self._open(key, proxy, {**ports, HEALTH_PORT: health})
        place = Place(
            self._host.address,
            ports,
            health,
            self._host.trust_store,
            doors={name: str(proxy.door(port)) for name, port in ports.items() if name in shared},
            health_shared=HEALTH_PORT in shared,
        )
        try:
            fresh = snapshot(configuration(gateway, place), known.snapshot)
        except WireError as error:
            log.exception("the configuration of %s cannot be written", node)
            self._problems[key] = f"the configuration cannot be written for Envoy: {error}"
            return
        self._problems.pop(key, None)
        serial = self._host.server.publish(node, fresh)
        if self._published.get(key, (-1, 0.0))[0] != serial:
            self._published[key] = (serial, time.monotonic())
            self.schedule(PATIENCE)

    def _open(self, key: Key, proxy: EnvoyProcess, ports: Mapping[str, int]) -> set[str]:
        """Open a door for every port, once, and close those of ports that are no more; the names of ports that have one."""
        doors = self._doors.setdefault(key, {})
        for place in [place for place in doors if ports.get(place[0]) != place[1]]:
            self._close(proxy, place[1], doors.pop(place))
        for name, port in ports.items():
            if (name, port) in doors:
                continue
            health = name == HEALTH_PORT
            address, meet = ("127.0.0.1", check) if health else (self._host.address, passing_on(proxy.door(port)))
            try:
                doors[name, port] = Door(address, port, meet, ours=proxy.running)
            except OSError as error:
                log.info("port %d of %s is the proxy's alone: %s", port, proxy.node, error)
                doors[name, port] = None
        return {name for (name, _), door in doors.items() if door is not None}

    def _close(self, proxy: EnvoyProcess, port: int, door: Door | None) -> None:
        if door is not None:
            door.close()
        proxy.door(port).unlink(missing_ok=True)

    def _shut(self, key: Key) -> None:
        for (_, port), door in self._doors.pop(key, {}).items():
            self._close(self._proxies[key], port, door)

    def _retire(self, key: Key) -> None:
        self._shut(key)
        proxy = self._proxies.pop(key)
        self._published.pop(key, None)
        self._problems.pop(key, None)
        self._host.server.forget(self.node(key))
        log.info("Gateway %s is gone; its proxy ends", key)
        self._background(proxy.stop())

    def _proxy_changed(self, key: Key) -> None:
        proxy = self._proxies.get(key)
        if proxy is not None and not proxy.running:
            for door in self._doors.get(key, {}).values():
                if door is not None:
                    door.alone()
            self._host.server.proxy(self.node(key)).settled = -1
        self.schedule()

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- statuses --------------------------------------------------------------------------------------------------

    def _facts(self, key: Key, picture: Picture) -> ProxyFacts:
        process = self._proxies.get(key)
        known = self._host.server.proxy(self.node(key))
        addresses = []
        for listener in picture.gateways[key].listeners if key in picture.gateways else ():
            port = self._host.ports.get(f"{self.node(key)}/{listener.name}")
            addresses.append(self._host.address if port == 80 else f"{self._host.address}:{port}")
        refused: dict[str, str] = {}
        general = []
        for (type_, name), words in known.complaints.items():
            if type_ in (CLUSTER, ENDPOINTS) and "/" in name:
                refused[name.rpartition("/")[0]] = words
            else:
                general.append(words)
        problem = self._problems.get(key, "")
        if general:
            problem = f"Envoy refused the configuration and keeps the one before: {'; '.join(general)}"
        elif process is None or not process.running:
            problem = problem or "Envoy is being started."
        elif known.settled < 0:
            problem = problem or "Envoy is taking its configuration."
        # An address is told once somebody listens there, and then kept, whatever happens to the proxy.
        status = picture.gateway_objects[key].get("status") or {}
        told = {entry.get("value") for entry in status.get("addresses") or ()}
        addresses = [value for value in dict.fromkeys(addresses) if value in told or not problem]
        return ProxyFacts(tuple(addresses), not problem, problem, refused)

    def _confirmed(self, key: Key) -> bool:
        serial, since = self._published.get(key, (-1, 0.0))
        return self._host.server.proxy(self.node(key)).settled >= serial or time.monotonic() - since >= PATIENCE

    def _write(self, objects: Objects, picture: Picture) -> None:
        """Write the statuses that differ, unless that is being done; then once more afterwards."""
        if self._writing is not None and not self._writing.done():
            self._again = True
            return
        facts = {key: self._facts(key, picture) for key in picture.gateway_objects}
        writes: list[tuple[str, Object, Object]] = []
        for obj in picture.classes:
            writes += self._conditions("classes", obj, statuses.class_status(obj))
        for key, obj in picture.gateway_objects.items():
            writes += self._conditions(
                "gateways", obj, statuses.gateway_status(obj, picture.listeners[key], facts[key])
            )
        for obj in objects.routes:
            parents = picture.routes.get(Key.of(obj), ())
            if all(self._confirmed(parent.gateway) for parent in parents):
                writes += self._parents("routes", obj, statuses.route_status(obj, parents, picture, facts))
        for obj in objects.pools:
            writes += self._parents(
                "pools", obj, statuses.pool_status(obj, picture.pools.get(Key.of(obj), ()), picture)
            )
        if writes:
            self._again = False
            self._writing = asyncio.create_task(self._send(writes))

    def _conditions(self, part: str, obj: Object, status: Object) -> list[tuple[str, Object, Object]]:
        before = obj.get("status") or {}
        fresh = {**status, "conditions": _dated(status["conditions"], before.get("conditions"))}
        if "listeners" in status:
            known: dict[str, list[Object]] = {
                entry["name"]: entry.get("conditions") or [] for entry in before.get("listeners") or ()
            }
            fresh["listeners"] = [
                {**entry, "conditions": _dated(entry["conditions"], known.get(entry["name"]))}
                for entry in status["listeners"]
            ]
        if all(before.get(field) == value or (not before.get(field) and not value) for field, value in fresh.items()):
            return []
        return [(part, obj, fresh)]

    def _parents(self, part: str, obj: Object, ours: list[Object]) -> list[tuple[str, Object, Object]]:
        before = (obj.get("status") or {}).get("parents") or []
        mine = [entry for entry in before if entry.get("controllerName") in self._controllers]
        fresh = []
        for entry in ours:
            known: Object = next((old for old in mine if old.get("parentRef") == entry["parentRef"]), {})
            fresh.append({**entry, "conditions": _dated(entry["conditions"], known.get("conditions"))})
        if fresh == mine:
            return []
        others = [entry for entry in before if entry.get("controllerName") not in self._controllers]
        return [(part, obj, {"parents": others + fresh})]

    async def _send(self, writes: Sequence[tuple[str, Object, Object]]) -> None:
        async def one(part: str, obj: Object, status: Object) -> bool:
            assert self._client is not None
            key = Key.of(obj)
            patch = {"metadata": {"resourceVersion": obj["metadata"].get("resourceVersion")}, "status": status}
            try:
                written = await self._client.patch(
                    KINDS[part], key.name, key.namespace or None, patch, PatchType.MERGE, "status"
                )
            except (Conflict, NotFound):
                return True  # the watch brings what we have not seen
            except ApiError as error:
                log.info("the status of %s %s is not written: %s", KINDS[part].kind, key, error)
                return False
            self._informers[part].accept(written)
            return True

        fine = await asyncio.gather(*(one(*write) for write in writes))
        if not all(fine):
            self.schedule(1.0)
        elif self._again:
            asyncio.get_running_loop().call_soon(self.schedule)


def _dated(conditions: list[Object], before: list[Object] | None) -> list[Object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return statuses.dated(conditions, before or [], now)
