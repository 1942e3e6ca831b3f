"""`modelplane snapshot`: what placement reads of a live fleet, in one file, for rehearsals elsewhere."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from modelplane.cli import options
from modelplane.cli.output import say


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@options.data_dir
@options.kubeconfig
def command(file: Path | None, data_dir: Path, kubeconfig: Path | None) -> None:
    """Write the fleet's classes, clusters, caches, deployments and replicas to FILE, or to standard output (as - does).

    Without Secrets, and without what containers are given: no environment, arguments or annotations. `modelplane plan`,
    `explain` and `match` answer questions about it, offline.
    """
    from modelplane.cli.explain import live

    scene = options.run(live(data_dir, kubeconfig))
    text = json.dumps(scene.document(), ensure_ascii=False, indent=1)
    if file is None or str(file) == "-":
        say(text)
        return
    try:
        _write(file, text + "\n")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
    say(f"{file}: {len(list(scene))} objects", err=True)


def _write(file: Path, text: str) -> None:
    """Whole, or not at all: an older snapshot stays while the new one cannot be finished."""
    if file.exists() and (file.is_symlink() or not file.is_file()):
        file.write_text(text, encoding="utf-8")
        return
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def now() -> str:
    """RFC 3339."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
