"""CustomResourceDefinitions: defaults, rules, names, and the kinds that they serve."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import modelplane
from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import builtin_schema
from modelplane.server.crd import established, is_established, resource_types
from modelplane.server.schema.cel import CelEngine

CRD = builtin_schema(GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
ENGINE = CelEngine()
TIME = "2026-01-01T00:00:00Z"
FILES = sorted((Path(modelplane.__file__).parent / "api").glob("*/*.yaml"))
DEFINITIONS = [
    pytest.param(document, id=document["metadata"]["name"])
    for file in FILES
    for document in yaml.safe_load_all(file.read_text())
    if document and document.get("kind") == "CustomResourceDefinition"
]


def widgets(**schema: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "n": {"type": "integer", "default": 3, "maximum": 10},
                                        "at": {"type": "string", "format": "date-time"},
                                        "ratio": {"type": "number"},
                                    },
                                    **schema,
                                }
                            },
                        }
                    },
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                    },
                    "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
                    "selectableFields": [{"jsonPath": ".spec.n"}],
                },
                {
                    "name": "v1beta1",
                    "served": False,
                    "storage": False,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                },
            ],
        },
    }


def errors(crd: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in CRD.validate(CRD.default(crd), old and CRD.default(old))]


def test_a_definition_gets_the_names_that_follow_from_its_kind() -> None:
    crd = CRD.default(widgets())
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert errors(widgets()) == []


@pytest.mark.parametrize("crd", DEFINITIONS)
def test_the_projects_own_definitions_are_accepted_whole_and_their_rules_compile(crd: Object) -> None:
    kept, unknown = CRD.prune(crd)
    assert unknown == []
    assert CRD.decoding_error(kept) == ""
    assert errors(kept) == []
    for served in resource_types(CRD.default(kept), ENGINE):
        assert served.schema.default({"metadata": {"name": "a"}})["metadata"] == {"name": "a"}
        assert served.printer.columns[0].name == "Name"


SHARED = Path(__file__).parents[2].parent / "shared" / "crds"


@pytest.mark.skipif(not SHARED.is_dir(), reason="other projects' definitions are not beside this repository")
def test_other_projects_definitions_are_accepted_and_their_rules_compile() -> None:
    found = 0
    for file in sorted(SHARED.rglob("*.yaml")):
        for document in yaml.load_all(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if document and document.get("kind") == "CustomResourceDefinition":
                found += 1
                kept, unknown = CRD.prune(document)
                crd = CRD.default(kept)
                assert (unknown, CRD.decoding_error(kept), CRD.validate(crd)) == ([], "", []), file
    assert found > 50


def broken(change: Any) -> Object:
    crd = copy.deepcopy(widgets())
    change(crd, crd["spec"], crd["spec"]["versions"][0])
    return crd


def properties(version: Object) -> Object:
    found: Object = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


BAD: dict[str, tuple[Any, str]] = {
    "name": (
        lambda crd, spec, v: crd["metadata"].update(name="w.example.com"),
        'metadata.name: Invalid value: "w.example.com": must be spec.names.plural+"."+spec.group',
    ),
    "scope": (
        lambda crd, spec, v: spec.update(scope="Galaxy"),
        'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ),
    "storage": (
        lambda crd, spec, v: v.update(storage=False),
        'spec.versions: Invalid value: ["v1","v1beta1"]: must have exactly one version marked as storage version',
    ),
    "no schema": (
        lambda crd, spec, v: v.pop("schema"),
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    ),
    "untyped": (
        lambda crd, spec, v: properties(v).update(x={"description": "?"}),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].type: Required value: "
        "must not be empty for specified object fields",
    ),
    "array without items": (
        lambda crd, spec, v: properties(v).update(x={"type": "array"}),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].items: Required value: must be specified",
    ),
    "type in a branch": (
        lambda crd, spec, v: properties(v).update(x={"type": "string", "anyOf": [{"type": "string"}]}),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].anyOf[0].type: Forbidden: "
        "must be empty to be structural",
    ),
    "both kinds of map": (
        lambda crd, spec, v: properties(v).update(
            x={"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}
        ),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].additionalProperties: Forbidden: "
        "additionalProperties and properties are mutual exclusive",
    ),
    "pattern": (
        lambda crd, spec, v: properties(v).update(x={"type": "string", "pattern": "("}),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].pattern: Invalid value: "
        '"(": must be a valid regular expression',
    ),
    "list key": (
        lambda crd, spec, v: properties(v).update(
            x={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            }
        ),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].items.properties[k].default: "
        "Required value: this property is in x-kubernetes-list-map-keys",
    ),
    "column path": (
        lambda crd, spec, v: v["additionalPrinterColumns"][0].update(jsonPath=".a["),
        'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: ".a[": illegal JSONPath',
    ),
    "default": (
        lambda crd, spec, v: properties(v)["n"].update(default=11),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[n].default: Invalid value: 11: ",
    ),
    "scale path": (
        lambda crd, spec, v: v["subresources"]["scale"].update(specReplicasPath=".status.n"),
        "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: "
        '".status.n": should be a json path under .spec',
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_a_bad_definition_is_told_where(change: Any, message: str) -> None:
    told = errors(broken(change))
    assert len(told) == 1
    assert told[0].startswith(message)


def test_scope_and_group_are_for_life() -> None:
    assert errors(broken(lambda crd, spec, v: spec.update(scope="Cluster")), widgets()) == [
        'spec.scope: Invalid value: "Cluster": field is immutable'
    ]


def test_served_versions_become_kinds_with_all_that_the_definition_says() -> None:
    (kind,) = resource_types(CRD.default(widgets()), ENGINE)
    assert (kind.gvk, kind.plural, kind.singular, kind.list_kind) == (
        GVK("example.com", "v1", "Widget"), "widgets", "widget", "WidgetList",
    )  # fmt: skip
    assert kind.namespaced
    assert kind.custom
    assert kind.status_subresource
    assert kind.scale is not None
    assert kind.scale.spec == ".spec.n"
    assert (kind.short_names, kind.categories, kind.selectable_fields) == (("wd",), ("all",), ("spec.n",))
    assert kind.group_resource == "widgets.example.com"
    obj, unknown = kind.schema.prune({"metadata": {"name": "w", "x": 1}, "spec": {"n": None, "bad": 1}, "other": {}})
    assert unknown == ["metadata.x", "other", "spec.bad"]
    assert kind.schema.default(obj)["spec"] == {"n": 3}
    assert kind.load_source is not None
    assert kind.load_source()["properties"]["spec"]["properties"]["n"]["default"] == 3


def test_an_object_is_pruned_and_judged_by_its_rules() -> None:
    rules = [
        {"rule": "self.n < 5 || has(self.at)", "message": "five or more need a time"},
        {
            "rule": "!has(self.at) || self.at > timestamp('2026-01-01T00:00:00Z')",
            "messageExpression": "'too early: ' + string(self.n)",
        },
        {"rule": "oldSelf.n <= self.n", "message": "n never falls"},
        {"rule": "!has(self.ratio) || self.ratio / 2.0 < 1.0"},
    ]  # fmt: skip
    (kind,) = resource_types(CRD.default(widgets(**{"x-kubernetes-validations": rules})), ENGINE)

    def told(spec: Object, old: Object | None = None) -> list[str]:
        def whole(value: Object) -> Object:
            return {"metadata": {"name": "w"}, "spec": value}

        return [str(error) for error in kind.schema.validate(whole(spec), whole(old) if old else None)]

    assert told({"n": 3}) == []
    assert told({"n": 7}) == ["spec: Invalid value: five or more need a time"]
    assert told({"n": 7, "at": "2026-02-01T00:00:00Z"}) == []
    assert told({"n": 7, "at": "2025-02-01T00:00:00Z"}) == ["spec: Invalid value: too early: 7"]
    assert told({"n": 1}, {"n": 2}) == ["spec: Invalid value: n never falls"]
    assert told({"n": 1, "ratio": 3}) == [
        "spec: Invalid value: failed rule: !has(self.ratio) || self.ratio / 2.0 < 1.0"
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, []),
        ({"spec": {"n": 3}, "status": {"n": 0}}, []),
        ({"spec": {"n": -1}}, [".spec.n: Invalid value: -1: should be a non-negative integer"]),
        ({"spec": {"n": 2**31}}, [".spec.n: Invalid value: 2147483648: should be less than or equal to 2147483647"]),
        (
            {"spec": {"n": "two"}, "status": {"n": 1.5}},
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: two is of the type string, expected int64",
                ".status.n: Invalid value: 0: .status.n accessor error: 1.5 is of the type float64, expected int64",
            ],
        ),
        (
            {"spec": ["a", True]},
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: [a true] is of the type []interface {}, "
                "expected map[string]interface{}"
            ],
        ),
        (
            {"status": {"text": {"a": 1}}},
            [
                '.status.text: Invalid value: "": .status.text accessor error: map[a:1] is of the type '
                "map[string]interface {}, expected string"
            ],
        ),
    ],
)
def test_counts_and_selector_of_a_scale_are_judged_beside_the_schema(fields: Object, told: list[str]) -> None:
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = widgets(properties={})
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = loose
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.text",
    }
    (kind,) = resource_types(crd, ENGINE)
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, **fields}
    assert [str(error) for error in kind.schema.validate(obj)] == told


def test_an_optional_old_self_is_none_on_create() -> None:
    rules = [
        {"rule": "!oldSelf.hasValue() || oldSelf.value().n == self.n", "optionalOldSelf": True, "message": "fixed"}
    ]
    (kind,) = resource_types(CRD.default(widgets(**{"x-kubernetes-validations": rules})), ENGINE)
    first, second = ({"metadata": {"name": "w"}, "spec": {"n": n}} for n in (1, 2))
    assert kind.schema.validate(first) == []
    assert [error.message for error in kind.schema.validate(second, first)] == ["fixed"]


def test_a_new_definition_is_established_and_keeps_its_transition_times() -> None:
    crd = CRD.default(widgets())
    assert not is_established(crd)
    crd["status"] = established(crd, [], TIME)
    assert is_established(crd)
    assert crd["status"]["acceptedNames"]["plural"] == "widgets"
    assert crd["status"]["storedVersions"] == ["v1"]
    assert established(crd, [], "2027-01-01T00:00:00Z") == crd["status"]


def test_a_name_that_is_taken_is_not_accepted_and_nothing_is_served() -> None:
    crd = CRD.default(widgets())
    crd["status"] = established(crd, [{"plural": "wds", "shortNames": ["wd"], "kind": "Wd"}], TIME)
    conditions = {c["type"]: (c["status"], c["reason"], c["message"]) for c in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("False", "ShortNamesConflict", '"wd" is already in use')
    assert conditions["Established"][:2] == ("False", "NotAccepted")
    assert not is_established(crd)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"type": "integer", "default": "x"}, ".default: Invalid value:", id="of another type"),
        pytest.param(
            {
                "type": "object",
                "default": {},
                "required": ["b"],
                "properties": {"b": {"type": "integer", "default": 1}},
            },
            ".default.b: Required value",
            id="that lacks what would be filled in",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}, "default": [1, "x"]},
            ".default[1]: Invalid value:",
            id="with one entry of another type",
        ),
        pytest.param(
            {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]},
            ".default: Invalid value: 1: failed rule: self > 1",
            id="that a rule refuses",
        ),
        pytest.param(
            {
                "type": "integer",
                "default": 1,
                "x-kubernetes-validations": [{"rule": "oldSelf.hasValue()", "optionalOldSelf": True}],
            },
            ".default: Invalid value: 1: failed rule: oldSelf.hasValue()",
            id="that a rule refuses where nothing was before",
        ),
    ],
)
def test_a_default_has_to_pass_where_it_stands(schema: Object, wanted: str) -> None:
    crd = widgets(properties={"n": schema})
    errors = [str(error) for error in CRD.validate(CRD.default(crd))]
    assert any(wanted in error for error in errors), errors


def test_a_schema_that_is_stored_already_is_not_judged_again() -> None:
    bad = CRD.default(widgets(**{"x-kubernetes-validations": [{"rule": "self.none == 1"}]}))
    assert any("undefined field" in str(error) for error in CRD.validate(bad))
    relabelled = copy.deepcopy(bad)
    relabelled["metadata"]["labels"] = {"a": "b"}
    assert [error for error in CRD.validate(relabelled, bad) if "undefined field" in str(error)] == []


@pytest.mark.parametrize(
    ("rule", "spec", "wanted"),
    [
        (
            {"rule": "1 / self.n > 0"},
            {"n": 0},
            'Invalid value: "object": division by zero evaluating rule: 1 / self.n > 0',
        ),
        ({"rule": "self.n > 'a' || self.n > 0", "message": "m"}, {"n": 0}, "no such overload"),
        ({"rule": "self.n > 0", "reason": "FieldValueDuplicate", "message": "m"}, {"n": 0}, "spec: Duplicate value"),
    ],
    ids=["an error while it runs", "types that do not fit", "a reason without words"],
)
def test_a_rule_that_fails_tells_what_kube_apiserver_tells(rule: Object, spec: Object, wanted: str) -> None:
    (kind,) = resource_types(CRD.default(widgets(**{"x-kubernetes-validations": [rule]})), ENGINE)
    (error,) = kind.schema.validate({"metadata": {"name": "w"}, "spec": spec})
    assert wanted in str(error)


def test_rules_below_an_atomic_map_meet_the_old_value() -> None:
    inner = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"v": inner}}
    (kind,) = resource_types(CRD.default(widgets(properties={"a": atomic})), ENGINE)
    first, second = ({"metadata": {"name": "w"}, "spec": {"a": {"v": v}}} for v in "xy")
    assert [error.message for error in kind.schema.validate(second, first)] == ["fixed"]
