"""The same fleet on real Kubernetes: etcd, kube-apiserver, kube-controller-manager and kube-scheduler instead of ours.

Ours are then only what nobody else has: the operator, the node runtime, the gateway, and the controllers of kinds whose own
cannot be had as a plain process (LeaderWorkerSet). The control cluster has no pods and so no scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import yaml

from modelplane.api.meta import GVK, Object, Resource, is_true
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig import Kubeconfig
from modelplane.local import bootstrap, fleet_spec, network, origin, ports
from modelplane.local.fleet import CONTROL, HEALTH, LocalFleet, Report
from modelplane.local.kubernetes import ControlPlane, Ports
from modelplane.local.layout import Layout
from modelplane.server.manifests import LOADER

CRD: Final = Resource(GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "customresourcedefinitions", False)
OURS: Final = "leaderworkerset"
"""Controllers that run beside kube-controller-manager."""

WEBHOOK: Final = "operator-webhook"
_STARTING: Final = 120.0
_AT_ONCE: Final = 4


class RealFleet(LocalFleet):
    """A `LocalFleet` whose API servers, controllers and schedulers are Kubernetes' own, from a folder of binaries.

    Raises PermanentError where a binary is missing, or `OtherServers`. Has to run where `network.inside()`.
    """

    def __init__(self, layout: Layout, fleet: fleet_spec.Fleet, report: Report, binaries: Path) -> None:
        super().__init__(layout, fleet, report, origin.kubernetes(binaries))
        names = (CONTROL, *(c.name for c in fleet.clusters))
        self._binaries = binaries
        self._webhook_port = self._ports[WEBHOOK]
        chosen = ports.keep(layout.kubernetes_ports, [f"{n}-{p}" for n in names for p in Ports.names()])
        roots = {CONTROL: layout.control, **{c.name: layout.cluster(c.name) for c in fleet.clusters}}
        self._planes = {
            name: ControlPlane(
                binaries, roots[name], Ports.of({p: chosen[f"{name}-{p}"] for p in Ports.names()}), name=name
            )
            for name in names
        }

    @property
    def options(self) -> tuple[str, ...]:
        return ("--kubernetes", str(self._binaries))

    @property
    def apart(self) -> bool:
        return True

    def _served(self) -> list[str]:
        return [HEALTH, WEBHOOK]

    async def _serve_control(self) -> None:
        began = time.monotonic()
        await self._serve(CONTROL, _definitions(control=True))
        self._report(f"control plane API: {self._planes[CONTROL].server} ({time.monotonic() - began:.1f} s)")

    async def _control_controllers(self) -> None:
        await self.supervisor.start(self._planes[CONTROL].controller_manager())

    async def _operator(self, flags: Mapping[str, object]) -> None:
        """With the webhook: the embedded server judges by itself what a real one has to ask about."""
        folder = self.layout.operator_kubeconfig.parent / "webhook"
        folder.mkdir(parents=True, exist_ok=True)
        authority = await asyncio.to_thread(bootstrap.webhook_certificate, folder)
        more = {"--webhook-port": self._webhook_port, "--webhook-certificate": folder}
        await self.supervisor.start(
            self._unit("operator", {**flags, **more}), ready=lambda: _listens(self._webhook_port), within=_STARTING
        )
        async with self._control_client() as client:
            await bootstrap.webhook(client, f"https://127.0.0.1:{self._webhook_port}", authority)

    async def _start_cluster(self, cluster: fleet_spec.Cluster) -> None:
        began = time.monotonic()
        plane = self._planes[cluster.name]
        await self._serve(cluster.name, _definitions(control=False))
        await self.supervisor.start(plane.controller_manager())
        await self.supervisor.start(plane.scheduler())
        flags = {"--kubeconfig": plane.kubeconfig, "--controllers": OURS}
        await self.supervisor.start(self._unit("controllers", flags, name=f"{cluster.name}-controllers"))
        nodes = {
            "--kubeconfig": plane.kubeconfig,
            "--data-dir": plane.root / "nodes",
            "--fleet": self.layout.fleet,
            "--name": cluster.name,
            "--pod-cidr": network.pods_of(self.fleet.clusters.index(cluster)),
        }
        await self.supervisor.start(self._unit("nodes", nodes, name=f"{cluster.name}-nodes"))
        self._report(f"cluster {cluster.name}: {plane.server} ({time.monotonic() - began:.1f} s)")

    async def _serve(self, name: str, definitions: list[Object]) -> None:
        """Start a store and an API server, and wait until the definitions are served."""
        plane = self._planes[name]
        plane.prepare()
        await self.supervisor.start(plane.etcd())
        await self.supervisor.start(plane.apiserver(), ready=lambda: _answering(plane), within=_STARTING)
        async with Client(Kubeconfig.load(plane.kubeconfig), field_manager="modelplane-up") as client:
            turns = asyncio.Semaphore(_AT_ONCE)

            async def install(definition: Object) -> None:
                async with turns:
                    await client.apply(definition, field_manager="modelplane-up")

            await asyncio.gather(*(install(definition) for definition in definitions))
            wanted = {definition["metadata"]["name"] for definition in definitions}
            async with asyncio.timeout(_STARTING):
                while not wanted <= await _established(client):  # noqa: ASYNC110 - looked at a few times, once a fleet
                    await asyncio.sleep(0.1)

    def _gateway_flags(self) -> dict[str, object]:
        return {"--address": network.GATEWAYS}

    async def stop(self) -> None:
        """What uses the API servers first, then these, and their stores last."""
        clusters = [cluster.name for cluster in self.fleet.clusters]
        await self.supervisor.stop(
            "operator", "gateway", *(f"{c}-{u}" for c in clusters for u in ("nodes", "controllers"))
        )
        every = (CONTROL, *clusters)
        await self.supervisor.stop(*(f"{n}-kube-{u}" for n in every for u in ("controller-manager", "scheduler")))
        await self.supervisor.stop(*(f"{name}-kube-apiserver" for name in every))
        await self.supervisor.stop(*(f"{name}-etcd" for name in every))
        await super().stop()


async def _established(client: Client) -> set[str]:
    return {obj["metadata"]["name"] for obj in (await client.list(CRD)).items if is_true(obj, "Established")}


async def _listens(port: int) -> None:
    """Return once somebody listens at the port of 127.0.0.1."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.03)


async def _answering(plane: ControlPlane) -> None:
    while not plane.write_kubeconfig():  # noqa: ASYNC110 - the API server writes the certificate, and tells nobody
        await asyncio.sleep(0.05)
    await LocalFleet._answers(plane.kubeconfig)


def _definitions(*, control: bool) -> list[Object]:
    """Everything for the control cluster; for the others what they serve beside Kubernetes."""
    root = Path(str(resources.files("modelplane.api")))
    if control:
        bundle: list[Object] = json.loads((root / "bundle" / "crds.json").read_text())
        return bundle
    files = [*sorted((root / "foreign").glob("*.yaml")), *sorted((root / "crds").glob("agent.*.yaml"))]
    return [document for file in files for document in yaml.load_all(file.read_text(), LOADER) if document]
