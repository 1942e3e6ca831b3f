"""The field tables of the API specification as data, so that a test can hold the generated schemas against every row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

SPEC = Path(__file__).parents[2].parent / "shared" / "spec" / "api.md"

_NAMED = {"D1": r"^([0-9]{1,5}(h|m|s|ms)){1,4}$", "N1": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_WORDS = {
    "min": "minimum",
    "max": "maximum",
    "minLen": "minLength",
    "maxLen": "maxLength",
    "minItems": "minItems",
    "maxItems": "maxItems",
    "minProps": "minProperties",
    "maxProps": "maxProperties",
}
_BOUND = re.compile(r"\b(min|max|minLen|maxLen|minItems|maxItems|minProps|maxProps) (\d+)")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row: where a field is, whether its parent needs it, and what its schema (and that of its items) has to say."""

    path: str
    required: bool
    schema: dict[str, Any]
    inner: dict[str, Any]
    table: int
    """Number of the table in its section, from 0: the older shape comes first."""


def _type(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if name.startswith("[]"):
        return {"type": "array"}, {"type": name[2:]}
    if name.startswith("map[string]"):
        return {"type": "object"}, {"type": name.removeprefix("map[string]")}
    return {"type": name}, {}


def _default(text: str, type_: str) -> Any:
    value = text.strip("`")
    if type_ == "integer":
        return int(value)
    if type_ == "array":
        return re.findall(r'"([^"]+)"', value)
    return {} if type_ == "object" else value


def _bounds(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {_WORDS[word]: int(value) for word, value in _BOUND.findall(text)}
    if match := re.search(r"one of ((?:`[^`]+`(?:, )?)+)", text):
        found["enum"] = re.findall(r"`([^`]+)`", match[1])
    if match := re.search(r"pattern (`[^`]+`|[A-Z]\d)", text):
        found["pattern"] = _NAMED.get(match[1], match[1].strip("`"))
    if match := re.search(r"format ([\w-]+)", text):
        found["format"] = match[1]
    if match := re.search(r"map-list by ((?:`\w+`\+?)+)", text):
        found["x-kubernetes-list-type"] = "map"
        found["x-kubernetes-list-map-keys"] = re.findall(r"`(\w+)`", match[1])
    if "atomic list" in text:
        found["x-kubernetes-list-type"] = "atomic"
    return found


def _row(cells: list[str], aliases: dict[str, str], table: int) -> Row:
    path, type_, required, default, bounds = (cell.strip() for cell in cells[:5])
    path = path.strip("`")
    head, dot, rest = path.partition(".")
    path = aliases.get(head, head) + dot + rest
    schema, inner = _type(type_)
    own, _, items = re.sub(r"\b(each|values):", "\0", bounds).partition("\0")
    schema |= _bounds(own)
    inner |= _bounds(items)
    if default:
        schema["default"] = _default(default, schema["type"])
    return Row(path=path, required=required == "yes", schema=schema, inner=inner, table=table)


_HEADINGS = {"VultrBaremetalCluster": "Vultr bare metal"}


def _section(kind: str) -> str:
    kind = _HEADINGS.get(kind, kind)
    if not SPEC.exists():
        pytest.skip("the API specification is not beside this clone")
    match = re.search(rf"^### [0-9.]+ {kind}$(.*?)(?=^## |^### |\Z)", SPEC.read_text(), re.MULTILINE | re.DOTALL)
    assert match, f"the specification has no section about {kind}"
    return match[1]


def rows(kind: str) -> list[Row]:
    """Every row of the tables in the section of a kind; skips the test where the specification is absent."""
    section = _section(kind)
    aliases = dict(re.findall(r"`([A-Z](?:\[\])?)` = `([^`]+)`", section.replace("\n", " ")))
    found: list[Row] = []
    table, inside = -1, False
    for line in section.splitlines():
        if line.startswith("| Path | Type | Req |"):
            table, inside = table + 1, True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            cells = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\1"), line).strip("|").split("|")
            found.append(_row([cell.replace("\1", "|") for cell in cells], aliases, table))
    return found


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a kind's section."""

    group: str
    plural: str
    short_name: str
    scope: str
    categories: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]
    """Name, type and path of the older shape's columns."""
    subresources: str


def identity(kind: str) -> Identity:
    """The identity of a kind as its section begins; skips the test where the specification is absent."""
    section = _section(kind).replace("\n  ", " ")
    if "Identity:" not in section:
        return _prose(" ".join(section.split()))
    head = re.search(
        r"Identity: group `([^`]+)`, version `v1alpha1`, plural `([^`]+)`, short name `([^`]+)`, scope (\w+)", section
    )
    columns = re.search(r"^- Printer columns: (.*)$", section, re.MULTILINE)
    categories = re.search(r"^- Categories: (.*)$", section, re.MULTILINE)
    subresources = re.search(r"^- Subresources: (.*)$", section, re.MULTILINE)
    assert head
    assert columns
    assert categories
    assert subresources
    return Identity(
        group=head[1],
        plural=head[2],
        short_name=head[3],
        scope=head[4],
        categories=tuple(re.findall(r"`([^`]+)`", categories[1])),
        columns=tuple(re.findall(r"`([^`]+)` \((\w+), `([^`]+)`", columns[1])),
        subresources=subresources[1],
    )


def _prose(text: str) -> Identity:
    """The identity of a later kind, which is told in sentences."""
    names = r"Group `([^`]+)`, plural `([^`]+)`, (?:short name `([^`]+)`|no short name), ([\w-]+), categories ([^.]+)\."
    head = re.match(f"(?:.*?){names}", text, re.IGNORECASE)
    columns = re.search(r"(?:Printer columns:|Columns?) (.*?`\))(?:\.|$)", text)
    assert head
    return Identity(
        group=head[1],
        plural=head[2],
        short_name=head[3] or "",
        scope="Namespaced" if head[4] == "namespaced" else "Cluster",
        categories=tuple(re.findall(r"`([^`]+)`", head[5])),
        columns=tuple(re.findall(r"`([^`]+)` \((\w+), `([^`]+)`", columns[1])) if columns else (),
        subresources="status.",
    )


def paths(kind: str) -> list[tuple[str, str]]:
    """Path and type of every field of a kind whose bounds are not published."""
    found = re.findall(r"^\| `((?:spec|status)\.[^`]+)` \| ([^|]+) \|", _section(kind), re.MULTILINE)
    return [(path.removesuffix("[]"), type_.split(",")[0].strip()) for path, type_ in found]
