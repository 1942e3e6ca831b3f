"""Rules of a definition are judged when it is written: place by place, with Kubernetes' words and its budgets."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.server.builtin import crdrules
from modelplane.server.schema.declared import escaped
from modelplane.server.schema.fieldpaths import field_path

TEXT = {"type": "string", "maxLength": 5}


def told(schema: dict[str, Any]) -> list[str]:
    return [str(error) for error in crdrules.check({"type": "object", "properties": {"spec": schema}}, "root")]


def place(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}


def test_a_schema_without_rules_is_not_looked_at() -> None:
    assert told({"type": "object", "properties": {"a": TEXT}}) == []


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        pytest.param({"rule": "self.b == 1"}, "undefined field 'b'", id="a field that is not there"),
        pytest.param({"rule": "self.a"}, "cel expression must evaluate to a bool", id="a rule that gives no bool"),
        pytest.param({"rule": "self.a +"}, "Syntax error", id="half a rule"),
        pytest.param(
            {"rule": "true", "messageExpression": "1"}, "messageExpression must evaluate to a string", id="no text"
        ),
        pytest.param({"rule": " "}, "rule is not specified", id="no rule"),
        pytest.param({"rule": "true", "message": " "}, "must be non-empty if specified", id="an empty message"),
        pytest.param({"rule": "true", "message": "a\nb"}, "must not contain line breaks", id="two lines"),
        pytest.param({"rule": "true\n&& true"}, "message must be specified if rule", id="two lines without words"),
        pytest.param({"rule": "true", "messageExpression": " "}, "must be non-empty if specified", id="empty words"),
        pytest.param({"rule": "true", "reason": "Because"}, 'Unsupported value: "Because"', id="an unknown reason"),
        pytest.param({"rule": "true", "fieldPath": ".b"}, "must be a valid path", id="a place that is not there"),
        pytest.param({"rule": "true", "fieldPath": " "}, "must be non-empty if specified", id="an empty place"),
        pytest.param({"rule": "true", "fieldPath": ".a\n"}, "must not contain line breaks", id="a place of two lines"),
        pytest.param({"rule": "true", "optionalOldSelf": True}, "may not be set if oldSelf is not used", id="unused"),
    ],
)
def test_a_bad_rule_is_refused_at_its_place(rule: dict[str, Any], wanted: str) -> None:
    errors = told(place(rule, a=TEXT))
    assert errors[0].startswith("root.properties[spec].x-kubernetes-validations[0].")
    assert any(wanted in error for error in errors), errors


def test_a_rule_is_quoted_as_go_writes_it() -> None:
    (error,) = told(place({"rule": "self.a < 1", "reason": "FieldValueInvalid"}, a=TEXT))
    assert (
        'Invalid value: {"Rule":"self.a \\u003c 1","Message":"","MessageExpression":"",'
        '"Reason":"FieldValueInvalid","FieldPath":"","OptionalOldSelf":null}: compilation failed: '
    ) in error


def test_rules_above_a_malformed_one_are_not_judged_and_those_beside_it_are() -> None:
    errors = told(place({"rule": "self.no"}, bad=place({"rule": ""}), beside=place({"rule": "self.none == 1"})))
    assert [error.partition(": ")[0] for error in errors] == [
        "root.properties[spec].properties[bad].x-kubernetes-validations[0].rule",
        "root.properties[spec].properties[beside].x-kubernetes-validations[0].rule",
    ]


def test_entries_of_a_list_without_keys_have_no_old_value() -> None:
    items = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    (error,) = told({"type": "object", "properties": {"list": {"type": "array", "maxItems": 3, "items": items}}})
    assert error.endswith("uncorrelatable portion of the schema within root.properties[spec].properties[list]")


def test_entries_of_a_list_map_and_of_maps_have_one() -> None:
    entry = place({"rule": "self.v == oldSelf.v"}, k=TEXT, v=TEXT)
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    listed = {"type": "array", "maxItems": 3, "items": entry, **keyed}
    mapped = {"type": "object", "maxProperties": 3, "additionalProperties": entry, "x-kubernetes-map-type": "atomic"}
    assert told({"type": "object", "properties": {"list": listed, "map": mapped}}) == []


def test_a_rule_is_paid_as_often_as_its_place_can_be_there() -> None:
    rule = {"rule": "self.a.matches('^[a-z]{1,40}$')"}
    once = crdrules.judged(place(rule, a=TEXT), "")
    list_ = {"type": "array", "maxItems": 10, "items": place(rule, a=TEXT)}
    many = crdrules.judged({"type": "object", "properties": {"list": list_}}, "")
    assert [*many.costs.values()] == [10 * cost for cost in once.costs.values()]
    unbounded = crdrules.judged({"type": "object", "properties": {"list": {"type": "array", "items": list_}}}, "")
    assert sum(unbounded.costs.values()) > 100_000 * sum(once.costs.values())


def test_a_budget_that_is_just_passed_is_told_exactly() -> None:
    names = {"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 63}}
    rule = {"rule": "self.names.all(a, self.names.exists(b, a == b))"}
    errors = told(place(rule, names=names))
    assert "estimated rule cost exceeds budget by factor of 3.2x" in errors[0]
    names["maxItems"] = 560
    assert "by factor of 1.003856x" in told(place(rule, names=names))[0]
    names["maxItems"] = 550
    assert told(place(rule, names=names)) == []


def test_rules_that_are_too_dear_together_are_named_with_the_dearest_first() -> None:
    names = {"type": "array", "maxItems": 550, "items": {"type": "string", "maxLength": 63}}
    rules = [{"rule": "self.names.all(a, self.names.exists(b, a == b))"} for _ in range(11)]
    errors = told(place(*rules, names=names))
    part = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert [error.endswith(part) for error in errors] == [True] * 4 + [False]
    assert errors[-1].startswith("root: Forbidden: x-kubernetes-validations estimated rule cost total")


def test_rules_at_a_place_that_has_no_type_cannot_be_judged() -> None:
    (error,) = told({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]})
    assert "Internal error: internal error: failed to construct type information" in error


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".a.b", "a.b"),
        (".a['b']", "a.b"),
        (".map.x", "map[x]"),
        (".map['x.y']", "map[x.y]"),
        (".map['it\\'s']", "map[it's]"),
        (".map['\\q']", None),
        (".map['x'", None),
        (".map[x]", None),
        (".list[0]", None),
        (".a.c", None),
        (".a.b.c", None),
        ("a", None),
        (".", None),
        ("[", None),
    ],
)
def test_the_place_of_a_message_is_read_as_kubernetes_reads_it(path: str, wanted: str | None) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b": TEXT}},
            "map": {"type": "object", "additionalProperties": TEXT},
            "list": {"type": "array", "items": TEXT},
        },
    }
    assert field_path(schema, path) == wanted


@pytest.mark.parametrize(
    ("name", "written"),
    [("a-b.c/d", "a__dash__b__dot__c__slash__d"), ("a__b", "a__underscores__b"), ("in", "__in__"), ("9a", None)],
)
def test_names_are_escaped_for_rules(name: str, written: str | None) -> None:
    assert escaped(name) == written
