"""`modelplane nodes`: the node runtime alone, against any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli import extra
from modelplane.errors import ModelplaneError

if TYPE_CHECKING:
    from modelplane.kube import Client
    from modelplane.local.caches import Caches


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True, help="The cluster to be nodes of.")
@click.option("--data-dir", type=click.Path(path_type=Path), required=True, help="Where pods and logs are kept.")
@click.option("--fleet", "fleet_file", type=click.Path(path_type=Path), help="Fleet file; default: two regions.")
@click.option("--name", required=True, help="Which cluster of the fleet file to be.")
@click.option(
    "--pod-cidr",
    metavar="CIDR",
    help="Addresses of pods; they have to be local to this machine. Default: of 127.64.0.0/10 on Linux, else 127.0.0.1/32.",
)
def command(kubeconfig: Path, data_dir: Path, fleet_file: Path | None, name: str, pod_cidr: str | None) -> None:
    """Register simulated nodes and devices, run the pods bound to them, serve their logs."""
    extra.need(extra.NODES)
    from modelplane.local import fleet_spec, running
    from modelplane.local.nodes.service import NodeRuntime

    try:
        fleet = fleet_spec.load(fleet_file) if fleet_file else fleet_spec.TWO_REGIONS
        cluster = fleet.cluster(name)

        async def run_nodes(client: Client, caches: Caches) -> None:
            await NodeRuntime(client, caches, cluster, data_dir, network=pod_cidr).run()

        running.run(running.until_signalled(running.run_parts(kubeconfig, "nodes", (run_nodes,))))
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
