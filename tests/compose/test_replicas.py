"""ModelReplica: what one replica becomes on its cluster."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from modelplane.api.engines import ServingMode
from modelplane.api.meta import GVK, Object
from modelplane.compose.contract import After, Child, Unavailable
from modelplane.compose.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_CLUSTER,
    INFERENCE_POOL,
    LEADER_WORKER_SET,
    MODEL_REPLICA,
    NAMESPACE,
    RESOURCE_CLAIM_TEMPLATE,
    SECRET,
    SERVICE,
)
from modelplane.compose.registry import COMPOSERS
from modelplane.compose.workloads.picker import block_size, picker_config
from tests.compose.fleet import Fleet, identity
from tests.compose.objects import NAMESPACE as TEAM
from tests.compose.objects import (
    container,
    engine,
    inference_class,
    inference_cluster,
    kubeconfig,
    member,
    model_replica,
)

NAME = "mock-demo-be445"
REMOTE = "mp-ml-team-51733"
WORKLOAD = "mock-demo-be445-main-"


def placed(*objects: Object, replica: Object | None = None, healthy: bool = True) -> Fleet:
    fleet = Fleet("eu")
    for obj in (inference_class(), inference_cluster(), kubeconfig(), *objects, replica or model_replica()):
        fleet.apply(obj)
    fleet.settle(healthy=healthy)
    return fleet


def replica_of(fleet: Fleet) -> Object:
    return fleet.get(MODEL_REPLICA, NAME, TEAM)


def engines_of(fleet: Fleet) -> list[Object]:
    return [obj for obj in fleet.all(DEPLOYMENT, "eu") if not obj["metadata"]["name"].endswith("-epp")]


def children_of(fleet: Fleet) -> dict[str, Child]:
    return {c.key: c for c in fleet.last[identity(replica_of(fleet))].children if isinstance(c, Child)}


def test_a_replica_serves_once_its_workload_is_available() -> None:
    fleet = placed()
    replica = replica_of(fleet)
    assert fleet.condition(replica, "ModelAccepted")[:2] == ("True", "Accepted")
    assert fleet.condition(replica, "ModelReady")[:2] == ("True", "Serving")
    assert fleet.condition(replica, "Ready")[0] == "True"


def test_a_replica_that_starts_says_where_to_look() -> None:
    fleet = placed(healthy=False)
    replica = replica_of(fleet)
    assert fleet.condition(replica, "ModelAccepted")[0] == "True"
    status, reason, message = fleet.condition(replica, "ModelReady")
    assert (status, reason) == ("False", "ModelStarting")
    assert REMOTE in message
    assert fleet.condition(replica, "Ready")[0] == "False"


def test_everything_lives_in_the_namespace_that_mirrors_the_teams() -> None:
    fleet = placed()
    assert fleet.get(NAMESPACE, REMOTE, cluster="eu")["metadata"]["labels"] == {"modelplane.ai/namespace": TEAM}
    namespaces = {key[1] for key in fleet.stores["eu"] if key[1]}
    assert namespaces == {REMOTE, "modelplane-system", "dra-driver-nvidia-gpu"}


def test_the_namespace_outlives_a_replica_since_others_stand_in_it() -> None:
    namespace = children_of(placed())["namespace"]
    assert namespace.retain
    assert namespace.shared


def test_an_engine_pod_knows_its_replica_its_pool_and_its_served_name() -> None:
    user = container(
        env=[{"name": "MODELPLANE_SERVED_MODEL_NAME", "value": "mine"}, {"name": "HF_HOME", "value": "/tmp"}]
    )
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    (workload,) = engines_of(
        placed(replica=model_replica(NAME, engine("main", member(container=user, metadata=metadata))))
    )
    name = workload["metadata"]["name"]
    assert name.startswith(WORKLOAD)
    template = workload["spec"]["template"]
    assert template["metadata"]["labels"] == {
        "team": "a",
        "modelplane.ai/replica": NAME,
        "modelplane.ai/serving": NAME,
        "modelplane.ai/workload": name,
    }
    assert template["metadata"]["annotations"] == {"note": "b"}
    assert template["spec"]["nodeSelector"] == {"modelplane.ai/pool": "pool"}
    assert template["spec"]["containers"][0]["env"] == [
        {"name": "MODELPLANE_SERVED_MODEL_NAME", "value": "ml-team/mock-demo"},
        {"name": "HF_HOME", "value": "/tmp"},
    ]
    assert workload["spec"]["selector"] == {"matchLabels": {"modelplane.ai/workload": name}}


def test_a_long_load_is_neither_an_unready_delay_nor_a_failed_rollout() -> None:
    (workload,) = engines_of(placed())
    probes = workload["spec"]["template"]["spec"]["containers"][0]
    assert probes["startupProbe"]["periodSeconds"] == 1
    assert probes["startupProbe"]["failureThreshold"] == 7200
    assert "initialDelaySeconds" not in probes["readinessProbe"]
    assert workload["spec"]["progressDeadlineSeconds"] > 7200


def test_a_full_pool_never_blocks_a_rollout() -> None:
    (workload,) = engines_of(placed())
    assert workload["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_devices_are_claimed_through_one_template_per_member() -> None:
    requests = [
        {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 2, "selectors": [{"cel": "true"}]},
        {"name": "nic", "deviceClassName": "nic.example.com"},
    ]
    fleet = placed(replica=model_replica(NAME, engine("main", member(deviceRequests=requests))))
    (template,) = fleet.all(RESOURCE_CLAIM_TEMPLATE, "eu")
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.example.com",
                "count": 2,
                "selectors": [{"cel": {"expression": "true"}}],
            },
        },
        {"name": "nic", "exactly": {"deviceClassName": "nic.example.com", "count": 1}},
    ]
    pod = engines_of(fleet)[0]["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [
        {"name": "devices", "resourceClaimTemplateName": template["metadata"]["name"]},
    ]
    assert pod["containers"][0]["resources"] == {"claims": [{"name": "devices"}]}


def test_a_claim_template_is_replaced_rather_than_patched() -> None:
    assert children_of(placed())["resource-claim-main-standalone"].immutable == ("spec",)


def test_the_pool_takes_only_pods_that_serve_and_the_route_strips_the_replicas_path() -> None:
    fleet = placed()
    pool = fleet.get(INFERENCE_POOL, f"{NAME}-pool", REMOTE, "eu")
    assert pool["spec"]["selector"] == {"matchLabels": {"modelplane.ai/serving": NAME}}
    assert pool["spec"]["endpointPickerRef"]["name"] == f"{NAME}-epp"
    (rule,) = fleet.get(HTTP_ROUTE, NAME, REMOTE, "eu")["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == f"/{TEAM}/{NAME}/"
    assert rule["timeouts"] == {"request": "0s"}


# --- the picker -------------------------------------------------------------------------------------------------

BLOCKS = [
    ("nothing is said", [], 16),
    ("other arguments say nothing", ["--model=/m"], 16),
    ("two arguments", ["--block-size", "32"], 32),
    ("one argument", ["--model=/m", "--block-size=8"], 8),
    ("the other engine's word", ["--page-size=64"], 64),
    ("not a number", ["--block-size", "auto"], 16),
    ("nothing follows", ["--block-size"], 16),
    ("the first one counts", ["--page-size=8", "--block-size=32"], 8),
]


@pytest.mark.parametrize(("reason", "args", "want"), BLOCKS, ids=[case[0] for case in BLOCKS])
def test_the_picker_hashes_in_the_engines_own_blocks(reason: str, args: list[str], want: int) -> None:
    assert block_size(args) == want, reason


CHECKSUMS = [
    (ServingMode.UNIFIED, "20c1dfea3fc4ad41e335cc74edbeb1e8689a607bc4bf7395849ffd2cf0bb2ae1"),
    (ServingMode.PREFILL_DECODE, "f715f3024f37e7042d42628f10cbb04c7da78b96dc65953dac0f289ef2c7ef98"),
]


@pytest.mark.parametrize(("mode", "want"), CHECKSUMS)
def test_the_pickers_text_has_the_published_checksum(mode: ServingMode, want: str) -> None:
    assert hashlib.sha256(picker_config(16, mode).encode()).hexdigest() == want


def test_a_picker_of_a_name_that_starts_with_a_digit_has_a_valid_service() -> None:
    replica = model_replica("7b-chat-be445")
    fleet = placed(replica=replica)
    (service,) = fleet.all(SERVICE, "eu")
    name = service["metadata"]["name"]
    assert name[0].isalpha()
    pool = fleet.get(INFERENCE_POOL, "7b-chat-be445-pool", REMOTE, "eu")
    assert pool["spec"]["endpointPickerRef"]["name"] == name


# --- what pods read ---------------------------------------------------------------------------------------------


def from_secret(name: str, key: str, **extra: bool) -> Object:
    return {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **extra}}}


def from_config(name: str, key: str) -> Object:
    return {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}


def stored(kind: GVK, name: str, data: dict[str, str]) -> Object:
    body = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "namespace": TEAM}, "data": data}
    return body | ({"type": "Opaque"} if kind == SECRET else {})


def reader(*env: Object, pull: tuple[str, ...] = ()) -> Object:
    return model_replica(NAME, engine("main", member(container=container(env=list(env)), pull=pull)))


def test_secrets_and_config_maps_of_a_template_are_copied_beside_the_pods() -> None:
    fleet = placed(
        stored(SECRET, "token", {"hf": "eA=="}),
        stored(SECRET, "registry", {"x": "eQ=="}),
        stored(CONFIG_MAP, "settings", {"mode": "fast"}),
        replica=reader(from_secret("token", "hf"), from_config("settings", "mode"), pull=("registry",)),
    )
    assert fleet.get(SECRET, "token", REMOTE, "eu")["data"] == {"hf": "eA=="}
    assert fleet.get(SECRET, "registry", REMOTE, "eu")["type"] == "Opaque"
    assert fleet.get(CONFIG_MAP, "settings", REMOTE, "eu")["data"] == {"mode": "fast"}
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "True"
    assert children_of(fleet)["secret-token"].shared


LACKING = [
    ("the Secret does not exist", (), "Secret token key hf"),
    ("the Secret lacks the key", (stored(SECRET, "token", {"other": "eA=="}),), "Secret token key hf"),
]


@pytest.mark.parametrize(("reason", "objects", "words"), LACKING, ids=[case[0] for case in LACKING])
def test_what_is_missing_for_pods_is_named(reason: str, objects: tuple[Object, ...], words: str) -> None:
    fleet = placed(*objects, replica=reader(from_secret("token", "hf")), healthy=False)
    status, code, message = fleet.condition(replica_of(fleet), "ModelAccepted")
    assert (status, code) == ("False", "SecretMissing")
    assert words in message
    assert TEAM in message
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "False"


def test_what_is_optional_may_be_missing() -> None:
    fleet = placed(replica=reader(from_secret("token", "hf", optional=True)))
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "True"


def test_a_copy_stays_while_its_original_is_missing() -> None:
    original = stored(SECRET, "token", {"hf": "eA=="})
    fleet = placed(original, replica=reader(from_secret("token", "hf")))
    fleet.stores[None].pop(identity(original))
    fleet.settle()
    assert fleet.get(SECRET, "token", REMOTE, "eu")["data"] == {"hf": "eA=="}
    assert fleet.condition(replica_of(fleet), "ModelAccepted")[:2] == ("False", "SecretMissing")
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "True", "running pods go on serving"


def test_a_template_that_names_nothing_any_more_drops_the_copy() -> None:
    fleet = placed(stored(SECRET, "token", {"hf": "eA=="}), replica=reader(from_secret("token", "hf")))
    fleet.apply(model_replica())
    fleet.settle()
    assert (SECRET, REMOTE, "token") not in fleet.stores["eu"]


# --- a cache ----------------------------------------------------------------------------------------------------

CACHED = [
    ("an engine with its image's entry point is told", container(), ["--model=/mnt/models"]),
    ("a command of one's own is left alone", container(command=["vllm"]), []),
    ("a model of one's own is left alone", container(args=["--model", "x"]), ["--model", "x"]),
    ("also in one word", container(args=["--model=x"]), ["--model=x"]),
]


@pytest.mark.parametrize(("reason", "user", "args"), CACHED, ids=[case[0] for case in CACHED])
def test_a_cache_is_mounted_and_the_engine_is_told_where(reason: str, user: Object, args: list[str]) -> None:
    replica = model_replica(NAME, engine("main", member(container=user)), modelCacheRef={"name": "qwen"})
    pod = engines_of(placed(replica=replica))[0]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == args, reason
    assert {"name": "model-cache", "mountPath": "/mnt/models"} in pod["containers"][0]["volumeMounts"]
    claim = {"name": "model-cache", "persistentVolumeClaim": {"claimName": "modelcache-ml-team-qwen-17db2"}}
    assert claim in pod["volumes"]


# --- gangs ------------------------------------------------------------------------------------------------------


def gang() -> Object:
    return engine("main", member("Leader"), member("Worker", worker={"nodes": 3}), copies=2)


def test_a_gang_is_named_as_the_service_of_its_pods_may_be() -> None:
    fleet = placed(replica=model_replica("7b.chat-be445", gang()), healthy=False)
    (workload,) = fleet.all(LEADER_WORKER_SET, "eu")
    assert re.fullmatch("s-7b-chat-be445-[a-z]+-[0-9a-f]{5}-[0-9a-f]{5}", workload["metadata"]["name"])


def test_a_leader_and_workers_become_a_leader_worker_set() -> None:
    fleet = placed(replica=model_replica(NAME, gang()), healthy=False)
    (workload,) = fleet.all(LEADER_WORKER_SET, "eu")
    spec = workload["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 4)
    leader = spec["leaderWorkerTemplate"]["leaderTemplate"]
    worker = spec["leaderWorkerTemplate"]["workerTemplate"]
    assert leader["metadata"]["labels"] == {
        "modelplane.ai/replica": NAME,
        "modelplane.ai/serving": NAME,
        "modelplane.ai/lws-role": "leader",
    }
    assert worker["metadata"]["labels"] == {"modelplane.ai/replica": NAME}
    assert [entry["name"] for entry in leader["spec"]["containers"][0]["env"]] == [
        "MODELPLANE_LEADER_ADDRESS",
        "MODELPLANE_RANK",
        "MODELPLANE_SERVED_MODEL_NAME",
    ]
    assert "readinessProbe" not in worker["spec"]["containers"][0]
    assert len(fleet.all(RESOURCE_CLAIM_TEMPLATE, "eu")) == 2


def test_an_engine_that_becomes_a_gang_frees_its_devices_first() -> None:
    fleet = placed()
    fleet.apply(model_replica(NAME, gang()))
    fleet.reconcile(replica_of(fleet))
    assert not engines_of(fleet)
    assert not fleet.all(LEADER_WORKER_SET, "eu")
    fleet.settle(healthy=False)
    assert fleet.all(LEADER_WORKER_SET, "eu")


# --- prefill and decode -----------------------------------------------------------------------------------------


def split(**decode: Any) -> Object:
    """Two engines, the decode one first, so that nothing can depend on their order."""
    engines = (
        engine("d", member(container=container(**decode)), phase="Decode"),
        engine("p", member(container=container()), phase="Prefill"),
    )
    return model_replica(NAME, *engines, serving={"mode": "PrefillDecode"})


def pods_of(fleet: Fleet) -> dict[str, Object]:
    """Pod templates by phase."""
    templates = [workload["spec"]["template"] for workload in engines_of(fleet)]
    return {template["metadata"]["labels"]["llm-d.ai/role"]: template for template in templates}


def test_decode_serves_through_a_sidecar_and_prefill_by_itself() -> None:
    fleet = placed(replica=split(args=["--block-size=32"]))
    pods = pods_of(fleet)
    for pod in pods.values():
        assert pod["metadata"]["labels"]["llm-d.ai/inference-serving"] == "true"
        assert pod["metadata"]["labels"]["app"] == NAME
        assert pod["metadata"]["labels"]["modelplane.ai/serving"] == NAME
        assert [entry["name"] for entry in pod["spec"]["containers"][0]["env"]][-2:] == [
            "VLLM_NIXL_SIDE_CHANNEL_HOST",
            "VLLM_NIXL_SIDE_CHANNEL_PORT",
        ]
    (prefill,) = pods["prefill"]["spec"]["containers"]
    decode, sidecar = pods["decode"]["spec"]["containers"]
    assert prefill["ports"] == sidecar["ports"] == [{"containerPort": 8000}]
    assert decode["ports"] == [{"containerPort": 8001}]
    assert decode["readinessProbe"]["httpGet"]["port"] == decode["startupProbe"]["httpGet"]["port"] == 8001
    assert sidecar["readinessProbe"]["httpGet"]["port"] == prefill["readinessProbe"]["httpGet"]["port"] == 8000
    assert "--vllm-port=8001" in sidecar["args"]
    (config,) = fleet.all(CONFIG_MAP, "eu")
    assert "blockSizeTokens: 32" in config["data"]["epp-config.yaml"], "the decode engine's blocks"
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "True"


@pytest.mark.parametrize("args", [["--port", "9000"], ["--port=9000"]])
def test_the_decode_engines_own_port_is_followed(args: list[str]) -> None:
    decode, sidecar = pods_of(placed(replica=split(args=args)))["decode"]["spec"]["containers"]
    assert decode["ports"] == [{"containerPort": 9000}]
    assert "--vllm-port=9000" in sidecar["args"]


@pytest.mark.parametrize("args", [["--port", "auto"], ["--port"], ["--port=8000"], ["--port=70000"]])
def test_a_decode_port_that_cannot_be_is_named(args: list[str]) -> None:
    fleet = placed(replica=split(args=args))
    status, reason, message = fleet.condition(replica_of(fleet), "Ready")
    assert (status, reason) == ("False", "InvalidTemplate")
    assert "--port" in message
    assert not engines_of(fleet)


def test_a_side_channel_of_ones_own_is_left_alone() -> None:
    mine = {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "1"}
    decode = pods_of(placed(replica=split(env=[mine])))["decode"]["spec"]["containers"][0]
    assert [entry for entry in decode["env"] if entry["name"] == mine["name"]] == [mine]


def test_a_gang_that_prefills_decorates_its_leader_alone() -> None:
    engines = (
        engine("d", phase="Decode"),
        engine("p", member("Leader"), member("Worker", worker={"nodes": 1}), phase="Prefill"),
    )
    fleet = placed(replica=model_replica(NAME, *engines, serving={"mode": "PrefillDecode"}), healthy=False)
    (workload,) = fleet.all(LEADER_WORKER_SET, "eu")
    templates = workload["spec"]["leaderWorkerTemplate"]
    assert templates["leaderTemplate"]["metadata"]["labels"]["llm-d.ai/role"] == "prefill"
    assert "llm-d.ai/role" not in templates["workerTemplate"]["metadata"]["labels"]


# --- what holds -------------------------------------------------------------------------------------------------


def test_losing_the_cluster_makes_ready_unknown_and_keeps_every_object() -> None:
    fleet = placed()
    remote = dict(fleet.stores["eu"])
    fleet.unavailable["eu"] = Unavailable("Unreachable", "2026-01-01T00:00:00Z", "check the network")
    fleet.settle()
    for type_ in ("Ready", "ModelReady", "ModelAccepted"):
        status, reason, message = fleet.condition(replica_of(fleet), type_)
        assert (status, reason) == ("Unknown", "Unreachable")
        assert "check the network" in message
    assert set(children_of(fleet)) >= {"model-serving-main", "inference-pool", "model-route", "epp"}
    assert fleet.stores["eu"] == remote


def test_a_cluster_that_is_gone_for_a_moment_takes_nothing_along() -> None:
    fleet = placed()
    fleet.stores[None].pop((INFERENCE_CLUSTER, "", "eu"))
    remote = dict(fleet.stores["eu"])
    fleet.settle()
    assert fleet.stores["eu"] == remote
    status, reason, message = fleet.condition(replica_of(fleet), "Ready")
    assert (status, reason) == ("False", "WaitingForCluster")
    assert "eu" in message


def test_an_edit_is_not_ready_before_the_cluster_has_rolled_it_out() -> None:
    fleet = placed()
    fleet.apply(model_replica(NAME, engine("main", member(container=container(image="new")))))
    fleet.reconcile(replica_of(fleet))
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "False"
    fleet.reconcile(replica_of(fleet))
    assert fleet.condition(replica_of(fleet), "ModelReady")[:2] == ("False", "ModelStarting")
    fleet.settle()
    assert fleet.condition(replica_of(fleet), "Ready")[0] == "True"


def test_a_member_without_a_pod_template_is_named() -> None:
    bare = {"role": "Standalone", "nodePoolName": "pool", "template": {}}
    fleet = placed(replica=model_replica(NAME, engine("main", bare)))
    status, reason, message = fleet.condition(replica_of(fleet), "Ready")
    assert (status, reason) == ("False", "InvalidTemplate")
    assert "main" in message


def test_traffic_stops_before_workloads_go() -> None:
    edges = COMPOSERS[MODEL_REPLICA].deletion_order({})
    assert After("model-route", "model-serving-*") in edges
    assert After("model-serving-*", "resource-claim-*") in edges
