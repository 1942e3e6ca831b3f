"""`modelplane check`: what an API server would say about manifests, without one; for editors, hooks and pipelines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from modelplane.cli import reading
from modelplane.cli.output import say, say_json

if TYPE_CHECKING:
    from modelplane.server.manifests import Document, Text
    from modelplane.server.offline import Finding, Judge

SUFFIXES: Final = (".yaml", ".yml", ".json", ".md")
_FENCE: Final = re.compile(rb"^(```yaml\n)(.*?)^```", re.MULTILINE | re.DOTALL)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Refuse unknown and duplicate fields instead of warning about them.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["human", "json", "github"]),
    default="human",
    show_default=True,
    help="Lines for people, one JSON object, or annotations for GitHub.",
)
def command(files: tuple[Path, ...], strict: bool, output: str) -> None:
    """Judge the manifests in FILES: files, folders (every .yaml, .yml, .json and .md below them) or - for standard input.
    Of a Markdown page, the blocks marked yaml that have an apiVersion are judged.

    Exits with 1 when an API server would refuse one of them. Objects of other projects are passed over.
    """
    from modelplane.server.offline import Judge

    judge = Judge(strict=strict)
    verdicts = [verdict for name, body in _bodies(files) for verdict in _verdicts(judge, name, body, strict)]
    {"human": _human, "json": _json, "github": _github}[output](verdicts)
    if any(found["severity"] == "error" for verdict in verdicts for found in verdict["findings"]):
        sys.exit(1)


def _bodies(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if str(file) == "-":
            yield "<stdin>", reading.everything()
        elif file.is_dir():
            found = sorted(path for path in file.rglob("*") if path.suffix in SUFFIXES and path.is_file())
            if not found:
                raise click.UsageError(f"there is no {', '.join(SUFFIXES)} file in {file}")
            for path in found:
                yield str(path), _body(path)
        else:
            yield str(file), _body(file)


def _body(path: Path) -> bytes:
    return manifests_of(path.read_bytes()) if path.suffix == ".md" else path.read_bytes()


def manifests_of(page: bytes) -> bytes:
    """The manifests in the blocks of a Markdown page as one stream, each on the lines where it stands."""
    kept, end = [], 0
    page = page.replace(b"\r\n", b"\n")
    for block in _FENCE.finditer(page):
        if not re.search(rb"^apiVersion:", block[2], re.MULTILINE):
            continue
        kept += [b"\n" * page.count(b"\n", end, block.start()), b"---\n", block[2]]
        end = block.end(2)
    return b"".join(kept)


Verdict = dict[str, Any]
"""One object: file, line, kind, namespace, name and findings (severity, path, line, message)."""


def _verdicts(judge: Judge, name: str, body: bytes, strict: bool) -> Iterator[Verdict]:
    from modelplane.server.manifests import Text

    text = Text(body)
    for document in text.documents():
        if document.fault:
            found = {"severity": "error", "path": "", "line": document.line, "message": document.fault}
            yield {"file": name, "line": document.line, "kind": "", "namespace": "", "name": "", "findings": [found]}
            continue
        duplicates = [
            {
                "severity": "error" if strict else "warning",
                "path": "",
                "line": line,
                "message": f'duplicate field "{key}"',
            }
            for key, line in document.duplicates
        ]
        for prefix, value in _objects(document.value):
            findings = [_placed(text, document, prefix, found) for found in judge.judge(value)]
            yield {"file": name, **_identity(text, document, prefix, value), "findings": [*duplicates, *findings]}
            duplicates = []


def _objects(value: Any) -> Iterator[tuple[str, Any]]:
    """The manifest, or the items of a List, each with its path in the document."""
    if isinstance(value, dict) and value.get("apiVersion") == "v1" and value.get("kind") == "List":
        for position, item in enumerate(value.get("items") or ()):
            yield f"items[{position}]", item
    else:
        yield "", value


def _identity(text: Text, document: Document, prefix: str, value: Any) -> dict[str, Any]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    return {
        "line": text.line_of(document.position, prefix) if prefix else document.line,
        "kind": str(value.get("kind") or "") if isinstance(value, dict) else "",
        "namespace": str(metadata.get("namespace") or ""),
        "name": str(metadata.get("name") or metadata.get("generateName") or ""),
    }


def _placed(text: Text, document: Document, prefix: str, found: Finding) -> dict[str, Any]:
    path = ".".join(part for part in (prefix, found.path) if part)
    line = text.line_of(document.position, path) if found.severity != "note" else document.line
    return {"severity": str(found.severity), "path": found.path, "line": line, "message": found.message}


def _label(verdict: Verdict) -> str:
    """``ModelDeployment ml-team/chat``."""
    name = "/".join(part for part in (verdict["namespace"], verdict["name"]) if part)
    return f"{verdict['kind'] or 'document'} {name}".rstrip()


def _human(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        for found in verdict["findings"]:
            say(f"{verdict['file']}:{found['line']}: {found['severity']}: {_label(verdict)}: {found['message']}")
    counts = _counts(verdicts)
    told = (
        f"{_many(counts['objects'], 'object')} in {_many(counts['files'], 'file')}: "
        f"{counts['accepted']} accepted, {counts['refused']} refused"
    )
    if counts["passedOver"]:
        told += f", {counts['passedOver']} of other projects passed over"
    if counts["warnings"]:
        told += f"; {_many(counts['warnings'], 'warning')}"
    say(told)


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    def having(severity: str) -> int:
        return sum(any(found["severity"] == severity for found in verdict["findings"]) for verdict in verdicts)

    refused, passed = having("error"), having("note")
    return {
        "files": len({verdict["file"] for verdict in verdicts}),
        "objects": len(verdicts),
        "accepted": len(verdicts) - refused - passed,
        "refused": refused,
        "passedOver": passed,
        "warnings": sum(found["severity"] == "warning" for verdict in verdicts for found in verdict["findings"]),
    }


def _json(verdicts: Sequence[Verdict]) -> None:
    say_json({"objects": list(verdicts), "summary": _counts(verdicts)}, indent=2)


def _github(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        for found in verdict["findings"]:
            command = {"error": "error", "warning": "warning"}.get(found["severity"], "notice")
            properties = (
                f"file={_escaped(verdict['file'], True)},line={found['line']},title={_escaped(_label(verdict), True)}"
            )
            say(f"::{command} {properties}::{_escaped(found['message'])}")


def _escaped(text: str, is_property: bool = False) -> str:
    """Text as GitHub's workflow commands want it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text
