"""Server-side apply and field tracking, against the documented behaviour of Kubernetes."""

import json
from typing import Any

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.errors import ApplyConflict, BadBody
from modelplane.server.builtin import builtin_schema, object_meta
from modelplane.server.fieldmanager import FieldSet, apply, judge, track_update, unchanged
from modelplane.server.schema import Schema
from modelplane.server.schema.node import Compiler

DEPLOYMENT = builtin_schema(GVK("apps", "v1", "Deployment"))
T1, T2, T3 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"

WIDGET = Schema(
    Compiler().compile(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer"},
                        "atomic": {"type": "array", "items": {"type": "string"}},
                        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "items": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
                            },
                        },
                        "whole": {
                            "type": "object",
                            "x-kubernetes-map-type": "atomic",
                            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                        },
                        "map": {"type": "object", "additionalProperties": {"type": "string"}},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                },
                "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
            },
        }
    ),
    object_meta(),
    status_subresource=True,
)


def widget(spec: Any = None, **more: Any) -> Object:
    made: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, **more}
    return made if spec is None else made | {"spec": spec}


def put(live: Object | None, spec: Any, manager: str, time: str = T1, force: bool = False, **more: Any) -> Object:
    return apply(live, widget(spec, **more), manager=manager, schema=WIDGET, time=time, force=force)


def update(live: Object | None, spec: Any, manager: str, time: str = T1, subresource: str = "", **more: Any) -> Object:
    new = {**(live or {}), **widget(spec, **more)}
    new["metadata"] = {**((live or {}).get("metadata") or {}), **new["metadata"]}
    return track_update(live, new, manager=manager, schema=WIDGET, time=time, subresource=subresource)


def owned(obj: Object) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_an_applied_object_is_owned_by_its_applier_field_by_field() -> None:
    obj = put(
        None, {"n": 1, "items": [{"name": "a", "v": 1}], "map": {"k": "v"}, "atomic": ["x"], "whole": {"a": "1"}}, "me"
    )
    (entry,) = obj["metadata"]["managedFields"]
    assert entry == {
        "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {
                "f:atomic": {},
                "f:items": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:v": {}}},
                "f:map": {"f:k": {}},
                "f:n": {},
                "f:whole": {},
            }
        },
        "manager": "me",
        "operation": "Apply",
        "time": T1,
    }


def test_changing_another_appliers_field_is_a_conflict_that_names_it() -> None:
    live = put(None, {"n": 1}, "one")
    with pytest.raises(ApplyConflict) as caught:
        put(live, {"n": 2}, "two")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.n'
    assert caught.value.conflicts == (('"one"', ".spec.n"),)


def test_several_conflicts_are_listed_by_their_owner() -> None:
    live = update(
        put(None, {"items": [{"name": "a", "v": 1}]}, "one"), {"items": [{"name": "a", "v": 1}], "n": 1}, "two"
    )
    with pytest.raises(ApplyConflict) as caught:
        put(live, {"n": 2, "items": [{"name": "a", "v": 2}]}, "three")
    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.items[name="a"].v\n'
        'conflicts with "two" using example.com/v1:\n- .spec.n'
    )


def test_force_takes_the_field() -> None:
    live = put(put(None, {"n": 1, "map": {"a": "1"}}, "one"), {"n": 2}, "two", force=True)
    assert live["spec"] == {"n": 2, "map": {"a": "1"}}
    assert owned(live) == {"one": {"f:spec": {"f:map": {"f:a": {}}}}, "two": {"f:spec": {"f:n": {}}}}


def test_applying_the_same_value_shares_the_field_and_it_outlives_one_owner() -> None:
    live = put(put(None, {"n": 1}, "one"), {"n": 1}, "two")
    assert set(owned(live)) == {"one", "two"}
    live = put(live, {}, "one", T2)
    assert live["spec"] == {"n": 1}, "two still wants it"
    assert set(owned(live)) == {"two", "one"}
    live = put(live, {}, "two", T3)
    assert live["spec"] == {}, "nobody wants it any more"


def test_a_field_that_is_no_longer_applied_goes() -> None:
    live = put(None, {"n": 1, "map": {"a": "1", "b": "2"}, "set": ["x", "y"]}, "one")
    live = put(live, {"map": {"b": "2"}, "set": ["y"]}, "one", T2)
    assert live["spec"] == {"map": {"b": "2"}, "set": ["y"]}


def test_what_somebody_else_added_stays_when_an_applier_leaves() -> None:
    live = put(None, {"items": [{"name": "a", "v": 1}]}, "one")
    live = update(live, {"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}, "controller", T2)
    live = put(live, {}, "one", T3)
    assert live["spec"]["items"] == [{"name": "b", "v": 2}]
    assert owned(live)["controller"] == {"f:spec": {"f:items": {'k:{"name":"b"}': {".": {}, "f:name": {}, "f:v": {}}}}}


def test_an_item_stays_as_long_as_somebody_owns_a_part_of_it() -> None:
    live = put(None, {"items": [{"name": "a"}]}, "one")
    live = put(live, {"items": [{"name": "a", "v": 5}]}, "two")
    live = put(live, {"items": []}, "two", T2)
    assert live["spec"]["items"] == [{"name": "a"}]


def test_applied_items_keep_their_order_between_the_others() -> None:
    live = put(None, {"items": [{"name": n} for n in "abc"]}, "one")
    live = put(live, {"items": [{"name": n} for n in "xcb"]}, "two")
    assert [item["name"] for item in live["spec"]["items"]] == ["a", "x", "c", "b"]


def test_an_atomic_list_or_struct_is_one_field() -> None:
    live = put(None, {"atomic": ["a"], "whole": {"a": "1"}}, "one")
    for spec in ({"atomic": ["a", "b"]}, {"whole": {"b": "2"}}):
        with pytest.raises(ApplyConflict):
            put(live, spec, "two")
    live = put(live, {"whole": {"b": "2"}}, "two", force=True)
    assert live["spec"] == {"atomic": ["a"], "whole": {"b": "2"}}


def test_unknown_fields_that_are_kept_are_granular_maps_and_atomic_lists() -> None:
    live = put(None, {"free": {"deep": {"a": 1}, "list": [1]}}, "one")
    live = put(live, {"free": {"deep": {"b": 2}}}, "two")
    assert live["spec"]["free"] == {"deep": {"a": 1, "b": 2}, "list": [1]}
    with pytest.raises(ApplyConflict, match=r"\.spec\.free\.list"):
        put(live, {"free": {"list": [2]}}, "two")


def test_an_update_takes_fields_without_asking() -> None:
    live = put(None, {"n": 1, "map": {"a": "1"}}, "one")
    live = update(live, {"n": 2, "map": {"a": "1"}}, "kubectl-edit", T2)
    assert owned(live) == {"one": {"f:spec": {"f:map": {"f:a": {}}}}, "kubectl-edit": {"f:spec": {"f:n": {}}}}
    with pytest.raises(ApplyConflict, match=r'"kubectl-edit" using example.com/v1: \.spec\.n'):
        put(live, {"n": 1, "map": {"a": "1"}}, "one", T3)


def test_an_update_that_changes_nothing_owns_nothing_and_keeps_times() -> None:
    live = put(None, {"n": 1}, "one")
    assert update(live, {"n": 1}, "two", T2) == live


def test_a_created_objects_maps_are_owned_with_their_keys() -> None:
    obj = update(None, {"map": {"k": "v"}}, "creator", metadata={"name": "w", "labels": {"a": "b"}, "uid": "u"})
    assert owned(obj) == {
        "creator": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {".": {}, "f:map": {".": {}, "f:k": {}}},
        }
    }


def test_status_is_tracked_by_its_own_path_alone() -> None:
    live = put(None, {"n": 1}, "one", status={"ready": True})
    assert owned(live) == {"one": {"f:spec": {"f:n": {}}}}
    live.pop("status", None)
    live = update(live, {"n": 1}, "controller", T2, subresource="status", status={"ready": True})
    (entry,) = (e for e in live["metadata"]["managedFields"] if e["manager"] == "controller")
    assert entry["fieldsV1"] == {"f:status": {".": {}, "f:ready": {}}}
    assert entry["subresource"] == "status"


def test_one_manager_applying_and_updating_is_two_entries_appliers_first() -> None:
    live = update(put(None, {"n": 1}, "same", T2), {"n": 1, "map": {"a": "1"}}, "same", T1)
    assert [entry["operation"] for entry in live["metadata"]["managedFields"]] == ["Apply", "Update"]


def test_an_object_that_is_not_tracked_is_owned_by_before_first_apply() -> None:
    live = put(widget({"n": 1}), {"n": 2}, "one", T2, force=True)
    live_shared = put(widget({"n": 1, "map": {"a": "1"}}), {"n": 1}, "one", T2)
    assert owned(live) == {
        "one": {"f:spec": {"f:n": {}}},
        "before-first-apply": {"f:spec": {}},
    }
    assert owned(live_shared)["before-first-apply"] == {"f:spec": {".": {}, "f:map": {".": {}, "f:a": {}}, "f:n": {}}}
    assert "managedFields" not in update(widget({"n": 1}), {"n": 2}, "someone")["metadata"], "updates do not start it"


def test_managed_fields_can_be_reset_by_a_client_and_garbage_is_ignored() -> None:
    live = put(None, {"n": 1}, "one")
    reset = update(live, {"n": 1}, "two", metadata={"name": "w", "managedFields": [{}]})
    assert "managedFields" not in reset["metadata"]
    kept = update(live, {"n": 1}, "two", metadata={"name": "w", "managedFields": [{"operation": "Guess"}]})
    assert kept["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    dropped = update(live, {"n": 1}, "two", metadata={"name": "w", "managedFields": None})
    assert dropped["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_only_the_ten_newest_updaters_keep_their_entries() -> None:
    live = put(None, {"n": 0}, "one")
    fields: dict[str, str] = {}
    for number in range(14):
        fields[f"k{number:02}"] = "v"
        live = update(live, {"n": 0, "map": dict(fields)}, f"m{number:02}", f"2026-01-01T00:01:{number:02}Z")
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert names == ["one", "ancient-changes", *(f"m{number:02}" for number in range(5, 14))]
    assert {f"f:k{n:02}" for n in range(5)} <= owned(live)["ancient-changes"]["f:spec"]["f:map"].keys()


def test_a_write_that_only_renews_times_is_no_write() -> None:
    live = put(None, {"n": 1}, "one")
    entry = live["metadata"]["managedFields"][0]
    later = {**live, "metadata": {**live["metadata"], "managedFields": [entry | {"time": T3}]}}
    assert unchanged(live, later)
    assert not unchanged(live, {**later, "spec": {"n": 2}})
    assert not unchanged(live, put(live, {"n": 1}, "two"))


@pytest.mark.parametrize(
    ("spec", "more", "message"),
    [
        ({"bogus": 1}, {}, r"failed to create typed patch object (/w; example.com/v1, Kind=Widget): "
                           ".spec.bogus: field not declared in schema"),
        ({"n": "x"}, {}, ".spec.n: expected numeric (int or float), got &value.valueUnstructured{Value:\"x\"}"),
        ({"items": [{"v": 1}]}, {}, '.spec.items: element 0: associative list with keys has an element that omits'),
        ({"items": [{"name": "a"}, {"name": "a"}]}, {}, 'duplicate entries for key [name="a"]'),
        ({"n": 1}, {"apiVersion": "example.com/v2"}, "Incorrect version specified in apply patch. "
                                                     "Specified patch version: example.com/v2, expected: example.com/v1"),
        ({"n": 1}, {"metadata": {"name": "w", "managedFields": [{}]}}, "metadata.managedFields must be nil"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_applied_is_a_bad_request(spec: Object, more: Object, message: str) -> None:
    def request() -> None:
        judge(widget(spec, **more), WIDGET)
        put(widget({"n": 1}), spec, "one", **more)

    with pytest.raises(BadBody) as caught:
        request()
    assert message in str(caught.value)


CONTAINER = {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}


def deployment(replicas: int | None = 1, **metadata: Any) -> Object:
    spec: Object = {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", **metadata}, "spec": spec}


def test_a_created_deployment_reads_as_a_real_server_writes_it() -> None:
    live = track_update(None, DEPLOYMENT.default(deployment()), manager="kubectl-create", schema=DEPLOYMENT, time=T1)
    fields = owned(live)["kubectl-create"]
    assert set(fields["f:spec"]) == {
        "f:progressDeadlineSeconds", "f:replicas", "f:revisionHistoryLimit", "f:selector", "f:strategy", "f:template",
    }  # fmt: skip
    assert fields["f:spec"]["f:strategy"] == {
        "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
        "f:type": {},
    }
    assert fields["f:spec"]["f:template"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
    container = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:resources"] == {}
    assert container["f:ports"] == {
        ".": {},
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
    }


def test_a_ports_default_protocol_is_part_of_its_identity() -> None:
    live = apply(None, deployment(), manager="one", schema=DEPLOYMENT, time=T1)
    live = DEPLOYMENT.default(live)
    again = apply(live, deployment(), manager="one", schema=DEPLOYMENT, time=T2)
    ports = again["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP"}]
    assert again["metadata"]["managedFields"][0]["time"] == T1, "nothing changed"


def test_a_scaler_keeps_replicas_once_the_applier_leaves_them_out() -> None:
    live = DEPLOYMENT.default(apply(None, deployment(3), manager="ci", schema=DEPLOYMENT, time=T1))
    scaled = {**live, "spec": {**live["spec"], "replicas": 5}}
    scaled = track_update(live, scaled, manager="hpa", schema=DEPLOYMENT, time=T2, subresource="scale")
    with pytest.raises(ApplyConflict) as caught:
        apply(scaled, deployment(3), manager="ci", schema=DEPLOYMENT, time=T3)
    assert str(caught.value) == (
        'Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas'
    )
    assert apply(scaled, deployment(None), manager="ci", schema=DEPLOYMENT, time=T3)["spec"]["replicas"] == 5


def client_side(replicas: int) -> Object:
    obj = deployment(replicas)
    annotation = json.dumps(obj)
    obj["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": annotation}
    return track_update(None, DEPLOYMENT.default(obj), manager="kubectl-client-side-apply", schema=DEPLOYMENT, time=T1)


def test_kubectl_changes_over_from_client_side_apply_without_conflicts() -> None:
    live = client_side(1)
    moved = apply(live, deployment(2), manager="kubectl", schema=DEPLOYMENT, time=T2)
    assert moved["spec"]["replicas"] == 2
    annotation = moved["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(annotation)["spec"]["replicas"] == 2, "the annotation follows"
    with pytest.raises(ApplyConflict) as caught:
        apply(live, deployment(2), manager="other", schema=DEPLOYMENT, time=T2)
    assert str(caught.value) == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )


def test_a_field_changed_since_the_last_client_side_apply_is_still_a_conflict() -> None:
    live = client_side(1)
    scaled = {**live, "spec": {**live["spec"], "replicas": 7}}
    scaled = track_update(live, scaled, manager="someone", schema=DEPLOYMENT, time=T2)
    with pytest.raises(ApplyConflict, match=r'"someone" using apps/v1: \.spec\.replicas'):
        apply(scaled, deployment(2), manager="kubectl", schema=DEPLOYMENT, time=T3)


FIELDS = {
    "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
    "f:spec": {'k:{"name":"x"}': {".": {}, "f:v": {}}, 'v:"s"': {}, "i:3": {}},
}


def test_a_field_set_survives_its_encoding() -> None:
    assert FieldSet.decode(FIELDS).encode() == FIELDS
    assert sorted(map(len, FieldSet.decode(FIELDS).paths())) == [2, 2, 2, 2, 3, 3]


def test_the_inputs_of_an_apply_are_left_alone() -> None:
    live = put(None, {"n": 1, "map": {"a": "1"}}, "one")
    before = json.dumps(live)
    put(live, {"map": {"b": "2"}}, "one")
    update(live, {"n": 3}, "two")
    assert json.dumps(live) == before


def test_objects_with_the_same_names_do_not_share_what_becomes_of_one_of_them() -> None:
    names = {"a": "1", "b": "2"}
    first, second = (update(None, {"map": dict(names), "free": dict(names)}, "one") for _ in range(2))
    before = owned(second)
    assert before == owned(first) == {"one": {"f:spec": {
        ".": {}, "f:free": {".": {}, "f:a": {}, "f:b": {}}, "f:map": {".": {}, "f:a": {}, "f:b": {}},
    }}}  # fmt: skip
    changed = update(first, {"map": {"a": "1", "c": "3"}, "free": names}, "two", T2)
    assert owned(changed)["two"] == {"f:spec": {"f:map": {"f:c": {}}}}
    assert "f:b" not in owned(changed)["one"]["f:spec"]["f:map"]
    assert owned(second) == before
    assert owned(update(None, {"map": dict(names), "free": dict(names)}, "one")) == before


def test_a_map_of_many_names_is_owned_name_by_name() -> None:
    names = {f"n{number:03}": "v" for number in reversed(range(100))}
    for made in (update(None, {"map": names}, "one"), put(None, {"map": names}, "one")):
        assert list(owned(made)["one"]["f:spec"]["f:map"])[-100:] == [f"f:n{number:03}" for number in range(100)]
