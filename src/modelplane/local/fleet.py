"""A whole fleet on one machine: which processes run, in which order they start, and how they end.

The control plane is the operator pointed at an API server that we brought along. Each simulated cluster is one process,
each Envoy and each engine a session of its own, so that any of them can be killed without the others noticing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from modelplane import processes
from modelplane.errors import ModelplaneError, PermanentError
from modelplane.gateway.proxies import ads_socket, forget_sockets
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.local import bootstrap, fleet_spec, network, origin, ports
from modelplane.local.layout import Layout
from modelplane.local.supervisor import Supervisor, Unit

CONTROL: Final = "control"
_LOOK: Final = 0.03
HEALTH: Final = "operator-health"
CONTROL_CONTROLLERS: Final = "garbagecollector,namespace,serviceaccount"

Report = Callable[[str], None]


class AlreadyRunning(PermanentError):
    """Another supervisor owns the data directory."""


class LocalFleet:
    """Starts and stops the processes of one data directory. One instance, one event loop."""

    def __init__(self, layout: Layout, fleet: fleet_spec.Fleet, report: Report, servers: str = origin.EMBEDDED) -> None:
        """Raises `OtherServers` for a directory that others than ``servers`` wrote."""
        origin.check(layout, servers)
        self.layout = layout
        self.fleet = fleet
        self._servers = servers
        self.supervisor = Supervisor()
        self._report = report
        self._ports = ports.keep(layout.ports, self._served())

    @property
    def options(self) -> tuple[str, ...]:
        """What `modelplane up` has to be given beside the data directory to start the same fleet."""
        return ()

    @property
    def apart(self) -> bool:
        """Whether it is in a network of its own, which `modelplane shell` leads to and nothing else does."""
        return False

    async def start(self) -> None:
        """Return when the control plane serves and every cluster is up. Raises `UnitFailed` or `AlreadyRunning`."""
        owner = processes.recall(self.layout.supervisor)
        if owner is not None and owner.pid != _this_process().pid:
            raise AlreadyRunning(
                f"a fleet already runs in {self.layout.root} (pid {owner.pid}); end it with `modelplane down`"
            )
        origin.claim(self.layout, self._servers)
        strays = await stop_strays(self.layout)
        if strays:
            self._report(f"stopped {strays} processes of a crashed fleet that ran in another network")
        processes.remember(self.layout.supervisor, _this_process())
        self.layout.fleet.write_text(fleet_spec.dump(self.fleet))
        serves = asyncio.Event()
        clusters = (self._start_cluster(c) for c in self.fleet.clusters)
        await asyncio.gather(self._start_control(serves), self._start_gateway(serves, asyncio.gather(*clusters)))
        self.supervisor.judge()

    async def _start_gateway(self, serves: asyncio.Event, clusters: Awaitable[object]) -> None:
        """Once every API server answers; the operator may still be on its way."""
        await clusters
        await serves.wait()
        kubeconfigs = [(c.name, self.layout.cluster_kubeconfig(c.name)) for c in self.fleet.clusters]
        bootstrap.write_private(
            self.layout.kubeconfig,
            bootstrap.merged_kubeconfig([(fleet_spec.CONTROL, self.layout.control_kubeconfig), *kubeconfigs]),
        )
        async with self._control_client() as client:
            for cluster in self.fleet.clusters:
                await bootstrap.kubeconfig_secret(client, cluster, self.layout.cluster_kubeconfig(cluster.name))
        gateways = [f"--cluster={name}={path}" for name, path in kubeconfigs]
        flags: dict[str, object] = {"--data-dir": self.layout.gateway, "--control": self.layout.control_kubeconfig}
        flags |= self._gateway_flags()
        unit = self._unit("gateway", flags, more=gateways)
        await self.supervisor.start(unit, ready=lambda: self._accepts(ads_socket(self.layout.gateway)))
        self._report("gateway: one Envoy per Gateway, fed over ADS")

    def _served(self) -> list[str]:
        """What a port is kept for."""
        return [CONTROL, HEALTH, *(f"cluster-{c.name}" for c in self.fleet.clusters)]

    def _gateway_flags(self) -> dict[str, object]:
        return {}

    async def _serve_control(self) -> None:
        began = time.monotonic()
        port = self._ports[CONTROL]
        api = self._unit("apiserver", {"--data-dir": self.layout.control, "--port": port})
        await self.supervisor.start(api, ready=lambda: self._answers(self.layout.control_kubeconfig))
        self._report(f"control plane API: https://127.0.0.1:{port} ({time.monotonic() - began:.1f} s)")

    async def _control_controllers(self) -> None:
        flags = {"--kubeconfig": self.layout.control_kubeconfig, "--controllers": CONTROL_CONTROLLERS}
        await self.supervisor.start(self._unit("controllers", flags))

    async def _start_control(self, serves: asyncio.Event) -> None:
        await self._serve_control()
        async with self._control_client() as client:
            await bootstrap.namespaces(client, self.fleet)
            rules = Path(str(resources.files("modelplane.operator") / "rbac.yaml"))
            await bootstrap.operator_identity(
                client, self.layout.control_kubeconfig, rules, self.layout.operator_kubeconfig
            )
        serves.set()
        await self._control_controllers()
        await self._operator(
            {
                "--kubeconfig": self.layout.operator_kubeconfig,
                "--health-port": self._ports[HEALTH],
                "--chart-installer": "local",
            }
        )
        self._report("operator: running with its own service account")

    async def _operator(self, flags: Mapping[str, object]) -> None:
        await self.supervisor.start(self._unit("operator", flags))

    async def _start_cluster(self, cluster: fleet_spec.Cluster) -> None:
        began = time.monotonic()
        port = self._ports[f"cluster-{cluster.name}"]
        flags = {
            "--data-dir": self.layout.cluster(cluster.name),
            "--port": port,
            "--fleet": self.layout.fleet,
            "--name": cluster.name,
        }
        unit = self._unit("cluster", flags, name=f"cluster-{cluster.name}")
        await self.supervisor.start(unit, ready=lambda: self._answers(self.layout.cluster_kubeconfig(cluster.name)))
        nodes = sum(pool.nodes for pool in cluster.pools)
        self._report(
            f"cluster {cluster.name}: https://127.0.0.1:{port}, {nodes} simulated node{'s' * (nodes != 1)}"
            f" ({time.monotonic() - began:.1f} s)"
        )

    def _unit(
        self, verb: str, flags: Mapping[str, object], *, name: str | None = None, more: Sequence[str] = ()
    ) -> Unit:
        unit = name or verb
        arguments = [text for flag, value in flags.items() for text in (flag, str(value))]
        return Unit(
            name=unit,
            argv=(sys.executable, "-m", "modelplane", verb, *arguments, *more),
            log=self.layout.log(unit),
            record=self.layout.record(unit),
        )

    def _control_client(self) -> Client:
        return Client(Kubeconfig.load(self.layout.control_kubeconfig), field_manager=bootstrap.FIELD_MANAGER)

    @staticmethod
    async def _answers(kubeconfig: Path) -> None:
        """Return once the API server of the kubeconfig says that it is ready.

        Over one connection: a handshake for each question would take from the very processors that the server starts on.
        """
        while True:
            with contextlib.suppress(ModelplaneError, OSError):
                asked = Kubeconfig.load(kubeconfig)
                async with Client(asked) as client:
                    while asked == Kubeconfig.load(kubeconfig):
                        with contextlib.suppress(ModelplaneError):
                            await client.ready()
                            return
                        await asyncio.sleep(_LOOK)
            await asyncio.sleep(_LOOK)

    @staticmethod
    async def _accepts(socket: Path) -> None:
        """Return once somebody listens at the Unix socket."""
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_unix_connection(str(socket))
                writer.close()
                return
            await asyncio.sleep(0.03)

    async def stop(self) -> None:
        """End every process: traffic's side first, then clusters, the control plane last."""
        await self.supervisor.stop("operator", "controllers")
        await self.supervisor.stop("gateway", *(f"cluster-{c.name}" for c in self.fleet.clusters))
        await self.supervisor.stop("apiserver")
        await stop_leftovers(self.layout)
        self.layout.supervisor.unlink(missing_ok=True)


def local_fleet(layout: Layout, fleet: fleet_spec.Fleet, report: Report, kubernetes: Path | None) -> LocalFleet:
    """A fleet on our own servers, or on the real Kubernetes of a folder of binaries."""
    if kubernetes is None:
        return LocalFleet(layout, fleet, report)
    from modelplane.local.real_fleet import RealFleet

    return RealFleet(layout, fleet, report, kubernetes.absolute())


async def stop_leftovers(layout: Layout) -> int:
    """Stop whatever the records of the data directory still name (engines, Envoys, orphans of a crash); how many ran."""
    records = layout.records()
    running = [record for path in records if (record := processes.recall(path)) is not None]
    await asyncio.gather(*(processes.stop(record, grace=3.0) for record in running))
    for path in records:
        path.unlink(missing_ok=True)
    return len(running)


async def stop_strays(layout: Layout) -> int:
    """Stop recorded processes in another network namespace: adopted, they would be waited for in vain; how many ran."""
    strays = {path: record for path, record in layout.running().items() if network.foreign(record.pid)}
    await asyncio.gather(*(processes.stop(record, grace=3.0) for record in strays.values()))
    for path in strays:
        path.unlink(missing_ok=True)
    return len(strays)


def purge(layout: Layout) -> None:
    """Remove the data directory; refuses one that is not ours."""
    marks = (layout.fleet, layout.ports, layout.servers)
    if layout.root.exists() and not (any(mark.exists() for mark in marks) or _never_started(layout)):
        raise PermanentError(f"{layout.root} holds no fleet, so it is not removed; check --data-dir")
    forget_sockets(layout.gateway)
    shutil.rmtree(layout.root, ignore_errors=True)


def _never_started(layout: Layout) -> bool:
    """Whether the directory has nothing but what `modelplane up --detach` logged before it came to a fleet."""
    found = [path for path in layout.root.rglob("*") if not path.is_dir()]
    return found == [layout.log("up")]


def _this_process() -> processes.Record:
    return processes.Record(os.getpid(), processes.start_time(os.getpid()) or "", tuple(sys.argv))
