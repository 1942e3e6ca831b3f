"""The chart and a real API server: it takes every object to the letter, and a release lives as a platform team expects."""

from __future__ import annotations

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
from tests.kubernetes.binaries import WITHOUT, folder
from tests.kubernetes.binaries import helm as helm_binary
from tests.kubernetes.endpoint import Answer, Endpoint, until
from tests.kubernetes.installed import CHART, SYSTEM, helm, refused_by_helm
from tests.kubernetes.plane import running_plane
from tests.kubernetes.tally import count

pytestmark = pytest.mark.timeout(300)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = {"Content-Type": "application/json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
FOREIGN = (
    Path(modelplane.api.__file__).parent / "foreign" / "cert-manager.yaml",
    Path(__file__).parent / "definitions" / "servicemonitors.yaml",
)
DEFINITION = f"{CRDS}/modelcaches.modelplane.ai"
CACHE = "/apis/modelplane.ai/v1alpha1/namespaces/default/modelcaches/kept"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/modelplane-webhook"
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    binaries, binary = folder(), helm_binary()
    if binaries is None or binary is None:
        pytest.skip(WITHOUT)
    with running_plane(binaries, tmp_path_factory.mktemp("chart")) as plane:
        real = Endpoint(plane.kubeconfig, {})
        for file in FOREIGN:
            for definition in yaml.safe_load_all(file.read_text()):
                assert real.send("POST", CRDS, json.dumps(definition).encode(), JSON).status == 201
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
        assert real.send("POST", "/api/v1/namespaces", json.dumps(namespace).encode(), JSON).status == 201
        yield Cluster(real, plane.kubeconfig, binary)
        real.close()


def rendered(cluster: Cluster, *values: str) -> list[Object]:
    settings = [word for value in values for word in ("--set", value)]
    text = cluster.helm("template", "modelplane", str(CHART), "--namespace", SYSTEM, *settings)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, Loader=loader) if document]


def strictly(real: Endpoint, obj: Object) -> Answer:
    """What the server says of the object, to the field; nothing is written."""
    group, _, version = obj["apiVersion"].rpartition("/")
    served = real.send("GET", f"/apis/{group}/{version}" if group else f"/api/{version}").body["resources"]
    [kind] = [one for one in served if one["kind"] == obj["kind"] and "/" not in one["name"]]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    where = f"/namespaces/{obj['metadata']['namespace']}" if kind["namespaced"] else ""
    path = f"{root}{where}/{kind['name']}/{obj['metadata']['name']}"
    query = "dryRun=All&fieldValidation=Strict&fieldManager=chart&force=true"
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
