"""`modelplane controllers`: workload and housekeeping controllers alone, against any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.errors import ModelplaneError

if TYPE_CHECKING:
    from modelplane.kube import Client
    from modelplane.local.caches import Caches


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True, help="The cluster to work on.")
@click.option("--controllers", "names", default="*", show_default=True, help="Comma-separated names; * is all of them.")
def command(kubeconfig: Path, names: str) -> None:
    """Run Deployments, ReplicaSets, Jobs, endpoint slices, claims, namespaces, garbage collection and the like."""
    from modelplane.local import running
    from modelplane.local.controllers.service import CONTROLLERS, run_controllers

    chosen = tuple(CONTROLLERS) if names == "*" else tuple(name.strip() for name in names.split(",") if name.strip())
    unknown = sorted(set(chosen) - set(CONTROLLERS))
    if unknown or not chosen:
        known = ", ".join(CONTROLLERS)
        raise click.BadParameter(f"{', '.join(unknown) or 'nothing'}; known are {known}", param_hint="--controllers")

    async def control(client: Client, caches: Caches) -> None:
        await run_controllers(client, caches, chosen)

    try:
        running.run(running.until_signalled(running.run_parts(kubeconfig, "controllers", (control,))))
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
