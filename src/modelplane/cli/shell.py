"""`modelplane shell`: a shell, or one command, where the local fleet can be reached."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from modelplane.cli import options
from modelplane.errors import ModelplaneError
from modelplane.local import network
from modelplane.local.layout import Layout


@click.command(context_settings={"ignore_unknown_options": True})
@options.data_dir
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(data_dir: Path, words: tuple[str, ...]) -> None:
    """Open a shell with KUBECONFIG of the local fleet, in its network namespace when it runs on real Kubernetes.

    Words after `--` are a command to run there instead: modelplane shell -- kubectl get nodes
    """
    layout = Layout(data_dir.absolute())
    running = layout.running()
    if not running:
        raise click.ClickException(f"no fleet runs in {layout.root}; start one with `modelplane up`")
    os.environ["KUBECONFIG"] = str(layout.kubeconfig)
    os.environ["MODELPLANE_DATA_DIR"] = str(layout.root)
    # This command and kubectl lie beside the interpreter, which may be no folder of the caller's PATH.
    beside = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys((*os.environ.get("PATH", os.defpath).split(os.pathsep), beside)))
    argv = words or (os.environ.get("SHELL") or "sh",)
    try:
        there = network.shared_by_most(record.pid for record in running.values())
        if there is not None:
            network.join(there, argv)
        os.execvp(argv[0], argv)
    except (ModelplaneError, OSError) as error:
        raise click.ClickException(f"{argv[0]}: {error}") from error
