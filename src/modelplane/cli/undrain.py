"""`modelplane undrain`: take the drain taint away."""

from __future__ import annotations

from pathlib import Path

import click

from modelplane.cli import options
from modelplane.cli.drain import taint
from modelplane.cli.output import say


@click.command()
@click.argument("cluster")
@options.data_dir
@options.kubeconfig
def command(cluster: str, data_dir: Path, kubeconfig: Path | None) -> None:
    """Let replicas come to CLUSTER again. Nothing that runs elsewhere moves back."""
    options.run(taint(cluster, data_dir, kubeconfig, drain=False))
    say(f"{cluster} takes replicas again; those that moved away stay where they are")
