"""`modelplane plan` says what a change would do, changes nothing, and exits with 2 when something does not fit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.api.meta import Object
from modelplane.cli import main
from modelplane.plan.edits import Edits, edited
from modelplane.plan.restarts import Restarts
from modelplane.plan.scene import Scene
from modelplane.plan.whatif import rehearse
from tests.kube.fake_api import FakeApi
from tests.rehearse.words import deployment, device, inference_class, inference_cluster, replica

TAKEN = "2026-11-29T12:00:00Z"
CHAT = deployment("chat", 2)
FLEET = [
    inference_class("h100"),
    inference_cluster("east"),
    inference_cluster("west"),
    CHAT,
    replica(CHAT, "east"),
    replica(CHAT, "west"),
]


def on(tmp_path: Path, objects: list[Object], *arguments: str) -> Result:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(Scene(objects, TAKEN).document()))
    return CliRunner().invoke(main, ["plan", *arguments, "--snapshot", str(path)])


def told(tmp_path: Path, objects: list[Object], *arguments: str, code: int = 0) -> dict[str, Any]:
    result = on(tmp_path, objects, *arguments, "-o", "json")
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["fits"] is (code == 0)
    assert found["asOf"] == TAKEN
    return found


def changes(found: dict[str, Any]) -> list[str]:
    """``moved ml/chat east west``."""
    return [
        " ".join(word for word in (one["change"], one["deployment"], one["from"], one["to"]) if word)
        for one in found["changes"]
    ]


def file(tmp_path: Path, *objects: Object) -> str:
    path = tmp_path / "change.yaml"
    path.write_text(yaml.safe_dump_all([_applied(obj) for obj in objects]))
    return str(path)


def _applied(obj: Object) -> Object:
    """As a person writes it: without what servers add."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if obj["metadata"].get(key)}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def test_without_a_change_nothing_moves(tmp_path: Path) -> None:
    assert changes(told(tmp_path, FLEET)) == []
    result = on(tmp_path, FLEET)
    assert "Nothing moves." in result.stdout
    assert result.stdout.endswith(f"Everything fits. Figures as of {TAKEN}; nothing was changed.\n")


def test_a_drain_moves_what_is_there_and_says_why(tmp_path: Path) -> None:
    found = told(tmp_path, FLEET, "--drain", "east")
    assert changes(found) == ["moved ml/chat east west"]
    gone, comes = found["changes"][0]["replaces"], found["changes"][0]["replica"]
    assert gone == replica(CHAT, "east")["metadata"]["name"]
    assert gone != comes
    assert f"{gone} -> {comes}" in on(tmp_path, FLEET, "--drain", "east").stdout, "a person looks the old one up"
    assert found["changes"][0]["why"] == "cluster east has taint modelplane.ai/drain:NoExecute"


def test_a_drain_of_all_clusters_fits_nowhere(tmp_path: Path) -> None:
    found = told(tmp_path, FLEET, "--drain", "east", "west", code=2)
    assert changes(found) == ["removed ml/chat east", "removed ml/chat west"]
    (fate,) = found["deployments"]
    assert (fate["wanted"], fate["before"], fate["after"], fate["fits"]) == (2, 2, 0, False)
    assert {one["code"] for one in fate["clusters"]} == {"Tainted"}
    assert fate["smallestChange"]["changes"][0]["text"] == "modelplane undrain east"


def test_a_lost_cluster_takes_its_room_along(tmp_path: Path) -> None:
    small = [inference_cluster("east", pools={"default": 1}), inference_cluster("west", pools={"default": 1})]
    found = told(tmp_path, [*small, *FLEET[3:]], "--lose", "east", code=2)
    assert changes(found) == ["removed ml/chat east"]
    result = on(tmp_path, [*small, *FLEET[3:]], "--lose", "east")
    assert "ml/chat does not fit: 1 of 2 replicas placed; 1 without a place" in result.stdout
    assert "add 1 node to pool default (on west)" in result.stdout, "its own replica there is no room to free"
    assert "Not everything fits." in result.stdout


def test_a_new_deployment_is_placed_after_those_that_wait_longer(tmp_path: Path) -> None:
    old = deployment("old", 1, made="2026-01-01T00:00:00Z")
    fleet = [inference_cluster("east", pools={"default": 1}), old]
    young = deployment("a-young-one")
    found = told(tmp_path, fleet, "-f", file(tmp_path, young), code=2)
    assert changes(found) == ["placed ml/old east"]
    assert [one["fits"] for one in found["deployments"]] == [False, True]
    assert found["deployments"][0]["deployment"] == "ml/a-young-one"


def test_those_that_wait_are_taken_by_age_then_namespace_then_name(tmp_path: Path) -> None:
    waiting = [
        deployment("b", namespace="a"),
        deployment("a", namespace="b"),
        deployment("z", namespace="z", made="2026-01-01T00:00:00Z"),
        deployment("a", namespace="a"),
    ]
    for nodes, placed in ((1, ["z/z"]), (2, ["a/a", "z/z"]), (3, ["a/a", "a/b", "z/z"])):
        found = told(tmp_path, [inference_cluster("east", pools={"default": nodes}), *waiting], code=2)
        assert [one["deployment"] for one in found["changes"]] == placed


def test_what_is_freed_is_given_to_who_waits(tmp_path: Path) -> None:
    waiting = deployment("waiting", 2, made="2026-01-01T00:00:00Z")
    small = [inference_cluster("east", pools={"default": 1}), inference_cluster("west", pools={"default": 1})]
    found = told(tmp_path, [*small, *FLEET[3:], waiting], "--scale", "ml/chat=1", code=2)
    assert changes(found) == ["removed ml/chat west", "placed ml/waiting west"]
    found = told(tmp_path, [*small, *FLEET[3:], waiting], "--scale", "ml/chat=0")
    assert len(found["changes"]) == 4


def test_a_changed_deployment_replaces_what_no_longer_matches(tmp_path: Path) -> None:
    fleet = [
        inference_cluster("east", labels={"tier": "gold"}, pools={"default": 1}),
        inference_cluster("west"),
        CHAT,
        replica(CHAT, "east"),
        replica(CHAT, "west"),
    ]
    found = told(tmp_path, fleet, "-f", file(tmp_path, deployment("chat", 2, labels={"tier": "gold"})), code=2)
    assert (changes(found), found["deployments"][0]["after"]) == ([], 2), "it serves until it is replaced"
    fleet[0] = inference_cluster("east", labels={"tier": "gold"})
    found = told(tmp_path, fleet, "-f", file(tmp_path, deployment("chat", 2, labels={"tier": "gold"})))
    assert changes(found) == ["moved ml/chat west east"]


def test_added_clusters_take_what_waits(tmp_path: Path) -> None:
    fleet = [inference_class("h100"), inference_cluster("east", pools={"default": 1}), CHAT]
    assert told(tmp_path, fleet, code=2)["deployments"][0]["after"] == 1
    found = told(tmp_path, fleet, "--add", file(tmp_path, inference_cluster("new")))
    assert changes(found) == ["placed ml/chat east", "placed ml/chat new"]
    assert found["notes"] == ["cluster new is new: taken to become Ready, with every node that it declares"]


def test_what_cannot_be_known_of_a_change_is_said(tmp_path: Path) -> None:
    east = _applied(inference_cluster("east"))
    assert told(tmp_path, FLEET, "-f", file(tmp_path, east))["notes"] == [], "the same again"
    east["spec"]["cluster"]["existing"] = {"secretRef": {"name": "other", "key": "kubeconfig"}}
    found = told(tmp_path, FLEET, "-f", file(tmp_path, east))
    assert found["notes"] == ["cluster east has another spec.cluster: taken to stay as ready as it is"]
    elsewhere = deployment("chat", 0)
    elsewhere["metadata"]["namespace"] = "other"
    found = told(tmp_path, FLEET, "-f", file(tmp_path, elsewhere))
    text = "nothing of namespace other is known here: an API server refuses objects of a namespace that does not exist"
    assert found["notes"] == [text]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    found = told(tmp_path, FLEET, "-f", file(tmp_path, namespace, elsewhere))
    assert found["notes"] == ["passed over: Namespace other (placement does not read it)"]


def test_a_cluster_whose_class_is_not_there_takes_nothing(tmp_path: Path) -> None:
    found = told(tmp_path, [CHAT], "--add", file(tmp_path, inference_cluster("new")), code=2)
    assert "InferenceClass h100 is not there" in found["notes"][0]
    assert [one["code"] for one in found["deployments"][0]["clusters"]] == ["NotReady"]
    both = file(tmp_path, inference_class("h100"), inference_cluster("new"))
    assert told(tmp_path, [CHAT], "--add", both)["deployments"][0]["after"] == 2


def test_a_changed_class_republishes_the_pools_that_name_it(tmp_path: Path) -> None:
    chat = deployment("chat", 2, count=4)
    fleet = [inference_class("h100"), inference_cluster("east"), chat]
    assert told(tmp_path, fleet, code=2)["deployments"][0]["clusters"][0]["code"] == "TooFewDevices"
    found = told(tmp_path, fleet, "-f", file(tmp_path, inference_class("h100", device("gpu", count=8))))
    assert changes(found) == ["placed ml/chat east", "placed ml/chat east"]


def test_a_cluster_of_a_cloud_may_grow_to_its_largest(tmp_path: Path) -> None:
    cloud = inference_cluster("gke", pools={"default": 1})
    cloud["spec"]["cluster"] = {"source": "GKE", "gke": {"region": "europe-west4"}}
    cloud["spec"]["nodePools"][0] |= {"minNodeCount": 0, "maxNodeCount": 2, "zones": ["europe-west4-a"]}
    classes = inference_class("h100")
    classes["spec"]["provisioning"] = {
        "gke": {"machineType": "a3-highgpu-8g", "accelerator": {"type": "nvidia-h100", "count": 1}}
    }
    found = told(tmp_path, [classes, CHAT], "--add", file(tmp_path, cloud))
    assert found["deployments"][0]["waitingForNodes"] == 1


def test_a_larger_pool_takes_more_and_a_smaller_one_is_overcommitted(tmp_path: Path) -> None:
    fleet = [inference_cluster("east", pools={"default": 1}), CHAT, replica(CHAT, "east")]
    found = told(tmp_path, fleet, "--pool", "east/default=2")
    assert changes(found) == ["placed ml/chat east"]
    full = [inference_cluster("east"), CHAT, replica(CHAT, "east"), replica(CHAT, "east", 1)]
    found = told(tmp_path, full, "--pool", "east/default=1", code=2)
    assert found["overcommitted"] == ["pool east/default has 1 node and its replicas need 2; add 1, or scale down"]
    assert changes(found) == [], "replicas are not moved for that, in production neither"
    assert "Overcommitted: pool east/default" in on(tmp_path, full, "--pool", "east/default=1").stdout


def observed(*buckets: tuple[int, int], grow: int = 0) -> Object:
    made = inference_cluster("east", devices=[device("gpu", count=8)])
    made["status"]["gpuPools"][0]["capacity"] = {
        "source": "Observed",
        "observedTime": "2026-11-29T13:00:00Z",
        "growNodes": grow,
        "nodesByFreeDevices": [{"free": {"gpu.nvidia.com": free}, "nodes": nodes} for free, nodes in buckets],
    }
    return made


def test_observed_devices_come_free_when_their_replica_goes(tmp_path: Path) -> None:
    small = deployment("small", 1)
    large = deployment("large", 1, count=8)
    fleet = [observed((7, 1)), small, large, replica(small, "east")]
    assert changes(told(tmp_path, fleet, code=2)) == []
    assert changes(told(tmp_path, fleet, "--scale", "ml/small=0")) == ["placed ml/large east", "removed ml/small east"]


@pytest.mark.parametrize(
    ("nodes", "placed", "stranded"),
    [(3, 2, []), (2, 1, []), (1, 0, []), (0, 0, ["pool east/default: 1 of the nodes that go have devices in use"])],
)
def test_of_observed_nodes_the_emptiest_go_first(tmp_path: Path, nodes: int, placed: int, stranded: list[str]) -> None:
    large = deployment("large", 3, count=8)
    found = told(tmp_path, [observed((2, 1), (8, 2)), large], "--pool", f"east/default={nodes}", code=2)
    assert found["deployments"][0]["after"] == placed
    assert [text.split(";")[0] for text in found["overcommitted"]] == stranded


@pytest.mark.parametrize(("nodes", "waiting"), [(1, 4), (3, 2), (4, 1), (5, 0)])
def test_a_pool_that_may_grow_keeps_its_largest_size(tmp_path: Path, nodes: int, waiting: int) -> None:
    large = deployment("large", 4, count=8)
    found = told(tmp_path, [observed((2, 1), (8, 2), grow=2), large], "--pool", f"east/default={nodes}")
    (fate,) = found["deployments"]
    assert (fate["after"], fate["waitingForNodes"]) == (4, waiting)


def test_manifests_are_refused_in_the_api_servers_words(tmp_path: Path) -> None:
    broken = deployment("chat", 2, selector="device.driver == gpu")
    result = on(tmp_path, FLEET, "-f", file(tmp_path, broken))
    assert result.exit_code == 1
    assert "change.yaml:1: spec.template.spec.engines[0].members[0]" in result.stderr
    assert "undeclared reference to 'gpu'" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "change.yaml:2: not YAML"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n",
            'change.yaml:5: duplicate field "name"',
        ),
        ("apiVersion: modelplane.ai/v1alpha1\nkind: ModelDeploymen\n", "no kind"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "metadata.name is missing"),
    ],
)
def test_a_file_that_holds_no_manifest_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "change.yaml"
    path.write_text(text)
    result = on(tmp_path, FLEET, "-f", str(path))
    assert result.exit_code == 1
    assert said in result.stderr


def test_folders_lists_and_standard_input_are_read_and_other_kinds_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ml"}}
    items = [_applied(deployment("more")), config, _applied(replica(CHAT, "east", 7))]
    (folder / "a.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    found = told(tmp_path, FLEET, "-f", str(folder))
    assert changes(found) == ["placed ml/more east"]
    assert found["notes"][0] == "passed over: ConfigMap ml/c (placement does not read it)"
    assert found["notes"][1].startswith("passed over: ModelReplica")
    again = {**config, "metadata": {"name": "d", "namespace": "ml"}}
    (folder / "b.yaml").write_text(yaml.safe_dump(again))
    notes = told(tmp_path, FLEET, "-f", str(folder))["notes"]
    assert notes[0] == "passed over: ConfigMap ml/c, ml/d (placement does not read it)", "a line a kind"
    (folder / "b.yaml").unlink()
    path = tmp_path / "fleet.json"
    body = yaml.safe_dump(_applied(deployment("more")))
    result = CliRunner().invoke(main, ["plan", "-f", "-", "--snapshot", str(path), "-o", "json"], input=body)
    assert changes(json.loads(result.stdout)) == ["placed ml/more east"]
    (folder / "a.yaml").unlink()
    assert on(tmp_path, FLEET, "-f", str(folder)).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--drain", "north"], 1, "there is no InferenceCluster north; there are: east, west"),
        (["--lose", "north"], 1, "there is no InferenceCluster north"),
        (["--scale", "ml/other=1"], 1, "there is no ModelDeployment ml/other; there are: ml/chat"),
        (["--pool", "east/other=1"], 1, "cluster east has no pool other; it has: default"),
        (["--scale", "chat=1"], 1, "is no NS/NAME=N"),
        (["--pool", "east/default=-1"], 1, "is no CLUSTER/POOL=NODES"),
        (["--scale", "ml/chat=many"], 1, "is no NS/NAME=N"),
        (["--scale", "ml/chat=-1"], 1, "is no NS/NAME=N, where the number is 0 or more"),
        (["--scale", "ml/chat=1", "ml/chat=2"], 1, "ml/chat is given twice, as 1 and as 2"),
        (["--scale", "ml/chat=1", "--scale", "ml/chat=1"], 1, "ml/chat is given twice"),
        (["--scale", "a/b/chat=1"], 1, "'b/chat' is no name of a deployment"),
        (["--scale", "M_L/chat=1"], 1, "'M_L' is no name of a namespace: lower case letters, digits and '-'"),
        (["--scale", "m.l/chat=1"], 1, "'m.l' is no name of a namespace"),
        (["--scale", f"ml/chat={'9' * 5000}"], 1, "does not fit 64 bits"),
        (["--scale", "ml/chat=1001"], 1, "--scale ml/chat=1001 would be refused: spec.replicas: Invalid value: 1001: "),
        (["--scale", "ml/chat=1001"], 1, "should be less than or equal to 1000"),
        (["--pool", "east/default=1", "east/default=2"], 1, "east/default is given twice"),
        (["--pool", "east/de_fault=1"], 1, "'de_fault' is no name of a pool"),
        (["--pool", "East/default=1"], 1, "'East' is no name of a cluster"),
        (["--drain", ""], 1, "'' is no name of a cluster"),
        (["--lose", "east/default"], 1, "'east/default' is no name of a cluster"),
        (["--lose", "east", "east"], 1, "cluster east is lost in this rehearsal"),
        (["-f", "-", "--add", "-"], 1, "standard input, which can be read once"),
        (["-f", "/dev/null"], 1, "no manifest in /dev/null; nothing to rehearse"),
        (["stray"], 1, "unexpected extra argument"),
        (["-f", "nowhere.yaml"], 1, "does not exist"),
        (["--lose", "east", "--drain", "east"], 1, "cluster east is lost in this rehearsal"),
        (["--lose", "east", "--pool", "east/default=1"], 1, "cluster east is lost in this rehearsal"),
    ],
)
def test_a_question_that_cannot_be_read_or_answered_never_ends_like_one_that_does_not_fit(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    result = on(tmp_path, FLEET, *arguments)
    assert result.exit_code == code
    assert said in result.stderr


def test_what_was_stored_against_the_rules_is_no_reason_to_refuse_a_number(tmp_path: Path) -> None:
    """An older API server took it; only what the option adds is judged."""
    old = inference_cluster("east", pools={"default": 1})
    old["spec"]["cluster"] = {"source": "GKE"}
    fleet = [inference_class("h100"), old, CHAT, replica(CHAT, "east")]
    assert told(tmp_path, fleet, "--pool", "east/default=2")["fits"] is True


def test_add_takes_clusters_and_classes_and_passes_other_projects_objects_over(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "north-kubeconfig", "namespace": "default"}}
    found = told(tmp_path, FLEET, "--add", file(tmp_path, inference_cluster("north"), secret))
    assert found["notes"][0] == "passed over: Secret default/north-kubeconfig (placement does not read it)"
    result = on(tmp_path, FLEET, "--add", file(tmp_path, deployment("more")))
    assert result.exit_code == 1
    assert (
        "change.yaml:1: ModelDeployment is none of InferenceClass, InferenceCluster; give it with -f" in result.stderr
    )


def test_what_is_wrong_with_replicas_that_stay_is_told(tmp_path: Path) -> None:
    """A class loses devices: the replicas stay where they are, and a person is told so. So they are where nodes go."""
    chat = deployment("chat", 1, count=2)
    fleet = [inference_class("h100", device(count=2)), inference_cluster("east", devices=[device(count=2)]), chat]
    smaller = file(tmp_path, inference_class("h100", device(count=1)))
    found = told(tmp_path, [*fleet, replica(chat, "east")], "-f", smaller)
    name = replica(chat, "east")["metadata"]["name"]
    said = f"replica {name} stays on east, though engine main: its requests no longer match pool default"
    assert found["deployments"][0]["notes"] == [said]
    assert f"ml/chat: {said}\n" in on(tmp_path, [*fleet, replica(chat, "east")], "-f", smaller).stdout
    asleep = replica(chat, "east", ready=False)
    found = told(tmp_path, [*fleet, asleep], "--pool", "east/default=0", code=2)
    assert found["deployments"][0]["notes"] == [
        f"replica {name} stays on east without room: pool default has 0 nodes, and replicas take 1"
    ]


def changed(obj: Object, **fields: Any) -> Object:
    """The deployment with other fields of its container; ``metadata`` is that of the pods."""
    copy: Object = json.loads(json.dumps(obj))
    template = copy["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"]
    if "metadata" in fields:
        template["metadata"] = fields.pop("metadata")
    if "imagePullSecrets" in fields:
        template["spec"]["imagePullSecrets"] = fields.pop("imagePullSecrets")
    template["spec"]["containers"][0] |= fields
    return copy


RESTARTS = [
    ({"image": "engine:2"}, "engine main has another image (engine:1 -> engine:2)", "a new version rolls out"),
    ({"env": [{"name": "A", "value": "1"}]}, "engine main has another env", "pods read it at their start"),
    ({"args": ["--x"], "command": ["run"]}, "engine main has another command, args", "so are these"),
    ({"metadata": {"labels": {"a": "b"}}}, "engine main has another metadata", "labels are the pod's own"),
    ({"imagePullSecrets": [{"name": "s"}]}, "engine main has another imagePullSecrets", "part of the pod"),
]


@pytest.mark.parametrize(("fields", "said", "reason"), RESTARTS, ids=[case[2] for case in RESTARTS])
def test_replicas_whose_pods_start_anew_where_they_are_are_told(fields: dict[str, Any], said: str, reason: str) -> None:
    now = Scene(FLEET, TAKEN)
    found = rehearse(now, edited(now, Edits(manifests=[_applied(changed(CHAT, **fields))])).scene)
    assert {(str(move.kind), move.source, move.target, move.why) for move in found.moves} == {
        ("updated", cluster, cluster, f"its pods restart: {said}") for cluster in ("east", "west")
    }, reason
    assert (found.fits, found.notes) == (True, ())


def test_a_snapshot_tells_images_and_says_what_it_cannot_tell(tmp_path: Path) -> None:
    """Environment and arguments are no part of it, so those of a manifest are no difference."""
    given = changed(CHAT, env=[{"name": "A", "value": "1"}])
    found = told(tmp_path, FLEET, "-f", file(tmp_path, given))
    assert changes(found) == []
    assert found["notes"] == [
        "a snapshot has images of containers and nothing else of pods, so whether those of ml/chat restart for anything else "
        "is not told; ask the live fleet"
    ]
    fresh = file(tmp_path, changed(deployment("more"), env=[{"name": "A", "value": "1"}]))
    assert told(tmp_path, FLEET, "-f", fresh)["notes"] == [], "nothing of it runs"
    found = told(tmp_path, FLEET, "-f", file(tmp_path, changed(CHAT, image="engine:2")))
    assert (changes(found), found["notes"]) == (["updated ml/chat east east", "updated ml/chat west west"], [])


def test_a_replica_that_moves_or_goes_is_not_told_to_restart_besides(tmp_path: Path) -> None:
    other = file(tmp_path, changed(deployment("chat", 2), image="engine:2"))
    found = told(tmp_path, FLEET, "-f", other, "--drain", "east")
    assert sorted(changes(found)) == ["moved ml/chat east west", "updated ml/chat west west"]
    larger = changed(deployment("chat", 2), image="engine:2")
    larger["spec"]["template"]["spec"]["engines"][0]["copies"] = 2
    found = told(tmp_path, FLEET, "-f", file(tmp_path, larger))
    assert {one["why"] for one in found["changes"]} == {
        "resized 1 -> 2 nodes; its pods restart: engine main has another image (engine:1 -> engine:2)"
    }


def test_serving_cache_and_phase_are_told_and_engines_that_come_are_not(tmp_path: Path) -> None:
    """What comes and goes is another's account."""
    split = deployment("chat", 2)
    inner = split["spec"]["template"]["spec"]
    inner["serving"] = {"mode": "PrefillDecode"}
    inner["modelCacheRef"] = {"name": "weights"}
    inner["engines"] = [
        inner["engines"][0] | {"phase": "Prefill"},
        inner["engines"][0] | {"name": "b", "phase": "Decode"},
    ]
    now, then = Scene(FLEET, TAKEN), Scene([split], TAKEN)
    (why, other) = Restarts.of(now, then).reasons.values()
    assert why == other
    assert why == (
        "its pods restart: serving mode Unified -> PrefillDecode; ModelCache none -> weights; engine main has another phase"
    )
    inner["engines"][0]["members"] = [inner["engines"][0]["members"][0] | {"role": "Leader"}]
    assert "image" not in next(iter(Restarts.of(now, then).reasons.values())), "no such member runs"


def test_a_member_without_a_pod_template_is_saved_read_and_compared(tmp_path: Path) -> None:
    """It is admitted and cannot be composed; a fleet that has one can be saved all the same."""
    empty = json.loads(json.dumps(CHAT))
    empty["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"] = {}
    assert changes(told(tmp_path, [*FLEET[:3], empty])) == ["placed ml/chat east", "placed ml/chat west"]
    now = Scene(FLEET, TAKEN)
    assert set(Restarts.of(now, Scene([empty])).reasons.values()) == {
        "its pods restart: engine main has another pod template"
    }
    stamped = Scene([empty, replica(empty, "east")])
    assert Restarts.of(stamped, stamped).reasons == {}
    assert Restarts.of(stamped, Scene([])).reasons == {}


def test_a_stored_selector_that_does_not_compile_holds_its_replicas(tmp_path: Path) -> None:
    broken = deployment("chat", 2, selector="device.driver")
    found = told(tmp_path, [*FLEET[:3], broken, *FLEET[4:]], "--drain", "east", code=2)
    assert changes(found) == []
    assert found["deployments"][0]["reason"] == "InvalidNodeSelector"


def test_edits_are_combined(tmp_path: Path) -> None:
    arguments = ["--drain", "east", "--pool", "west/default=3", "--scale", "ml/chat=3", "-f"]
    found = told(tmp_path, FLEET, *arguments, file(tmp_path, deployment("more")), code=2)
    assert sorted(changes(found)) == ["moved ml/chat east west", "placed ml/chat west"]
    assert [one["after"] for one in found["deployments"]] == [3, 0]


async def test_a_live_fleet_is_rehearsed_and_left_alone(tmp_path: Path) -> None:
    async with FakeApi() as api:
        for obj in FLEET:
            await api.put(obj)
        config = tmp_path / "kubeconfig"
        config.write_text(api.kubeconfig_text())
        before = json.dumps([*api.objects.values()])
        arguments = ["plan", "--lose", "east", "--kubeconfig", str(config)]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert json.dumps([*api.objects.values()]) == before
        assert {method for method, _ in api.requests} == {"GET"}
    assert result.exit_code == 0, result.output
    assert "moved" in result.stdout


async def test_a_snapshot_answers_as_the_fleet_that_it_was_taken_of_and_holds_no_secret(tmp_path: Path) -> None:
    secret = "hf_abcdefghijklmnop"
    chat = deployment("chat", 2)
    chat["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": secret}
    chat["metadata"]["managedFields"] = [{"manager": secret}]
    container = {"name": "engine", "image": "engine:1", "env": [{"name": "TOKEN", "value": secret}], "args": [secret]}
    chat["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"] = [container]
    cache = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": secret, "sizeGiB": 1}},
    }
    async with FakeApi() as api:
        for obj in [*FLEET[:3], chat, cache, replica(chat, "east"), replica(chat, "west")]:
            await api.put(obj)
        config = tmp_path / "kubeconfig"
        config.write_text(api.kubeconfig_text())
        to = str(tmp_path / "saved.json")
        run = CliRunner().invoke
        saved = await asyncio.to_thread(run, main, ["snapshot", to, "--kubeconfig", str(config)])
        assert saved.exit_code == 0, saved.output
        shown = await asyncio.to_thread(run, main, ["snapshot", "--kubeconfig", str(config)])
        dashed = await asyncio.to_thread(run, main, ["snapshot", "-", "--kubeconfig", str(config)])
        question = ["plan", "--drain", "east", "-o", "json"]
        live = await asyncio.to_thread(run, main, [*question, "--kubeconfig", str(config)])
    text = Path(to).read_text()
    assert secret not in text
    assert json.loads(shown.stdout)["items"] == json.loads(text)["items"]
    assert json.loads(dashed.stdout)["items"] == json.loads(text)["items"], "- is standard output, as everywhere"
    assert not Path("-").exists()
    offline = CliRunner().invoke(main, [*question, "--snapshot", to])
    one, other = json.loads(live.stdout), json.loads(offline.stdout)
    assert one.pop("asOf") >= json.loads(text)["takenAt"]
    other.pop("asOf")
    assert one == other


def test_an_applied_cluster_keeps_its_drain_and_takes_its_new_size(tmp_path: Path) -> None:
    drained = inference_cluster("west", taints=["modelplane.ai/drain:NoExecute"])
    fleet = [
        inference_class("h100"),
        inference_cluster("east", pools={"default": 1}),
        drained,
        CHAT,
        replica(CHAT, "east"),
    ]
    found = told(tmp_path, fleet, "-f", file(tmp_path, inference_cluster("west", pools={"default": 5})), code=2)
    assert changes(found) == [], "GitOps does not end a drain, and neither does its rehearsal"
    found = told(tmp_path, fleet, "-f", file(tmp_path, inference_cluster("east", pools={"default": 2})))
    assert changes(found) == ["placed ml/chat east"]


def model_cache(**labels: str) -> Object:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml"},
        "spec": {
            "source": "HuggingFace",
            "huggingFace": {"repo": "org/model", "sizeGiB": 10},
            **({"clusterSelector": {"matchLabels": labels}} if labels else {}),
        },
    }


def test_a_deployment_goes_where_its_cache_goes(tmp_path: Path) -> None:
    cached = deployment("cached", 1, cache="weights")
    stocked = inference_cluster("west", labels={"region": "eu"})
    stocked["spec"]["cluster"]["existing"]["cache"] = {"storageClassName": "shared"}
    fleet = [inference_class("h100"), inference_cluster("east"), cached]
    (fate,) = told(tmp_path, fleet, code=2)["deployments"]
    assert "new replicas wait for the ModelCache" in fate["message"]
    (fate,) = told(tmp_path, fleet, "-f", file(tmp_path, model_cache()), code=2)["deployments"]
    assert [one["code"] for one in fate["clusters"]] == ["NoCacheStorage"]
    cache = tmp_path / "cache.yaml"
    cache.write_text(yaml.safe_dump(model_cache(region="eu")))
    added = ["--add", file(tmp_path, stocked), "-f", str(cache)]
    assert changes(told(tmp_path, fleet, *added)) == ["placed ml/cached west"]


def test_replicas_of_a_deployment_that_is_gone_still_take_their_room(tmp_path: Path) -> None:
    fleet = [inference_cluster("east", pools={"default": 1}), replica(CHAT, "east"), deployment("other")]
    found = told(tmp_path, fleet, code=2)
    assert [one["deployment"] for one in found["deployments"]] == ["ml/other"]


def test_an_observed_pool_takes_its_new_size_and_devices_and_keeps_what_was_seen(tmp_path: Path) -> None:
    """Seen: one node with two devices free, two that are empty. The applied size is four: one more empty node."""
    large = deployment("large", 4, count=8)
    east = observed((2, 1), (8, 2))
    east["spec"]["nodePools"][0]["nodeCount"] = 3
    classes = inference_class("h100", device("gpu", count=8), device("nic") | {"claim": "Synthetic"})
    applied = _applied(east)
    applied["spec"] = {**east["spec"], "nodePools": [east["spec"]["nodePools"][0] | {"nodeCount": 4}]}
    found = told(tmp_path, [classes, east, large], "-f", file(tmp_path, applied), code=2)
    assert found["deployments"][0]["after"] == 3
    same = told(tmp_path, [classes, east, large], "-f", file(tmp_path, _applied(east)), code=2)
    assert same["deployments"][0]["after"] == 2, "an apply that changes nothing"


def test_a_deployment_that_grows_where_it_is_is_resized(tmp_path: Path) -> None:
    chat = deployment("chat", 1)
    grown = _applied(deployment("chat", 1))
    grown["spec"]["template"]["spec"]["engines"][0]["copies"] = 2
    fleet = [observed((6, 1)), chat, replica(chat, "east")]
    found = told(tmp_path, fleet, "-f", file(tmp_path, grown))
    assert (changes(found), found["deployments"][0]["after"]) == (["resized ml/chat east east"], 1)
    assert found["changes"][0]["why"] == "resized 1 -> 2 pods"


def test_what_is_overcommitted_already_does_not_fit(tmp_path: Path) -> None:
    full = [inference_cluster("east", pools={"default": 1}), CHAT, replica(CHAT, "east"), replica(CHAT, "east", 1)]
    assert told(tmp_path, full, code=2)["overcommitted"] == [
        "pool east/default has 1 node and its replicas need 2; add 1, or scale down"
    ]


def test_what_does_not_settle_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelplane.plan.whatif.ROUNDS", 1)
    found = told(tmp_path, FLEET, "--drain", "east")
    assert found["notes"] == ["replicas still move after 1 rounds; this is where they are then"]


def test_the_planners_names_are_loaded_when_they_are_used() -> None:
    import modelplane.plan

    assert {name: getattr(modelplane.plan, name).__name__ for name in modelplane.plan.__all__}
    with pytest.raises(AttributeError, match="has no attribute nonsense"):
        modelplane.plan.nonsense  # noqa: B018
