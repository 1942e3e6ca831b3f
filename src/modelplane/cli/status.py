"""`modelplane status`: the fleet of this moment, or as it changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli import options
from modelplane.cli.output import say

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.local.overview import Snapshot


@click.command()
@options.data_dir
@options.kubeconfig
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever something changes, until Ctrl-C.")
def command(data_dir: Path, kubeconfig: Path | None, watch: bool) -> None:
    """Show clusters, pools, replicas, endpoints and services."""
    options.run(_status(data_dir, kubeconfig, watch))


async def _status(data_dir: Path, kubeconfig: Path | None, watch: bool) -> None:
    from modelplane.local.overview import render

    async with options.control_client(data_dir, kubeconfig) as client:
        if not watch:
            say(render(await snapshot(client), options.width()))
            return
        await _follow(client)


async def snapshot(client: Client) -> Snapshot:
    """Read everything that the overview shows."""
    from modelplane.local.overview import Snapshot

    lists = await asyncio.gather(*(client.list(kind) for kind in _kinds()))
    return Snapshot(**{name: found.items for name, found in zip(Snapshot.__struct_fields__, lists, strict=True)})


def _kinds() -> list[GVK]:
    from modelplane.api import inference_cluster, model_deployment, model_endpoint, model_replica, model_service

    modules = (inference_cluster, model_deployment, model_replica, model_endpoint, model_service)
    return [module.KIND for module in modules]


async def _follow(client: Client) -> None:
    from modelplane.kube.informer import Informer
    from modelplane.local.overview import Snapshot, render

    changed = asyncio.Event()
    informers = [Informer(client, kind) for kind in _kinds()]
    for informer in informers:
        informer.subscribe(lambda _old, _new: changed.set())
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        for informer in informers:
            await informer.synced.wait()
        while True:
            changed.clear()
            seen = [
                sorted(i.items(), key=lambda o: str(o["metadata"].get("namespace")) + o["metadata"]["name"])
                for i in informers
            ]
            text = render(Snapshot(**dict(zip(Snapshot.__struct_fields__, seen, strict=True))), options.width())
            click.clear()
            say(text)
            await changed.wait()
            await asyncio.sleep(0.1)  # a burst of changes is one picture


if TYPE_CHECKING:
    from modelplane.api.meta import GVK
