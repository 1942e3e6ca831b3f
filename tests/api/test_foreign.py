"""Our small schemas of other projects' kinds agree with the published ones in everything that they state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "crds"
EXPECTED = ROOT.parent / "shared" / "cases" / "two-regions" / "expected" / "reference.yaml"

OURS: list[dict[str, Any]] = [
    document
    for path in sorted((ROOT / "src" / "modelplane" / "api" / "foreign").glob("*.yaml"))
    for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
]
STATED = (
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)


def name(document: dict[str, Any]) -> str:
    return str(document["metadata"]["name"])


def published(document: dict[str, Any]) -> dict[str, Any]:
    if not PUBLISHED.is_dir():
        pytest.skip("the published schemas are not beside this clone")
    group, plural = document["spec"]["group"], document["spec"]["names"]["plural"]
    (path,) = PUBLISHED.glob(f"*/{group}_{plural}.yaml")
    found: dict[str, Any] = next(d for d in yaml.load_all(path.read_text(), yaml.CSafeLoader) if d)
    return found


def disagreements(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> list[str]:
    """Paths at which our schema states something that theirs does not."""
    found = [
        f"{path}: {key} is {ours.get(key)!r}, published is {theirs.get(key)!r}"
        for key in STATED
        if ours.get(key) != theirs.get(key) and not (key == "type" and "x-kubernetes-int-or-string" in ours)
    ]
    if missing := set(ours.get("required", ())) - set(theirs.get("required", ())):
        found.append(f"{path}: {missing} is not required there")
    for field, inner in ours.get("properties", {}).items():
        if field not in theirs.get("properties", {}):
            found.append(f"{path}.{field} does not exist there")
        else:
            found += disagreements(inner, theirs["properties"][field], f"{path}.{field}")
    if "items" in ours:
        found += disagreements(ours["items"], theirs["items"], f"{path}[]")
    if isinstance(ours.get("additionalProperties"), dict):
        found += disagreements(ours["additionalProperties"], theirs["additionalProperties"], f"{path}{{}}")
    dropped = set(theirs.get("properties", {})) - set(ours.get("properties", {}))
    if dropped and "properties" in ours and path and not ours.get("x-kubernetes-preserve-unknown-fields"):
        found.append(f"{path} would drop fields that exist there: {sorted(dropped)}")
    return found


@pytest.mark.parametrize("document", OURS, ids=name)
def test_what_we_state_about_a_kind_is_what_its_project_publishes(document: dict[str, Any]) -> None:
    theirs = published(document)
    for key in ("plural", "singular", "kind", "listKind"):
        assert document["spec"]["names"][key] == theirs["spec"]["names"][key]
    assert document["spec"]["names"].get("shortNames") == theirs["spec"]["names"].get("shortNames")
    assert document["spec"]["scope"] == theirs["spec"]["scope"]
    (version,) = document["spec"]["versions"]
    other = next(v for v in theirs["spec"]["versions"] if v["name"] == version["name"])
    assert version.get("subresources", {}) == other.get("subresources", {})

    def columns(of: dict[str, Any]) -> list[tuple[str, str]]:
        return [(column["name"], column["jsonPath"]) for column in of.get("additionalPrinterColumns", ())]

    assert columns(version) == columns(other)
    assert disagreements(version["schema"]["openAPIV3Schema"], other["schema"]["openAPIV3Schema"], "") == []


def test_the_objects_of_the_two_regions_case_are_valid_under_our_schemas() -> None:
    if not EXPECTED.exists():
        pytest.skip("the recorded objects of the case are not beside this clone")
    schemas = {
        (
            f"{document['spec']['group']}/{document['spec']['versions'][0]['name']}",
            document["spec"]["names"]["kind"],
        ): document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for document in OURS
    }
    seen = set()
    for obj in yaml.load_all(EXPECTED.read_text(), yaml.CSafeLoader):
        schema = schemas.get((obj["apiVersion"], obj["kind"]))
        if schema:
            jsonschema_rs.validator_for(schema).validate({key: value for key, value in obj.items() if key != "status"})
            seen.add(obj["kind"])
    assert seen == {"EnvoyProxy", "Gateway", "GatewayClass", "HTTPRoute", "InferencePool"}
