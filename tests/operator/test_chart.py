"""The Helm chart: what it renders is accepted without a field unknown, and an operator runs from it with its rights alone.

Helm is a program of its own: `make kubernetes` builds it. Without it only what needs no rendering is tested.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane import __version__
from modelplane.api.meta import GVK
from modelplane.cli.operator import command
from modelplane.errors import ApiError
from modelplane.kube import Client, Kubeconfig
from tests.conftest import Eventually
from tests.kubernetes.binaries import helm as helm_binary

from .conftest import RBAC, ROOT, Operator, example

CHART = ROOT / "charts/modelplane"
NAMESPACE = "modelplane-system"
HELM = helm_binary()
needs_helm = pytest.mark.skipif(
    HELM is None, reason="no helm to render the chart; `make kubernetes` builds it, or MODELPLANE_HELM names it"
)


def helm(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)}
    for name in ("KUBECONFIG", "HELM_NAMESPACE"):
        environment.pop(name, None)
    return subprocess.run(
        [str(HELM), *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


@cache
def template(*arguments: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        done = helm(Path(home), "template", "modelplane", str(CHART), "--namespace", NAMESPACE, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(*arguments: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(template(*arguments), Loader=loader) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_the_charts_version_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__


def test_every_value_has_a_rule_and_every_rule_a_value() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
        assert schema.get("additionalProperties") is False, f"{path}: a misspelt value is refused"
        if set(values) != set(schema["properties"]) - {"global"}:
            yield f"{path}: {sorted(set(values) ^ (set(schema['properties']) - {'global'}))}"
        for name, value in values.items():
            inner = schema["properties"][name]
            if "properties" in inner:
                yield from compare(value, inner, f"{path}.{name}")

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert list(compare(values, json.loads((CHART / "values.schema.json").read_text()), "values")) == []


def test_the_image_runs_without_root_and_has_no_shell_form() -> None:
    lines = (CHART / "Containerfile").read_text().splitlines()
    assert "USER 65532:65532" in lines
    assert 'ENTRYPOINT ["modelplane"]' in lines


@needs_helm
def test_lint_has_nothing_to_say(tmp_path: Path) -> None:
    done = helm(tmp_path, "lint", str(CHART), "--strict", "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param(["--set", "replica=3"], "replica", id="a misspelt value"),
        pytest.param(["--set", "logFormat=xml"], "logFormat", id="a value that is none of the choices"),
        pytest.param(["--set", "image.digest=latest"], "digest", id="a digest that is none"),
        pytest.param(
            ["--namespace", "elsewhere"], "install with --namespace", id="a namespace that the code does not read"
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_name(arguments: list[str], word: str, tmp_path: Path) -> None:
    done = helm(tmp_path, "template", "modelplane", str(CHART), "--namespace", NAMESPACE, *arguments)
    assert done.returncode != 0
    assert word in done.stderr


@needs_helm
def test_definitions_stay_when_the_release_goes_and_can_be_left_out() -> None:
    definitions = of_kind(render(), "CustomResourceDefinition")
    crds = [yaml.safe_load(path.read_text()) for path in (ROOT / "src/modelplane/api/crds").glob("*.yaml")]
    for definition in definitions:
        assert definition["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    specs = {definition["metadata"]["name"]: definition["spec"] for definition in definitions}
    assert specs == {crd["metadata"]["name"]: crd["spec"] for crd in crds}
    assert of_kind(render("--set", "crds.install=false"), "CustomResourceDefinition") == []


@needs_helm
def test_the_rights_are_those_of_the_package_and_no_others() -> None:
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    rendered = render()
    found = [document for kind in kinds for document in of_kind(rendered, kind)]
    wanted = list(yaml.safe_load_all(RBAC.read_text()))
    assert sorted(found, key=str) == sorted(wanted, key=str)


@needs_helm
def test_the_pod_is_locked_down_and_asked_how_it_is() -> None:
    [deployment] = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    options = {option for parameter in command.params for option in parameter.opts}
    given = [argument.split("=")[0] for argument in container["args"][1:]]
    assert set(given) <= options
    assert "--leader-elect" in given


@needs_helm
def test_a_service_monitor_comes_where_it_is_asked_for() -> None:
    assert of_kind(render(), "ServiceMonitor") == []
    rendered = render("--set", "metrics.serviceMonitor.enabled=true", "--set", "image.digest=sha256:" + "a" * 64)
    [monitor], [service] = of_kind(rendered, "ServiceMonitor"), of_kind(rendered, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    [deployment] = of_kind(rendered, "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "modelplane@sha256:" + "a" * 64


@needs_helm
@pytest.mark.timeout(180)
async def test_every_object_is_accepted_strictly_and_the_operator_runs_from_its_own_deployment(
    control: Path, start: Callable[..., Operator], tmp_path: Path, eventually: Eventually
) -> None:
    rendered = render("--set", "healthPort=18080")
    async with Client(Kubeconfig.load(control / "admin.kubeconfig")) as client:
        for document in rendered:
            resource = await client.resource_for(GVK.of(document))
            namespace = document["metadata"].get("namespace")
            await client.request(
                "PATCH",
                resource.path(namespace, document["metadata"]["name"]),
                body=document,
                params={"fieldManager": "helm", "force": True, "fieldValidation": "Strict"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
        [deployment] = of_kind(rendered, "Deployment")
        misspelt = yaml.safe_load(yaml.safe_dump(deployment))
        misspelt["spec"]["template"]["spec"]["containers"][0]["argz"] = []
        with pytest.raises(ApiError, match="argz"):
            await client.request(
                "PATCH",
                f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/modelplane-operator",
                body=misspelt,
                params={"fieldManager": "helm", "force": True, "fieldValidation": "Strict"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
        [secret] = of_kind(rendered, "Secret")
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_bytes(base64.b64decode(secret["data"][name]))
        ports = ("--health-port", "--webhook-port", "--webhook-certificate")
        given = deployment["spec"]["template"]["spec"]["containers"][0]["args"][1:]
        arguments = [argument.replace("$(POD_IP)", "127.0.0.1") for argument in given if not argument.startswith(ports)]
        arguments += ["--webhook-port=0", f"--webhook-certificate={tmp_path}"]
        operator = start("operator", *arguments)
        await eventually(lambda: operator.said("reconciling"), within=40)
        assert operator.said("webhook on port")
        for name in ("20-inference-class", "30-inference-clusters"):
            for document in example(name):
                await client.apply(document, field_manager="a-user")
        stacks = GVK("infrastructure.modelplane.ai", "v1alpha1", "ServingStack")

        async def stacked() -> int:
            return len((await client.list(stacks)).items)

        await eventually(stacked)
    assert operator.get("/readyz")[0] == 200
    assert operator.stop() == 0
    assert not operator.said("orbidden")


def test_what_is_generated_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/generate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
