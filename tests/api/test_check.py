"""`modelplane check`: verdicts, places, outputs, and what hostile input does to it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.api.kinds import DEFINITIONS
from modelplane.cli.check import command
from modelplane.server.manifests import Text
from tests.api.admission import admit, changed
from tests.api.bases import BASES
from tests.api.test_rules import REFUSED

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVICE = """\
# a comment
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata:
  name: chat
  namespace: ml-team
spec:
  endpoints:
    - weight: 0
      selector:
        matchLabels: {app: chat}
"""


def check(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


def judged(text: str | bytes, *arguments: str) -> list[dict[str, Any]]:
    """The objects of the JSON output for one text on standard input."""
    result = check("--output", "json", *arguments, "-", stdin=text)
    found: list[dict[str, Any]] = json.loads(result.stdout)["objects"]
    return found


def messages(text: str | bytes, *arguments: str) -> list[str]:
    return [found["message"] for obj in judged(text, *arguments) for found in obj["findings"]]


def test_the_examples_pass_strictly() -> None:
    result = check("--strict", str(EXAMPLES))
    assert result.exit_code == 0, result.output
    assert "0 refused" in result.output


def test_the_manifests_of_the_pages_pass_strictly() -> None:
    result = check("--strict", str(EXAMPLES), str(EXAMPLES.parent / "docs"))
    assert result.exit_code == 0, result.output
    pages = json.loads(check("--output", "json", str(EXAMPLES.parent / "docs")).stdout)["objects"]
    assert {kind.resource.gvk.kind for kind in DEFINITIONS} <= {found["kind"] for found in pages}


def test_blocks_of_a_page_are_judged_at_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```yaml\nsettings: [\n```\n\n```yaml\n{SERVICE}```\n\n```sh\nls\n```\n")
    result = check(str(page))
    assert result.exit_code == 1
    (line,) = (line for line in result.stdout.splitlines() if ": error: " in line)
    assert line.startswith(f"{page}:16: error: ModelService ml-team/chat: spec.endpoints[0].weight")


def test_a_refused_object_is_named_with_its_line_and_the_exit_status_is_1() -> None:
    result = check("-", stdin=SERVICE)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == (
        "<stdin>:9: error: ModelService ml-team/chat: spec.endpoints[0].weight: Invalid value: 0: "
        "spec.endpoints[0].weight in body should be greater than or equal to 1"
    )


def test_annotations_for_github_carry_file_line_and_title() -> None:
    result = check("--output", "github", "-", stdin=SERVICE)
    assert result.stdout.startswith(
        "::error file=<stdin>,line=9,title=ModelService ml-team/chat::spec.endpoints[0].weight"
    )


def test_unknown_and_duplicate_fields_warn_and_are_refused_under_strict() -> None:
    text = SERVICE.replace("weight: 0", "weight: 1\n      weight: 2\n      wait: 3")
    assert messages(text) == ['duplicate field "weight"', 'unknown field "spec.endpoints[0].wait"']
    assert check("-", stdin=text).exit_code == 0
    assert check("--strict", "-", stdin=text).exit_code == 1
    assert [found["line"] for obj in judged(text) for found in obj["findings"]] == [10, 11]


def test_objects_of_other_projects_are_passed_over_with_a_note() -> None:
    result = check("-", stdin="apiVersion: v1\nkind: Service\nmetadata: {name: 3}\n")
    assert result.exit_code == 0
    assert "passed over" in result.stdout


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        ("kind: ModelService", "apiVersion is missing", "no apiVersion"),
        ("apiVersion: modelplane.ai/v1alpha1", "kind is missing", "no kind"),
        (
            "apiVersion: modelplane.ai/v1alpha1\nkind: ModelServices",
            "kinds of modelplane.ai/v1alpha1 are",
            "a misspelt kind",
        ),
        (
            "apiVersion: modelplane.ai/v1\nkind: ModelService",
            "modelplane.ai has version v1alpha1",
            "a version that is not",
        ),
        ("- a\n- b", "a manifest is an object", "a list"),
        ("just text", "a manifest is an object", "text"),
        ("a: [", "not YAML: ", "a syntax error"),
        ("a: *b", "alias *b inside its own anchor or before it", "an alias of nothing"),
        (b"a: \xff", "not UTF-8: byte 3", "no UTF-8"),
        ("a: \x07", "not YAML: ", "a control character"),
    ],
)
def test_what_is_no_manifest_of_ours_is_told(text: str | bytes, message: str, reason: str) -> None:
    (said,) = messages(text)
    assert message in said, reason


def test_a_fault_of_syntax_spares_the_documents_before_it() -> None:
    found = judged(f"{SERVICE}---\nfoo: [\n")
    assert [obj["kind"] for obj in found] == ["ModelService", ""]
    assert found[0]["findings"][0]["line"] == 9


def test_a_list_is_judged_item_by_item() -> None:
    item = yaml.safe_load(SERVICE)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item, item]})
    assert [obj["name"] for obj in judged(text)] == ["chat", "chat"]
    assert len(messages(text)) == 2


def test_selectors_are_compiled_and_the_position_is_told() -> None:
    text = (EXAMPLES / "deployments" / "single-node.yaml").read_text().replace("memory.compareTo", "memory.compreTo")
    ((said, line),) = [(found["message"], found["line"]) for obj in judged(text) for found in obj["findings"]]
    assert "undeclared reference to 'compreTo'" in said
    assert text.splitlines()[line - 1].strip().startswith("- cel: device.capacity")


def test_anchors_and_merge_keys_are_expanded() -> None:
    text = SERVICE.replace("weight: 0", "weight: &w 3").replace("{app: chat}", "{<<: {app: a}, app: chat}")
    assert messages(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0.5e3", -500.0),
        ("0x1F", 31),
        ("017", 15),
        ("1_000", 1000),
        ("1:30", "1:30"),
        ("2026-11-29", "2026-11-29"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("''", ""),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("1.2.3", "1.2.3"),
        ("80Gi", "80Gi"),
        ("+5", 5),
    ],
)
def test_plain_scalars_mean_what_they_mean_to_kubectl(text: str, value: Any) -> None:
    (document,) = Text(f"x: {text}".encode()).documents()
    assert document.value == {"x": value}
    assert type(document.value["x"]) is type(value)


def bomb(levels: int) -> str:
    """Nine to the power of ``levels`` values in a few lines."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        (bomb(12), "more than 500,000 values", "aliases that explode"),
        ("{a: " * 200 + "1" + "}" * 200, "nested deeper than 100 levels", "deep flow mappings"),
        ("\n".join(" " * n + "a:" for n in range(200)) + " 1", "nested deeper than 100 levels", "deep block mappings"),
        ("[" * 100_000, "not YAML: ", "brackets without end"),
        ("a: &a [*a]", "inside its own anchor", "an alias of itself"),
        (f"a: '{'x' * (4 * 1024 * 1024)}'", "larger than 3 MiB", "more than an API server takes"),
    ],
)
def test_hostile_text_gets_a_clear_error_in_bounded_time(text: str, message: str, reason: str) -> None:
    before = time.process_time()
    (said,) = messages(text)
    assert message in said or "nested deeper" in said, reason
    assert time.process_time() - before < 5, reason


def test_a_manifest_of_a_megabyte_is_judged() -> None:
    text = (EXAMPLES / "deployments" / "single-node.yaml").read_text()
    long = text.replace("--served-model-name", "--x=" + "y" * 1_000_000)
    assert messages(long) == []


@pytest.mark.parametrize(("kind", "changes", "path", "message"), REFUSED[::9])
def test_words_are_those_of_the_server(kind: str, changes: dict[str, Any], path: str, message: str) -> None:
    spec = changed(BASES[kind], changes)
    definition = next(d for d in DEFINITIONS if d.resource.gvk.kind == kind)
    manifest = {
        "apiVersion": definition.resource.gvk.api_version,
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }
    told = messages(json.dumps(manifest))
    assert [said for where, said in admit(kind, spec)[1]]
    assert any(message in said for said in told), told
