"""`modelplane demo`: the guided tour over a fleet that comes and goes with it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from pathlib import Path

import click

from modelplane.cli import extra, options
from modelplane.cli.output import INTERRUPTED, say


@click.command()
@options.kubernetes
def command(kubernetes: Path | None) -> None:
    """Start a two-region fleet, deploy a model, drain a region, and tear everything down again.

    It uses a directory of its own and touches no other fleet.
    """
    extra.need(extra.DEMO)
    if kubernetes is not None:
        options.enter_network()
    root = Path(tempfile.mkdtemp(prefix="modelplane-demo-"))
    try:
        options.run(_demo(root, kubernetes))
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def _demo(root: Path, kubernetes: Path | None) -> None:
    from modelplane.local.demo import Demo
    from modelplane.local.fleet import local_fleet
    from modelplane.local.fleet_spec import TWO_REGIONS
    from modelplane.local.layout import Layout

    layout = Layout(root)
    local = local_fleet(layout, TWO_REGIONS, lambda line: say(f"  {line}"), kubernetes)
    tour = asyncio.ensure_future(Demo(layout, local, say).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, tour.cancel)
    try:
        await tour
    except asyncio.CancelledError:
        say("\ninterrupted; stopping every process")
        raise SystemExit(INTERRUPTED) from None
    finally:
        await asyncio.shield(local.stop())
