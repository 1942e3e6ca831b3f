"""Files of many objects, by the real kubectl: pruned, built from a kustomization, compared, printed and applied again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.kubectl import KUBECTL, Kubectl

pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason="needs the kubectl of the `local` extra")

MAP = """apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{app: p}}}}
data: {{a: "<1>"}}
---
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
"""


def names(kubectl: Kubectl, namespace: str, kind: str = "configmaps") -> list[str]:
    return kubectl("get", kind, "-n", namespace, "-l", "app=p", "-o", "name").split()


def test_what_is_no_longer_in_the_file_is_pruned(kubectl: Kubectl, namespace: str) -> None:
    one, two = MAP.format(name="one"), MAP.format(name="two")
    kubectl("apply", "-n", namespace, "-f", "-", stdin=one + two)
    kinds = "--prune-allowlist=core/v1/ConfigMap"
    told = kubectl("apply", "-n", namespace, "-f", "-", "--prune", "-l", "app=p", kinds, stdin=one)
    assert "configmap/two pruned" in told
    assert names(kubectl, namespace) == ["configmap/one"]


def test_an_apply_set_remembers_its_members(kubectl: Kubectl, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_APPLYSET", "true")
    one, two = MAP.format(name="one"), MAP.format(name="two")
    apply = ("apply", "-n", namespace, "-f", "-", "--prune", "--applyset=set", "--server-side")
    kubectl(*apply, stdin=one + two)
    assert "configmap/two pruned" in kubectl(*apply, stdin=one)
    assert names(kubectl, namespace) == ["configmap/one"]


def test_a_kustomization_is_applied_and_taken_away(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    (tmp_path / "kustomization.yaml").write_text(
        f"namespace: {namespace}\nnamePrefix: my-\nresources: [web.yaml]\nreplicas: [{{name: web, count: 3}}]\n"
        "configMapGenerator: [{name: settings, literals: [a=b]}]\n"
    )
    assert kubectl("apply", "-k", str(tmp_path)).count("created") == 2
    assert kubectl("diff", "-k", str(tmp_path)) == ""
    assert kubectl("get", "-k", str(tmp_path), "-o", "jsonpath={.items[*].spec.replicas}") == "3"
    assert kubectl("delete", "-k", str(tmp_path)).count("deleted") == 2


def test_a_server_side_diff_shows_what_changes_and_nothing_else(kubectl: Kubectl, namespace: str) -> None:
    manifest = MAP.format(name="one")
    kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
    diff = ("diff", "-n", namespace, "--server-side", "--force-conflicts", "-f", "-")
    changed = kubectl.run(*diff, stdin=manifest.replace("<1>", "<2>"))
    lines = [line for line in changed.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line.split(":")[0].strip() for line in lines] == [
        "-  a",
        "+  a",
        '-      {"apiVersion"',
        '+      {"apiVersion"',
    ], lines


def test_a_scale_is_printed_with_its_numbers(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    kubectl("scale", "deployment/web", "-n", namespace, "--replicas=2")
    header, row = kubectl("get", "deployment/web", "-n", namespace, "--subresource=scale").splitlines()
    assert (header.split(), row.split()[:3]) == (["NAME", "DESIRED", "AVAILABLE", "AGE"], ["web", "2", "0"])


def test_a_role_is_reconciled_with_its_file(kubectl: Kubectl, namespace: str) -> None:
    role = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"
        f"metadata: {{name: reader, namespace: {namespace}}}\n"
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n"
    )
    assert "reconciled" in kubectl("auth", "reconcile", "-f", "-", stdin=role)
    more = role.replace("verbs: [get]", "verbs: [list]")
    kubectl("auth", "reconcile", "-f", "-", stdin=more)
    verbs = kubectl("get", "role", "reader", "-n", namespace, "-o", "jsonpath={.rules[*].verbs[*]}")
    assert sorted(verbs.split()) == ["get", "list"]


def test_an_object_without_anything_is_refused_for_what_it_lacks(kubectl: Kubectl, namespace: str) -> None:
    bare = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n"
    told = kubectl.fails("apply", "-n", namespace, "-f", "-", stdin=bare)
    assert "either `defaultBackend` or `rules` must be specified" in told
    bare = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n"
    told = kubectl.fails("create", "-n", namespace, "-f", "-", stdin=bare)
    assert "spec.selector: Required value" in told
    assert "spec.template: Required value" not in told
