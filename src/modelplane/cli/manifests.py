"""Manifests for a rehearsal: read as kubectl reads them, and refused in the API server's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from modelplane.cli import reading

if TYPE_CHECKING:
    from modelplane.api.meta import Object

SUFFIXES: Final = (".yaml", ".yml", ".json")


def read(paths: Sequence[Path], kinds: Sequence[str] = ()) -> list[Object]:
    """Every manifest of the files and folders (- for standard input). What an API server would refuse ends the command, named by
    file and line, and so does an object of ours of other ``kinds`` than these, where any are named."""
    from modelplane.server.manifests import Text
    from modelplane.server.offline import Judge, Severity

    judge = Judge(strict=True)
    found: list[Object] = []
    faults: list[str] = []
    for name, body in _bodies(paths):
        for document in Text(body).documents():
            where = f"{name}:{document.line}"
            if document.fault:
                faults.append(f"{where}: {document.fault}")
                continue
            faults += [f'{name}:{line}: duplicate field "{key}"' for key, line in document.duplicates]
            for value in _objects(document.value):
                said = [one for one in judge.judge(value) if one.severity is Severity.ERROR]
                faults += [f"{where}: {one.message}" for one in said]
                if not said and kinds and _of_ours(value) and value["kind"] not in kinds:
                    faults.append(f"{where}: {value['kind']} is none of {', '.join(kinds)}; give it with -f")
                elif not said and _named(value):
                    found.append(value)
                elif not said:
                    faults.append(f"{where}: metadata.name is missing")
    if faults:
        raise click.ClickException("\n".join(("the manifests would be refused:", *faults)))
    return found


def _bodies(paths: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        if str(path) == "-":
            yield "<stdin>", reading.everything()
        elif path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
            if not files:
                raise click.UsageError(f"there is no {', '.join(SUFFIXES)} file in {path}")
            for file in files:
                yield str(file), file.read_bytes()
        else:
            yield str(path), path.read_bytes()


def _objects(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and value.get("apiVersion") == "v1" and value.get("kind") == "List":
        yield from value.get("items") or ()
    else:
        yield value


def _of_ours(value: Any) -> bool:
    from modelplane.server.offline import OURS

    return str(value["apiVersion"]).partition("/")[0] in OURS


def _named(value: Any) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str) and bool(metadata["name"])
