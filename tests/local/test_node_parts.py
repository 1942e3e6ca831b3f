"""Parts of the node runtime that decide without doing: environment, classification, probes, logs, inventory, addresses."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.local import fleet_spec
from modelplane.local.nodes import inventory
from modelplane.local.nodes.addresses import RANGE, OwnAddresses
from modelplane.local.nodes.classify import Served, completes, served
from modelplane.local.nodes.environment import ConfigError, command, expand, resolve
from modelplane.local.nodes.logs import LogQuery, select
from modelplane.local.nodes.podstatus import ContainerState, Stage, compose
from modelplane.local.nodes.probes import Kind, Probe, Verdict

from .objects import pod

DATA = {("Secret", "s"): {"k": "secret"}, ("ConfigMap", "c"): {"A": "1", "B": "2"}}


def container(*env: Object, **more: Any) -> Object:
    return {"name": "engine", "env": list(env), **more}


def field(path: str) -> Object:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def reference(kind: str, name: str, key: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}


def environment(of: Object) -> dict[str, str]:
    asked = pod("p", nodeName="n1", status={"podIP": "127.64.0.7"})
    asked["metadata"]["labels"] = {"app": "a"}
    return resolve(of, asked, lambda kind, name: DATA.get((kind, name)))


RESOLVED = [
    ("a plain value", container({"name": "X", "value": "v"}), "v"),
    ("an earlier variable is filled in", container({"name": "Y", "value": "y"}, {"name": "X", "value": "$(Y)-$(Z)"}), "y-$(Z)"),
    ("the pod's name", container(field("metadata.name")), "p"),
    ("a label", container(field("metadata.labels['app']")), "a"),
    ("the pod's address", container(field("status.podIP")), "127.64.0.7"),
    ("the node", container(field("spec.nodeName")), "n1"),
    ("a key of a Secret", container(reference("secretKeyRef", "s", "k")), "secret"),
    ("a key of a ConfigMap", container(reference("configMapKeyRef", "c", "B")), "2"),
    ("everything of a ConfigMap, under a prefix", container(envFrom=[{"prefix": "X", "configMapRef": {"name": "c"}}]), None),
    ("an optional key that is missing sets nothing", container(reference("secretKeyRef", "s", "no", optional=True)), None),
    ("a limit in whole cores", container(
        {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, resources={"limits": {"cpu": "1500m"}}), "2"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "of", "want"), RESOLVED, ids=[r[0] for r in RESOLVED])
def test_a_variable_is_resolved(reason: str, of: Object, want: str | None) -> None:
    assert environment(of).get("X") == want, reason


def test_a_prefix_is_put_before_every_key() -> None:
    assert environment(container(envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}])) == {"P_A": "1", "P_B": "2"}


MISSING = [
    ("no such Secret", container(reference("secretKeyRef", "no", "k")), 'secret "no" not found'),
    ("no such key", container(reference("secretKeyRef", "s", "no")), "couldn't find key no in Secret default/s"),
    (
        "no such ConfigMap to take whole",
        container(envFrom=[{"configMapRef": {"name": "no"}}]),
        'configmap "no" not found',
    ),
]


@pytest.mark.parametrize(("reason", "of", "want"), MISSING, ids=[m[0] for m in MISSING])
def test_what_is_missing_is_named_in_the_kubelets_words(reason: str, of: Object, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        environment(of)
    assert str(caught.value) == want, reason


def test_arguments_are_expanded_and_a_doubled_dollar_is_literal() -> None:
    of = container(command=["serve"], args=["--name=$(N)", "$$(N)", "$(UNKNOWN)"])
    assert command(of, {"N": "x"}) == ["serve", "--name=x", "$(N)", "$(UNKNOWN)"]
    assert expand("a$b", {}) == "a$b"


def probe(port: Any) -> Object:
    return {"httpGet": {"path": "/health", "port": port}}


SERVED = [
    ("the container named engine", [{"name": "engine", "image": "x"}], Served("engine", 8000)),
    ("its probed port",
     [{"name": "engine", "ports": [{"containerPort": 9}], "readinessProbe": probe(7000)}], Served("engine", 7000)),
    ("its first port", [{"name": "side"}, {"name": "engine", "ports": [{"containerPort": 9000}]}], Served("engine", 9000)),
    ("any container with an HTTP probe on a named port of its own",
     [{"name": "web", "ports": [{"name": "http", "containerPort": 80}], "livenessProbe": probe("http")}], Served("web", 80)),
    ("a picker has ports but no HTTP probe", [{"name": "epp", "ports": [{"containerPort": 9002}]}], None),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "containers", "want"), SERVED, ids=[s[0] for s in SERVED])
def test_which_container_a_mock_engine_stands_for(reason: str, containers: list[Object], want: Served | None) -> None:
    assert served(pod("p", containers=containers) | {"spec": {"containers": containers}}) == want, reason


def test_only_pods_without_an_engine_that_are_not_restarted_for_ever_complete() -> None:
    assert completes(pod("p", containers=[{"name": "work"}], restartPolicy="Never") | {})
    assert not completes(pod("p", containers=[{"name": "work"}]))
    assert not completes(pod("p", containers=[{"name": "engine"}], restartPolicy="Never"))


THRESHOLDS = [
    ("one success is enough by default", {}, "S", True),
    ("two failures are not enough by default", {}, "SFF", True),
    ("three failures are", {}, "SFFF", False),
    ("a success in between starts the count anew", {}, "SFFSFF", True),
    ("a success threshold", {"successThreshold": 2}, "FFFS", False),
    ("reached", {"successThreshold": 2}, "FFFSS", True),
    ("one failure where the threshold is one", {"failureThreshold": 1}, "SF", False),
]


@pytest.mark.parametrize(("reason", "spec", "results", "want"), THRESHOLDS, ids=[t[0] for t in THRESHOLDS])
def test_probe_thresholds(reason: str, spec: Object, results: str, want: bool) -> None:
    asked = Probe.of(Kind.READINESS, {"readinessProbe": {**probe(80), **spec}})
    assert asked is not None
    verdict = Verdict(asked)
    for result in results:
        verdict.take(result == "S")
    assert verdict.passing is want, reason


LOG = b"2026-01-01T00:00:01.000000001Z one\n2026-01-01T00:00:02.000000001Z two\nno time\n2026-01-01T00:00:03.000000001Z three\n"

QUERIES = [
    ("everything, without times", "", b"one\ntwo\nno time\nthree\n"),
    ("the last line", "tailLines=1", b"three\n"),
    ("no line", "tailLines=0", b""),
    ("more lines than there are", "tailLines=9", b"one\ntwo\nno time\nthree\n"),
    ("with times", "tailLines=1&timestamps=true", b"2026-01-01T00:00:03.000000001Z three\n"),
    ("since a time", "sinceTime=2026-01-01T00:00:02Z", b"two\nno time\nthree\n"),
    ("no more than so many bytes", "limitBytes=5", b"one\nt"),
]


@pytest.mark.parametrize(("reason", "query", "want"), QUERIES, ids=[q[0] for q in QUERIES])
def test_logs_are_selected(reason: str, query: str, want: bytes) -> None:
    assert select(LOG, LogQuery.parse(query)) == want, reason


def test_a_bad_log_parameter_is_named() -> None:
    with pytest.raises(ValueError, match="tailLines"):
        LogQuery.parse("tailLines=-1")


def test_the_inventory_is_the_fleet_files() -> None:
    fleet = fleet_spec.parse(
        """
clusters:
- name: c
  secret: {name: c-kubeconfig}
  pools:
  - name: big
    nodes: 2
    cpu: "64"
    taints: [{key: gpu, value: "yes"}]
    devices:
    - {driver: gpu.nvidia.com, deviceClassName: big-gpu, count: 2, attributes: {mig: {bool: false}}, capacity: {memory: 141Gi}}
    - {driver: nic.example.com}
"""
    )
    plans = inventory.plan(fleet.cluster("c"), log_port=10250)
    assert [p.name for p in plans] == ["big-0", "big-1"]
    node = plans[0].node
    assert node["metadata"]["labels"]["modelplane.ai/pool"] == "big"
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["cpu"] == "64"
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    gpus, nics = plans[1].slices
    assert gpus["spec"]["pool"] == {"name": "big-1", "generation": 1, "resourceSliceCount": 1}
    assert gpus["spec"]["devices"] == [
        {"name": f"gpu-{n}", "attributes": {"mig": {"bool": False}}, "capacity": {"memory": {"value": "141Gi"}}}
        for n in range(2)
    ]
    assert nics["spec"]["devices"] == [{"name": "nic-0"}]
    expressions = {
        c["metadata"]["name"]: c["spec"]["selectors"][0]["cel"]["expression"]
        for c in inventory.classes(fleet.cluster("c"))
    }
    assert expressions == {
        "big-gpu": 'device.driver == "gpu.nvidia.com"',
        "nic.example.com": 'device.driver == "nic.example.com"',
    }


def test_addresses_are_of_the_documented_range_and_never_given_twice() -> None:
    addresses = OwnAddresses.of_cluster("somewhere#gpu-eu-west")
    used: set[str] = set()
    for _ in range(50):
        used.add(addresses.take(used))
    assert len(used) == 50
    assert all(ipaddress.ip_address(a) in RANGE for a in used)
    small = OwnAddresses(ipaddress.IPv4Network("10.1.2.0/30"))
    assert [small.take(set()), small.take(set()), small.take(set())] == ["10.1.2.1", "10.1.2.2", "10.1.2.1"]
    with pytest.raises(OSError, match="all 2 pod addresses"):
        small.take({"10.1.2.1", "10.1.2.2"})


def running(**more: Any) -> ContainerState:
    return ContainerState(Stage.RUNNING, since="2026-01-01T00:00:00Z", started=True, **more)


PHASES = [
    (
        "a container that is being made",
        ContainerState(Stage.WAITING, "ContainerCreating"),
        "Always",
        "Pending",
        "False",
    ),
    ("running and ready", running(ready=True), "Always", "Running", "True"),
    ("running and not ready", running(), "Always", "Running", "False"),
    (
        "waiting for its next start",
        ContainerState(Stage.WAITING, "CrashLoopBackOff", restarts=2),
        "Always",
        "Running",
        "False",
    ),
    ("done for good", ContainerState(Stage.TERMINATED, "Completed"), "Never", "Succeeded", "False"),
    ("failed for good", ContainerState(Stage.TERMINATED, "Error", exit_code=1), "Never", "Failed", "False"),
    ("failed and tried again", ContainerState(Stage.TERMINATED, "Error", exit_code=1), "OnFailure", "Running", "False"),
]


@pytest.mark.parametrize(("reason", "state", "policy", "phase", "is_ready"), PHASES, ids=[p[0] for p in PHASES])
def test_phase_and_readiness(reason: str, state: ContainerState, policy: str, phase: str, is_ready: str) -> None:
    asked = pod("p", restartPolicy=policy)
    status = compose(asked, {"engine": state}, ip="127.64.0.1", host_ip="127.0.0.1", started="2026-01-01T00:00:00Z")
    found = {c["type"]: c["status"] for c in status["conditions"]}
    assert (status["phase"], found["Ready"]) == (phase, is_ready), reason
