"""Our objects of the two-regions case beside those of the reference implementation, object by object.

Names, labels, selectors and shapes are what users, dashboards and scripts rely on. Everything that differs is an entry of a table
here: which objects, which JSON pointer, and the number in the design's list of deliberate differences, or another reason. A
difference without entry fails, and so does an entry that no difference needs any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.meta import Object
from tests.compose.fleet import Fleet
from tests.compose.two_regions import ROOT, settled

COPY = Path(__file__).parent / "data" / "two-regions-reference.yaml"
SHARED = ROOT.parent / "shared" / "cases" / "two-regions" / "expected" / "reference.yaml"

CROSSPLANE = "exists in the Crossplane host only"
GENERATED = "design 4: names that Crossplane generated are childname(owner, key)"
SERVER = "filled in by the API server, not composed"
UNION = "design 4: the union of both shapes; the API server writes its defaults"
MORE = "design 6: who writes what"
NO_GATEWAY = "the reference ran without a gateway controller, so its front door and service were not Ready"

# Objects as "PLACE KIND NAMESPACE/NAME", pointers with * for any run of characters.
DIFFERENCES: list[tuple[str, str, str]] = [
    ("*", "/metadata/labels/crossplane.io~1composite", CROSSPLANE),
    ("*", "/metadata/annotations/crossplane.io~1composition-resource-name", CROSSPLANE),
    ("control * ml-team/mock*", "/metadata/generateName", CROSSPLANE),
    ("control *", "/status/conditions/Responsive", CROSSPLANE),
    ("control *", "/status/conditions/Synced", "written by the host around every composer"),
    ("control *", "/status/conditions/*/observedGeneration", "15"),
    # Names.
    ("control Service *", "/metadata/name", GENERATED),
    ("control EndpointSlice *", "/metadata/name", GENERATED),
    ("control EndpointSlice *", "/metadata/labels/kubernetes.io~1service-name", GENERATED),
    ("control HTTPRoute *", "/metadata/name", GENERATED),
    ("control HTTPRoute *", "/spec/rules/0/backendRefs/*/name", GENERATED),
    ("control ModelEndpoint *", "/status/routing/backendName", GENERATED),
    # The control cluster's own filling.
    *(
        ("control Service *", f"/spec/{field}", SERVER)
        for field in (
            "clusterIP",
            "clusterIPs",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
            "sessionAffinity",
            "type",
            "ports/0/targetPort",
        )
    ),
    ("control Service *", "/status", SERVER),
    # Routing.
    (
        "control Service *",
        "/metadata/annotations/modelplane.ai~1health-path",
        "design 6: traffic leaves by health check in the gateways",
    ),
    ("control HTTPRoute *", "/spec/rules/0/timeouts", "17"),
    ("control InferenceGateway *", "/status/conditions/Ready/*", NO_GATEWAY),
    ("control ModelService *", "/status/conditions/Ready/*", NO_GATEWAY),
    ("control ModelService *", "/status/conditions/RoutingReady/*", NO_GATEWAY),
    ("control ModelService *", "/spec/endpoints/0/priority", UNION),
    ("control ModelService *", "/status/model", UNION),
    ("control ModelEndpoint *", "/status/models", "6"),
    ("control ModelEndpoint *", "/status/conditions/EndpointReady", UNION),
    # Clusters and their stacks.
    ("control InferenceCluster *", "/spec/stack", UNION),
    ("control InferenceCluster *", "/status/gpuPools/0/capacity", MORE),
    ("control InferenceCluster *", "/status/conditions/Reachable", MORE),
    ("control InferenceCluster *", "/status/conditions/CacheStorageReady", "12"),
    ("control InferenceCluster *", "/status/conditions/DevicesPublished", "12"),
    ("control InferenceCluster *", "/status/conditions/PoolsLabelled", "12"),
    ("control ServingStack *", "/spec/nvidiaDriverRoot", "design 4: ServingStack has the current shape only"),
    ("control ServingStack *", "/spec/cloud", "design 4: ServingStack has the current shape only"),
    ("control ServingStack *", "/spec/stack", "design 4: ServingStack has the current shape only"),
    ("control ServingStack *", "/spec/gateway", "design 4: ServingStack has the current shape only"),
    # Deployments and replicas.
    ("control ModelDeployment *", "/status/labelSelector", MORE),
    ("control ModelDeployment *", "/status/placement", MORE),
    ("control ModelDeployment *", "/status/conditions/ReplicasScheduled/message", "2"),
    ("control ModelReplica *", "/metadata/annotations/modelplane.ai~1placement", MORE),
    ("control ModelReplica *", "/status/conditions/EndpointAnswering", "6"),
    ("control ModelReplica *", "/status/models", "6"),
    # Remote objects.
    *(
        (f"gpu-* {kind} *", "/metadata/namespace", "14")
        for kind in (
            "ConfigMap",
            "Deployment",
            "HTTPRoute",
            "InferencePool",
            "ResourceClaimTemplate",
            "Role",
            "RoleBinding",
            "Service",
            "ServiceAccount",
        )
    ),
    ("gpu-* RoleBinding *", "/subjects/0/namespace", "14"),
    ("gpu-* Deployment *-epp", "/spec/template/spec/containers/0/args/1", "14"),
    ("gpu-* Deployment *-mock-*", "/spec/template/metadata/labels/modelplane.ai~1replica", "14"),
    ("gpu-* Deployment *-mock-*", "/spec/template/spec/containers/0/env", "14"),
    ("gpu-* Deployment *-mock-*", "/spec/template/spec/containers/0/startupProbe", "13"),
    ("gpu-* Deployment *-mock-*", "/spec/template/spec/containers/0/readinessProbe/initialDelaySeconds", "13"),
    ("gpu-* Deployment *-mock-*", "/spec/progressDeadlineSeconds", "13"),
    ("gpu-* Deployment *-mock-*", "/spec/strategy", "16"),
]

ADDITIONS: list[tuple[str, str]] = [
    ("control Gateway modelplane-system/modelplane", "the reference file leaves the front door's gateway out"),
    ("control GatewayClass /traefik", "the reference file leaves the front door's gateway out"),
    ("control IPAddressPool metallb-system/modelplane", "the reference file leaves what configures charts out"),
    ("control L2Advertisement metallb-system/modelplane", "the reference file leaves what configures charts out"),
    ("control Namespace /metallb-system", "the reference file leaves what configures charts out"),
    ("gpu-* Namespace /mp-ml-team-51733", "14"),
]
"""Objects that only we have."""

_SERVER_FIELDS = ("uid", "generation", "ownerReferences")


def load(path: Path) -> list[tuple[str, Object]]:
    """Every object with the place that its comment names."""
    documents = re.split(r"^--- # ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    result = []
    for document in documents:
        place, _, body = document.partition("\n")
        result.append((place.removeprefix("remote ").strip(), yaml.safe_load(body)))
    return result


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return settled()


def ours(fleet: Fleet) -> list[tuple[str, Object]]:
    """What the fleet holds, without what users and cluster administrators made and without what clusters report."""
    given = {"Secret", "Node", "ResourceSlice", "DeviceClass"}
    result = []
    for cluster, store in fleet.stores.items():
        for (kind, _, _), stored in store.items():
            if kind.kind in given:
                continue
            obj = dict(stored)
            obj["metadata"] = {k: v for k, v in stored["metadata"].items() if k not in _SERVER_FIELDS}
            if not kind.group.endswith("modelplane.ai"):
                obj.pop("status", None)
            result.append((cluster or "control", obj))
    return result


def label(place: str, obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{place} {obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def identity(place: str, obj: Object) -> tuple[str, str, str]:
    """What makes two objects the same one for the comparison: names, but for those that were generated."""
    name = obj["metadata"]["name"]
    if place == "control" and obj["kind"] == "HTTPRoute":
        name = obj["spec"]["rules"][0]["matches"][0]["path"]["value"]
    elif place == "control" and obj["kind"] in ("Service", "EndpointSlice"):
        raise LookupError
    return place, obj["kind"], name


def pair(reference: list[tuple[str, Object]], mine: list[tuple[str, Object]]) -> Iterator[tuple[str, Object, Object]]:
    """The objects of both sides by identity; backends of endpoints are found through the endpoint that names them."""
    yield from _pairs(_by_identity(reference), _by_identity(mine))


def _by_identity(objects: list[tuple[str, Object]]) -> dict[tuple[str, str, str], tuple[str, Object]]:
    found = {}
    backends: dict[str, str] = {}
    for _, obj in objects:
        if obj["kind"] == "ModelEndpoint":
            backends[obj["status"]["routing"]["backendName"]] = obj["metadata"]["name"]
    for place, obj in objects:
        try:
            key = identity(place, obj)
        except LookupError:
            labels = obj["metadata"].get("labels") or {}
            service = labels.get("kubernetes.io/service-name") or obj["metadata"]["name"]
            key = place, obj["kind"], backends[service]
        found[key] = label(place, obj), obj
    return found


def _pairs(
    theirs: dict[tuple[str, str, str], tuple[str, Object]], mine: dict[tuple[str, str, str], tuple[str, Object]]
) -> Iterator[tuple[str, Object, Object]]:
    for key, (name, obj) in theirs.items():
        yield name, obj, mine[key][1] if key in mine else {}


def differences(theirs: Any, mine: Any, pointer: str = "") -> Iterator[str]:
    """JSON pointers at which two values differ; conditions are told apart by type, since their order means nothing."""
    if pointer == "/status/conditions":
        theirs, mine = ({entry["type"]: entry for entry in side or ()} for side in (theirs, mine))
        yield from differences(theirs, mine, pointer + "/")
        return
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted(theirs.keys() | mine.keys()):
            at = f"{pointer.rstrip('/')}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in theirs or key not in mine:
                empty = {} if isinstance(theirs.get(key, mine.get(key)), dict) else None
                if empty is not None and at in ("/metadata/labels", "/metadata/annotations"):
                    yield from differences(theirs.get(key, empty), mine.get(key, empty), at)
                else:
                    yield at
            else:
                yield from differences(theirs[key], mine[key], at)
    elif isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        for position, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            yield from differences(one, other, f"{pointer}/{position}")
    elif theirs != mine:
        yield pointer


def excuse(name: str, pointer: str) -> int | None:
    """The entry that asks for a difference."""
    return next(
        (
            position
            for position, (objects, path, _) in enumerate(DIFFERENCES)
            if fnmatchcase(name, objects) and fnmatchcase(pointer, path)
        ),
        None,
    )


def test_every_difference_from_the_reference_is_asked_for_and_every_entry_is_needed(fleet: Fleet) -> None:
    unasked, used = [], set()
    for name, theirs, mine in pair(load(COPY), ours(fleet)):
        assert mine, f"we compose nothing for {name}"
        for pointer in differences(theirs, mine):
            position = excuse(name, pointer)
            if position is None:
                unasked.append(f"{name} {pointer}")
            else:
                used.add(position)
    assert not unasked, "differences without an entry:\n" + "\n".join(unasked)
    spare = [DIFFERENCES[position] for position in range(len(DIFFERENCES)) if position not in used]
    assert not spare, f"entries that no difference needs: {spare}"


def test_every_object_that_only_we_have_is_asked_for_and_every_entry_is_needed(fleet: Fleet) -> None:
    theirs, mine = _by_identity(load(COPY)), _by_identity(ours(fleet))
    extra = sorted(name for key, (name, _) in mine.items() if key not in theirs)
    unasked = [name for name in extra if not any(fnmatchcase(name, pattern) for pattern, _ in ADDITIONS)]
    assert not unasked
    spare = [pattern for pattern, _ in ADDITIONS if not any(fnmatchcase(name, pattern) for name in extra)]
    assert not spare


def test_the_copy_of_the_reference_is_current() -> None:
    if not SHARED.exists():
        pytest.skip("the file that the copy was made of is not beside this checkout")
    assert COPY.read_bytes() == SHARED.read_bytes()


def test_a_difference_that_nobody_asked_for_would_be_seen() -> None:
    name = "gpu-eu-west InferencePool default/mock-demo-be445-pool"
    assert excuse(name, "/spec/selector/matchLabels/modelplane.ai~1serving") is None
    assert list(differences({"spec": {"a": [1]}}, {"spec": {"a": [2]}})) == ["/spec/a/0"]
