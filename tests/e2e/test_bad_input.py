"""What is wrong is named, with the field and what to do; everything else goes on."""

from __future__ import annotations

import base64
import json

import pytest
import yaml

from modelplane.api.meta import Condition, condition_of
from tests.e2e.conftest import EXAMPLE, Fleet

DEPLOYMENT = yaml.safe_load((EXAMPLE / "40-model-deployment.yaml").read_text())
CLUSTER = next(yaml.safe_load_all((EXAMPLE / "30-inference-clusters.yaml").read_text()))


def changed(obj: object, path: str, value: object) -> str:
    """The object as JSON with one field set; path segments are keys or indices."""
    copy = json.loads(json.dumps(obj))
    *parents, last = path.split(".")
    at = copy
    for part in parents:
        at = at[int(part)] if part.isdigit() else at[part]
    at[int(last) if last.isdigit() else last] = value
    return json.dumps(copy)


@pytest.mark.parametrize(
    ("obj", "path", "value", "names", "reason"),
    [
        (DEPLOYMENT, "spec.replcas", 2, ['unknown field "spec.replcas"'], "a misspelt field is not ignored"),
        (DEPLOYMENT, "spec.replicas", 1001, ["spec.replicas", "1000"], "a count names its bound"),
        (DEPLOYMENT, "spec.replicas", -1, ["spec.replicas", "0"], "a negative count names its bound"),
        (DEPLOYMENT, "spec.replicas", "two", ["spec.replicas", "integer"], "a type is named"),
        (
            CLUSTER,
            "spec.cluster.source",
            "GKEE",
            ["spec.cluster.source", '"Existing"', '"GKE"'],
            "an enum lists what it has",
        ),
        (CLUSTER, "spec.cluster.source", "GKE", ["spec.cluster", "gke"], "a rule names the block that is missing"),
        (
            DEPLOYMENT,
            "spec.template.spec.engines.0.members.0.nodeSelector.devices.0.selectors.0.cel",
            "device.capacity.memory >",
            ["selectors[0].cel"],
            "a selector that does not compile is refused with its place",
        ),
        (
            DEPLOYMENT,
            "spec.template.spec.engines.0.members.0.nodeSelector.devices.0.selectors.0.cel",
            "device.nmae == 'x'",
            ["selectors[0].cel", "nmae"],
            "a misspelt variable is refused at admission",
        ),
        (
            DEPLOYMENT,
            "spec.template.spec.engines.0.members.0.template.spec.containers.0.name",
            "main",
            ["engine"],
            "the container has to be called engine",
        ),
    ],
)
def test_a_manifest_that_is_wrong_is_refused(
    fleet: Fleet, obj: object, path: str, value: object, names: list[str], reason: str
) -> None:
    refused = fleet.kubectl("apply", "-f", "-", stdin=changed(obj, path, value), check=False)
    for name in names:
        assert name in refused, f"{reason}: {refused}"
    assert "created" not in refused


def kubeconfig(server: str, **user: object) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@pytest.mark.parametrize(
    ("name", "content", "reason_code", "names", "reason"),
    [
        ("missing", None, "CredentialMissing", ["missing-kubeconfig", "modelplane-system"], "the Secret is not there"),
        ("no-key", {"config": "x"}, "CredentialMissing", ["no-key-kubeconfig", "kubeconfig"], "its key is not there"),
        ("unreadable", {"kubeconfig": ":::"}, None, ["unreadable-kubeconfig"], "its content is no kubeconfig"),
        (
            "exec",
            {"kubeconfig": kubeconfig("https://127.0.0.1:1", exec={"command": "aws", "apiVersion": "v1"})},
            None,
            ["exec"],
            "a plugin would run on the control plane",
        ),
        (
            "nowhere",
            {"kubeconfig": kubeconfig("https://127.0.0.1:1", token="t0psecret")},
            "Unreachable",
            ["127.0.0.1:1"],
            "nothing answers there",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_becomes_a_condition(
    fleet: Fleet, name: str, content: dict[str, str] | None, reason_code: str | None, names: list[str], reason: str
) -> None:
    fleet.kubectl("apply", "-f", str(EXAMPLE / "20-inference-class.yaml"))
    if content is not None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-kubeconfig", "namespace": "modelplane-system"},
            "data": data,
        }
        fleet.kubectl("apply", "-f", "-", stdin=json.dumps(secret))
    cluster = json.loads(changed(CLUSTER, "metadata.name", f"bad-{name}"))
    cluster["spec"]["cluster"]["existing"]["secretRef"] = {"name": f"{name}-kubeconfig", "key": "kubeconfig"}
    fleet.kubectl("apply", "-f", "-", stdin=json.dumps(cluster))

    def told() -> Condition | None:
        found = condition_of(fleet.get("inferencecluster", f"bad-{name}"), "Reachable")
        return found if found is not None and found.status == "False" else None

    condition = fleet.until("Reachable False", told, within=20)
    assert reason_code in (None, condition.reason), f"{reason}: {condition}"
    for text in names:
        assert text in condition.message, f"{reason}: {condition}"
    assert "t0psecret" not in fleet.kubectl("get", "inferencecluster", f"bad-{name}", "-o", "yaml")
    fleet.kubectl("delete", "inferencecluster", f"bad-{name}", "--timeout=30s")


def test_one_bad_cluster_stops_nothing_else(fleet: Fleet) -> None:
    """Beside a cluster that points at nothing, the example is served as ever."""
    cluster = json.loads(changed(CLUSTER, "metadata.name", "a-bad-one"))
    cluster["spec"]["cluster"]["existing"]["secretRef"] = {"name": "not-there", "key": "kubeconfig"}
    fleet.kubectl("apply", "-f", "-", stdin=json.dumps(cluster))
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    fleet.kubectl("wait", "--for=condition=Ready", "modelservice/mock", "-n", "ml-team", "--timeout=60s")
    fleet.kubectl("wait", "--for=condition=Ready", "modeldeployment/mock-demo", "-n", "ml-team", "--timeout=60s")
    fleet.kubectl("delete", "inferencecluster", "a-bad-one", "--timeout=30s")
