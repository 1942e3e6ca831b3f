"""One simulated cluster as one process: the embedded API server, and its scheduler, controllers and nodes as clients over HTTP.

When the API server ends, so does the process: half a cluster would look alive. Engines live on in their own sessions and are
adopted by the next start.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.local.fleet_spec import Cluster
from modelplane.local.running import run_parts

if TYPE_CHECKING:
    from modelplane.kube import Client
    from modelplane.local.caches import Caches

log = logging.getLogger(__name__)


async def run_cluster(cluster: Cluster, data_dir: Path, port: int, *, host: str = "127.0.0.1") -> None:
    """Run until cancelled, or until the API server ends. Raises PermanentError when it cannot start."""
    from modelplane.server.app import Options, start

    server = await start(Options(data_dir=data_dir, host=host, port=port, install_crds=False, crds=_kinds()))
    log.info("cluster %s serves %s", cluster.name, server.url)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_whole(server.kubeconfig, cluster, data_dir))
            group.create_task(_settle())
    finally:
        await server.stop()


def _kinds() -> list[Path]:
    """What an inference cluster serves beside Kubernetes: other projects' kinds and our agent's, but not the control plane's."""
    root = Path(str(resources.files("modelplane.api")))
    return [root / "foreign", *sorted((root / "crds").glob("agent.*.yaml"))]


async def _whole(kubeconfig: Path, cluster: Cluster, data_dir: Path) -> None:
    async def scheduler(client: Client, caches: Caches) -> None:
        from modelplane.local.scheduler.selectors import selects
        from modelplane.local.scheduler.service import Scheduler

        await Scheduler(client, caches, selects).run()

    async def controllers(client: Client, caches: Caches) -> None:
        from modelplane.local.controllers.service import run_controllers

        await run_controllers(client, caches)

    async def nodes(client: Client, caches: Caches) -> None:
        from modelplane.local.nodes.service import NodeRuntime

        await NodeRuntime(client, caches, cluster, data_dir / "nodes", tls=data_dir).run()

    await run_parts(kubeconfig, "cluster", (nodes, scheduler, controllers))


async def _settle() -> None:
    """Once everything is up, keep the collector away from what will live as long as the process."""
    await asyncio.sleep(2)
    gc.collect()
    gc.freeze()
