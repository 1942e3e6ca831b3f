"""The patch dialects, against what the API documentation and a real server do."""

from typing import Any

import pytest

from modelplane.api.meta import GVK
from modelplane.errors import BadBody, PatchRefused
from modelplane.server.builtin import builtin_schema
from modelplane.server.patch import json_patch, merge_patch, strategic_merge

DEPLOYMENT = builtin_schema(GVK("apps", "v1", "Deployment")).node


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_gives_what_the_rfcs_appendix_says(target: Any, patch: Any, want: Any) -> None:
    assert merge_patch(target, patch) == want


def test_a_merge_patch_that_is_no_object_is_refused() -> None:
    with pytest.raises(BadBody):
        merge_patch({}, [1])


OBJ = {"metadata": {"labels": {"a/b": "1", "m~n": "2"}}, "spec": {"list": [1, 2, 3], "n": 0, "flag": True}}


@pytest.mark.parametrize(
    ("operation", "path", "want", "reason"),
    [
        ({"op": "add", "path": "/spec/list/1", "value": 9}, "list", [1, 9, 2, 3], "an index inserts before it"),
        ({"op": "add", "path": "/spec/list/-", "value": 9}, "list", [1, 2, 3, 9], "a dash appends"),
        ({"op": "add", "path": "/spec/list/3", "value": 9}, "list", [1, 2, 3, 9], "one past the end appends"),
        ({"op": "add", "path": "/spec/n", "value": 9}, "n", 9, "adding what exists replaces it"),
        ({"op": "remove", "path": "/spec/list/0"}, "list", [2, 3], "an item goes"),
        ({"op": "replace", "path": "/spec/list/2", "value": 7}, "list", [1, 2, 7], "an item is exchanged"),
        ({"op": "move", "from": "/spec/list/0", "path": "/spec/list/2"}, "list", [2, 3, 1], "remove, then add"),
        ({"op": "copy", "from": "/spec/n", "path": "/spec/list/0"}, "list", [0, 1, 2, 3], "the source stays"),
        ({"op": "test", "path": "/metadata/labels/a~1b", "value": "1"}, "n", 0, "a slash in a key is ~1"),
        ({"op": "test", "path": "/metadata/labels/m~0n", "value": "2"}, "n", 0, "a tilde in a key is ~0"),
        ({"op": "test", "path": "/spec/gone", "value": None}, "n", 0, "a missing member tests as null"),
        ({"op": "replace", "path": "/spec/x", "value": 1}, "x", 1, "a missing member is added"),
    ],
)
def test_an_operation_changes_what_its_pointer_names(operation: Any, path: str, want: Any, reason: str) -> None:
    assert json_patch(OBJ, [operation])["spec"][path] == want, reason


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "test", "path": "/spec/n", "value": 1}, "testing value /spec/n failed: test failed"),
        ({"op": "test", "path": "/spec/n", "value": False}, "testing value /spec/n failed"),
        ({"op": "test", "path": "/spec/flag", "value": 1}, "testing value /spec/flag failed"),
        ({"op": "remove", "path": "/spec/x"}, 'remove operation does not apply: doc is missing key: "/spec/x"'),
        ({"op": "replace", "path": "/spec/list/4", "value": 1}, "invalid index"),
        ({"op": "x", "path": "/a"}, "unexpected kind of operation"),
        ({"op": "add", "path": "/x/y", "value": 1}, 'add operation does not apply: doc is missing path: "/x/y"'),
        ({"op": "add", "path": "/spec/list/4", "value": 1}, "invalid index"),
        ({"op": "add", "path": "/spec/list/01", "value": 1}, "is no index"),
        ({"op": "move", "from": "/spec", "path": "/spec/a"}, "cannot move into itself"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused_and_changes_nothing(operation: Any, message: str) -> None:
    before = repr(OBJ)
    with pytest.raises(PatchRefused, match=message.replace("(", r"\(")):
        json_patch(
            OBJ, [{"op": "add", "path": "/spec/n", "value": 5}, {"op": "add", "path": "/spec/n", "value": 0}, operation]
        )
    assert repr(OBJ) == before


@pytest.mark.parametrize(
    "operations",
    [{"op": "add"}, [1], [{"op": "add", "path": "/a"}], [{"op": "copy", "path": "/a"}],
     [{"op": "remove", "path": "a"}]],
)  # fmt: skip
def test_a_malformed_json_patch_is_a_bad_request(operations: Any) -> None:
    with pytest.raises(BadBody):
        json_patch(OBJ, operations)


def pod_spec(**spec: Any) -> Any:
    return {"spec": {"template": {"spec": spec}}}


def merged(original: Any, patch: Any) -> Any:
    return strategic_merge(original, patch, DEPLOYMENT)["spec"]["template"]["spec"]


A = {"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
B = {"name": "b", "image": "b:1"}


@pytest.mark.parametrize(
    ("original", "patch", "want", "reason"),
    [
        ([A, B], [{"name": "b", "image": "b:2"}], [A, {"name": "b", "image": "b:2"}], "items merge by name, in place"),
        ([A], [{"name": "b", "image": "b:1"}], [B, A], "a new item comes first, as the documented example shows"),
        ([A, B], [{"name": "a", "$patch": "delete"}], [B], "an item can be deleted by key"),
        ([A, B], [{"name": "c"}, {"$patch": "replace"}], [{"name": "c"}], "or all of them replaced"),
        ([A], [{"name": "a", "image": None}], [{"name": "a", "ports": A["ports"]}], "null deletes within an item"),
        ([A], [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}],
         [A | {"ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]}], "nested lists merge by their key"),
        ([A], [{"name": "a", "args": ["x"]}], [A | {"args": ["x"]}], "a new list is set"),
        ([A | {"args": ["x"]}], [{"name": "a", "args": ["y"]}], [A | {"args": ["y"]}], "a list without key is replaced"),
        ([A, B], [{"name": "c", "env": None}], [{"name": "c"}, A, B], "nulls of a new item are dropped"),
    ],
)  # fmt: skip
def test_containers_merge_by_name(original: Any, patch: Any, want: Any, reason: str) -> None:
    assert merged(pod_spec(containers=original), pod_spec(containers=patch))["containers"] == want, reason


def test_an_element_order_places_new_items_and_moves_old_ones() -> None:
    patch = pod_spec(
        **{
            "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
            "containers": [{"name": "new"}],
        }
    )
    sidecar = {"name": "injected"}
    got = merged(pod_spec(containers=[A, B, sidecar]), patch)["containers"]
    assert [item["name"] for item in got] == ["b", "new", "a", "injected"]


def test_a_renamed_container_stays_behind_one_that_was_injected() -> None:
    patch = pod_spec(
        **{
            "$setElementOrder/containers": [{"name": "new"}],
            "containers": [{"name": "new"}, {"name": "a", "$patch": "delete"}],
        }
    )
    got = merged(pod_spec(containers=[A, {"name": "injected"}]), patch)["containers"]
    assert [item["name"] for item in got] == ["injected", "new"]


def test_a_list_in_another_order_than_the_patch_asks_for_is_refused() -> None:
    order = [{"name": "b"}, {"name": "a"}]
    patch = pod_spec(**{"$setElementOrder/containers": order, "containers": [{"name": "a"}, {"name": "b"}]})
    with pytest.raises(BadBody, match="The order in patch list"):
        merged(pod_spec(containers=[A, B]), patch)


def test_primitive_lists_merge_and_shrink_by_directive() -> None:
    original = {"metadata": {"finalizers": ["one", "two"]}}
    added = strategic_merge(original, {"metadata": {"finalizers": ["three"]}}, DEPLOYMENT)
    assert sorted(added["metadata"]["finalizers"]) == ["one", "three", "two"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["one"]}}
    assert strategic_merge(original, patch, DEPLOYMENT) == {"metadata": {"finalizers": ["two"]}}


def test_retained_keys_clear_the_members_of_a_union() -> None:
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(original, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_a_map_can_be_replaced_or_emptied_by_directive() -> None:
    original = {"spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}}
    replaced = strategic_merge(
        original, {"spec": {"selector": {"matchLabels": {"$patch": "replace", "c": "3"}}}}, DEPLOYMENT
    )
    assert replaced["spec"]["selector"]["matchLabels"] == {"c": "3"}
    emptied = strategic_merge(original, {"spec": {"selector": {"matchLabels": {"$patch": "delete"}}}}, DEPLOYMENT)
    assert emptied["spec"]["selector"]["matchLabels"] == {}


@pytest.mark.parametrize(
    "patch",
    [
        pod_spec(containers=[{"image": "x"}]),
        pod_spec(containers=["x"]),
        {"spec": {"$patch": "explode"}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}},
        [],
    ],
    ids=["no merge key", "no object", "unknown directive", "key not retained", "no object at the root"],
)
def test_a_malformed_strategic_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadBody):
        strategic_merge(
            pod_spec(containers=[A]) | {"spec": pod_spec(containers=[A])["spec"] | {"strategy": {}}}, patch, DEPLOYMENT
        )


def test_patches_leave_object_and_patch_as_they_were() -> None:
    original, patch = pod_spec(containers=[A]), pod_spec(containers=[{"name": "a", "$patch": "delete"}])
    before = repr((original, patch))
    strategic_merge(original, patch, DEPLOYMENT)
    assert repr((original, patch)) == before
