"""The gateway process: the sites of all clusters, one ADS server, one lock on the data directory.

Its death is no outage: the proxies live in sessions of their own and keep their configuration. Started again it adopts
them and goes on; told to stop, it ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from modelplane.errors import InvalidKubeconfig, PermanentError
from modelplane.gateway.proxies import ads_socket, forget_sockets, socket_directory
from modelplane.gateway.site import Host, Site
from modelplane.gateway.xds.server import Server
from modelplane.kube import Kubeconfig

log = logging.getLogger(__name__)

_POLL: Final = 0.1


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to serve: the name that its proxies carry, how to reach it, and which GatewayClasses are ours there.

    `port` is the port that its first listener would like to have, 0 for any.
    """

    name: str
    kubeconfig: Path
    controllers: frozenset[str]
    port: int = 0


async def serve(directory: Path, clusters: Sequence[Cluster], stop: asyncio.Event, address: str = "127.0.0.1") -> None:
    """Run the gateways of `clusters` until `stop` is set, then end their proxies; an error leaves them serving. State lies
    in `directory`.

    Raises PermanentError when another process serves the same directory, or Envoy is not installed.
    """
    sockets = _folders(directory)
    with _lock(directory / "lock"):
        sites: dict[str, Site] = {}

        def changed(node: str) -> None:
            site = sites.get(node.partition("/")[0])
            if site is not None:
                site.schedule()

        host = Host(directory, sockets, Server(ads_socket(directory), changed), address)
        await host.server.start()
        for cluster in clusters:
            sites[cluster.name] = Site(cluster.name, host, cluster.controllers, port=cluster.port)
        tasks = [asyncio.create_task(_run(sites[cluster.name], cluster)) for cluster in clusters]
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for running in (stopped, *tasks):
                running.cancel()
            await asyncio.gather(stopped, *tasks, return_exceptions=True)
            if stop.is_set():
                await asyncio.gather(*(site.stop() for site in sites.values()))
            await host.server.stop()
            if stop.is_set():
                forget_sockets(directory)


def _folders(directory: Path) -> Path:
    """Makes the folders and gives that of the sockets, which nobody else may have made: whoever owns it feeds the proxies."""
    directory.mkdir(parents=True, exist_ok=True)
    sockets = socket_directory(directory)
    sockets.mkdir(mode=0o700, exist_ok=True)
    if sockets.stat().st_uid != os.getuid():
        raise PermanentError(f"{sockets} belongs to somebody else; choose a shorter --data-dir, or remove it")
    (sockets / "proxies").mkdir(exist_ok=True)
    return sockets


async def _run(site: Site, cluster: Cluster) -> None:
    await site.run(await _kubeconfig(cluster))


async def _kubeconfig(cluster: Cluster) -> Kubeconfig:
    """The cluster's kubeconfig, waited for: a cluster that is being started writes it when it can be reached."""
    told = False
    while True:
        try:
            return Kubeconfig.load(cluster.kubeconfig)
        except InvalidKubeconfig:
            if cluster.kubeconfig.exists():
                raise
            if not told:
                log.info("waiting for the kubeconfig of %s: %s", cluster.name, cluster.kubeconfig)
                told = True
            await asyncio.sleep(_POLL)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PermanentError(
                f"another gateway process serves {path.parent}; stop it first, or choose another --data-dir"
            ) from None
        yield
