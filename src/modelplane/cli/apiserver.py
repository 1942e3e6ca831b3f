"""`modelplane apiserver`: the embedded API server as a process of its own."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane import eventloop
from modelplane.cli import extra
from modelplane.cli.numbers import PORT
from modelplane.cli.output import say
from modelplane.errors import ModelplaneError

if TYPE_CHECKING:
    from modelplane.server.app import Options


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), required=True, help="Where everything is kept.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=PORT, default=0, show_default=True, help="Port to listen on; 0 keeps the port of the last start."
)
@click.option(
    "--crds", type=click.Path(exists=True, path_type=Path), multiple=True, help="More CRDs: files or folders."
)
@click.option(
    "--install-crds/--no-install-crds", default=True, show_default=True, help="Install the project's own CRDs."
)
@click.option("--token-file", type=click.Path(exists=True, path_type=Path), help='Lines of token,user,uid,"groups".')
def command(
    data_dir: Path, host: str, port: int, crds: tuple[Path, ...], install_crds: bool, token_file: Path | None
) -> None:
    """Serve the Kubernetes API from a data directory."""
    extra.need(extra.SERVER)
    from modelplane.server.app import Options

    options = Options(data_dir, host, port, crds, install_crds, token_file)
    try:
        eventloop.run(_serve(options))
    except ModelplaneError as error:
        raise click.ClickException(str(error)) from error


def _settle() -> None:
    """What is there now stays: the collector need not look at it again, and requests make few cycles for it to find.

    The writer's thread needs Python's lock for moments only, and gets it within one millisecond instead of five.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    sys.setswitchinterval(0.001)


async def _serve(options: Options) -> None:
    from modelplane.server.app import start

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await start(options)
    _settle()
    say(f"ready: {server.url} kubeconfig={server.kubeconfig}")
    await stop.wait()
    await server.stop()
