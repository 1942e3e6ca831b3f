"""Every cross-field rule refuses what it should and accepts what it should, with the embedded server's own evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.meta import Object
from modelplane.api.schema import root_schema
from tests.api.admission import GONE, admit, changed
from tests.api.bases import BASES, DECODE, GANG, MEMBER, PREFILL

EXAMPLES = Path(__file__).parents[2] / "examples"
E_ = "template.spec.engines"
LABELS = {"a/b": "c"}

ACCEPTED: list[tuple[str, dict[str, Any], str]] = [
    *((kind, {}, "the smallest sensible object") for kind in BASES),
    (
        "InferenceClass",
        {"provisioning": {"provider": "GKE", "gke": {"machineType": "g2", "accelerator": {"type": "l4", "count": 1}}}},
        "a recipe",
    ),
    (
        "InferenceClass",
        {"devices.0.claim": "Synthetic", "devices.0.deviceClassName": GONE},
        "Synthetic devices are never claimed",
    ),
    (
        "InferenceClass",
        {"devices.0.attributes": {"a": {"bool": False}, "b": {"int": 0}, "d/c": {"string": ""}}},
        "falsy values are values",
    ),
    ("InferenceCluster", {"cluster": {"source": "Nebius", "nebius": {}}}, "an empty Nebius block is enough"),
    ("InferenceCluster", {"cluster.gke": {"region": "r"}}, "extra blocks are not refused"),
    ("InferenceCluster", {"nodePools": GONE}, "a cluster may have no pool"),
    ("InferenceCluster", {"nodePools.0.fabric": {"type": "InfiniBand"}}, "only Nebius needs the fabric's id"),
    ("InferenceCluster", {"placement": {"metadata": {"labels": LABELS}}}, "labels of one's own"),
    (
        "InferenceCluster",
        {"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}]},
        "one key, two effects",
    ),
    ("InferenceGateway", {"traefik.loadBalancer": GONE, "traefik.metallb": GONE}, "a cloud brings its load balancer"),
    (
        "InferenceGateway",
        {"backend": GONE, "traefik": GONE, "clusterName": "c", "tls": {"certificateRefs": [{"name": "t"}]}},
        "current shape",
    ),
    (
        "InferenceGateway",
        {
            "backend": GONE,
            "traefik": GONE,
            "clusterName": "c",
            "auth": {"method": "APIKey", "apiKey": {"secretSelector": {"matchLabels": LABELS}}},
        },
        "with caller keys",
    ),
    ("ModelDeployment", {"replicas": 0}, "zero replicas"),
    ("ModelDeployment", {"replicas": 1000}, "a thousand replicas"),
    ("ModelDeployment", {f"{E_}.0": GANG}, "a gang"),
    (
        "ModelDeployment",
        {f"{E_}.0": PREFILL, f"{E_}.1": DECODE, "template.spec.serving": {"mode": "PrefillDecode"}},
        "split serving",
    ),
    ("ModelDeployment", {"template.spec.serving": {}}, "an empty serving block is Unified"),
    ("ModelDeployment", {"template.metadata": {"labels": {"team": "", "example.com/x": "A.b-c_d"}}}, "ordinary labels"),
    (
        "ModelDeployment",
        {"template.spec.tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v"}]},
        "everything, or one taint",
    ),
    (
        "ModelDeployment",
        {
            f"{E_}.0.members.0.template.metadata": {
                "labels": LABELS,
                "annotations": {"modelplane.ai/x": "anything goes: ü"},
            }
        },
        "annotations may have the prefix and any value",
    ),
    ("ModelReplica", {"engines.0.members.0.deviceRequests.0.selectors": GONE}, "resolved requests need no selector"),
    (
        "ModelService",
        {"endpoints.0.name": "a", "endpoints.1": {"name": "b", "selector": {"matchLabels": LABELS}}},
        "named entries",
    ),
    ("ModelService", {"timeouts": {"request": "1h30m", "idle": "0s"}}, "durations"),
    ("ModelEndpoint", {"rewritePath": "/", "origin": "https://r.example.com"}, "a composed endpoint has both"),
    ("ModelEndpoint", {"url": "not a url at all"}, "the older shape leaves its URL to a condition"),
    *(
        ("ModelEndpoint", {"url": GONE, "origin": origin}, "an origin")
        for origin in (
            "http://a",
            "https://a.b.c:8443",
            "https://a:65535",
            "https://a:1",
            "https://1.example.com",
            "https://1.2.3.4.example",
        )
    ),
    (
        "ModelEndpoint",
        {
            "url": GONE,
            "origin": "https://a",
            "credential": {"method": "APIKey", "apiKey": {"secretRef": {"name": "s"}}},
        },
        "a provider with a key",
    ),
    ("NebiusCluster", {"nodePools.0.minNodeCount": 1, "nodePools.0.maxNodeCount": 2}, "a growing pool"),
    ("GKECluster", {"nodePools.0.role": "System", "nodePools.0.gpu": GONE, "nodePools.0.zones": GONE}, "a system pool"),
]

IN = "InferenceCluster"
BARE_METAL = {"source": "VultrBaremetal", "vultrBaremetal": {"region": "r", "ssh": {"secretRef": {"name": "k"}}}}
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    # kind, changes, path of the error, part of its message
    *(
        ("InferenceClass", {"provisioning": {"provider": provider}}, "spec.provisioning", f"set {block}")
        for provider, block in (
            ("GKE", "gke"),
            ("EKS", "eks"),
            ("AKS", "aks"),
            ("Nebius", "nebius"),
            ("Vultr", "vultr"),
            ("VultrBaremetal", "vultrBaremetal"),
        )
    ),
    ("InferenceClass", {"devices.0.deviceClassName": GONE}, "spec.devices[0]", "set deviceClassName"),
    ("InferenceClass", {"devices.0.attributes": {"a": {}}}, "spec.devices[0].attributes[a]", "exactly one"),
    (
        "InferenceClass",
        {"devices.0.attributes": {"a": {"bool": True, "int": 1}}},
        "spec.devices[0].attributes[a]",
        "exactly one",
    ),
    *(
        (IN, {"cluster": {"source": source}}, "spec.cluster", f"set {block}")
        for source, block in (
            ("Existing", "existing"),
            ("GKE", "gke"),
            ("EKS", "eks"),
            ("AKS", "aks"),
            ("Nebius", "nebius"),
            ("Vultr", "vultr"),
            ("VultrBaremetal", "vultrBaremetal"),
        )
    ),
    (
        IN,
        {"cluster": {"source": "Nebius", "nebius": {}}, "nodePools.0.fabric": {"type": "InfiniBand"}},
        "spec.nodePools",
        "fabric.infiniband",
    ),
    (IN, {"nodePools.0.fabric": {"infiniband": {"fabric": "f"}}}, "spec.nodePools[0].fabric", "set type: InfiniBand"),
    (
        IN,
        {"placement": {"metadata": {"labels": {"modelplane.ai/x": "y"}}}},
        "spec.placement.metadata.labels",
        "reserved",
    ),
    (IN, {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}, "spec.taints[1]", "Duplicate"),
    ("InferenceGateway", {"clusterName": "c"}, "spec", "exactly one of backend"),
    ("InferenceGateway", {"backend": GONE, "traefik": GONE}, "spec", "exactly one of backend"),
    ("InferenceGateway", {"traefik": GONE}, "spec", "set traefik"),
    ("InferenceGateway", {"backend": GONE, "clusterName": "c"}, "spec", "remove traefik"),
    ("InferenceGateway", {"traefik.metallb": GONE}, "spec.traefik", "metallb.addressPool"),
    ("InferenceGateway", {"serviceSelector": {"matchLabels": LABELS}}, "spec", "set clusterName instead"),
    (
        "InferenceGateway",
        {"backend": GONE, "traefik": GONE, "clusterName": "c", "auth": {"method": "APIKey"}},
        "spec.auth",
        "set apiKey",
    ),
    ("ModelDeployment", {"replicas": 1001}, "spec.replicas", "1000"),
    ("ModelDeployment", {"replicas": -1}, "spec.replicas", "0"),
    ("ModelDeployment", {"template.spec.serving": {"mode": "PrefillDecode"}}, f"spec.{E_}", "exactly two engines"),
    (
        "ModelDeployment",
        {
            f"{E_}.0": PREFILL,
            f"{E_}.1": DECODE | {"phase": "Prefill"},
            "template.spec.serving": {"mode": "PrefillDecode"},
        },
        f"spec.{E_}",
        "exactly one engine with phase: Prefill",
    ),
    (
        "ModelDeployment",
        {
            f"{E_}.0": PREFILL,
            f"{E_}.1": DECODE | {"phase": "Prefill"},
            "template.spec.serving": {"mode": "PrefillDecode"},
        },
        f"spec.{E_}",
        "exactly one engine with phase: Decode",
    ),
    ("ModelDeployment", {f"{E_}.0.phase": "Decode"}, f"spec.{E_}", "remove phase"),
    ("ModelDeployment", {"template.spec.tolerations": [{}]}, "spec.template.spec.tolerations[0]", "set key"),
    ("ModelDeployment", {"template.spec.tolerations": [{"key": ""}]}, "spec.template.spec.tolerations[0]", "set key"),
    (
        "ModelDeployment",
        {"template.spec.tolerations": [{"operator": "Exists", "value": "v"}]},
        "spec.template.spec.tolerations[0]",
        "remove value",
    ),
    ("ModelDeployment", {f"{E_}.0.members.0.role": "Leader"}, f"spec.{E_}[0].members", "one Standalone, or one Leader"),
    ("ModelDeployment", {f"{E_}.0.members.1": MEMBER}, f"spec.{E_}[0].members", "one Standalone, or one Leader"),
    ("ModelDeployment", {f"{E_}.0.members.0.nodeSelector": GONE}, f"spec.{E_}[0].members", "set nodeSelector"),
    ("ModelDeployment", {f"{E_}.0.members.0.worker": {"nodes": 1}}, f"spec.{E_}[0].members[0]", "set role: Worker"),
    (
        "ModelDeployment",
        {f"{E_}.0.members.0.template.spec.containers.0.name": "main"},
        f"spec.{E_}[0].members[0].template.spec.containers",
        "must be engine",
    ),
    (
        "ModelDeployment",
        {f"{E_}.0.members.0.nodeSelector.devices.0.selectors": [{}]},
        f"spec.{E_}[0].members[0].nodeSelector.devices[0].selectors[0]",
        "at least 1",
    ),
    ("ModelDeployment", {f"{E_}.1": GANG | {"name": "e"}}, f"spec.{E_}[1]", "Duplicate"),
    ("ModelReplica", {"engines.0.members.0.deviceRequests": GONE}, "spec.engines[0].members", "set deviceRequests"),
    ("ModelReplica", {"serving": {"mode": "PrefillDecode"}}, "spec.engines", "exactly two engines"),
    (
        "ModelService",
        {"endpoints.0.name": "a", "endpoints.1": {"name": "a", "selector": {"matchLabels": LABELS}}},
        "spec.endpoints",
        "unique",
    ),
    ("ModelService", {"timeouts": {"idle": "1d"}}, "spec.timeouts.idle", "([0-9]{1,5}(h|m|s|ms)){1,4}"),
    ("ModelEndpoint", {"url": GONE}, "spec", "set url or origin"),
    ("ModelEndpoint", {"origin": "https://a"}, "spec", "exactly one of url and origin"),
    ("ModelEndpoint", {"url": GONE, "origin": "https://a", "rewritePath": "/"}, "spec", "rewritePath belongs to url"),
    ("ModelEndpoint", {"credential": {"method": "APIKey"}}, "spec.credential", "set apiKey"),
    ("ModelEndpoint", {"api": {"prefix": "v1"}}, "spec.api.prefix", "begin with a slash"),
    *(
        ("ModelEndpoint", {"url": GONE, "origin": origin}, "spec.origin", message)
        for origin, message in (
            ("ftp://a", "http:// or https://"),
            ("a.example.com", "http:// or https://"),
            ("https://a/", "without a trailing slash"),
            ("https://a/v1", "without a trailing slash"),
            ("https://a?x=1", "without a trailing slash"),
            ("https://", "no host"),
            ("https://:80", "no host"),
            ("https://a:0", "1 to 65535"),
            ("https://a:65536", "1 to 65535"),
            ("https://a:80:81", "1 to 65535"),
            ("https://a:", "1 to 65535"),
            ("https://a:x", "1 to 65535"),
            ("https://10.0.0.1", "must be a name"),
            ("https://10.0.0.1:80", "must be a name"),
            ("https://[::1]", "must be a name"),
            ("https://[::1]:80", "must be a name"),
        )
    ),
    (
        IN,
        {"cluster": BARE_METAL, "nodePools.0.maxNodeCount": 2},
        "spec.nodePools",
        "pools of source VultrBaremetal have a fixed size",
    ),
    (IN, {"cluster": BARE_METAL, "stack": "Dynamo"}, "spec.stack", "set stack: Standard"),
    (
        "K3sCluster",
        {"version": {"channel": "v1.34", "version": "v1.34.2+k3s1"}},
        "spec.version.version",
        "remove channel or version",
    ),
    ("ModelCache", {"huggingFace": GONE}, "spec", "set huggingFace"),
    ("ServingStack", {"secrets.0.type": "GoogleApplicationCredentials"}, "spec.secrets", "Kubeconfig"),
    *(
        (f"{cloud}Cluster", {"nodePools.0.gpu": GONE}, "spec.nodePools[0]", "set gpu")
        for cloud in ("GKE", "EKS", "AKS", "Nebius", "Vultr")
    ),
    *((f"{cloud}Cluster", {"nodePools.0.zones": GONE}, "spec.nodePools[0]", "set zones") for cloud in ("GKE", "EKS")),
    *(
        (f"{cloud}Cluster", {"nodePools.0.minNodeCount": 1}, "spec.nodePools[0]", "set maxNodeCount")
        for cloud in ("Nebius", "Vultr")
    ),
    (
        "NebiusCluster",
        {"nodePools.0.fabric": {"type": "InfiniBand"}},
        "spec.nodePools[0].fabric",
        "set infiniband.fabric",
    ),
    (
        "NebiusCluster",
        {"nodePools.0.fabric": {"infiniband": {"fabric": "f"}}},
        "spec.nodePools[0].fabric",
        "set type: InfiniBand",
    ),
    ("AKSCluster", {"nodePools.0.name": "gpu-pool"}, "spec.nodePools[0].name", "[a-z]"),
]

LONG = "x" * 254 + "/name"
BAD_METADATA: list[tuple[str, str, str]] = [
    # map, key, value would be refused with message
    ("labels", "modelplane.ai/x", "reserved"),
    ("labels", "bad key", "must be [prefix/]name"),
    ("labels", "-a", "must be [prefix/]name"),
    ("labels", "Upper.case/a", "must be [prefix/]name"),
    ("labels", "a" * 64, "must be [prefix/]name"),
    ("labels", LONG, "253"),
]
for kind, root in (
    ("ModelDeployment", "template.metadata"),
    ("ModelDeployment", f"{E_}.0.members.0.template.metadata"),
    ("ModelReplica", "engines.0.members.0.template.metadata"),
):
    where = "spec." + root.replace(".0", "[0]")
    for field, key, message in BAD_METADATA:
        REFUSED.append((kind, {root: {field: {key: "v"}}}, f"{where}.{field}", message))
    REFUSED.append((kind, {root: {"labels": {"a": "-v"}}}, f"{where}.labels", "label values"))
    REFUSED.append((kind, {root: {"labels": {"a": "b c"}}}, f"{where}.labels", "label values"))
    if "engines" in root:
        REFUSED.append(
            (kind, {root: {"annotations": {"bad key": "v"}}}, f"{where}.annotations", "annotation keys must be")
        )
        REFUSED.append(
            (kind, {root: {"annotations": {LONG: "v"}}}, f"{where}.annotations", "prefix of annotation keys")
        )
for phase, change in (("Prefill", "Decode"), ("Decode", "Prefill")):
    engines = {
        "engines.0.phase": change,
        "engines.1": BASES["ModelReplica"]["engines"][0] | {"name": "f", "phase": change},
    }
    REFUSED.append(
        ("ModelReplica", {**engines, "serving": {"mode": "PrefillDecode"}}, "spec.engines", f"with phase: {phase}")
    )
REFUSED += [
    ("ModelReplica", {"engines.0.phase": "Decode"}, "spec.engines", "remove phase"),
    (
        "ModelReplica",
        {"engines.0.members.0.role": "Worker"},
        "spec.engines[0].members",
        "one Standalone, or one Leader",
    ),
    ("ModelReplica", {"engines.0.members.0.worker": {"nodes": 1}}, "spec.engines[0].members[0]", "set role: Worker"),
    (
        "ModelReplica",
        {"engines.0.members.0.template.spec.containers.0.name": "x"},
        "spec.engines[0].members[0].template.spec.containers",
        "must be engine",
    ),
]

CURRENT = {"clusterName": "c"}
UPDATES: list[tuple[str, Object, Object, str, str]] = [
    # kind, stored, changed to, path of the error, part of its message ("" for none)
    (IN, BASES[IN], changed(BASES[IN], {"stack": "Dynamo"}), "spec.stack", "cannot be changed"),
    (IN, BASES[IN], changed(BASES[IN], {"stack": "Standard"}), "", ""),
    ("InferenceGateway", CURRENT, {"clusterName": "d"}, "spec.clusterName", "cannot be changed"),
    ("InferenceGateway", CURRENT, BASES["InferenceGateway"], "spec", "cannot move"),
    ("InferenceGateway", BASES["InferenceGateway"], CURRENT, "spec", "cannot move"),
    ("InferenceGateway", CURRENT, CURRENT | {"serviceSelector": {"matchLabels": LABELS}}, "", ""),
]


@pytest.mark.parametrize(("kind", "changes", "reason"), ACCEPTED)
def test_sensible_objects_are_accepted(kind: str, changes: dict[str, Any], reason: str) -> None:
    _, complaints = admit(kind, changed(BASES[kind], changes))
    assert complaints == [], reason


@pytest.mark.parametrize(("kind", "changes", "path", "message"), REFUSED)
def test_each_rule_refuses_and_says_where_and_what(kind: str, changes: dict[str, Any], path: str, message: str) -> None:
    _, complaints = admit(kind, changed(BASES[kind], changes))
    assert [said for where, said in complaints if generic(where) == generic(path) and message in said], complaints


@pytest.mark.parametrize(("kind", "stored", "now", "path", "message"), UPDATES)
def test_what_cannot_change_is_refused_on_update(
    kind: str, stored: Object, now: Object, path: str, message: str
) -> None:
    _, complaints = admit(kind, now, stored)
    if not message:
        assert complaints == []
    else:
        assert [said for where, said in complaints if where == path and message in said], complaints


def rules(schema: Object, path: str = "") -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path + rule.get("fieldPath", ""), rule["message"]
    for name, inner in schema.get("properties", {}).items():
        yield from rules(inner, f"{path}.{name}" if path else name)
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from rules(schema[key], path + step)


def generic(path: str) -> str:
    """A path with positions and map keys taken out; keys of maps are written with a dot or in brackets."""
    return path.replace("[0]", "[]").replace("attributes[a]", "attributes{}").replace("attributes.a", "attributes{}")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.gvk.kind)
def test_every_rule_of_every_kind_has_a_refused_case(definition: Any) -> None:
    kind = definition.resource.gvk.kind
    seen = set()
    for case, changes, *_ in REFUSED:
        if case == kind:
            seen |= {
                (generic(path), said.partition(": ")[2]) for path, said in admit(kind, changed(BASES[kind], changes))[1]
            }
    for case, stored, now, *_ in UPDATES:
        if case == kind:
            seen |= {(generic(path), said.partition(": ")[2]) for path, said in admit(kind, now, stored)[1]}
    assert set(rules(root_schema(definition))) - seen == set()


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_the_manifests_of_the_examples_are_accepted_as_they_are(file: Path) -> None:
    for obj in yaml.safe_load_all(file.read_text()):
        assert admit(obj["kind"], obj["spec"])[1] == []


def test_there_is_an_example_of_every_kind() -> None:
    shown = {obj["kind"] for file in EXAMPLES.rglob("*.yaml") for obj in yaml.safe_load_all(file.read_text())}
    assert {definition.resource.gvk.kind for definition in DEFINITIONS} - shown == set()


@pytest.mark.parametrize(
    ("kind", "changes", "unknown"),
    [
        (
            "ModelDeployment",
            {f"{E_}.0.members.0.template.spec.containers.0.resources": {}},
            f"{E_}[0].members[0].template.spec.containers[0].resources",
        ),
        ("ModelDeployment", {"template.spec.nodeSelector": {}}, "template.spec.nodeSelector"),
        ("InferenceGateway", {"hostname": "x"}, "hostname"),
        ("ServingStack", {"versions": {}}, "versions"),
    ],
)
def test_a_field_that_nobody_reads_is_unknown(kind: str, changes: dict[str, Any], unknown: str) -> None:
    _, complaints = admit(kind, changed(BASES[kind], changes))
    assert complaints == [(f"spec.{unknown}", f'unknown field "spec.{unknown}"')]


def test_defaults_are_written_where_their_block_is_present() -> None:
    stored, _ = admit(
        "ModelDeployment",
        changed(BASES["ModelDeployment"], {"template.spec.serving": {}, "template.spec.tolerations": [{"key": "k"}]}),
    )
    spec = stored["spec"]["template"]["spec"]
    assert spec["serving"] == {"mode": "Unified"}
    assert spec["tolerations"] == [{"key": "k", "operator": "Equal"}]
    assert spec["engines"][0]["copies"] == 1
    assert spec["engines"][0]["members"][0]["role"] == "Standalone"
    assert "worker" not in spec["engines"][0]["members"][0]


def test_an_endpoint_of_the_older_shape_is_stored_without_the_current_shapes_defaults() -> None:
    stored, _ = admit("ModelEndpoint", {"url": "http://a/v1"})
    assert stored["spec"] == {"url": "http://a/v1"}
