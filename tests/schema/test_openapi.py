"""OpenAPI documents: complete, and with what kubectl looks for."""

import json
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.server.builtin import resource_types
from modelplane.server.crd import resource_types as custom_types
from modelplane.server.openapi import Documents

WIDGETS = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget.",
                        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                },
            }
        ],
    }
}
DOCUMENTS = Documents([*resource_types(), *custom_types(WIDGETS)])
VERSIONS = sorted({(kind.gvk.group, kind.gvk.version) for kind in resource_types()} | {("example.com", "v1")})


def document(group: str, version: str) -> Object:
    found = DOCUMENTS.document(group, version)
    assert found is not None
    content: Object = json.loads(found.body)
    return content


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    found = set().union(*(references(item) for key, item in value.items() if key != "$ref"))
    ref = value.get("$ref")
    return found | {ref} if isinstance(ref, str) else found


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_a_document_has_all_that_it_refers_to(group: str, version: str) -> None:
    content = document(group, version)
    schemas = content["components"]["schemas"]
    missing = {ref for ref in references(content) if ref.removeprefix("#/components/schemas/") not in schemas}
    assert missing == set()


@pytest.mark.parametrize("kind", resource_types(), ids=lambda kind: str(kind.gvk))
def test_every_kind_is_found_by_group_version_and_kind(kind: Any) -> None:
    wanted = {"group": kind.gvk.group, "version": kind.gvk.version, "kind": kind.gvk.kind}
    content = document(kind.gvk.group, kind.gvk.version)
    named = [
        s for s in content["components"]["schemas"].values() if wanted in s.get("x-kubernetes-group-version-kind", [])
    ]
    assert len(named) == 1
    if "patch" in kind.verbs:
        patches = [
            item["patch"]
            for item in content["paths"].values()
            if item.get("patch", {}).get("x-kubernetes-group-version-kind") == wanted
        ]
        assert patches
        assert all("fieldValidation" in {p["name"] for p in patch["parameters"]} for patch in patches)


def test_a_reference_with_words_beside_it_keeps_them() -> None:
    spec = document("apps", "v1")["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]
    assert spec["description"].startswith("Specification of the desired behavior")


def test_values_of_two_types_are_of_either() -> None:
    schemas = document("", "v1")["components"]["schemas"]
    quantity = schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    port = schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert (quantity["oneOf"], "type" in quantity) == ([{"type": "string"}, {"type": "number"}], False)
    assert (port["oneOf"], port["format"]) == ([{"type": "integer"}, {"type": "string"}], "int-or-string")


def test_patch_strategies_are_there_for_client_side_apply() -> None:
    pod = document("", "v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert pod["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert pod["containers"]["x-kubernetes-patch-strategy"] == "merge"


def test_a_custom_kind_is_described_with_its_list_and_its_scale() -> None:
    content = document("example.com", "v1")
    schema = content["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["properties"]["spec"]["properties"]["n"] == {"type": "integer"}
    assert "metadata" in schema["properties"]
    assert "com.example.v1.WidgetList" in content["components"]["schemas"]
    path = content["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert "application/strategic-merge-patch+json" not in path["patch"]["requestBody"]["content"]
    scale = content["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"]["kind"] == "Widget"
    answer = scale["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"}


def test_the_index_names_every_document_and_its_hash_follows_its_content() -> None:
    paths = json.loads(DOCUMENTS.index)["paths"]
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    assert "api/v1" in paths
    changed = json.loads(json.dumps(WIDGETS))
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another."
    others = Documents([*resource_types(), *custom_types(changed)])
    assert others.hash("example.com", "v1") != DOCUMENTS.hash("example.com", "v1")
    assert others.hash("apps", "v1") == DOCUMENTS.hash("apps", "v1")


def test_a_connection_and_a_log_are_text_and_a_deleted_pod_is_answered() -> None:
    paths = document("", "v1")["paths"]
    pod = "/api/v1/namespaces/{namespace}/pods/{name}"
    said = {
        (path.removeprefix(pod), method): (
            paths[path][method]["x-kubernetes-action"],
            paths[path][method]["responses"]["200"]["content"]["application/json"]["schema"],
        )
        for path, method in (
            (f"{pod}/exec", "post"),
            (f"{pod}/proxy", "delete"),
            (f"{pod}/log", "get"),
            (pod, "delete"),
        )
    }
    text = {"type": "string"}
    assert said == {
        ("/exec", "post"): ("connect", text),
        ("/proxy", "delete"): ("connect", text),
        ("/log", "get"): ("get", text),
        ("", "delete"): ("delete", {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod"}),
    }


def test_what_is_not_served_has_no_document() -> None:
    assert DOCUMENTS.document("nothing.example.com", "v1") is None
