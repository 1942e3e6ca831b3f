"""`modelplane up`: a whole fleet on this machine, in the foreground or left running."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Final

import click

from modelplane import processes
from modelplane.cli import extra, options
from modelplane.cli.output import say
from modelplane.local import fleet_spec
from modelplane.local.layout import Layout

_REACH: Final = "reach it with: "
_EXPORT: Final = "export KUBECONFIG="
"""The last line of a start, with one or the other: how the fleet is reached."""


@click.command()
@options.data_dir
@click.option(
    "--fleet", "fleet_file", type=click.Path(path_type=Path, dir_okay=False), help="Which clusters to simulate."
)
@options.kubernetes
@click.option("--detach", is_flag=True, help="Return when the fleet is up and leave it running.")
def command(data_dir: Path, fleet_file: Path | None, kubernetes: Path | None, detach: bool) -> None:
    """Start a local fleet: a control plane, simulated GPU clusters and their gateways.

    Without --fleet it is the fleet that this data directory had before, and at first two regions with one GPU each.
    State survives `modelplane down`; Ctrl-C is a down.
    """
    extra.need(extra.FLEET)
    layout = Layout(data_dir.absolute())
    if detach:
        options.run(_detached(layout, fleet_file, kubernetes))
    else:
        if kubernetes is not None:
            options.enter_network(layout)
        options.run(_foreground(layout, _fleet(layout, fleet_file), kubernetes))


def _fleet(layout: Layout, file: Path | None) -> fleet_spec.Fleet:
    if file is not None:
        return fleet_spec.load(file)
    return fleet_spec.load(layout.fleet) if layout.fleet.exists() else fleet_spec.TWO_REGIONS


async def _foreground(layout: Layout, fleet: fleet_spec.Fleet, kubernetes: Path | None) -> None:
    from modelplane.local.fleet import local_fleet

    began = time.monotonic()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    local = local_fleet(layout, fleet, say, kubernetes)
    starting = asyncio.ensure_future(local.start())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            say(f"ready after {time.monotonic() - began:.1f} s")
            say(f"kubeconfig: {layout.kubeconfig}")
            say(
                f"{_REACH}modelplane shell --data-dir {shlex.quote(str(layout.root))}"
                if local.apart
                else f"{_EXPORT}{shlex.quote(str(layout.kubeconfig))}"
            )
            await stopping
        say("stopping")
    finally:
        starting.cancel()
        if not (starting.done() and not starting.cancelled() and _refused(starting)):
            await local.stop()


def _refused(starting: asyncio.Future[None]) -> bool:
    """Whether the start ended because the directory belongs to a fleet that runs: that one must be left alone."""
    from modelplane.local.fleet import AlreadyRunning

    return isinstance(starting.exception(), AlreadyRunning)


async def _detached(layout: Layout, fleet_file: Path | None, kubernetes: Path | None) -> None:
    """Start the foreground form in a session of its own and pass its first lines on until it is up."""
    running = processes.recall(layout.supervisor)
    if running is not None:
        raise click.ClickException(
            f"a fleet already runs in {layout.root} (pid {running.pid}); `modelplane down` ends it"
        )
    argv = [sys.executable, "-m", "modelplane", "up", "--data-dir", str(layout.root)]
    if fleet_file is not None:
        _fleet(layout, fleet_file)
        argv += ["--fleet", str(fleet_file.absolute())]
    if kubernetes is not None:
        argv += ["--kubernetes", str(kubernetes.absolute())]
    log = layout.log("up")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    record = processes.spawn(argv, log=log)
    try:
        await _passed_on(record, log)
    except asyncio.CancelledError:
        say("\ninterrupted; stopping what was started")
        await processes.stop(record, grace=30.0)
        raise


async def _passed_on(record: processes.Record, log: Path) -> None:
    """Print the lines of a starting fleet as they come; return when it is up."""
    shown, failed = 0, False
    while True:
        lines = log.read_text().splitlines(keepends=True)
        for line in lines[shown:]:
            if not line.endswith("\n"):
                break
            shown += 1
            failed = failed or line.startswith("Error: ")
            say(line, nl=False, err=failed)
            if line.startswith((_REACH, _EXPORT)):
                return
        if not record.alive:
            raise click.ClickException(f"the fleet did not start; see {log}")
        await asyncio.sleep(0.03)
