"""`modelplane cluster`: one simulated cluster."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import extra
from modelplane.cli.numbers import PORT
from modelplane.errors import ModelplaneError


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), required=True, help="Where the cluster keeps everything.")
@click.option(
    "--port",
    type=PORT,
    default=0,
    show_default=True,
    help="Port of its API server; 0 keeps the port of the last start.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of its API server.")
@click.option("--fleet", "fleet_file", type=click.Path(path_type=Path), help="Fleet file; default: two regions.")
@click.option("--name", required=True, help="Which cluster of the fleet file to be.")
def command(data_dir: Path, port: int, host: str, fleet_file: Path | None, name: str) -> None:
    """Run one simulated cluster: API server, scheduler, controllers, nodes."""
    extra.need(extra.SERVER)
    from modelplane.local import fleet_spec, running
    from modelplane.local.cluster import run_cluster

    try:
        fleet = fleet_spec.load(fleet_file) if fleet_file else fleet_spec.TWO_REGIONS
        cluster = fleet.cluster(name)
        running.run(running.until_signalled(run_cluster(cluster, data_dir, port, host=host)))
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
