"""Everything that the composers make in any of their tests and in the examples, applied to a real API server.

It has the definitions that the projects publish whose objects we compose, and each object is applied as the host would apply it,
one cluster after another, by the account that the operator has there: no unknown field, no refusal, no warning, nothing dropped in
silence, and changes in place only where the kind lets them be. So is every status that is written beside.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import modelplane.compose
import modelplane.operator
from modelplane.api.meta import GVK, Object
from modelplane.compose import kinds
from modelplane.compose.contract import OnCreate
from modelplane.compose.registry import COMPOSERS
from modelplane.control.ownership import FIELD_MANAGER, Ref
from modelplane.control.want import Want
from modelplane.plan.quantity import parse_quantity
from tests.api.bases import BASES
from tests.api.test_served import manifest
from tests.kubernetes.endpoint import Answer, Endpoint, until
from tests.kubernetes.pair import CRDS, DEFINITIONS, JSON, kube_apiserver
from tests.kubernetes.recording import OUTPUT, Made, Pass, read
from tests.kubernetes.tally import count

ROOT: Final = Path(__file__).parents[2]
PUBLISHED: Final = ROOT.parent / "shared" / "crds"
FEWEST: Final = 5
"""Objects of every kind that have to be applied: a suite that lost its cases would pass otherwise."""
SUITES: Final = os.environ.get("MODELPLANE_RECORDED", "tests/compose").split()
"""The tests whose compositions are applied; all others compose toys, or what these compose, and take minutes."""
WARNED: Final = {
    "spec.addressType: FQDN endpoints are deprecated": "a provider is a host name, and no other backend of a route can be one",
}
"""Warnings that are taken, each with its reason."""
CHOSEN: Final = {"reference.kind": (kinds.SECRET, kinds.CONFIG_MAP)}
"""Kinds of manifests whose source is an expression."""
APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
RIGHTS: Final = Path(str(modelplane.operator.__file__)).parent
ON_CONTROL: Final = "system:serviceaccount:modelplane-system:modelplane-operator"
ON_CLUSTER: Final = "system:serviceaccount:modelplane-system:modelplane"
STRICT: Final = f"fieldManager={FIELD_MANAGER}&force=true&fieldValidation=Strict"


def producible() -> set[GVK]:
    """Every kind that a composer can write: the first argument of each call of `manifest` in the room."""
    found: set[GVK] = set()
    for path in Path(modelplane.compose.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "manifest":
                source = ast.unparse(node.args[0])
                found.update(CHOSEN[source] if source in CHOSEN else (getattr(kinds, source),))
            elif isinstance(node, ast.Dict) and path.name != "kinds.py":
                names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                assert not {"apiVersion", "metadata"} <= {*names}, (
                    f"{path}:{node.lineno} writes an object without manifest()"
                )
    return found


@pytest.fixture(scope="module", name="recorded")
def _recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Pass]:
    """Every pass of every test of the composers, examples included."""
    path = tmp_path_factory.mktemp("recorded") / "passes.jsonl"
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.kubernetes.recording",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-q",
    ]
    done = subprocess.run(
        [*argv, *SUITES], cwd=ROOT, env=os.environ | {OUTPUT: str(path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return read(path)


@pytest.fixture(scope="module", name="server")
def _server(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not PUBLISHED.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{PUBLISHED} has the definitions of the kinds that are composed, and is not there")
        pytest.skip("the published definitions are not beside this checkout")
    with kube_apiserver(binaries, tmp_path_factory.mktemp("composed") / "real") as endpoint:
        server = Server(endpoint)
        server.define([*PUBLISHED.glob("*/*.yaml"), *CRDS.glob("*.yaml")])
        server.grant([RIGHTS / "rbac.yaml", RIGHTS / "rbac-cluster.yaml"])
        yield server


class Server:
    """The real API server, as a host's applier uses it. ``faults`` is everything that it had against us."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.faults: list[str] = []
        self.warned: set[str] = set()
        self.applied: Counter[GVK] = Counter()
        self._paths: dict[str, dict[str, tuple[str, bool]]] = {}
        self._namespaces: set[str] = set()

    def define(self, files: Sequence[Path]) -> None:
        """Create definitions and wait until all are served."""
        names = set()
        for file in files:
            for crd in filter(None, yaml.load_all(file.read_bytes(), yaml.CSafeLoader)):
                made = self.endpoint.send("POST", DEFINITIONS, json.dumps(crd).encode(), JSON)
                assert made.status == 201, (file, made.body)
                names.add(crd["metadata"]["name"])
        deadline = time.monotonic() + 120
        while missing := names - self._established():
            assert time.monotonic() < deadline, f"not established: {missing}"
            time.sleep(0.2)

    def grant(self, files: Sequence[Path]) -> None:
        """Make the operator's accounts with their roles, and wait until these are heard of."""
        self._namespace("modelplane-system")
        for file in files:
            for obj in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
                path = f"{self.path(obj)}?fieldManager=a-person&force=true"
                assert self.endpoint.send("PATCH", path, json.dumps(obj).encode(), APPLY).status in (200, 201)
        for account in (ON_CONTROL, ON_CLUSTER):
            until(lambda account=account: self.send("GET", "/api/v1/namespaces/kube-system", account).status == 200)  # type: ignore[misc]

    def send(self, method: str, path: str, account: str, body: Object | None = None) -> Answer:
        """As one of the operator's accounts."""
        data = None if body is None else json.dumps(body).encode()
        return self.endpoint.send(method, path, data, {**(APPLY if data else {}), "Impersonate-User": account})

    def _established(self) -> set[str]:
        items = self.endpoint.send("GET", DEFINITIONS).body["items"]
        return {
            crd["metadata"]["name"]
            for crd in items
            if any(c["type"] == "Established" and c["status"] == "True" for c in crd["status"].get("conditions") or ())
        }

    def path(self, obj: Object) -> str:
        """The path of an object by the server's own discovery. AssertionError where the kind is not served."""
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._paths:
            found = self.endpoint.send("GET", root)
            resources = found.body["resources"] if found.status == 200 else ()
            self._paths[version] = {r["kind"]: (r["name"], r["namespaced"]) for r in resources if "/" not in r["name"]}
        assert obj["kind"] in self._paths[version], (
            f"{version} {obj['kind']} is not served; is its definition installed?"
        )
        plural, namespaced = self._paths[version][obj["kind"]]
        metadata = obj["metadata"]
        within = f"/namespaces/{metadata['namespace']}" if namespaced else ""
        return f"{root}{within}/{plural}/{metadata['name']}"

    def apply(self, test: str, made: Made, before: Object | None) -> Object | None:
        """The object as the server has it after the host's apply, deleted and made again where the host would."""
        wanted, path = made.manifest, self.path(made.manifest)
        self._namespace(wanted["metadata"].get("namespace"))
        want = Want(
            key="", ref=Ref.of(wanted, made.cluster), manifest=wanted, ready=OnCreate(), immutable=made.immutable
        )
        if before is not None and want.must_replace(before):
            self.delete(path, made.cluster)
        account = ON_CLUSTER if made.cluster else ON_CONTROL
        answer = self.send("PATCH", f"{path}?{STRICT}", account, wanted)
        self.applied[GVK.of(wanted)] += 1
        self._judge(test, wanted, answer)
        if answer.status not in (200, 201):
            return None
        if again := want.must_replace(answer.body):
            self.faults.append(f"{test}: {want.ref} would be made anew in every pass, for {again}")
        return answer.body  # type: ignore[no-any-return]

    def delete(self, path: str, cluster: str) -> None:
        """On the control cluster the garbage collector takes most of it away, whose work this does."""
        how = f"{path}?propagationPolicy=Background&gracePeriodSeconds=0"
        answer = self.send("DELETE", how, ON_CLUSTER) if cluster else self.endpoint.send("DELETE", how)
        assert answer.status in (200, 404), answer.body
        assert self.endpoint.send("GET", path).status == 404, f"{path} stays"

    def write_status(self, kind: str, status: Object) -> None:
        """Over an object of ours that is there for it."""
        parent = manifest(kind, BASES[kind])
        path = self.path(parent)
        stored = self.endpoint.send("GET", path)
        if stored.status == 404:
            stored = self.endpoint.send("POST", path.rpartition("/")[0], json.dumps(parent).encode(), JSON)
            assert stored.status == 201, stored.body
        written = {**stored.body, "status": status}
        body = json.dumps(written).encode()
        answer = self.endpoint.send("PUT", f"{path}/status?dryRun=All&fieldValidation=Strict", body, JSON)
        written["metadata"] = {"name": written["metadata"]["name"]}
        self._judge("status", written, answer)

    def _namespace(self, name: str | None) -> None:
        if name is not None and name not in self._namespaces:
            body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
            assert self.endpoint.send("POST", "/api/v1/namespaces", body, JSON).status in (201, 409)
            self._namespaces.add(name)

    def _judge(self, test: str, wanted: Object, answer: Answer) -> None:
        said = []
        if answer.status not in (200, 201):
            said.append(str(answer.body.get("message")))
        elif gone := lost(answer.body, wanted):
            said.append(gone)
        if warning := answer.headers.get("warning", "").removeprefix('299 - "').removesuffix('"'):
            self.warned.add(warning)
            said += [warning] if warning not in WARNED else []
        self.faults += [f"{test}: {wanted['kind']} {wanted['metadata']['name']}: {what}" for what in said]


def lost(observed: Any, wanted: Any, path: str = "") -> str:
    """The first place where the server has something else than was sent, or nothing. Servers leave empty lists out and write
    quantities in their own way."""
    if isinstance(wanted, dict) and isinstance(observed, dict):
        return next(filter(None, (lost(observed.get(k), v, f"{path}.{k}") for k, v in wanted.items())), "")
    if isinstance(wanted, list) and isinstance(observed, list) and len(observed) == len(wanted):
        return next(
            filter(None, (lost(o, w, f"{path}[{n}]") for n, (o, w) in enumerate(zip(observed, wanted, strict=True)))),
            "",
        )
    if (
        observed == wanted
        or (observed is None and wanted == [])
        or (path.startswith(".spec.hard.") and same(observed, wanted))
    ):
        return ""
    return f"{path}: {wanted!r} became {observed!r}"


def same(one: str, other: str) -> bool:
    return parse_quantity(one) == parse_quantity(other)


def test_every_kind_that_a_composer_can_write_is_recorded_often_enough(recorded: list[Pass]) -> None:
    seen = Counter(GVK.of(made.manifest) for step in recorded for made in step.made)
    assert {str(kind): seen[kind] for kind in producible() if seen[kind] < FEWEST} == {}
    assert seen.keys() <= producible()
    assert {step.kind for step in recorded} == {kind.kind for kind in COMPOSERS}
    count("passes of composers recorded", len(recorded))


@pytest.mark.timeout(600)
def test_every_object_is_applied_without_a_complaint(server: Server, recorded: list[Pass]) -> None:
    places: dict[tuple[str, str], list[Made]] = {}
    for step in recorded:
        for made in step.made:
            places.setdefault((step.test, made.cluster), []).append(made)
    for (test, cluster), objects in places.items():
        there: dict[str, tuple[Object, Object | None]] = {}
        for made in objects:
            path = server.path(made.manifest)
            sent, stored = there.get(path, ({}, None))
            if sent != made.manifest:
                there[path] = made.manifest, server.apply(test, made, stored)
        for path, (obj, _) in reversed(there.items()):
            if obj["kind"] != "Namespace":
                server.delete(path, cluster)
    assert not server.faults, "\n" + "\n".join(dict.fromkeys(server.faults))
    assert server.warned == set(WARNED), "a warning that never comes needs no reason"
    assert {str(kind) for kind in producible() if server.applied[kind] < FEWEST} == set()
    count("kinds that composers write", len(server.applied))
    count("composed objects applied under strict validation", server.applied.total())


def test_every_status_is_written_without_a_complaint(server: Server, recorded: list[Pass]) -> None:
    server.faults.clear()
    statuses = {(step.kind, json.dumps(step.status, sort_keys=True)) for step in recorded}
    for kind, status in sorted(statuses):
        server.write_status(kind, json.loads(status))
    assert not server.faults, "\n" + "\n".join(dict.fromkeys(server.faults))
    count("statuses of ours written under strict validation", len(statuses))


def test_a_fault_would_be_seen(server: Server) -> None:
    server.faults.clear()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "ns"}}
    port = {"name": "http", "port": 80}
    for spec in ({"ports": [port], "prts": []}, {"ports": [{"port": 0}]}, {"ports": [port]}):
        server.apply("one", Made(cluster="", manifest={**service, "spec": spec}, immutable=()), None)
    unknown, invalid = server.faults
    assert "field not declared in schema" in unknown
    assert "spec.ports[0].port: Invalid value: 0" in invalid
    server.faults.clear()
    pods = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    server._judge("two", pods, Answer(200, {}, {**pods, "spec": {"containers": [{"name": "b"}]}}))
    assert server.faults == ["two: Pod a: .spec.containers: [] became [{'name': 'b'}]"]
    server.delete("/api/v1/namespaces/ns/services/a", "")
