"""What verbs read: files, and - for standard input, which can be read once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import click


def document(path: Path, what: str, *, strict: bool = False) -> object:
    """The JSON of a file, - for standard input; ``what`` says what it should be, and how to get one. ``strict`` refuses an object
    that has a name twice, as people write them and programs do not."""
    try:
        body = everything() if str(path) == "-" else path.read_bytes()
        return json.loads(body, object_pairs_hook=_once if strict else None)
    except RecursionError:
        raise click.ClickException(f"{path}: it is nested too deeply; give {what}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it cannot be read as JSON ({error})"
        raise click.ClickException(f"{path}: {why}; give {what}") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f'an object has "{name}" twice')
        found[name] = value
    return found


def everything() -> bytes:
    """All of standard input. A command that names it twice is refused."""
    return b"".join(_standard_input())


def lines(path: Path) -> Iterable[bytes]:
    """A file, or standard input, line by line as it comes."""
    if str(path) == "-":
        yield from _standard_input()
        return
    try:
        with path.open("rb") as found:
            yield from found
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def _standard_input() -> Iterable[bytes]:
    meta = click.get_current_context().find_root().meta
    if meta.setdefault("modelplane.stdin", False):
        raise click.UsageError("- is standard input, which can be read once; give the other a file of its own")
    meta["modelplane.stdin"] = True
    if sys.stdin is None:
        raise click.ClickException("- is standard input, which is closed; give a file")
    return sys.stdin.buffer
