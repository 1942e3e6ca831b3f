"""`modelplane explain` tells the verdicts of the function that places, for people and for programs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelplane.api.meta import Object
from modelplane.cli import main
from modelplane.plan import plan
from modelplane.plan.explanation import explain
from modelplane.plan.scene import Scene
from tests.kube.fake_api import FakeApi
from tests.rehearse.words import deployment, device, inference_cluster, replica

CHAT = deployment("chat", 3)
FLEET = [
    inference_cluster("east", pools={"default": 1}),
    inference_cluster("north", pools={"default": 2}, taints=["modelplane.ai/drain:NoExecute"]),
    inference_cluster("south", devices=[device("gpu", count=0)]),
    inference_cluster("west", pools={"default": 1}),
    CHAT,
    replica(CHAT, "east"),
]


def asked(tmp_path: Path, objects: list[Object], *arguments: str) -> Result:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(Scene(objects, "2026-11-29T12:00:00Z").document()))
    return CliRunner().invoke(main, ["explain", *arguments, "--snapshot", str(path)])


def test_the_table_says_why_each_is_there_and_what_the_others_lack(tmp_path: Path) -> None:
    result = asked(tmp_path, FLEET, "modeldeployment/chat", "-n", "ml")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert "ModelDeployment ml/chat: PartiallyScheduled" in text
    assert "2 of 3 replicas placed; 1 without a place" in text
    rows = [line.split() for line in text.splitlines() if line]
    seats = {row[1]: row for row in rows if row[0].startswith("chat-")}
    assert seats["east"][2:5] == ["default", "Retained", "yes"]
    assert seats["west"][2:5] == ["default", "Placed", "no"]
    codes = {row[0]: row[1] for row in rows if row[0] in ("east", "north", "south", "west")}
    assert codes == {"east": "Full", "west": "Full", "south": "TooFewDevices", "north": "Tainted"}
    assert text.rstrip().endswith(
        "Smallest change that lets one more replica fit: modelplane undrain north (on north)."
    )


def test_the_json_is_the_plan_of_the_function_that_places(tmp_path: Path) -> None:
    result = asked(tmp_path, FLEET, "md/chat", "-n", "ml", "-o", "json")
    told = json.loads(result.stdout)
    scene = Scene(FLEET)
    found = plan(scene.fleet(), scene.request(CHAT), explain=True)
    assert told["message"] == found.condition().message
    assert {(one["cluster"], one["code"], one["message"]) for one in told["clusters"]} == {
        (one.cluster, str(one.code), one.message) for one in found.verdicts
    }
    assert (told["wanted"], told["placed"], told["missing"]) == (3, 2, 1)
    assert told["smallestChange"]["cluster"] == "north"
    assert told["smallestChange"]["changes"][0]["step"] == "Undrain"


def test_the_verdict_of_the_day_of_placing_is_told_beside_todays() -> None:
    moved = inference_cluster("east", labels={"region": "us"})
    chat = deployment("chat", 1, labels={"region": "us"})
    scene = Scene([moved, chat, replica(chat, "east", code="Placed")])
    (seat,) = explain(scene.fleet(), scene.request(chat)).seats
    assert (seat.code, seat.why, seat.note) == (
        "Placed",
        "fits pool default, the first of this deployment there",
        "",
    )
    scene.put(inference_cluster("east", labels={"region": "eu"}))
    (seat,) = explain(scene.fleet(), scene.request(chat)).seats
    assert seat.why == "fits pool default, the first of this deployment there"
    assert "which the cluster selector no longer matches" in seat.note


def test_what_goes_is_told_with_its_reason(tmp_path: Path) -> None:
    chat = deployment("chat", 1)
    objects = [chat, inference_cluster("west"), replica(chat, "gone")]
    result = asked(tmp_path, objects, "modeldeployment/chat", "-n", "ml")
    assert "ClusterGone" in result.stdout
    assert "cluster gone does not exist" in result.stdout
    told = json.loads(asked(tmp_path, objects, "modeldeployment/chat", "-n", "ml", "-o", "json").stdout)
    assert [one["reason"] for one in told["removed"]] == ["ClusterGone"]
    assert told["smallestChange"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["chat"], 2, "is no modeldeployment/NAME"),
        (["modelservice/chat"], 2, "is no modeldeployment/NAME"),
        (["modeldeployment/"], 2, "is no modeldeployment/NAME"),
        (["modeldeployment/chat"], 1, "there is no ModelDeployment default/chat; add -n ml"),
        (["modeldeployment/other"], 1, "there is no ModelDeployment default/other; there are: ml/chat"),
    ],
)
def test_a_deployment_that_is_not_there_is_said(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    result = asked(tmp_path, FLEET, *arguments)
    assert result.exit_code == code
    assert said in result.stderr


PATH = "spec.template.spec.engines[0].members[0].nodeSelector.devices"


def broken() -> list[Object]:
    """A deployment with one request that compiles between two that do not, and a replica from better days."""
    good = deployment("chat", 2)
    bad = deployment("chat", 2)
    asks = bad["spec"]["template"]["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"]
    asks[:] = [
        {"name": "gpu", "selectors": [{"cel": 'device.drivr == "x"'}]},
        {"name": "fine", "selectors": [{"cel": "true"}]},
        {"name": "nic", "selectors": [{"cel": "true"}, {"cel": "device.driver"}]},
    ]
    return [inference_cluster("east"), bad, replica(good, "east")]


def test_selectors_that_do_not_compile_are_explained_one_by_one_and_what_is_there_stays(tmp_path: Path) -> None:
    """A question that was answered: exit status 0, as for any other reason why replicas are nowhere."""
    result = asked(tmp_path, broken(), "modeldeployment/chat", "-n", "ml")
    assert result.exit_code == 0, result.output
    assert "ModelDeployment ml/chat: InvalidNodeSelector" in result.stdout
    assert "1 of 2 replicas placed; nothing moves until every selector compiles." in result.stdout
    assert f"engine main, request gpu ({PATH}[0].selectors[0].cel):\n  compilation failed" in result.stdout
    assert "ERROR: <input>:1:7: undefined field 'drivr'\n   | device.drivr" in result.stdout, (
        "the caret is under its word"
    )
    assert f"engine main, request nic ({PATH}[2].selectors[1].cel):\n  must evaluate to bool" in result.stdout
    assert "request fine" not in result.stdout
    assert "Retained" in result.stdout
    assert "`modelplane match EXPRESSION` tries them" in result.stdout


def test_a_rehearsal_tells_every_selector_that_does_not_compile(tmp_path: Path) -> None:
    """The condition has the first; mending that one would only show the next."""
    asked(tmp_path, broken(), "modeldeployment/chat", "-n", "ml")
    result = CliRunner().invoke(main, ["plan", "--snapshot", str(tmp_path / "fleet.json"), "-o", "json"])
    (fate,) = json.loads(result.stdout)["deployments"]
    assert (result.exit_code, fate["reason"], fate["wanted"]) == (2, "InvalidNodeSelector", 2)
    assert fate["message"].startswith(f"{PATH}[0].selectors[0].cel: ")
    assert fate["notes"] == [f"{PATH}[2].selectors[1].cel: must evaluate to bool or the unknown type, not string"]


def test_the_json_of_selectors_that_do_not_compile_has_positions_and_the_fields_of_any_account(tmp_path: Path) -> None:
    told = json.loads(asked(tmp_path, broken(), "md/chat", "-n", "ml", "-o", "json").stdout)
    other = json.loads(asked(tmp_path, FLEET, "md/chat", "-n", "ml", "-o", "json").stdout)
    assert told.keys() == other.keys()
    assert (told["reason"], told["wanted"], told["placed"], told["missing"]) == ("InvalidNodeSelector", 2, 1, 1)
    assert told["message"].startswith(f"{PATH}[0].selectors[0].cel: ")
    assert [(one["request"], one["line"], one["column"]) for one in told["invalidSelectors"]] == [
        ("gpu", 1, 7),
        ("nic", 0, 0),
    ]
    assert told["replicas"][0]["message"] == "fits pool default, the first of this deployment there"
    assert other["invalidSelectors"] == []


def test_a_gang_says_whose_selector_does_not_compile(tmp_path: Path) -> None:
    gang = deployment("chat", 1)
    members = gang["spec"]["template"]["spec"]["engines"][0]["members"]
    leader = {name: value for name, value in members[0].items() if name != "nodeSelector"} | {"role": "Leader"}
    worker = members[0] | {"role": "Worker", "worker": {"nodes": 1}}
    worker["nodeSelector"]["devices"][0]["selectors"] = [{}, {"cel": "1"}]
    members[:] = [leader, worker]
    result = asked(tmp_path, [gang], "modeldeployment/chat", "-n", "ml")
    assert "Worker of engine main, request gpu (" in result.stdout


def test_pools_of_replicas_that_serve_and_are_too_many_are_told(tmp_path: Path) -> None:
    """Both serve, so nothing is refused and nothing moves; the pool is short of a node all the same."""
    chat = deployment("chat", 2)
    east, west = inference_cluster("east", pools={"default": 1}), inference_cluster("west", pools={"default": 0})
    elsewhere = deployment("other", 1)
    fleet = [east, west, chat, replica(chat, "east"), replica(chat, "east", 1), elsewhere, replica(elsewhere, "west")]
    said = "pool east/default has 1 node and its replicas need 2; add 1, or scale down"
    assert f"Overcommitted: {said}\n" in asked(tmp_path, fleet, "md/chat", "-n", "ml").stdout
    told = json.loads(asked(tmp_path, fleet, "md/chat", "-n", "ml", "-o", "json").stdout)
    assert told["overcommitted"] == [said], "west is another deployment's trouble"


def test_a_replica_without_room_is_told_with_its_pool_and_nodes(tmp_path: Path) -> None:
    chat = deployment("chat", 2)
    fleet = [
        inference_cluster("east", pools={"default": 1}),
        chat,
        replica(chat, "east"),
        replica(chat, "east", 1, ready=False),
    ]
    said = "stays on east without room: pool default has 1 node, and replicas take 2"
    assert said in asked(tmp_path, fleet, "md/chat", "-n", "ml").stdout
    assert any(
        said in note for note in json.loads(asked(tmp_path, fleet, "md/chat", "-n", "ml", "-o", "json").stdout)["notes"]
    )


BARE = {"apiVersion": "modelplane.ai/v1alpha1", "metadata": {"name": "a"}}
POOL = {"name": "p", "className": 7}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it cannot be read as JSON"),
        ("{", "it cannot be read as JSON"),
        ("\udcff", "it cannot be read as JSON"),
        ("[]", "a snapshot is a List with items"),
        ('{"items": [{}]}', "no apiVersion, kind or metadata.name"),
        ('{"items": [7]}', "no apiVersion, kind or metadata.name"),
        (json.dumps({"items": [BARE | {"kind": "InferenceCluster"}]}), "InferenceCluster a: "),
        (json.dumps({"items": [BARE | {"kind": "InferenceClass", "spec": {"devices": 4}}]}), "`$.spec.devices`"),
        (json.dumps({"items": [BARE | {"kind": "ModelCache", "spec": {"clusterSelector": 4}}]}), "ModelCache a: "),
        (json.dumps({"items": [BARE | {"kind": "ModelDeployment", "spec": []}]}), "ModelDeployment a: "),
        (json.dumps({"items": [BARE | {"kind": "ModelReplica", "spec": {"clusterName": []}}]}), "ModelReplica a: "),
        (
            json.dumps({"items": [BARE | {"kind": "InferenceCluster", "spec": {"cluster": {}, "nodePools": [POOL]}}]}),
            "InferenceCluster a: ",
        ),
    ],
)
@pytest.mark.parametrize("verb", [["explain", "modeldeployment/chat"], ["plan"]], ids=["explain", "plan"])
def test_a_file_that_is_no_snapshot_is_refused_by_object(tmp_path: Path, text: str, said: str, verb: list[str]) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    result = CliRunner().invoke(main, [*verb, "--snapshot", str(path)])
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert said in result.stderr


def test_a_fleet_without_anything_is_one(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    path.write_text('{"items": []}')
    result = CliRunner().invoke(main, ["plan", "--snapshot", str(path)])
    assert (result.exit_code, result.stdout.split("\n")[0]) == (0, "Nothing moves.")


def test_a_cache_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    fleet = [inference_cluster("east"), deployment("chat", cache="weights")]
    result = asked(tmp_path, fleet, "modeldeployment/chat", "-n", "ml")
    said = "ModelCache ml/weights of ml/chat does not exist; create it, or correct modelCacheRef"
    assert f"note: {said}" in result.stdout
    told = json.loads(asked(tmp_path, fleet, "modeldeployment/chat", "-n", "ml", "-o", "json").stdout)
    assert told["notes"] == [said]
    planned = CliRunner().invoke(main, ["plan", "--snapshot", str(tmp_path / "fleet.json"), "-o", "json"])
    assert json.loads(planned.stdout)["notes"] == [said]


def test_where_the_cache_is_missing_creating_it_is_the_change(tmp_path: Path) -> None:
    east, tainted = inference_cluster("east"), inference_cluster("north", taints=["k:NoExecute"])
    for one in (east, tainted):
        one["status"]["cache"] = {"storageClassName": "fast"}
    fleet = [east, tainted, deployment("chat", cache="weights")]
    text = asked(tmp_path, fleet, "modeldeployment/chat", "-n", "ml").stdout
    assert text.rstrip().endswith(
        "Smallest change that lets one more replica fit: create the ModelCache ml/weights (on east)."
    )
    told = json.loads(asked(tmp_path, fleet, "modeldeployment/chat", "-n", "ml", "-o", "json").stdout)
    steps = {one["cluster"]: [change["step"] for change in one["changes"]] for one in told["clusters"]}
    assert steps == {"east": ["CreateCache"], "north": ["Tolerate", "CreateCache"]}
    assert list(steps) == ["east", "north"], "the nearest leads"
    assert (told["smallestChange"]["cluster"], told["smallestChange"]["code"]) == ("east", "Fits")
    drained = CliRunner().invoke(main, ["plan", "--snapshot", str(tmp_path / "fleet.json"), "--drain", "east"])
    assert (
        "Smallest change that lets one more replica fit: modelplane undrain east, then create the ModelCache ml/weights"
        in drained.stdout
    )
    cache = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml"},
        "spec": {},
    }
    scene = Scene([east, tainted, deployment("chat", cache="weights"), cache])
    assert plan(scene.fleet(), scene.request(deployment("chat", cache="weights"))).complete


@pytest.mark.parametrize(
    ("objects", "message", "reason"),
    [
        ([], "Scaled to zero: no replica is wanted, there is none.", "never had any"),
        ([replica(deployment("chat", 0), "east")], "Scaled to zero: no replica is wanted, 1 leaves.", "one goes"),
        (
            [replica(deployment("chat", 0), "east", index) for index in (0, 1)],
            "Scaled to zero: no replica is wanted, 2 leave.",
            "two go",
        ),
    ],
)
def test_a_deployment_of_none_says_what_is_there(
    tmp_path: Path, objects: list[Object], message: str, reason: str
) -> None:
    fleet = [inference_cluster("east"), deployment("chat", 0), *objects]
    told = json.loads(asked(tmp_path, fleet, "modeldeployment/chat", "-n", "ml", "-o", "json").stdout)
    assert (told["reason"], told["message"]) == ("ScaledToZero", message), reason


async def test_a_live_fleet_is_read_with_one_kubeconfig(tmp_path: Path) -> None:
    async with FakeApi() as api:
        for obj in FLEET:
            await api.put(obj)
        config = tmp_path / "kubeconfig"
        config.write_text(api.kubeconfig_text())
        arguments = ["explain", "modeldeployment/chat", "-n", "ml", "--kubeconfig", str(config), "-o", "json"]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["placed"] == 2
