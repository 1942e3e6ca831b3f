"""The chart and a real API server: it takes every object to the letter, and a release lives as a platform team expects."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import modelplane.api
from modelplane.api.meta import Object
from tests.kubernetes.endpoint import Answer, Endpoint, until
from tests.kubernetes.installed import CHART, ROOT, SYSTEM, helm, refused_by_helm
from tests.kubernetes.plane import running_plane
from tests.kubernetes.tally import count

pytestmark = pytest.mark.timeout(300)

AUTHORITY = base64.b64encode(b"""\
-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUaFOstjdOkoAB+qLDpYvIOa5wBEYwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEzMDAwNTIyM1oYDzIxMjYxMTA2
MDA1MjIzWjAUMRIwEAYDVQQDDAlhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASuwGwIOBbPOKuCGH/3C5F+ZQNxS0C8fZqyVnXuXiT3T0jVfhaDc6jM
3do1oGyAzdQgHgqiZnlYdt/JY70n//l7o1MwUTAdBgNVHQ4EFgQUlObPuq4gUHrr
Dg7Xiumr/zXSPQgwHwYDVR0jBBgwFoAUlObPuq4gUHrrDg7Xiumr/zXSPQgwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiB/LIjkTSRjdaVglxczx5E4
MjS/zsfqvRjbrucvXES0KAIgTvGp6HtQSTULwuvqTgwovB5tGUPBH73yQXZXjERb
AgM=
-----END CERTIFICATE-----
""").decode()
"""A self-signed certificate, whose key nobody has: API servers take nothing else for a bundle."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = {"Content-Type": "application/json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
FOREIGN = (
    Path(modelplane.api.__file__).parent / "foreign" / "cert-manager.yaml",
    *sorted((Path(__file__).parent / "definitions").glob("*.yaml")),
)
NODES = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
APART = "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
DEFINITION = f"{CRDS}/modelcaches.modelplane.ai"
CACHE = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelcaches/kept"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/modelplane-webhook"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/modelplane-operator"


@dataclass(frozen=True)
class Cluster:
    """A real API server, and Helm for it."""

    real: Endpoint
    kubeconfig: Path
    binary: Path

    def helm(self, *arguments: str) -> str:
        return helm(self.binary, self.kubeconfig, *arguments)

    def get(self, path: str) -> Any:
        answer = self.real.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.body


@pytest.fixture(scope="module")
def cluster(binaries: Path, helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_plane(binaries, tmp_path_factory.mktemp("chart")) as plane:
        real = Endpoint(plane.kubeconfig, {})
        for file in FOREIGN:
            for definition in yaml.safe_load_all(file.read_text()):
                assert real.send("POST", CRDS, json.dumps(definition).encode(), JSON).status == 201
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
        assert real.send("POST", "/api/v1/namespaces", json.dumps(namespace).encode(), JSON).status == 201
        yield Cluster(real, plane.kubeconfig, helm_binary)
        real.close()


def rendered(cluster: Cluster, *values: str) -> list[Object]:
    settings = [word for value in values for word in ("--set", value)]
    text = cluster.helm("template", "modelplane", str(CHART), "--namespace", SYSTEM, *settings)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, Loader=loader) if document]


def strictly(real: Endpoint, obj: Object, owner: str = "fieldManager=chart&force=true", *, dry: bool = True) -> Answer:
    """What the server says of the object, to the field; ``dry`` writes nothing."""
    group, _, version = obj["apiVersion"].rpartition("/")
    served = real.send("GET", f"/apis/{group}/{version}" if group else f"/api/{version}").body["resources"]
    [kind] = [one for one in served if one["kind"] == obj["kind"] and "/" not in one["name"]]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    where = f"/namespaces/{obj['metadata']['namespace']}" if kind["namespaced"] else ""
    path = f"{root}{where}/{kind['name']}/{obj['metadata']['name']}"
    query = f"{'dryRun=All&' if dry else ''}fieldValidation=Strict&{owner}"
    return real.send("PATCH", f"{path}?{query}", json.dumps(obj).encode(), APPLY)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="as it is"),
        pytest.param(("replicas=1", "logLevel=debug", "logFormat=text", "unreachableBound=60"), id="one that talks"),
        pytest.param(("webhook.enabled=false", "crds.install=false"), id="nothing but the operator"),
        pytest.param(("webhook.certManager=true",), id="a certificate of cert-manager"),
        pytest.param(("podDisruptionBudget.enabled=false", "networkPolicy.enabled=false"), id="no policies"),
        pytest.param(
            (
                "metrics.serviceMonitor.enabled=true",
                "metrics.serviceMonitor.interval=15s",
                "metrics.serviceMonitor.labels.release=prometheus",
            ),
            id="metrics for the Prometheus operator",
        ),
        pytest.param(("healthPort=18080", "webhook.port=19443"), id="other ports"),
        pytest.param(
            (
                "image.repository=registry.example/modelplane",
                f"image.digest=sha256:{'a' * 64}",
                "image.pullPolicy=Always",
                "image.pullSecrets[0]=registry",
            ),
            id="an image of one's own",
        ),
        pytest.param(
            (
                "nodeSelector.disk=ssd",
                "priorityClassName=system-cluster-critical",
                "podAnnotations.team=platform",
                "tolerations[0].key=infra",
                "tolerations[0].operator=Exists",
                "resources.limits.memory=1Gi",
            ),
            id="a place for its pods",
        ),
        pytest.param(
            (
                "commonLabels.team=platform",
                "podLabels.tier=control",
                "serviceAccount.annotations.role=reader",
                "metrics.prometheusRule.enabled=true",
                "metrics.prometheusRule.labels.release=prometheus",
            ),
            id="labels and alerts",
        ),
        pytest.param(
            (
                "extraEnv[0].name=LANG",
                "extraEnv[0].value=C.UTF-8",
                "extraEnv[1].name=NODE",
                "extraEnv[1].valueFrom.fieldRef.fieldPath=spec.nodeName",
                "topologySpreadConstraints[0].maxSkew=1",
                "topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
                "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
                "topologySpreadConstraints[0].labelSelector.matchLabels.tier=control",
                f"{NODES}[0].matchExpressions[0].key=disk",
                f"{NODES}[0].matchExpressions[0].operator=In",
                f"{NODES}[0].matchExpressions[0].values[0]=ssd",
                "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=10",
                f"{APART}.topologyKey=kubernetes.io/hostname",
                f"{APART}.labelSelector.matchLabels.tier=control",
            ),
            id="places in full",
        ),
        pytest.param(("webhook.existingSecret=mine", f"webhook.caBundle={AUTHORITY}"), id="a certificate of one's own"),
    ],
)
def test_every_object_is_taken_to_the_field_and_without_a_warning(cluster: Cluster, values: tuple[str, ...]) -> None:
    objects = rendered(cluster, *values)
    for obj in objects:
        answer = strictly(cluster.real, obj)
        assert answer.status in (200, 201), (obj["kind"], answer.body)
        assert "warning" not in answer.headers, (obj["kind"], answer.headers["warning"])
    count("objects of the chart, applied strictly", len(objects))


def test_a_misspelt_field_would_be_seen(cluster: Cluster) -> None:
    [deployment] = [obj for obj in rendered(cluster) if obj["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["argz"] = []
    answer = strictly(cluster.real, deployment)
    assert answer.status >= 400
    assert "argz" in answer.body["message"]


def test_a_release_is_installed_upgraded_removed_and_installed_again(cluster: Cluster, tmp_path: Path) -> None:
    where = ("--namespace", SYSTEM)
    cluster.helm("install", "modelplane", str(CHART), *where)
    # Somebody applies the same by hand: a default that the server put into an atomic field would be a conflict.
    manifest = list(yaml.load_all(cluster.helm("get", "manifest", "modelplane", *where), Loader=yaml.CSafeLoader))
    for obj in manifest:
        answer = strictly(cluster.real, obj, "fieldManager=kubectl")
        assert answer.status == 200, (obj["kind"], answer.body)
    assert {"Deployment", "ValidatingWebhookConfiguration", "Secret"} <= {obj["kind"] for obj in manifest}
    spec = {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 1}}
    kept = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelCache", "metadata": {"name": "kept"}, "spec": spec}
    # Helm does not wait for definitions to be served.
    until(lambda: cluster.real.send("GET", CACHE.rpartition("/")[0]).status == 200)
    assert cluster.real.send("PATCH", f"{CACHE}?fieldManager=me", json.dumps(kept).encode(), APPLY).status == 201
    assert "cannot reuse a name" in refused_by_helm(
        cluster.binary, cluster.kubeconfig, "install", "modelplane", str(CHART), *where
    )
    other = refused_by_helm(cluster.binary, cluster.kubeconfig, "install", "second", str(CHART), *where)
    assert "modelplane" in other, "there is one control plane per cluster"

    newer = tmp_path / "modelplane"
    shutil.copytree(CHART, newer)
    file = newer / "templates/generated/modelplane.ai_modelcaches.yaml"
    file.write_text(file.read_text().replace("    shortNames:", "    categories: [newer]\n    shortNames:"))
    assert "categories: [newer]" in file.read_text()
    certificate, before = cluster.get(SECRET)["data"], cluster.get(DEFINITION)["metadata"]["uid"]
    cluster.helm("upgrade", "modelplane", str(newer), *where, "--set", "replicas=3")
    assert cluster.get(DEFINITION)["spec"]["names"]["categories"] == ["newer"], "definitions are upgraded"
    assert cluster.get(DEFINITION)["metadata"]["uid"] == before
    assert cluster.get(DEPLOYMENT)["spec"]["replicas"] == 3
    assert cluster.get(SECRET)["data"] == certificate, "API servers trust the certificate that is served"
    cluster.helm("rollback", "modelplane", "1", *where)
    assert cluster.get(DEPLOYMENT)["spec"]["replicas"] == 2
    assert cluster.get(SECRET)["data"] == certificate

    cluster.helm("uninstall", "modelplane", *where)
    assert cluster.real.send("GET", DEPLOYMENT).status == 404
    assert cluster.real.send("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/modelplane-operator").status == 404
    assert cluster.get(DEFINITION)["metadata"]["uid"] == before
    assert cluster.get(CACHE)["spec"] == kept["spec"], "what people wrote stays"
    cluster.helm("install", "modelplane", str(CHART), *where)
    assert cluster.get(CACHE)["metadata"]["uid"]
    cluster.helm("uninstall", "modelplane", *where)


def test_certificates_go_from_one_way_to_another_and_back(cluster: Cluster) -> None:
    """cert-manager is played: it makes a Secret, and writes into the configuration under its own name."""
    where = ("--namespace", SYSTEM)
    made = f"{SECRETS}/modelplane-webhook-cert-manager"
    managed = ("upgrade", "--install", "modelplane", str(CHART), *where, "--set", "webhook.certManager=true")

    def cert_manager() -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
        secret |= {"metadata": {"name": "modelplane-webhook-cert-manager"}}
        data = {"stringData": {"tls.crt": "x", "tls.key": "x", "ca.crt": "x"}}
        assert cluster.real.send("POST", SECRETS, json.dumps(secret | data).encode(), JSON).status in (201, 409)
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": AUTHORITY}]
        path = f"{HOOKS}/modelplane-operator-cert-manager?fieldManager=cert-manager-cainjector"
        answer = cluster.real.send(
            "PATCH", path, json.dumps(patch).encode(), {"Content-Type": "application/json-patch+json"}
        )
        assert answer.status == 200, answer.body

    def bundle(name: str) -> Any:
        return cluster.get(f"{HOOKS}/{name}")["webhooks"][0]["clientConfig"]["caBundle"]

    cluster.helm(*managed)
    cert_manager()
    cluster.helm(*managed, "--set", "replicas=3")
    assert bundle("modelplane-operator-cert-manager") == AUTHORITY, "an upgrade leaves what cert-manager wrote"
    cluster.helm("upgrade", "modelplane", str(CHART), *where, "--reset-values")
    assert bundle("modelplane-operator") == cluster.get(SECRET)["data"]["ca.crt"]
    assert cluster.real.send("GET", f"{HOOKS}/modelplane-operator-cert-manager").status == 404
    assert cluster.get(made), "cert-manager's stays, and is in nobody's way"
    cluster.helm(*managed)
    cert_manager()
    assert cluster.real.send("GET", SECRET).status == 404
    own = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "stringData": {"tls.crt": "x"}}
    assert cluster.real.send("POST", SECRETS, json.dumps(own).encode(), JSON).status == 201
    existing = ("--set", f"webhook.existingSecret=mine,webhook.caBundle={AUTHORITY}")
    cluster.helm("upgrade", "modelplane", str(CHART), *where, "--reset-values", *existing)
    assert bundle("modelplane-operator") == AUTHORITY
    cluster.helm("upgrade", "modelplane", str(CHART), *where, "--reset-values")
    assert bundle("modelplane-operator") == cluster.get(SECRET)["data"]["ca.crt"]
    assert cluster.get(f"{SECRETS}/mine"), "nobody removes what is not the chart's"
    cluster.helm("uninstall", "modelplane", *where)


def test_what_was_applied_by_hand_is_taken_over_in_the_words_of_the_page(cluster: Cluster) -> None:
    where = ("--namespace", SYSTEM)
    rules = list(yaml.safe_load_all((ROOT / "src/modelplane/operator/rbac.yaml").read_text()))
    crds = [yaml.safe_load(path.read_text()) for path in (ROOT / "src/modelplane/api/crds").glob("*caches.yaml")]
    [role] = [obj for obj in rules if obj["kind"] == "ClusterRole"]
    role["rules"] = role["rules"][1:]
    for obj in (*rules, *crds):
        answer = strictly(cluster.real, obj, "fieldManager=kubectl&force=true", dry=False)
        assert answer.status in (200, 201), answer.body
    install = ("install", "modelplane", str(CHART), *where)
    assert "invalid ownership metadata" in refused_by_helm(cluster.binary, cluster.kubeconfig, *install)
    conflict = refused_by_helm(cluster.binary, cluster.kubeconfig, *install, "--take-ownership")
    assert 'conflict with "kubectl"' in conflict
    again = ("upgrade", "--install", *install[1:], "--take-ownership", "--force-conflicts")
    notes = cluster.helm(*again)
    assert "kubectl rollout status deployment/modelplane-operator" in notes
    taken = cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/modelplane-operator")
    assert taken["rules"] != role["rules"], "the chart's rules, and not those that were applied by hand"
    assert taken["metadata"]["annotations"]["meta.helm.sh/release-name"] == "modelplane"
    cluster.helm("uninstall", "modelplane", *where)
    other = ("install", "other", str(CHART), *where)
    assert "invalid ownership metadata" in refused_by_helm(cluster.binary, cluster.kubeconfig, *other), "kept ones"
    cluster.helm(*other, "--take-ownership")
    cluster.helm("uninstall", "other", *where)
