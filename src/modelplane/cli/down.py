"""`modelplane down`: end a local fleet, whoever started it and however it ended."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import options
from modelplane.cli.output import say
from modelplane.local.layout import Layout


@click.command()
@options.data_dir
@click.option("--purge", is_flag=True, help="Remove the state as well.")
def command(data_dir: Path, purge: bool) -> None:
    """Stop the local fleet. Its state stays for the next `modelplane up`, unless --purge."""
    options.run(_down(Layout(data_dir.absolute()), purge))


async def _down(layout: Layout, purge: bool) -> None:
    from modelplane import processes
    from modelplane.local.fleet import purge as remove
    from modelplane.local.fleet import stop_leftovers

    supervisor = processes.recall(layout.supervisor)
    if supervisor is not None:
        await processes.stop(supervisor, grace=30.0)
    leftovers = await stop_leftovers(layout)
    layout.supervisor.unlink(missing_ok=True)
    if supervisor is None and not leftovers:
        say(f"nothing was running in {layout.root}")
    else:
        say("the fleet is down" + (f"; {leftovers} processes of a crashed one were stopped" if leftovers else ""))
    if purge:
        remove(layout)
        say(f"removed {layout.root}")
