"""A saved fleet is held to its form when it is read: file, path, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelplane.cli import main
from modelplane.plan.scene import Scene
from tests.rehearse.words import GROUP, deployment, inference_cluster, replica

CHAT = deployment("chat", 1)
TAKEN = "2026-11-29T12:00:00Z"


def document() -> Any:
    return Scene([inference_cluster("east"), CHAT, replica(CHAT, "east")], TAKEN).document()


def put(path: str, value: Any) -> Any:
    """The snapshot with another value at ``items/0/status``."""
    made = document()
    *way, last = path.split("/")
    at = made
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    if isinstance(at, list):
        at.append(value) if last == "+" else at.__setitem__(int(last), value)
    else:
        at[last] = value
    return made


POOL = "items/0/status/gpuPools/0"
BACK = [{"free": {"g": -1}, "nodes": 1}]
GENERAL: list[tuple[Any, str, str]] = [
    (put("takenAt", "yesterday"), "$.takenAt: 'yesterday' is no time such as", "ages are counted from it"),
    (put("takenAt", 7), "$.takenAt: 7 is no time", "no text at all"),
    (put("snapshotVersion", 2), "$.snapshotVersion: version 2 is unknown; this modelplane reads 1", "a later form"),
    (put("snapshotVersion", True), "version True is unknown", "true is no 1"),
    (put("kind", "PodList"), "$.kind: PodList of v1 is no snapshot", "another list"),
    (put("apiVersion", "v2"), "$.kind: List of v2 is no snapshot", "another version of lists"),
    (
        put("items/+", document()["items"][0]),
        "$.items[3]: InferenceCluster east is there twice, first as $.items[0]",
        "two",
    ),
    (
        put("items/0/apiVersion", "modelplane.ai/v1beta1"),
        "$.items[0].apiVersion: modelplane.ai/v1beta1 of InferenceCluster east is unknown",
        "it was passed over in silence",
    ),
]
NAMES: list[tuple[Any, str, str]] = [
    (put("items/0/metadata/name", 7), "$.items[0]: an object of the snapshot has no", "a number is no name"),
    (put("items/0/metadata/name", ["a"]), "$.items[0]: an object of the snapshot has no", "nor is a list"),
    (put("items/0/metadata", 7), "$.items[0]: an object of the snapshot has no", "no metadata"),
    (put("items/1/metadata/namespace", 7), "$.items[1].metadata.namespace: 7 is no text", "namespaces are compared"),
]
FIGURES: list[tuple[Any, str, str]] = [
    (
        put(f"{POOL}/nodes", -5),
        "$.items[0].status.gpuPools[0].nodes: -5 nodes; a pool has 0 or more",
        "it was read as 0",
    ),
    (put(f"{POOL}/nodes", "5"), "$.items[0]: InferenceCluster east: Expected `int | null`", "a text is no number"),
    (
        put(f"{POOL}/capacity/growNodes", -1),
        ">= 0 - at `$.status.gpuPools[0].capacity.growNodes`",
        "no negative growth",
    ),
    (put(f"{POOL}/capacity", {"source": "Observed", "nodesByFreeDevices": BACK}), "Expected `int` >= 0", "nor devices"),
    (
        put(f"{POOL}/capacity", {"source": "Observed", "observedTime": "noon"}),
        "$.items[0].status.gpuPools[0].capacity.observedTime: 'noon' is no time",
        "it was compared as text",
    ),
]
TIMES: list[tuple[Any, str, str]] = [
    (
        put("items/0/metadata/creationTimestamp", "today"),
        "$.items[0].metadata.creationTimestamp: 'today' is no time",
        "age decides who waits first",
    ),
    (
        put("items/2/metadata/deletionTimestamp", "now"),
        "$.items[2].metadata.deletionTimestamp: 'now' is no time",
        "of every object",
    ),
    (
        put("items/2/status/conditions/0/lastTransitionTime", "x"),
        "$.items[2].status.conditions[0].lastTransitionTime: 'x' is no time",
        "readiness is compared with it",
    ),
]
CASES = [*GENERAL, *NAMES, *FIGURES, *TIMES]


@pytest.mark.parametrize(("made", "said", "reason"), CASES, ids=[case[2] for case in CASES])
def test_what_is_wrong_with_a_snapshot_is_said_with_file_and_path(
    tmp_path: Path, made: Any, said: str, reason: str
) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(made))
    result = CliRunner().invoke(main, ["plan", "--snapshot", str(path)])
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(f"Error: {path}: $."), reason
    assert said in result.stderr, reason
    assert len(result.stderr.splitlines()) == 1


def test_a_list_that_kubectl_wrote_is_read_with_whatever_else_is_in_it(tmp_path: Path) -> None:
    made = document()
    del made["snapshotVersion"], made["takenAt"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ml"}}
    service = {"apiVersion": GROUP, "kind": "ModelService", "metadata": {"name": "chat", "namespace": "ml"}}
    made["items"] += [pod, pod, service]
    made["items"][2]["status"]["conditions"][0]["lastTransitionTime"] = None
    result = CliRunner().invoke(main, ["plan", "--snapshot", "-", "-o", "json"], input=json.dumps(made))
    told = json.loads(result.stdout)
    assert (result.exit_code, told["asOf"], told["changes"]) == (0, None, [])


def test_a_list_of_kubectl_has_whole_containers_and_tells_what_restarts(tmp_path: Path) -> None:
    chat = json.loads(json.dumps(CHAT))
    member = chat["spec"]["template"]["spec"]["engines"][0]["members"][0]
    member["template"]["spec"]["containers"][0]["args"] = ["--new"]
    items = [inference_cluster("east"), chat, replica(CHAT, "east")]
    made = {"apiVersion": "v1", "kind": "List", "items": items}
    result = CliRunner().invoke(main, ["plan", "--snapshot", "-", "-o", "json"], input=json.dumps(made))
    assert [one["why"] for one in json.loads(result.stdout)["changes"]] == [
        "its pods restart: engine main has another args"
    ]
