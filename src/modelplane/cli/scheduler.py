"""`modelplane scheduler`: the pod scheduler alone, against any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.errors import ModelplaneError

if TYPE_CHECKING:
    from modelplane.kube import Client
    from modelplane.local.caches import Caches


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True, help="The cluster to schedule pods of.")
@click.option("--scheduler-name", default="default-scheduler", show_default=True, help="Pods of this name are ours.")
def command(kubeconfig: Path, scheduler_name: str) -> None:
    """Bind pods to nodes and allocate their ResourceClaims."""
    from modelplane.local import running
    from modelplane.local.scheduler.selectors import selects
    from modelplane.local.scheduler.service import Scheduler

    async def schedule(client: Client, caches: Caches) -> None:
        await Scheduler(client, caches, selects, name=scheduler_name).run()

    try:
        running.run(running.until_signalled(running.run_parts(kubeconfig, "scheduler", (schedule,))))
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error
