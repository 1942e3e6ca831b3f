"""Custom kinds: served in the moment that their definition is written, validated, defaulted, scaled, and gone with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.api import APPLY, TABLE, Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "replicas": {"type": "integer"},
            "tags": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                },
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self.colour != 'blue' || self.size > 2", "message": "blue things are larger than 2"},
            {"rule": "self.size >= oldSelf.size", "message": "things do not shrink"},
        ],
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def group(api: Api, namespace: str) -> str:
    name = f"{namespace}.example.com"
    api.create(DEFINITIONS, definition(name))
    return name


def things(group: str, namespace: str, name: str = "") -> str:
    return f"/apis/{group}/v1/namespaces/{namespace}/things" + (f"/{name}" if name else "")


def thing(group: str, name: str = "t", **spec: object) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": 1, **spec}}


def test_a_definition_is_established_and_served_when_its_create_is_answered(
    api: Api, group: str, namespace: str
) -> None:
    status = api.get(f"{DEFINITIONS}/things.{group}")["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]
    made = api.create(things(group, namespace), thing(group))
    assert made["spec"]["colour"] == "red", "a default of the schema"
    assert made["metadata"]["generation"] == 1


REFUSED = [
    ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
    ({"colour": "green"}, 'spec.colour: Unsupported value: "green": supported values: "red", "blue"'),
    ({"colour": "blue"}, "spec: Invalid value: blue things are larger than 2"),
    ({"size": "x"}, 'spec.size in body must be of type integer: "string"'),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_a_rule_of_the_schema_refuses(
    api: Api, group: str, namespace: str, spec: dict[str, object], message: str
) -> None:
    reply = api.call("POST", things(group, namespace), thing(group, **spec))
    assert reply.code == 422
    assert message in reply.body["message"].replace('"object": ', "")
    assert reply.body["details"]["causes"]


def test_a_transition_rule_compares_with_what_is_stored(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group, size=3))
    reply = api.call(
        "PATCH", things(group, namespace, "t"), {"spec": {"size": 2}}, type_="application/merge-patch+json"
    )
    assert "things do not shrink" in reply.body["message"]


VALIDATIONS = [
    ("Strict", 400, 'strict decoding error: unknown field "spec.bogus"', 0),
    ("Warn", 201, "", 1),
    ("Ignore", 201, "", 0),
]


@pytest.mark.parametrize(("validation", "code", "message", "warnings"), VALIDATIONS)
def test_an_unknown_field_is_refused_told_or_dropped(
    api: Api, group: str, namespace: str, validation: str, code: int, message: str, warnings: int
) -> None:
    path = things(group, namespace) + f"?fieldValidation={validation}"
    reply = api.call("POST", path, thing(group, bogus=1))
    assert reply.code == code
    assert reply.warnings == ['299 - "unknown field \\"spec.bogus\\""'] * warnings
    if code == 201:
        assert "bogus" not in reply.body["spec"]
    else:
        assert message in reply.body["message"]


def test_generation_counts_changes_of_the_spec_and_of_nothing_else(api: Api, group: str, namespace: str) -> None:
    path = things(group, namespace, "t")
    api.create(things(group, namespace), thing(group))
    assert api.patch(path, {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert api.patch(f"{path}/status", {"status": {"replicas": 1}})["metadata"]["generation"] == 1
    assert api.patch(path, {"spec": {"size": 2}})["metadata"]["generation"] == 2


def test_status_and_spec_are_written_by_their_own_paths_only(api: Api, group: str, namespace: str) -> None:
    path = things(group, namespace, "t")
    made = api.create(things(group, namespace), {**thing(group), "status": {"replicas": 9}})
    assert "status" not in made
    assert "status" not in api.patch(path, {"status": {"replicas": 9}})
    told = api.patch(f"{path}/status", {"spec": {"size": 5}, "status": {"replicas": 3}})
    assert (told["spec"]["size"], told["status"]["replicas"]) == (1, 3)


def test_a_scale_reads_and_writes_through_the_paths_of_the_definition(api: Api, group: str, namespace: str) -> None:
    path = things(group, namespace, "t")
    api.create(things(group, namespace), thing(group, replicas=2))
    api.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "app=t"}})
    scale = api.get(f"{path}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=t"})
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 5}})["spec"] == {"replicas": 5}
    after = api.get(path)
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == 2


def test_an_update_without_a_resource_version_is_refused(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group))
    reply = api.call("PUT", things(group, namespace, "t"), thing(group, size=2))
    assert reply.code == 422
    assert reply.body["message"] == (
        f'things.{group} "t" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )


def test_a_patch_to_an_unknown_field_is_shown_with_what_it_would_leave(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group))
    path = things(group, namespace, "t") + "?fieldValidation=Strict"
    reply = api.call("PATCH", path, {"spec": {"bogus": 1}}, type_="application/merge-patch+json")
    assert reply.code == 422
    assert reply.body["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert reply.body["message"].endswith('strict decoding error: unknown field "spec.bogus"')


def test_a_create_on_the_path_of_an_object_is_a_create(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group))
    reply = api.call("POST", things(group, namespace, "t"), thing(group))
    assert (reply.code, reply.body["reason"]) == (409, "AlreadyExists")


def test_a_kind_that_the_path_does_not_serve_is_an_invalid_field(api: Api, group: str, namespace: str) -> None:
    reply = api.call("POST", things(group, namespace), {**thing(group), "kind": "Other"})
    assert (reply.code, reply.body["details"]["causes"][0]["message"]) == (
        422,
        'Invalid value: "Other": must be Thing',
    )


def test_a_body_without_a_kind_is_shown(api: Api, group: str, namespace: str) -> None:
    reply = api.call("POST", things(group, namespace), b'{"metadata":{"name":"t"}}')
    assert reply.code == 400
    assert reply.body["message"] == (
        "the object provided is unrecognized (must be of type Thing): "
        """Object 'Kind' is missing in '{"metadata":{"name":"t"}}' ({"metadata":{"name":"t"}})"""
    )


def test_a_strategic_patch_is_not_for_custom_kinds(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group))
    reply = api.call("PATCH", things(group, namespace, "t"), {}, type_="application/strategic-merge-patch+json")
    assert reply.code == 415


def test_the_table_has_the_columns_of_the_definition(api: Api, group: str, namespace: str) -> None:
    api.create(things(group, namespace), thing(group, size=4))
    table = api.get(things(group, namespace), accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["t", 4]


def test_apply_creates_merges_and_names_conflicts(api: Api, group: str, namespace: str) -> None:
    path = things(group, namespace, "t")
    first = api.call("PATCH", f"{path}?fieldManager=one", thing(group, tags=[{"name": "a", "value": "1"}]), type_=APPLY)
    assert first.code == 201
    second = thing(group, size=1, tags=[{"name": "b", "value": "2"}])
    both = api.call("PATCH", f"{path}?fieldManager=two", second, type_=APPLY)
    assert both.code == 200
    assert [tag["name"] for tag in both.body["spec"]["tags"]] == ["a", "b"]
    clash = api.call("PATCH", f"{path}?fieldManager=two", thing(group, size=7), type_=APPLY)
    assert clash.code == 409
    assert clash.body[
        "message"
    ] == f'Apply failed with 1 conflict: conflict with "one" using {group}/v1: .spec.size'.replace(
        f" using {group}/v1", ""
    )
    assert clash.body["details"]["causes"][0]["field"] == ".spec.size"
    forced = api.call("PATCH", f"{path}?fieldManager=two&force=true", thing(group, size=7), type_=APPLY)
    assert forced.body["spec"]["size"] == 7
    assert [tag["name"] for tag in forced.body["spec"]["tags"]] == ["a"], "what two applied and applies no more is gone"


def test_an_apply_that_changes_nothing_writes_nothing(api: Api, group: str, namespace: str) -> None:
    path = things(group, namespace, "t") + "?fieldManager=one"
    first = api.call("PATCH", path, thing(group), type_=APPLY).body
    assert api.call("PATCH", path, thing(group), type_=APPLY).body == first


def test_apply_wants_a_field_manager(api: Api, group: str, namespace: str) -> None:
    reply = api.call("PATCH", things(group, namespace, "t"), thing(group), type_=APPLY)
    assert reply.code == 422
    assert reply.body["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


def test_a_deleted_definition_takes_its_objects_with_it(api: Api, group: str, namespace: str) -> None:
    held = thing(group)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(things(group, namespace), held)
    api.create(things(group, namespace), thing(group, "u"))
    with api.watch(f"{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3Dthings.{group}") as events:
        assert next(events)["type"] == "ADDED"
        with api.watch(things(group, namespace) + "?watch=1") as objects:
            seen = [next(objects)["object"]["metadata"]["name"] for _ in range(2)]
            assert sorted(seen) == ["t", "u"]
            api.call("DELETE", f"{DEFINITIONS}/things.{group}")
            assert next(events)["object"]["metadata"]["deletionTimestamp"]
            changes = {(e["type"], e["object"]["metadata"]["name"]) for e in (next(objects), next(objects))}
            assert changes == {("MODIFIED", "t"), ("DELETED", "u")}
        assert api.call("GET", f"{DEFINITIONS}/things.{group}").code == 200, "an object is still there"
        api.patch(things(group, namespace, "t"), {"metadata": {"finalizers": None}})
        while next(events)["type"] != "DELETED":
            pass
    assert api.call("GET", things(group, namespace)).code == 404


def test_a_changed_schema_counts_for_the_next_write(api: Api, group: str, namespace: str) -> None:
    changed = api.get(f"{DEFINITIONS}/things.{group}")
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["size"]["maximum"] = 100
    assert api.call("PUT", f"{DEFINITIONS}/things.{group}", changed).code == 200
    assert api.create(things(group, namespace), thing(group, size=50))["spec"]["size"] == 50


def test_a_name_that_is_not_plural_and_group_is_refused(api: Api) -> None:
    body = definition("wrong.example.com")
    body["metadata"]["name"] = "things.other.example.com"
    reply = api.call("POST", DEFINITIONS, body)
    assert reply.code == 422
    assert 'must be spec.names.plural+"."+spec.group' in reply.body["message"]
