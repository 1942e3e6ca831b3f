"""OpenAPI v2: one document, in JSON and protobuf, that says of custom kinds only what v2 can say."""

from __future__ import annotations

import asyncio
import json
import zlib
from copy import deepcopy
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.server import custom
from modelplane.server.builtin import resource_types
from modelplane.server.crd import resource_types as custom_types
from modelplane.server.openapi import Swagger
from tests.schema import gnostic
from tests.schema.test_openapi import WIDGETS, references

KINDS = [*resource_types(), *(kind for crd in custom.shipped() for kind in custom_types(crd))]
META = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def made(swagger: Swagger, form: str = "json") -> bytes:
    return zlib.decompress(asyncio.run(swagger.compressed(form)), wbits=31)


def widgets(properties: Object, **more: Any) -> Object:
    """Widgets with these properties; ``more`` goes to the schema, ``version`` to the version of the definition."""
    found = deepcopy(WIDGETS)
    version = found["spec"]["versions"][0]
    version |= more.pop("version", {})
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": properties, **more}
    return found


def described(crd: Object) -> Any:
    found = json.loads(made(Swagger(custom_types(crd))))
    return found["definitions"]["com.example.v1.Widget"]


@pytest.fixture(scope="module")
def whole() -> Any:
    return json.loads(made(Swagger(KINDS)))


def test_the_document_has_all_that_it_refers_to(whole: Any) -> None:
    known = {f"#/definitions/{name}" for name in whole["definitions"]} | {
        f"#/parameters/{n}" for n in whole["parameters"]
    }
    assert references(whole) - known == set()
    assert len(whole["definitions"]) > 500


def test_every_kind_is_defined_once_with_the_validation_of_its_fields_beside_its_patch(whole: Any) -> None:
    defined = [
        tuple(gvk[part] for part in ("group", "version", "kind"))
        for name, schema in whole["definitions"].items()
        if not name.endswith("DeleteOptions")
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    ]
    patches = {
        tuple(item["patch"]["x-kubernetes-group-version-kind"][part] for part in ("group", "version", "kind")): {
            each.get("name") for each in item["patch"].get("parameters", ())
        }
        for item in whole["paths"].values()
        if "patch" in item
    }
    for kind in KINDS:
        gvk = (kind.gvk.group, kind.gvk.version, kind.gvk.kind)
        assert defined.count(gvk) == 1, gvk
        assert "patch" not in kind.verbs or patches[gvk] >= {"dryRun", "fieldValidation", "body"}


def test_both_forms_say_the_same(whole: Any) -> None:
    assert gnostic.document(made(Swagger(KINDS), "protobuf")) == gnostic.flat(whole)


def test_no_definition_has_what_v2_does_not_know(whole: Any) -> None:
    def keywords(schema: Any) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        inner = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
        return set(schema).union(*map(keywords, inner))

    assert set().union(*map(keywords, whole["definitions"].values())) & {
        "allOf", "anyOf", "oneOf", "not", "nullable", "default", "$schema",
    } == set()  # fmt: skip


CASES: dict[str, tuple[str, Object, Object]] = {
    "zero": ("a least value of zero is a value", {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 0}),
    "default": ("v2 publishes no defaults", {"type": "string", "default": "x"}, {"type": "string"}),
    "one-of": (
        "clients cannot read what combines schemas",
        {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    "int-or-string": (
        "a value of two types has none",
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True},
    ),
    "nullable": (
        "null is of no type, and a client refuses it where one is said",
        {"type": "object", "nullable": True, "description": "d", "properties": {"a": {"type": "string"}}},
        {"description": "d"},
    ),
    "nullable-required": (
        "a field that may be null is not required, for a client counts null as missing",
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": True}, "b": {}}},
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {}}},
    ),
    "nullable-values": (
        "the same for the values of a map",
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "additionalProperties": {}},
    ),
    "unknown-fields": (
        "a client would refuse the fields that are not said, and keeps none of an object without any",
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    "unknown-items": (
        "a client reads no list without its items",
        {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "string"}},
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    "list": (
        "how a list merges is kept",
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 3}},
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 3}},
    ),
    "map": (
        "a map of anything",
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": True},
    ),
    "rules": (
        "CEL rules are kept",
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]},
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]},
    ),
}


@pytest.mark.parametrize(("reason", "schema", "want"), CASES.values(), ids=CASES.keys())
def test_a_field_of_a_custom_kind_says_what_v2_can(reason: str, schema: Object, want: Object) -> None:
    assert described(widgets({"spec": schema}))["properties"]["spec"] == want, reason
    swagger = Swagger(custom_types(widgets({"spec": schema})))
    assert gnostic.document(made(swagger, "protobuf")) == gnostic.flat(json.loads(made(swagger))), reason


def test_an_embedded_object_has_what_every_object_has() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "string"}}}
    found = described(widgets({"template": embedded}))["properties"]["template"]
    assert found["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert found["properties"]["metadata"]["$ref"] == META
    assert found["required"] == ["kind", "apiVersion"]
    free = described(widgets({"template": {**embedded, "x-kubernetes-preserve-unknown-fields": True}}))
    assert "properties" not in free["properties"]["template"], "a client would refuse all other fields"


def test_a_kind_that_keeps_unknown_fields_is_an_object_and_no_more() -> None:
    found = described(widgets({"spec": {"type": "string"}}, **{"x-kubernetes-preserve-unknown-fields": True}))
    assert found == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
    }


def test_fields_that_a_selector_may_name_are_told() -> None:
    crd = widgets({"color": {"type": "string"}}, version={"selectableFields": [{"jsonPath": ".color"}]})
    assert described(crd)["x-kubernetes-selectable-fields"] == [{"fieldPath": "color"}]


def test_the_tag_follows_the_content_and_not_the_order() -> None:
    kinds = [*resource_types(), *custom_types(WIDGETS)]
    tag = Swagger(kinds).etag
    assert Swagger(reversed(kinds)).etag == tag
    others = {
        "a field": widgets({"spec": {"type": "string"}}),
        "a plural": {"spec": {**WIDGETS["spec"], "names": {**WIDGETS["spec"]["names"], "plural": "gadgets"}}},
        "a selectable field": widgets({}, version={"selectableFields": [{"jsonPath": ".color"}]}),
    }
    tags = {Swagger([*resource_types(), *custom_types(crd)]).etag for crd in others.values()}
    assert len(tags | {tag}) == len(others) + 1


def test_other_requests_are_answered_while_it_is_made() -> None:
    async def watched() -> int:
        turns = 0
        making = asyncio.create_task(Swagger(KINDS).compressed("protobuf"))
        while not making.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(watched()) > 5
