"""The tables of the pages say what the code has, and links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import click
import msgspec
import pytest
import yaml

from modelplane.cli import VERBS
from modelplane.cli.apiserver import command as apiserver
from modelplane.cli.operator import command as operator
from modelplane.control.deletion import FORCE, Bounds
from modelplane.kube import kubeconfig
from modelplane.local import fleet_spec
from modelplane.local.engines.settings import ANNOTATIONS, PREFIX
from modelplane.local.layout import Layout

from .pages import ORDER, ROOT, blocks

LINKED = (*ORDER, "CONTRIBUTING.md", "SCOPE.md")


def page(name: str) -> str:
    return (ROOT / name).read_text()


def first_cells(text: str, heading: str) -> list[str]:
    """The first column of the table below a heading."""
    section = text[text.index(f"\n## {heading}\n") :].split("\n## ", 2)[1]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("|").split("|")[0].strip() for line in rows[2:]]


def test_the_readme_has_every_verb_and_no_other() -> None:
    told = {verb for cell in first_cells(page("README.md"), "Verbs") for verb in re.findall(r"modelplane (\w+)", cell)}
    assert told == set(VERBS), "a verb has a row in the README, in the table of verbs"


@pytest.mark.parametrize(("command", "name"), [(operator, "operating"), (apiserver, "embedded-server")])
def test_every_option_is_in_the_table_of_its_page(command: click.Command, name: str) -> None:
    text = page(f"docs/{name}.md")
    for parameter in command.params:
        assert any(
            re.search(rf"^\| `{option}\b", text, re.MULTILINE) for option in parameter.opts + parameter.secondary_opts
        ), f"docs/{name}.md does not explain {parameter.opts[0]}"


def fields_of(type_: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Fields of the fleet file as its page writes them; what a table row sums up ends there."""
    for field in msgspec.structs.fields(type_):
        inner = next(
            (arg for arg in get_args(field.type) if isinstance(arg, type) and issubclass(arg, msgspec.Struct)), None
        )
        if get_origin(field.type) is tuple and inner is not None and inner is not fleet_spec.Taint:
            yield from fields_of(inner, f"{prefix}{field.encode_name}[].")
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from fields_of(field.type, f"{prefix}{field.encode_name}.")
        else:
            yield f"{prefix}{field.encode_name}" + ("[]" if inner is fleet_spec.Taint else "")


def test_every_field_of_the_fleet_file_is_in_its_table_with_its_default() -> None:
    section = page("docs/local-fleet.md").split("\n## The fleet file\n")[1].split("\n## ")[0]
    table = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE))
    assert list(table) == list(fields_of(fleet_spec.Fleet)), "fields in the order of the file"
    pool = fleet_spec.Pool(name="p")
    shown = {
        name.rpartition(".")[2]: default.strip().strip("`") for name, default in table.items() if ".pools[]." in name
    }
    for name in ("nodes", "cpu", "memory", "pods"):
        assert shown[name] == str(getattr(pool, name)), f"default of {name}"
    assert all(word in section for word in ("`string`", "`version`", "`bool`", "`int`"))


def test_the_fleet_file_that_is_shown_can_be_used() -> None:
    (shown,) = (block for block in blocks("docs/local-fleet.md") if block.info == "yaml")
    fleet = fleet_spec.parse(shown.text, shown.where)
    assert fleet.clusters[0].pools[0].devices[0].count == 8


def test_the_data_directory_is_the_one_that_is_used() -> None:
    layout, text = Layout(Path("/d")), page("docs/local-fleet.md")
    for path in (
        layout.kubeconfig,
        layout.fleet,
        layout.servers,
        layout.ports,
        layout.kubernetes_ports,
        layout.supervisor,
        layout.record("UNIT"),
        layout.log("UNIT"),
        layout.operator_kubeconfig,
    ):
        assert f"| `{path.relative_to('/d')}` |" in text
    for folder in (layout.control, layout.cluster("NAME"), layout.gateway):
        assert f"| `{folder.relative_to('/d')}/` |" in text


def test_every_annotation_of_the_mock_engine_is_explained_in_its_words() -> None:
    text = page("docs/simulated-clusters.md")
    for name, (_, _, meaning) in ANNOTATIONS.items():
        assert f"| `{PREFIX}{name}` | {meaning} |" in text
    assert "simulated-clusters.md#the-mock-engine" in page("docs/local-fleet.md")


def test_the_rights_on_the_page_are_those_of_the_role() -> None:
    documents = yaml.safe_load_all((ROOT / "src/modelplane/operator/rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", ())]
    told = {
        word for cell in first_cells(page("docs/operating.md"), "Its rights") for word in re.findall(r"`([^`]+)`", cell)
    }
    granted = {
        name for rule in rules for name in (rule["resources"] if rule["resources"] != ["*"] else rule["apiGroups"])
    }
    assert told == granted


OF_KUBERNETES = {"cannot create resource", "cannot set blockOwnerDeletion"}
"""Words of API servers; tests/kubernetes/test_operator.py meets them."""


def test_what_the_runbook_quotes_is_said_by_the_code() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/modelplane").rglob("*.py"))
    quoted = [
        word
        for cell in first_cells(page("docs/operating.md"), "When it does not work")
        for word in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(quoted) > 8
    assert [words for words in quoted if words not in source and words not in OF_KUBERNETES] == []


def test_every_field_that_a_kubeconfig_secret_may_not_have_is_named() -> None:
    text = page("docs/operating.md")
    for field in (*kubeconfig._UNSAFE_USER, *kubeconfig._UNSAFE_CLUSTER):
        assert f"`{field}`" in text


def test_the_bounds_of_a_deletion_are_those_of_the_code() -> None:
    text, bounds = page("docs/operating.md"), Bounds()
    assert f"({bounds.unreachable:.0f} s)" in text
    assert f"{bounds.stuck:.0f} s" in text
    assert f'`{FORCE}: "true"`' in text


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", LINKED)
def test_every_link_leads_to_a_page_and_a_heading(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page(name)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        assert path.is_file(), f"{name}: {target} leads nowhere"
        assert not anchor or anchor in anchors(path.read_text()), f"{name}: {target} has no such heading"


@pytest.mark.parametrize("name", LINKED)
def test_a_page_knows_no_machine_but_the_readers(name: str) -> None:
    found = re.findall(r"(?:/work|/root|/tmp|/Users)/\S*|\bhttps?://(?!127\.0\.0\.1)[^\s)`]+", page(name))
    assert not found, f"{name} names {found}; paths are relative or below ~, and pages link to each other"
