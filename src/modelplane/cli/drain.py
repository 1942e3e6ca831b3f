"""`modelplane drain`: move every replica off a cluster, as far as others have room."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import options
from modelplane.cli.output import say


@click.command()
@click.argument("cluster")
@options.data_dir
@options.kubeconfig
def command(cluster: str, data_dir: Path, kubeconfig: Path | None) -> None:
    """Put the drain taint on CLUSTER, so that its replicas move to other clusters.

    The taint belongs to a field manager of its own, so GitOps does not undo it; `modelplane undrain` takes it away.
    """
    options.run(taint(cluster, data_dir, kubeconfig, drain=True))
    say(f"{cluster} is draining; watch `kubectl get modelreplicas -A -w`")


async def taint(cluster: str, data_dir: Path, kubeconfig: Path | None, *, drain: bool) -> None:
    from modelplane.api.inference_cluster import KIND
    from modelplane.local.drain import set_taints

    async with options.control_client(data_dir, kubeconfig) as client:
        await options.get(client, KIND, cluster)
        await set_taints(client, cluster, drain=drain)
