"""Every kubectl verb that the API server promises, by the real kubectl."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.server.api import Api
from tests.server.kubectl import KUBECTL, Kubectl

EXAMPLES = Path(__file__).parents[2] / "examples" / "two-regions"

pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason="needs the kubectl of the `local` extra")


@pytest.fixture
def team(kubectl: Kubectl, namespace: str) -> str:
    """A namespace with the model deployment of the example in it."""
    manifest = (EXAMPLES / "40-model-deployment.yaml").read_text().replace("ml-team", namespace)
    kubectl("apply", "-f", "-", stdin=manifest)
    return namespace


def test_the_example_is_applied_by_the_client_and_again_without_trouble(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "ml-team")
    created = kubectl("apply", "-f", str(EXAMPLES)).splitlines()
    assert len(created) == 6
    assert all(line.endswith(" created") for line in created)
    again = kubectl("apply", "-f", str(EXAMPLES)).splitlines()
    assert len(again) == 6
    assert not any("created" in line for line in again)
    assert kubectl("diff", "-f", str(EXAMPLES)) == ""
    kubectl("delete", "-f", str(EXAMPLES))
    applied = kubectl("apply", "--server-side", "-f", str(EXAMPLES)) if _recreated(kubectl) else ""
    assert applied.count("serverside-applied") == 6
    assert kubectl("diff", "--server-side", "-f", str(EXAMPLES)) == ""


def _recreated(kubectl: Kubectl) -> bool:
    """The namespace is still there: the example does not bring it."""
    return "ml-team" in kubectl("get", "namespaces")


LIST = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NAMESPACE}, data: {a: b}}
- apiVersion: modelplane.ai/v1alpha1
  kind: ModelService
  metadata: {name: m, namespace: NAMESPACE}
  spec: {endpoints: [{selector: {matchLabels: {a: b}}}]}
"""


def test_a_list_of_objects_is_applied_printed_and_applied_again(kubectl: Kubectl, namespace: str) -> None:
    listed = LIST.replace("NAMESPACE", namespace)
    assert kubectl("create", "-f", "-", stdin=listed).count("created") == 2
    assert kubectl("apply", "-f", "-", stdin=listed).count("configured") == 2
    for more, word in (((), "configured"), (("--server-side", "--force-conflicts"), "serverside-applied")):
        printed = kubectl("get", "cm,modelservices", "-n", namespace, "-o", "yaml")
        assert "kind: List" in printed
        assert kubectl("apply", *more, "-f", "-", stdin=printed).count(word) == 2
    assert kubectl("delete", "-f", "-", stdin=listed).count("deleted") == 2


@pytest.mark.parametrize("verb", ["apply", "create", "replace"])
def test_an_unknown_field_of_a_listed_object_is_refused(kubectl: Kubectl, namespace: str, verb: str) -> None:
    wrong = LIST.replace("NAMESPACE", namespace).replace("data:", "dota:").replace("selector:", "selektor:")
    told = kubectl.fails(verb, "-f", "-", stdin=wrong)
    for words in (
        'ValidationError(ConfigMap): unknown field "dota" in io.k8s.api.core.v1.ConfigMap',
        'unknown field "selektor" in ai.modelplane.v1alpha1.ModelService.spec.endpoints',
        'missing required field "selector"',
    ):
        assert words in told
    assert kubectl("get", "cm,modelservices", "-n", namespace, "-o", "name") == ""


def test_columns_are_those_of_the_kind(kubectl: Kubectl, team: str) -> None:
    header, row = kubectl("get", "modeldeployments", "-n", team).splitlines()
    assert header.split() == ["NAME", "REPLICAS", "SYNCED", "READY", "AGE"]
    assert row.split()[0] == "mock-demo"
    assert kubectl("get", "md", "mock-demo", "-n", team, "-o", "jsonpath={.spec.replicas}") == "2"
    assert kubectl("get", "md", "-n", team, "--sort-by=.metadata.name", "-o", "name").strip().endswith("/mock-demo")
    assert "mock-demo" in kubectl("get", "md", "-A", "--chunk-size=1")


def test_a_watch_prints_changes_as_they_happen(kubectl: Kubectl, team: str) -> None:
    command = kubectl.command("get", "md", "-n", team, "-w", "-o", "custom-columns=N:.metadata.name,R:.spec.replicas")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as watching:
        assert watching.stdout is not None
        assert [watching.stdout.readline().split() for _ in range(2)] == [["N", "R"], ["mock-demo", "2"]]
        kubectl("scale", "md", "mock-demo", "-n", team, "--replicas=3")
        assert watching.stdout.readline().split() == ["mock-demo", "3"]
        watching.send_signal(signal.SIGINT)


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl, api: Api, team: str) -> None:
    made = api.get(f"/apis/modelplane.ai/v1alpha1/namespaces/{team}/modeldeployments/mock-demo")
    about = {
        "kind": "ModelDeployment",
        "apiVersion": "modelplane.ai/v1alpha1",
        "name": "mock-demo",
        "namespace": team,
        "uid": made["metadata"]["uid"],
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": team},
        "involvedObject": about,
        "reason": "Placed",
        "message": "two replicas on two clusters",
        "type": "Normal",
    }
    api.create(f"/api/v1/namespaces/{team}/events", event)
    told = kubectl("describe", "md", "mock-demo", "-n", team)
    assert "Replicas:  2" in told
    assert "two replicas on two clusters" in told


def test_explain_shows_the_fields_of_a_kind(kubectl: Kubectl) -> None:
    told = kubectl("explain", "modeldeployment.spec.template", "--recursive")
    assert "FIELD: template" in told
    assert "nodeSelector" in told
    assert "containers" in kubectl("explain", "pod.spec")


def test_scale_checks_the_number_that_it_expects(kubectl: Kubectl, team: str) -> None:
    kubectl("scale", "md", "mock-demo", "-n", team, "--current-replicas=2", "--replicas=4")
    assert kubectl("get", "md", "mock-demo", "-n", team, "-o", "jsonpath={.spec.replicas}") == "4"
    assert "Expected replicas to be 2" in kubectl.fails(
        "scale", "md", "mock-demo", "-n", team, "--current-replicas=2", "--replicas=5"
    )


def test_edit_sends_what_the_editor_changed(kubectl: Kubectl, team: str, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i.bak "s/replicas: 2/replicas: 7/" "$1"\n')
    editor.chmod(0o700)
    kubectl("edit", "md", "mock-demo", "-n", team, EDITOR=str(editor))
    assert kubectl("get", "md", "mock-demo", "-n", team, "-o", "jsonpath={.spec.replicas}") == "7"


def test_patch_label_and_annotate_change_the_object(kubectl: Kubectl, team: str) -> None:
    kubectl("patch", "md", "mock-demo", "-n", team, "--type=merge", "-p", '{"spec":{"replicas":3}}')
    operations = '[{"op":"replace","path":"/spec/replicas","value":4}]'
    kubectl("patch", "md", "mock-demo", "-n", team, "--type=json", "-p", operations)
    kubectl("label", "md", "mock-demo", "-n", team, "team=red")
    kubectl("annotate", "md", "mock-demo", "-n", team, "note=1")
    status = '{"status":{"conditions":[]}}'
    kubectl("patch", "md", "mock-demo", "-n", team, "--subresource=status", "--type=merge", "-p", status)
    obj = json.loads(kubectl("get", "md", "-n", team, "-l", "team=red", "-o", "json"))["items"][0]
    assert obj["spec"]["replicas"] == 4
    assert obj["metadata"]["annotations"]["note"] == "1"


def test_wait_ends_when_the_condition_holds_and_when_time_is_up(kubectl: Kubectl, api: Api, team: str) -> None:
    wait = ("wait", "md/mock-demo", "-n", team, "--for=condition=Ready")
    assert "timed out waiting for the condition" in kubectl.fails(*wait, "--timeout=1s")
    with subprocess.Popen(
        kubectl.command(*wait, "--timeout=30s"), stdout=subprocess.PIPE, text=True, env=kubectl.environment
    ) as waiting:
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2026-11-29T12:00:00Z",
            "observedGeneration": 1,
        }
        path = f"/apis/modelplane.ai/v1alpha1/namespaces/{team}/modeldeployments/mock-demo/status"
        api.patch(path, {"status": {"conditions": [condition]}})
        assert waiting.wait(30) == 0
    kubectl("wait", "md/mock-demo", "-n", team, "--for=jsonpath={.spec.replicas}=2", "--timeout=10s")


def test_diff_shows_what_an_apply_would_change_and_changes_nothing(kubectl: Kubectl, team: str) -> None:
    manifest = (EXAMPLES / "40-model-deployment.yaml").read_text().replace("ml-team", team)
    changed = manifest.replace("replicas: 2", "replicas: 5")
    assert changed != manifest
    for more in ((), ("--server-side", "--force-conflicts")):
        done = kubectl.run("diff", "-f", "-", *more, stdin=changed)
        assert done.returncode == 1, done.stderr
        assert "+  replicas: 5" in done.stdout
    assert kubectl("get", "md", "mock-demo", "-n", team, "-o", "jsonpath={.spec.replicas}") == "2"


def test_a_server_side_dry_run_writes_nothing(kubectl: Kubectl, team: str) -> None:
    kubectl("create", "configmap", "c", "-n", team, "--from-literal=a=b", "--dry-run=server")
    kubectl("delete", "md", "mock-demo", "-n", team, "--dry-run=server")
    assert kubectl("get", "configmaps", "-n", team, "-o", "name") == ""
    assert "mock-demo" in kubectl("get", "md", "-n", team)


def test_delete_waits_in_the_foreground_for_a_finalizer(kubectl: Kubectl, api: Api, team: str) -> None:
    path = f"/apis/modelplane.ai/v1alpha1/namespaces/{team}/modeldeployments/mock-demo"
    command = kubectl.command("delete", "md", "mock-demo", "-n", team, "--cascade=foreground")
    with api.watch(path.rpartition("/")[0] + "?watch=1") as events:
        assert next(events)["type"] == "ADDED"
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as deleting:
            assert next(events)["object"]["metadata"]["finalizers"] == ["foregroundDeletion"]
            api.patch(path, {"metadata": {"finalizers": None}})
            assert deleting.wait(30) == 0
    assert "NotFound" in kubectl.fails("get", "md", "mock-demo", "-n", team)


def test_delete_namespace_ends_when_the_namespace_is_finalized(kubectl: Kubectl, api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    command = kubectl.command("delete", "namespace", namespace)
    with api.watch(f"/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3D{namespace}") as events:
        assert next(events)["type"] == "ADDED"
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment) as deleting:
            going = next(events)["object"]
            assert going["status"]["phase"] == "Terminating"
            assert api.call("PUT", f"{path}/finalize", {**going, "spec": {"finalizers": []}}).code == 200
            assert deleting.wait(30) == 0


def test_create_makes_objects_from_protobuf_bodies(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "secret", "generic", "s", "-n", namespace, "--from-literal=k=v")
    kubectl("create", "configmap", "c", "-n", namespace, "--from-literal=k=v")
    kubectl("create", "serviceaccount", "robot", "-n", namespace)
    kubectl("create", "role", "r", "-n", namespace, "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "b", "-n", namespace, "--role=r", f"--serviceaccount={namespace}:robot")
    kubectl("create", "deployment", "d", "-n", namespace, "--image=engine", "--replicas=2")
    kubectl("create", "job", "j", "-n", namespace, "--image=engine")
    assert kubectl("create", "token", "robot", "-n", namespace).count(".") == 2
    assert kubectl("get", "secret", "s", "-n", namespace, "-o", "jsonpath={.data.k}") == "dg=="
    assert kubectl("get", "deployment", "d", "-n", namespace, "-o", "jsonpath={.spec.replicas}") == "2"
    assert "deployment.apps/d" in kubectl("get", "all", "-n", namespace)
    assert (
        kubectl(
            "auth", "can-i", "get", "pods", "-n", namespace, f"--as=system:serviceaccount:{namespace}:robot"
        ).strip()
        == "yes"
    )


def test_auth_answers_who_one_is_and_what_one_may(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "modeldeployments").strip() == "yes"
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_discovery_lists_every_kind_with_its_short_names(kubectl: Kubectl) -> None:
    lines = kubectl("api-resources", "--api-group=modelplane.ai", "--no-headers").splitlines()
    assert ["modeldeployments", "md", "modelplane.ai/v1alpha1", "true", "ModelDeployment"] in [x.split() for x in lines]
    assert "resource.k8s.io/v1" in kubectl("api-versions").split()
    assert "modelplane" in kubectl("version")


REFUSALS = [
    ("replicas: 2", "replicas: 2\n  bogus: 1", 'unknown field "spec.bogus"', "an unknown field"),
    ("role: Standalone", "role: Soloist", 'Unsupported value: "Soloist"', "not in the enumeration"),
    ("replicas: 2", "replicas: 5000", "spec.replicas: Invalid value: 5000", "out of range"),
    ("name: mock-demo", "name: Mock_Demo", "metadata.name: Invalid value", "a name that is none"),
]


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(("old", "new", "message", "reason"), REFUSALS)
def test_a_bad_manifest_is_refused_with_the_field(
    kubectl: Kubectl, namespace: str, side: str, old: str, new: str, message: str, reason: str
) -> None:
    manifest = (EXAMPLES / "40-model-deployment.yaml").read_text().replace("ml-team", namespace)
    assert old in manifest
    more = ("--server-side",) if side == "server" else ()
    told = kubectl.fails("apply", *more, "-f", "-", stdin=manifest.replace(old, new, 1))
    if side == "server" and "bogus" in new:
        message = ".spec.bogus: field not declared in schema"
    assert message in told, reason


def test_streams_into_containers_are_refused_with_an_explanation(kubectl: Kubectl, namespace: str) -> None:
    kubectl("run", "p", "-n", namespace, "--image=engine")
    for verb in (("exec", "p", "--", "ls"), ("attach", "p"), ("port-forward", "p", "8080:80")):
        told = kubectl.fails("-n", namespace, *verb)
        assert "is not served by this API server" in told or "pod is not running" in told, verb
