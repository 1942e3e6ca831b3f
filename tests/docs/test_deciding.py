"""The page about deciding has the planner's own words: codes and steps in their order, JSON by field."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
from enum import StrEnum

import pytest

from modelplane.api.model_deployment import parse
from modelplane.plan import plan
from modelplane.plan.edits import Edits, edited
from modelplane.plan.explanation import explain
from modelplane.plan.outcome import State
from modelplane.plan.remedies import Step
from modelplane.plan.scene import Scene
from modelplane.plan.stopped import stopped
from modelplane.plan.verdicts import Code
from modelplane.plan.whatif import Kind, rehearse
from tests.docs.pages import ROOT
from tests.rehearse.words import deployment, inference_cluster, replica

PAGE = (ROOT / "docs" / "deciding.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The first table after a line."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| "))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("| "):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def meanings(enumeration: type[StrEnum]) -> dict[str, str]:
    """Members with the text below each, in order."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(enumeration)).body if isinstance(node, ast.ClassDef))
    found = {}
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(node.value, ast.Constant)
            found[str(node.value.value)] = str(after.value.value)
    return found


@pytest.mark.parametrize(("enumeration", "heading"), [(Code, "### Verdicts"), (Step, "### The smallest change")])
def test_a_table_has_every_member_in_its_order_with_its_meaning(enumeration: type[StrEnum], heading: str) -> None:
    told = {row[0].strip("`"): row[1] for row in table(heading)}
    assert list(told) == [str(member) for member in enumeration], "the order is the precedence"
    assert told == meanings(enumeration)


def fields(cells: list[list[str]]) -> set[str]:
    return {name.removesuffix("[]") for row in cells for name in re.findall(r"`([\w\[\]]+)`", row[0])}


def words(cells: list[list[str]], field: str) -> set[str]:
    (meaning,) = (row[1] for row in cells if f"`{field}" in row[0])
    return set(re.findall(r"`([\w]+)", meaning))


CHAT = deployment("chat", 2)
FLEET = Scene([inference_cluster("east", pools={"default": 1}), CHAT, replica(CHAT, "east")], "now")


def test_the_json_of_explain_is_told_field_by_field() -> None:
    told, cells = explain(FLEET.fleet(), FLEET.request(CHAT)).document(), table("`--output json` of `explain`")
    assert fields(cells) == set(told)
    assert set(told["replicas"][0]) == words(cells, "replicas")
    one = told["clusters"][0]
    assert {*one, *one["changes"][0], *one["figures"][0]} == words(cells, "clusters")
    broken = deployment("chat", selector="device.driver")
    account = stopped(FLEET.fleet(), parse(broken)).document()
    assert set(account["invalidSelectors"][0]) == words(cells, "invalidSelectors")
    gone = Scene([CHAT, replica(CHAT, "gone")])
    assert set(explain(gone.fleet(), gone.request(CHAT)).document()["removed"][0]) == words(cells, "removed")


def test_the_json_of_plan_is_told_field_by_field() -> None:
    then = edited(FLEET, Edits(lose=["east"]))
    told, cells = rehearse(FLEET, then.scene).document(), table("Of `plan`:")
    assert fields(cells) == {"asOf", *told}
    assert {*told["changes"][0], *map(str, Kind)} == words(cells, "changes")
    assert set(told["deployments"][0]) == words(cells, "deployments") - {"explain"}


def test_every_option_of_plan_is_told() -> None:
    from modelplane.cli.plan import command

    text = "\n".join(row[0] for row in table("## What would happen if?"))
    for parameter in command.params:
        if parameter.name not in ("output", "data_dir", "kubeconfig"):
            assert f"`{parameter.opts[0]} " in text, f"docs/deciding.md does not tell {parameter.opts[0]}"


@pytest.mark.parametrize("verb", ["match", "explain", "snapshot"])
def test_every_option_of_the_other_verbs_is_told(verb: str) -> None:
    command = importlib.import_module(f"modelplane.cli.{verb}").command
    for parameter in command.params:
        if parameter.name not in ("target", "expression", "file", "data_dir"):
            option = parameter.opts[-1].replace("--namespace", "-n NAMESPACE")
            assert option in PAGE, f"docs/deciding.md does not tell {option} of {verb}"


def test_the_codes_are_in_the_order_of_their_precedence() -> None:
    """A cluster that earns every code of the door gets the first, and the next when that is mended."""
    one = inference_cluster("east", labels={"a": "b"}, taints=["k:NoSchedule"], ready=False)
    one["metadata"]["deletionTimestamp"] = "2026-11-29T12:00:00Z"
    one["status"] |= {"gateway": {}, "gpuPools": []}
    one["spec"]["stack"] = "Dynamo"
    chat = deployment("chat", labels={"region": "eu"}, cache="weights")
    members = chat["spec"]["template"]["spec"]["engines"][0]["members"]
    members[:] = [members[0] | {"role": "Leader"}, members[0] | {"role": "Worker", "worker": {"nodes": 1}}]
    cache = {
        "apiVersion": chat["apiVersion"],
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml"},
        "spec": {"clusterSelector": {"matchLabels": {"tier": "a"}}},
    }
    seen = []
    mend = [
        lambda: one["metadata"]["labels"].update(region="eu"),
        lambda: one["metadata"]["labels"].update(tier="a"),
        lambda: one["status"].update(cache={"storageClassName": "nfs"}),
        lambda: one["spec"].update(stack="Standard"),
        lambda: one["metadata"].pop("deletionTimestamp"),
        lambda: one["status"]["conditions"][0].update(status="True"),
        lambda: one["status"].update(gateway={"address": "10.0.0.1"}),
        lambda: one["spec"].update(taints=[]),
        lambda: None,
    ]
    for step in mend:
        scene = Scene([one, chat, cache])
        (verdict,) = plan(scene.fleet(), scene.request(chat)).verdicts
        seen.append(verdict.code)
        step()
    assert seen == list(Code)[:9]


def test_every_state_of_a_replica_is_explained() -> None:
    paragraph = PAGE[PAGE.index("STATE is") :].split("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", paragraph)) == {str(state) for state in State}
