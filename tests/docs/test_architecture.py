"""The architecture page names real code, and explains every reason that an object may show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.shape import Definition
from modelplane.plan.verdicts import Code

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "modelplane"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
EXPLAINED = [definition for definition in DEFINITIONS if definition.reasons is not None]
SEEN_FROM_OUTSIDE = {"InferenceCluster", "ModelReplica", "ModelDeployment"}
"""Kinds whose reasons come from the planner or from a lost sight too, as plain words."""


def named_functions() -> list[tuple[str, str]]:
    return sorted(set(re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", PAGE)))


@cache
def definitions(path: str) -> frozenset[str]:
    """Functions and classes of a file, methods as ``Class.method``."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))

    return frozenset(walk(ast.parse((SOURCE / path).read_text()).body, ""))


@pytest.mark.parametrize(("path", "name"), named_functions())
def test_what_the_walk_names_exists(path: str, name: str) -> None:
    assert (SOURCE / path).is_file(), f"docs/architecture.md names {path}, which is not there"
    assert name in definitions(path), f"docs/architecture.md names {name}, which {path} does not define"


def test_the_walk_goes_through_every_room() -> None:
    rooms = {path.partition("/")[0] for path, _ in named_functions()}
    missing = {"server", "control", "compose", "plan", "kube", "local", "gateway", "operator", "cli"} - rooms
    assert not missing, "rooms that the walk passes by"
    assert len(named_functions()) > 80, "a walk by file and function, not by room"


def rows(kind: str) -> list[list[str]]:
    """The condition table below the heading of a kind, cell by cell."""
    section = re.search(rf"^### {kind}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/architecture.md has no section about the conditions of {kind}"
    lines = [line for line in section[1].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def reasons_of(row: list[str]) -> set[str]:
    return set(re.findall(r"`(\w+)`", row[2]))


def kind_of(definition: Definition) -> str:
    return definition.resource.gvk.kind


@pytest.mark.parametrize("definition", EXPLAINED, ids=kind_of)
def test_every_reason_and_condition_of_the_api_is_explained(definition: Definition) -> None:
    table = rows(kind_of(definition))
    assert definition.reasons is not None
    assert definition.conditions is not None
    told = {reason for row in table for reason in reasons_of(row)}
    assert {str(reason) for reason in definition.reasons} - told == set(), "reasons that nobody explains"
    types = {name.strip() for row in table for name in row[0].split(",")}
    assert {str(type_) for type_ in definition.conditions} - types == set(), "condition types that nobody explains"
    assert types <= {str(type_) for type_ in definition.conditions} | {"Ready", "Synced"}, "types that the API lacks"
    assert all(len(row) == 4 and len(row[3]) > 10 for row in table), "a row has a meaning, not only a name"


@pytest.mark.parametrize("definition", EXPLAINED, ids=kind_of)
def test_later_marks_exactly_the_reasons_that_no_code_writes(definition: Definition) -> None:
    """A reader who searches for a reason that cannot appear, or misses one that does, loses time."""
    assert definition.reasons is not None
    later = {reason for row in rows(kind_of(definition)) if row[3].startswith("later") for reason in reasons_of(row)}
    written = {str(reason) for reason in definition.reasons if is_written(definition, reason.name, str(reason))}
    assert {str(reason) for reason in definition.reasons} - written == later


def is_written(definition: Definition, name: str, value: str) -> bool:
    assert definition.reasons is not None
    for folder in ("compose", "control", "plan"):
        for path in (SOURCE / folder).rglob("*.py"):
            text = path.read_text()
            if definition.reasons.__module__ in vocabularies(path) and re.search(rf"\bReason\.{name}\b", text):
                return True
            if kind_of(definition) in SEEN_FROM_OUTSIDE and folder != "compose" and f'"{value}"' in text:
                return True
    return False


@cache
def vocabularies(path: Path) -> frozenset[str]:
    """Modules that a file has its ``Reason`` from."""
    return frozenset(
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and any(name.name == "Reason" for name in node.names)
    )


def test_every_verdict_of_the_planner_is_named() -> None:
    paragraph = PAGE[PAGE.index("Verdicts in the message") :].split("Each has figures")[0]
    assert re.findall(r"`([A-Z]\w+)`", paragraph) == [str(code) for code in Code], "in their order of precedence"
