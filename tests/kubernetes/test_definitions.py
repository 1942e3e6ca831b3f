"""A real kube-apiserver takes every definition of ours without a complaint, and judges objects as the embedded one does.

`make conformance` runs it on the version that is built; docs/embedded-server.md says how to run it by hand on the others. Of those
only verdict, fields and the words of our own rules are compared: Kubernetes changes its own words between versions.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings

import modelplane.api
from modelplane.api.kinds import BY_KIND, DEFINITIONS
from modelplane.api.meta import GVK, Object
from modelplane.api.schema import root_schema
from modelplane.api.shape import Definition
from modelplane.plan.cel.admission import complaints
from tests.api.admission import changed
from tests.api.bases import BASES
from tests.api.golden import ACCEPTED, REFUSED
from tests.api.test_fuzz import manifests
from tests.api.test_rules import UPDATES, rules
from tests.api.test_served import CASES, manifest, selector
from tests.kubernetes.binaries import pinned
from tests.kubernetes.endpoint import Answer, Endpoint
from tests.kubernetes.pair import DEFINITIONS as DEFINED
from tests.kubernetes.pair import JSON, Pair, kube_apiserver
from tests.kubernetes.tally import count
from tests.kubernetes.webhooking import DENIED, registered

API: Final = Path(modelplane.api.__file__).parent
OBJECTS: Final = int(os.environ.get("MODELPLANE_OBJECTS", "300"))
"""Random objects that both servers judge."""
SELECTORS: Final = Path(__file__).parents[1] / "plan" / "data" / "selectors.jsonl"
RULES: Final = {message for definition in DEFINITIONS for _, message in rules(root_schema(definition))}
CONDITIONS: Final = {"Established": "True", "NamesAccepted": "True"}

COMPOSITE: Final[Object] = {
    "type": "object",
    "properties": {
        "compositionUpdatePolicy": {"type": "string", "enum": ["Automatic", "Manual"]},
        "compositionRef": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        "resourceRefs": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind"],
                "properties": {name: {"type": "string"} for name in ("apiVersion", "kind", "name", "namespace")},
            },
        },
    },
}
"""Crossplane's own fields below ``spec.crossplane``, as far as they matter to a schema."""
STATUSES: Final[Object] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["lastTransitionTime", "reason", "status", "type"],
        "properties": {name: {"type": "string"} for name in ("message", "reason", "status", "type")}
        | {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    },
}


def custom_resource(xrd: Object) -> Object:
    """The definition that Crossplane makes of a CompositeResourceDefinition, in a group of its own beside ours."""
    made: Object = {"group": f"composite.{xrd['spec']['group']}"}
    made |= {"names": dict(xrd["spec"]["names"]), "scope": xrd["spec"]["scope"], "versions": []}
    made["names"] |= {"listKind": f"{made['names']['kind']}List"}
    for version in copy.deepcopy(xrd["spec"]["versions"]):
        root = version["schema"]["openAPIV3Schema"]
        root["properties"]["spec"]["properties"]["crossplane"] = COMPOSITE
        root["properties"]["status"]["properties"]["conditions"] = STATUSES
        kept = {name: version[name] for name in ("name", "served", "schema", "additionalPrinterColumns")}
        made["versions"].append(kept | {"storage": True, "subresources": {"status": {}}})
    name = f"{made['names']['plural']}.{made['group']}"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": made,
    }


def documents(folder: str) -> list[Object]:
    return [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in sorted((API / folder).glob("*.yaml"))]


def post(server: Endpoint, path: str, obj: Object) -> Answer:
    return server.send("POST", path, json.dumps(obj).encode(), JSON)


def conditions(server: Endpoint, name: str) -> dict[str, str]:
    answer = server.send("GET", f"{DEFINED}/{name}")
    if answer.status != 200:
        return {}
    return {entry["type"]: entry["status"] for entry in answer.body.get("status", {}).get("conditions", ())}


def settled(server: Endpoint, name: str, wanted: dict[str, str]) -> dict[str, str]:
    """Conditions of a definition once they are the wanted ones; as they were last when that never happens."""
    deadline = time.monotonic() + 180
    while (seen := conditions(server, name)) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


def test_every_definition_is_established_without_a_complaint(pair: Pair) -> None:
    crds = documents("crds")
    assert len(crds) == len(DEFINITIONS)
    for crd in crds:
        name = crd["metadata"]["name"]
        assert settled(pair.real, name, CONDITIONS) == CONDITIONS, name
        # Once more beside ours, only asked: what a create says when nothing is known of the schema yet.
        spec = crd["spec"] | {"group": f"again.{crd['spec']['group']}"}
        again = crd | {"spec": spec, "metadata": {"name": f"{spec['names']['plural']}.{spec['group']}"}}
        for server in (pair.real, pair.ours):
            answer = post(server, f"{DEFINED}?dryRun=All&fieldValidation=Strict", again)
            assert (answer.status, answer.headers.get("warning")) == (201, None), (name, answer.body)
        count("definitions established without a warning")


@pytest.mark.timeout(400)
def test_what_crossplane_makes_of_our_composite_definitions_is_established(binaries: Path, tmp_path: Path) -> None:
    """On a server of their own, which they leave with: to delete one that has just been established takes kube-apiserver minutes,
    now and then, as it tries again ever more rarely while the storage is "(re)initializing"."""
    made = [custom_resource(xrd) for xrd in documents("xrds")]
    assert len(made) > 15
    with kube_apiserver(binaries, tmp_path / "real") as real:
        for crd in made:
            answer = post(real, f"{DEFINED}?fieldValidation=Strict", crd)
            assert (answer.status, answer.headers.get("warning")) == (201, None), answer.body
        for crd in made:
            name = crd["metadata"]["name"]
            assert settled(real, name, CONDITIONS) == CONDITIONS, name
            count("composite definitions established without a warning")


def test_a_definition_with_a_fault_would_be_seen(pair: Pair, exact: bool) -> None:
    crd = custom_resource(documents("xrds")[0])
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["x-kubernetes-validations"] = [{"rule": "self.spec.nope == 1", "message": "never"}]
    assert post(pair.real, f"{DEFINED}?dryRun=All", crd).status == 422
    del root["x-kubernetes-validations"]
    root["properties"]["spec"]["properties"]["loose"] = {"type": "integer", "format": "unheard-of"}
    answer = post(pair.real, f"{DEFINED}?dryRun=All", crd)
    assert answer.status == 201
    if exact:  # versions before say nothing about formats
        assert "unrecognized format" in answer.headers["warning"]


# --- objects -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="exact")
def _exact(pair: Pair) -> bool:
    """Whether the real server is of the version whose words we speak."""
    return str(pair.real.send("GET", "/version").body["gitVersion"]) == f"v{pinned()}"


def verdict(answer: Answer) -> Object:
    """What matters of an answer: the code and, of a refusal, words and causes. Times and uids are the server's business."""
    if answer.status < 400:
        return {"code": answer.status}
    said = answer.body
    # An answer of the chain is longer by who said it.
    message = str(said.get("message", "")).removeprefix(DENIED)
    found: Object = {"code": answer.status, "reason": said.get("reason"), "message": message}
    causes = (said.get("details") or {}).get("causes") or ()
    found["causes"] = sorted((one.get("field"), one.get("reason"), one.get("message")) for one in causes)
    if len(causes) > 1:  # kube-apiserver walks fields in any order, and its message is made of the causes
        found["message"] = message.partition(" is invalid: ")[0]
    return found


def rough(found: Object) -> Object:
    """A verdict in what no version of Kubernetes may change: code, fields, and what our own rules say."""
    text = "\n".join([found.get("message", ""), *(message for *_, message in found.get("causes", ()))])
    fields = {field for field, *_ in found.get("causes", ())}
    return {"code": found["code"], "fields": fields, "said": {m for m in RULES if m in text}}


def disagreement(pair: Pair, exact: bool, method: str, path: str, obj: Object) -> tuple[Object, Object] | None:
    """Both verdicts, ours first, where they differ."""
    body = json.dumps(obj).encode()
    separator = "&" if "?" in path else "?"
    where = f"{path}{separator}dryRun=All&fieldValidation=Strict"
    ours, real = (verdict(server.send(method, where, body, JSON)) for server in (pair.ours, pair.real))
    same = ours == real if exact else rough(ours) == rough(real)
    return None if same else (ours, real)


def shown(differing: list[Any]) -> str:
    return "".join(f"\n{case}\n  ours: {ours}\n  real: {real}" for *case, ours, real in differing[:5])


def path_of(obj: Object) -> str:
    definition = BY_KIND[GVK.of(obj)]
    return definition.resource.path(obj["metadata"].get("namespace"))


def test_the_golden_set_is_judged_alike_to_the_field_and_the_word(pair: Pair, exact: bool) -> None:
    differing: list[Any] = []
    for kind, changes, *_ in (*ACCEPTED, *REFUSED):
        obj = manifest(kind, changed(BASES[kind], changes))
        if found := disagreement(pair, exact, "POST", path_of(obj), obj):
            differing.append((kind, changes, *found))
        count("objects of the golden set judged alike")
    assert not differing, shown(differing)


def test_changes_are_judged_alike(pair: Pair, exact: bool) -> None:
    differing: list[Any] = []
    for kind, stored, now, *_ in UPDATES:
        made = manifest(kind, stored, "stored")
        path = path_of(made)
        for server in (pair.ours, pair.real):
            assert post(server, path, made).status == 201
        try:
            wanted = manifest(kind, now, "stored")
            if found := disagreement(pair, exact, "PUT", f"{path}/stored", wanted):
                differing.append((kind, now, *found))
        finally:
            for server in (pair.ours, pair.real):
                assert server.send("DELETE", f"{path}/stored").status == 200
        count("changes of the golden set judged alike")
    assert not differing, shown(differing)


@pytest.mark.timeout(600)
def test_objects_made_from_the_schemas_are_judged_alike(pair: Pair, exact: bool) -> None:
    differing: list[Any] = []
    codes = dict.fromkeys((201, 400, 422), 0)  # 400: a field that the schema does not know

    @seed(20261129)
    @settings(max_examples=OBJECTS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(manifests())
    def judge(made: tuple[Definition, Object]) -> None:
        definition, obj = made
        whole = manifest(definition.resource.gvk.kind, obj["spec"])
        codes[post(pair.real, f"{path_of(whole)}?dryRun=All&fieldValidation=Strict", whole).status] += 1
        if complaints(whole):
            return  # a review: the webhook's, below
        if found := disagreement(pair, exact, "POST", path_of(whole), whole):
            differing.append((whole, *found))
        count("random objects judged alike")

    judge()
    assert not differing, shown(differing)
    assert all(count > OBJECTS / 100 for count in codes.values()), codes


def selectors() -> Iterator[str]:
    """Every text that Kubernetes' own compiler refused, when the vectors were made."""
    for line in SELECTORS.read_text().splitlines():
        case = json.loads(line)
        if "compile_error" in case["base"]:
            yield case["expression"]


def test_the_webhook_refuses_with_the_words_of_the_embedded_server(pair: Pair, tmp_path: Path) -> None:
    cases = [manifest(kind, spec) for kind, spec in CASES[-3:]]
    cases += [manifest("ModelDeployment", selector(text)) for text in selectors()]
    probe = cases[0]
    differing: list[Any] = []
    with registered(pair.real, tmp_path / "webhook", (path_of(probe), probe)):
        for obj in cases:
            if found := disagreement(pair, True, "POST", path_of(obj), obj):
                differing.append((obj["spec"], *found))
            count("refusals of the webhook compared")
    assert not differing, shown(differing)
