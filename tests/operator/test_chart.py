"""The Helm chart: what it renders is accepted without a field unknown, and an operator runs from it with its rights alone.

Helm is a program of its own: `make kubernetes` builds it. Without it only what needs no rendering is tested.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane import __version__
from modelplane.api.meta import GVK, Key
from modelplane.cli.operator import command
from modelplane.control.index import Parent
from modelplane.control.queue import Depth
from modelplane.errors import ApiError
from modelplane.kube import Client, Kubeconfig
from modelplane.operator.metrics import Metrics
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


def test_the_image_is_layered_so_that_a_line_of_source_installs_one_package() -> None:
    """Builders need a registry; the steps are run by hand. What can be held here is their order, and what they read."""
    build, final = re.split(r"^FROM ", (CHART / "Containerfile").read_text(), flags=re.MULTILINE)[1:]
    assert build.startswith("${PYTHON} AS build"), "the base is a build-arg"
    assert final.startswith("${PYTHON}\n"), "and the same twice"
    steps = ["COPY pyproject.toml", "--requirement", "COPY src", "--no-deps ."]
    places = [build.index(step) for step in steps]
    assert places == sorted(places)
    assert "venv --without-pip" in build
    assert "pip uninstall" in final
    assert f"ARG VERSION={__version__}\n" in final
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", final))
    assert labels == {"title", "description", "licenses", "version"}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", build, flags=re.MULTILINE) for name in line.split()
    }
    assert copied == allowed, "the context has what is copied, and no .git or .venv"
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_image_installs_what_the_package_depends_on_before_there_is_any_source(tmp_path: Path) -> None:
    [step] = re.findall(r"^RUN (\[.+\])$", (CHART / "Containerfile").read_text(), flags=re.MULTILINE)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    python, flag, program = json.loads(step)
    assert (python, flag) == ("python", "-c")
    program = program.replace("/requirements.txt", str(tmp_path / "requirements.txt"))
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert (tmp_path / "requirements.txt").read_text().splitlines() == wanted


@needs_helm
def test_lint_has_nothing_to_say(tmp_path: Path) -> None:
    done = helm(tmp_path, "lint", str(CHART), "--strict", "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        pytest.param(["--set", "replica=3"], "replica", id="a misspelt value"),
        pytest.param(["--set", "resources.limit.cpu=1"], "'limit' not allowed", id="a misspelt field of resources"),
        pytest.param(["--set", "resources.limits.memori=1Gi"], "memori", id="a resource that there is not"),
        pytest.param(["--set", "resources.limits.memory=1GB"], "1GB", id="a quantity that is none"),
        pytest.param(["--set", "tolerations[0].kee=infra"], "'kee' not allowed", id="a misspelt field of a toleration"),
        pytest.param(["--set", "affinity.nodeAfinity.x=y"], "nodeAfinity", id="a misspelt affinity"),
        pytest.param(
            ["--set", "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologykey=zone"],
            "topologykey",
            id="a misspelt field of a term",
        ),
        pytest.param(["--set", "extraEnv[0].valu=1"], "valu", id="a misspelt field of a variable"),
        pytest.param(
            ["--set", "extraEnv[0].name=A", "--set", "extraEnv[0].valueFrom.secretRef=b"],
            "secretRef",
            id="a source of a variable that there is not",
        ),
        pytest.param(
            ["--set", "extraEnv[0].name=A,extraEnv[1].name=A"], "A comes twice", id="a variable that comes twice"
        ),
        pytest.param(["--set", "image.pullSecrets={a,a}"], "pullSecrets", id="a pull secret that comes twice"),
        pytest.param(["--set", "image.repository=modelplane:1"], "repository", id="a tag in the repository"),
        pytest.param(["--set", "resources.limits.memory=64Mi"], "more than its limit", id="less than is asked for"),
        pytest.param(
            ["--set", "resources.requests.cpu=1500m,resources.limits.cpu=1"],
            "the request of cpu, 1500m",
            id="the same in other units",
        ),
        pytest.param(["--set", "podLabels.team=a b"], "podLabels", id="a label that is none"),
        pytest.param(["--set", "nodeSelector.a_/b=c"], "nodeSelector", id="a name of a label that is none"),
        pytest.param(["--set", "tolerations[0].value=x"], "'key'", id="a toleration of a value without a key"),
        pytest.param(
            ["--set", "tolerations[0].operator=Exists,tolerations[0].value=x"],
            "value",
            id="a toleration of whatever value, with one",
        ),
        pytest.param(
            ["--set", "tolerations[0].key=x,tolerations[0].tolerationSeconds=5"],
            "'effect'",
            id="seconds of an effect that does not evict",
        ),
        pytest.param(["--set", "extraEnv[0].name=POD_IP"], "set by the chart", id="a variable of the chart's own"),
        pytest.param(["--set", "topologySpreadConstraints[0].skew=1"], "skew", id="a misspelt field of spreading"),
        pytest.param(["--set", "logFormat=xml"], "logFormat", id="a value that is none of the choices"),
        pytest.param(["--set", "image.digest=latest"], "digest", id="a digest that is none"),
        pytest.param(["--set", "unreachableBound=1e300"], "unreachableBound", id="more seconds than there are"),
        pytest.param(["--set", "unreachableBound=0.0"], "unreachableBound", id="no seconds"),
        pytest.param(["--set", "webhook.port=8080"], "both 8080", id="two ports that are one"),
        pytest.param(["--set", "healthPort=9443"], "both 9443", id="the same from the other side"),
        pytest.param(["--set", "webhook.existingSecret=mine"], "needs webhook.caBundle", id="a Secret and no signer"),
        pytest.param(["--set", "webhook.caBundle=x"], "needs webhook.existingSecret", id="a signer and no Secret"),
        pytest.param(
            ["--set", "webhook.existingSecret=mine,webhook.caBundle=eA=="],
            "no certificate",
            id="a signer that is no certificate",
        ),
        pytest.param(
            ["--set", "webhook.existingSecret=mine,webhook.certManager=true"], "two ways", id="two certificates"
        ),
        pytest.param(
            ["--set", "webhook.existingSecret=modelplane-webhook,webhook.caBundle=x"],
            "take another name",
            id="the Secret that the chart would remove on the way",
        ),
        pytest.param(
            ["--set-string", "commonLabels.app\\.kubernetes\\.io/name=x"],
            "commonLabels: app.kubernetes.io/name",
            id="a label that selects the pods",
        ),
        pytest.param(
            ["--namespace", "elsewhere"], "install with --namespace", id="a namespace that the code does not read"
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_name(arguments: list[str], word: str, tmp_path: Path) -> None:
    done = helm(tmp_path, "template", "modelplane", str(CHART), "--namespace", NAMESPACE, *arguments)
    assert done.returncode != 0
    assert word in done.stderr


def paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{name}.")


@needs_helm
@pytest.mark.timeout(240)
def test_a_value_that_is_taken_out_is_done_without_or_missed_by_its_name(tmp_path: Path) -> None:
    small = tmp_path / "modelplane"
    shutil.copytree(CHART, small, ignore=shutil.ignore_patterns("generated"))
    missed = set()
    for path in paths(yaml.safe_load((CHART / "values.yaml").read_text())):
        done = helm(tmp_path, "template", "modelplane", str(small), "--namespace", NAMESPACE, "--set", f"{path}=null")
        if done.returncode != 0:
            assert f"missing property '{path.rpartition('.')[2]}'" in done.stderr, (path, done.stderr)
            missed.add(path)
        else:
            assert "null" not in done.stdout, path
    assert {"image", "webhook", "webhook.port", "replicas", "metrics.serviceMonitor"} <= missed
    assert not {"resources", "resources.limits", "image.tag", "nodeSelector", "commonLabels"} & missed


@needs_helm
def test_a_secret_of_ones_own_renders_the_same_twice_and_the_charts_own_does_not(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    encoded = base64.b64encode(ca.read_bytes()).decode()

    def twice(*arguments: str) -> list[str]:
        where = ("template", "modelplane", str(CHART), "--namespace", NAMESPACE)
        return [helm(tmp_path, *where, *arguments).stdout for _ in range(2)]

    own = ("--set", "webhook.existingSecret=mine", "--set-file", f"webhook.caBundle={ca}")
    first, second = twice(*own)
    assert first == second
    documents = [document for document in yaml.safe_load_all(first) if document]
    assert of_kind(documents, "Secret") == []
    [webhook] = of_kind(documents, "ValidatingWebhookConfiguration")
    assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == encoded
    [deployment] = of_kind(documents, "Deployment")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert {"secretName": "mine", "defaultMode": 0o440} in [volume.get("secret") for volume in volumes]
    again = helm(
        tmp_path, "template", "modelplane", str(CHART), "--namespace", NAMESPACE, *own[:2],
        "--set", f"webhook.caBundle={encoded}",
    )  # fmt: skip
    assert again.stdout == first, "base64 is taken too"
    first, second = twice("--set", "webhook.certManager=true")
    assert first == second
    first, second = twice()
    assert first != second, "this is why the page sends Argo CD to the others"


@needs_helm
def test_each_way_to_a_certificate_has_a_secret_and_a_webhook_of_its_own_name() -> None:
    own, managed = render(), render("--set", "webhook.certManager=true")
    [secret], [certificate] = of_kind(own, "Secret"), of_kind(managed, "Certificate")
    assert secret["metadata"]["name"] != certificate["spec"]["secretName"]
    for documents, name in ((own, secret["metadata"]["name"]), (managed, certificate["spec"]["secretName"])):
        [deployment] = of_kind(documents, "Deployment")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == [name]
    names = {of_kind(one, "ValidatingWebhookConfiguration")[0]["metadata"]["name"] for one in (own, managed)}
    assert len(names) == 2


@needs_helm
def test_common_labels_are_on_every_object_and_select_nothing() -> None:
    monitored = [f"metrics.{name}.enabled=true" for name in ("serviceMonitor", "prometheusRule")]
    values = ["commonLabels.team=infra", "podLabels.team=pods", "metrics.serviceMonitor.labels.team=monitors"]
    values += ["serviceAccount.annotations.role=reader", "podAnnotations.note=here"]
    documents = render(*(word for value in (*monitored, *values) for word in ("--set", value)))
    told = {(one["kind"], one["metadata"]["name"]): one["metadata"].get("labels", {}).get("team") for one in documents}
    assert told.pop(("ServiceMonitor", "modelplane-operator")) == "monitors", "the label that is nearer counts"
    assert set(told.values()) == {"infra"}
    [deployment], [account] = of_kind(documents, "Deployment"), of_kind(documents, "ServiceAccount")
    template = deployment["spec"]["template"]["metadata"]
    assert (template["labels"]["team"], template["annotations"]) == ("pods", {"note": "here"})
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["labels"].items()
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]
    assert account["metadata"]["annotations"] == {"role": "reader"}


@needs_helm
def test_alerts_ask_for_metrics_and_labels_that_there_are() -> None:
    assert of_kind(render(), "PrometheusRule") == []
    [rule] = of_kind(render("--set", "metrics.prometheusRule.enabled=true"), "PrometheusRule")
    alerts = {alert["alert"]: alert for alert in rule["spec"]["groups"][0]["rules"]}
    assert set(alerts) == {
        "ModelplaneOperatorDown",
        "ModelplaneNoLeader",
        "ModelplanePassesFail",
        "ModelplaneClusterUnreachable",
        "ModelplaneReplicasUnplaced",
    }
    metrics = Metrics(depth=lambda: Depth(0, 0, 0), leading=lambda: True, unplaced=lambda: {"NoClusters": 1})
    metrics.passed(Parent(GVK("g", "v", "Kind"), Key("ns", "name")), 0.1, ValueError())
    metrics.answered("east", "get", 0)
    text = metrics.text()
    for alert in alerts.values():
        for name in re.findall(r"\bmodelplane_\w+", alert["expr"]):
            assert f"\n{name}" in text, (alert["alert"], name)
        grouped = [label for labels in re.findall(r"by \((.+?)\)", alert["expr"]) for label in labels.split(", ")]
        shown = re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))
        assert set(shown) <= set(grouped), alert["alert"]
        for label in (*re.findall(r"(\w+)!?=\"", alert["expr"]), *grouped):
            assert f'{label}="' in text, (alert["alert"], label)
        assert alert["annotations"]["summary"]
        assert f"\n| `{alert['alert']}` | " in (ROOT / "docs/operating.md").read_text()
    assert 'code="0"' in text, "what a request without an answer is counted under"


@needs_helm
def test_limits_that_are_the_requests_in_other_units_are_taken() -> None:
    values = "resources.requests.cpu=1000m,resources.limits.cpu=1,resources.limits.memory=134217728"
    [deployment] = of_kind(render("--set", values), "Deployment")
    resources = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": 1, "memory": 134217728}
    for limit in ("0.5Gi", "128Mi", "1e9", "135M"):
        assert of_kind(render("--set-string", f"resources.limits.memory={limit}"), "Deployment")


@needs_helm
def test_every_kind_of_another_project_that_is_rendered_or_used_is_in_the_pages_table() -> None:
    monitored = [f"metrics.{name}.enabled=true" for name in ("serviceMonitor", "prometheusRule")]
    values = [*monitored, "webhook.certManager=true"]
    documents = render(*(word for value in values for word in ("--set", value)))
    groups = {document["apiVersion"].rpartition("/")[0] for document in documents}
    groups |= {group for one in documents for rule in one.get("rules", ()) for group in rule.get("apiGroups", ())}
    foreign = {group for group in groups if "." in group and not group.endswith((".k8s.io", "modelplane.ai"))}
    foreign |= {group for group in groups if group == "gateway.networking.k8s.io"}
    assert len(foreign) == 4
    section = (ROOT / "docs/operating.md").read_text().partition("### What it needs on the control cluster\n")[2]
    cells = {line.split(" | ")[0] for line in section.partition("\n### ")[0].splitlines() if line.startswith("| `")}
    assert {cell.split("`")[1] for cell in cells} == foreign | {"modelplane.ai"}


@needs_helm
def test_the_notes_say_what_comes_next(tmp_path: Path) -> None:
    def notes(*arguments: str) -> str:
        where = (
            "install",
            "modelplane",
            str(CHART),
            "--namespace",
            NAMESPACE,
            "--dry-run=client",
            "--hide-notes=false",
        )
        done = helm(tmp_path, *where, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("\nNOTES:\n")[2]

    text = notes()
    asked = set(re.findall(r"\b[a-z]+\.gateway\.networking\.k8s\.io", text))
    rules = [rule for document in yaml.safe_load_all(RBAC.read_text()) for rule in document.get("rules", ())]
    used = {name for rule in rules if "gateway.networking.k8s.io" in rule["apiGroups"] for name in rule["resources"]}
    assert asked == {f"{name}.gateway.networking.k8s.io" for name in used}
    assert "kubectl rollout status deployment/modelplane-operator -n modelplane-system" in text
    assert (ROOT / "examples/two-regions").is_dir()
    assert "crds.install is false" not in text
    assert "crds.install is false" in notes("--set", "crds.install=false")
    assert "modelplane-webhook-cert-manager is there" in notes("--set", "webhook.certManager=true")


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
