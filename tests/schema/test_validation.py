"""Validation says what kube-apiserver says, at the path where it says it."""

from collections.abc import Mapping
from typing import Any

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.errors import BadBody
from modelplane.server.builtin import builtin_schema, object_meta
from modelplane.server.schema import FieldError, Schema, summary
from modelplane.server.schema.decode import decode_json, decode_yaml, field_warnings, strict_error
from modelplane.server.schema.node import Compiler, Node
from modelplane.server.schema.rules import Evaluate, Rules


class Table:
    """A rule engine whose expressions are looked up: what a rule means is not this room's business."""

    def __init__(self, meanings: Mapping[str, Evaluate]) -> None:
        self.meanings = meanings

    def compile(self, expression: str, node: Node, *, result: str = "bool", optional_old: bool = False) -> Evaluate:
        return self.meanings[expression]


def schema_of(spec: Object, meanings: Mapping[str, Evaluate] | None = None) -> Schema:
    node = Compiler().compile({"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}})
    return Schema(node, object_meta(), rules=Rules(node, Table(meanings or {})))


def wrong(spec_schema: Object, spec: object, old: object = None, **meanings: Evaluate) -> list[str]:
    def wrapped(value: object) -> Object:
        return {"metadata": {"name": "a"}, "spec": value}

    schema = schema_of(spec_schema, meanings)
    return [str(error) for error in schema.validate(wrapped(spec), None if old is None else wrapped(old))]


CASES: dict[str, tuple[Object, Any, list[str]]] = {
    "maximum": (
        {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 10}}},
        {"replicas": 11},
        ["spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"],
    ),
    "minimum": (
        {"type": "integer", "minimum": 1},
        0,
        ["spec: Invalid value: 0: spec in body should be greater than or equal to 1"],
    ),
    "exclusive bounds": (
        {"type": "number", "maximum": 1, "exclusiveMaximum": True},
        1,
        ["spec: Invalid value: 1: spec in body should be less than 1"],
    ),
    "wrong type": (
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        {"n": "3"},
        ['spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"'],
    ),
    "null": (
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        {"n": None},
        ['spec.n: Invalid value: "null": spec.n in body must be of type integer: "null"'],
    ),
    "a nullable null": (
        {"type": "object", "properties": {"n": {"type": "integer", "nullable": True}}},
        {"n": None},
        [],
    ),
    "a boolean is no integer": (
        {"type": "integer"},
        True,
        ['spec: Invalid value: "boolean": spec in body must be of type integer: "boolean"'],
    ),
    "required": (
        {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}},
        {},
        ["spec.image: Required value"],
    ),
    "enum": (
        {"type": "string", "enum": ["Unified", "Disaggregated"]},
        "Both",
        ['spec: Unsupported value: "Both": supported values: "Unified", "Disaggregated"'],
    ),
    "pattern": (
        {"type": "string", "pattern": "^[a-z]+$"},
        "A1",
        ["spec: Invalid value: \"A1\": spec in body should match '^[a-z]+$'"],
    ),
    "max length": ({"type": "string", "maxLength": 2}, "abc", ["spec: Too long: may not be more than 2 bytes"]),
    "min length": (
        {"type": "string", "minLength": 1},
        "",
        ['spec: Invalid value: "": spec in body should be at least 1 chars long'],
    ),
    "max items": (
        {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        ["a", "b"],
        ["spec: Too many: 2: must have at most 1 item"],
    ),
    "min items": (
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        [],
        ["spec: Invalid value: 0: spec in body should have at least 1 items"],
    ),
    "item path": (
        {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        [{"a": "b"}, {"a": 1}],
        ['spec[1].a: Invalid value: "integer": spec[1].a in body must be of type string: "integer"'],
    ),
    "duplicate key": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}},
        },
        [{"name": "a", "v": 1}, {"name": "a", "v": 2}],
        ['spec[1]: Duplicate value: {"name":"a"}'],
    ),
    "duplicate in a set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "b", "a"],
        ['spec[2]: Duplicate value: "a"'],
    ),
    "format": (
        {"type": "string", "format": "date-time"},
        "yesterday",
        ['spec: Invalid value: "yesterday": spec in body must be of type date-time: "yesterday"'],
    ),
    "int-or-string takes both": ({"x-kubernetes-int-or-string": True}, "25%", []),
    "int-or-string takes nothing else": (
        {"x-kubernetes-int-or-string": True},
        [],
        ['spec: Invalid value: "array": spec in body must be of type integer,string: "array"'],
    ),
    "one of": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {"a": "", "b": ""},
        ['<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
    ),
    "any of": (
        {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
        {},
        ['<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)', "spec.a: Required value"],
    ),
    "embedded object": (
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"apiVersion": "v1"},
        ["spec.kind: Required value: must not be empty"],
    ),
}


@pytest.mark.parametrize(("schema", "spec", "want"), CASES.values(), ids=CASES)
def test_a_value_outside_its_schema_gets_the_known_sentence(schema: Object, spec: Any, want: list[str]) -> None:
    assert wrong(schema, spec) == want


def test_unchanged_values_are_not_judged_again() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "string"}}}
    assert wrong(schema, {"a": "long", "b": "2"}, old={"a": "long", "b": "1"}) == []
    assert wrong(schema, {"a": "longer"}, old={"a": "long"}) == ["spec.a: Too long: may not be more than 1 bytes"]


RULED = {
    "type": "object",
    "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
    "x-kubernetes-validations": [
        {"rule": "ordered", "message": "min must not exceed max"},
        {"rule": "oldSelf.kept", "message": "max is immutable", "fieldPath": ".max", "reason": "FieldValueForbidden"},
    ],
}
MEANINGS: dict[str, Evaluate] = {
    "ordered": lambda v: v["self"]["min"] <= v["self"]["max"],  # type: ignore[index]
    "oldSelf.kept": lambda v: v["self"]["max"] == v["oldSelf"]["max"],  # type: ignore[index]
}


def test_rules_speak_with_their_message_at_their_field() -> None:
    assert wrong(RULED, {"min": 2, "max": 1}, **MEANINGS) == ["spec: Invalid value: min must not exceed max"]


def test_transition_rules_wait_for_an_update() -> None:
    assert wrong(RULED, {"min": 1, "max": 3}, **MEANINGS) == []
    assert wrong(RULED, {"min": 1, "max": 3}, old={"min": 1, "max": 2}, **MEANINGS) == [
        "spec.max: Forbidden: max is immutable"
    ]


def test_a_rule_that_fails_while_it_runs_is_an_error_of_the_object() -> None:
    (told,) = wrong(RULED, {"max": 1}, **MEANINGS)
    assert told == "spec: Invalid value: \"object\": 'min' evaluating rule: min must not exceed max"


def test_rules_wait_until_types_are_right() -> None:
    told = wrong(RULED, {"min": "x", "max": 1}, **MEANINGS)
    assert told[0].startswith("spec.min: Invalid value")
    assert told[1].startswith("<nil>: Invalid value: null: some validation rules were not checked")


def test_rules_on_items_compare_with_the_item_of_the_same_key() -> None:
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "max": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "oldSelf.kept", "message": "no"}],
        },
    }
    old = [{"name": "a", "max": 1}, {"name": "b", "max": 2}]
    new = [{"name": "new", "max": 9}, {"name": "b", "max": 2}, {"name": "a", "max": 5}]
    assert wrong(schema, new, old=old, **MEANINGS) == ["spec[2]: Invalid value: no"]


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A_b"}, 'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": "a", "labels": {"x y": "1"}}, 'metadata.labels: Invalid value: "x y": name part must consist of'),
        ({"name": "a", "labels": {"x": "a b"}}, 'metadata.labels: Invalid value: "a b": a valid label must be'),
        ({"name": "a", "labels": {"x": "v" * 64}}, f'metadata.labels: Invalid value: "{"v" * 64}": must be no more'),
        ({"name": "a", "annotations": {"a": "x" * 300_000}}, "metadata.annotations: Too long: may not be more than"),
        ({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
         'metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
    ],
)  # fmt: skip
def test_metadata_is_judged(metadata: Object, want: str) -> None:
    errors = schema_of({"type": "object"}).validate({"metadata": metadata})
    assert [str(error)[: len(want)] for error in errors] == [want]


def test_a_name_cannot_change() -> None:
    errors = schema_of({"type": "object"}).validate({"metadata": {"name": "b"}}, {"metadata": {"name": "a"}})
    assert [str(error) for error in errors] == ['metadata.name: Invalid value: "b": field is immutable']


def test_the_summary_names_kind_group_and_object() -> None:
    errors = [FieldError(path="spec.a", type=error.type) for error in _required("a", "b")]
    assert summary("Widget", "example.com", "w", errors[:1]) == (
        'Widget.example.com "w" is invalid: spec.a: Required value'
    )
    assert summary("Pod", "", "p", _required("a", "b")) == (
        'Pod "p" is invalid: [spec.a: Required value, spec.b: Required value]'
    )


def _required(*names: str) -> list[FieldError]:
    schema = {"type": "object", "required": list(names)}
    return schema_of(schema).validate({"metadata": {"name": "x"}, "spec": {}})


def test_repeated_keys_are_told_with_their_paths() -> None:
    value, repeated = decode_json(b'{"a": {"b": [{"c": 1, "c": 2}]}, "d": 1, "d": 1}')
    assert value == {"a": {"b": [{"c": 2}]}, "d": 1}
    assert repeated == ["d", "a.b[0].c"]
    assert strict_error(["spec.x"], repeated) == (
        'strict decoding error: duplicate field "d", duplicate field "a.b[0].c", unknown field "spec.x"'
    )


def test_yaml_keeps_timestamps_as_text_and_tells_repeated_keys_by_line() -> None:
    value, repeated = decode_yaml(b"a: 2026-01-01\nb: {1: x}\nc: yes\na: 2\n")
    assert value == {"a": 2, "b": {"1": "x"}, "c": True}
    assert field_warnings([], repeated) == ['yaml: unmarshal errors:\n  line 4: key "a" already set in map']
    assert decode_yaml(b"a: 2026-01-01\nb: &x {k: 1}\nc: {<<: *x}")[0] == {
        "a": "2026-01-01",
        "b": {"k": 1},
        "c": {"k": 1},
    }


@pytest.mark.parametrize("body", [b"{", b"", b'{"a":}'])
def test_broken_json_is_a_bad_body(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode_json(body)


def test_broken_yaml_is_a_bad_body() -> None:
    with pytest.raises(BadBody):
        decode_yaml(b"a: [")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"replicas": "3"}, "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"replicas": 1.5},
         "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"paused": "yes"}, "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.paused of type bool"),
        ({"template": {"spec": {"containers": {}}}},
         "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"),
        ({"replicas": None, "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}}, ""),
    ],
)  # fmt: skip
def test_a_built_in_kind_of_the_wrong_type_is_refused_as_go_refuses_it(spec: Object, want: str) -> None:
    schema = builtin_schema(GVK("apps", "v1", "Deployment"))
    assert schema.decoding_error({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}) == want


def test_a_custom_kinds_metadata_is_decoded_too() -> None:
    assert schema_of({"type": "object"}).decoding_error({"metadata": {"labels": {"a": 1}}}) == (
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    )
