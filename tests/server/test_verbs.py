"""Create, read, update, patch and delete over HTTP, in the codes and words of kube-apiserver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server.api import JSON_PATCH, MERGE, STRATEGIC, TABLE, Api, config_map, pod


def maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def test_a_created_object_gets_its_metadata_from_the_server(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("a", namespace, x="1"))
    metadata = made["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert api.get(maps(namespace, "a")) == made


def test_a_generated_name_starts_with_its_prefix(api: Api, namespace: str) -> None:
    body = config_map("", namespace)
    body["metadata"] = {"generateName": "some-"}
    names = {api.create(maps(namespace), body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("some-") and len(name) == 10 for name in names)


REFUSALS = [
    ("GET", "{ns}/configmaps/absent", None, 404, "NotFound", 'configmaps "absent" not found'),
    ("POST", "{ns}/configmaps", config_map("taken", ""), 409, "AlreadyExists", 'configmaps "taken" already exists'),
    ("POST", "{ns}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap"}, 422, "Invalid",
     'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
    ("POST", "{ns}/configmaps", config_map("a", "elsewhere"), 400, "BadRequest",
     "the namespace of the provided object does not match the namespace sent on the request"),
    ("POST", "{ns}/configmaps", {"apiVersion": "apps/v1", "kind": "Deployment"}, 400, "BadRequest",
     'Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): '
     "unknown conversion"),
    ("POST", "{ns}/configmaps", {"apiVersion": "v1", "kind": "Pod"}, 400, "BadRequest",
     'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion'),
    ("PUT", "{ns}/configmaps/taken", config_map("other", ""), 400, "BadRequest",
     "the name of the object (other) does not match the name on the URL (taken)"),
    ("POST", "{ns}/configmaps/taken", config_map("taken", ""), 405, "MethodNotAllowed",
     "the server does not allow this method on the requested resource"),
    ("GET", "{ns}/nothings", None, 404, "NotFound", "the server could not find the requested resource"),
    ("GET", "{ns}/configmaps?fieldSelector=data.x=1", None, 400, "BadRequest",
     '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "code", "reason", "message"), REFUSALS)
def test_a_refusal_has_code_reason_and_message(
    api: Api, namespace: str, method: str, path: str, body: object, code: int, reason: str, message: str
) -> None:
    api.create(maps(namespace), config_map("taken", namespace))
    reply = api.call(method, "/api/v1/namespaces/" + path.format(ns=namespace), body)
    assert (reply.code, reply.body["reason"], reply.body["message"]) == (code, reason, message)
    assert reply.body["code"] == code
    assert reply.body["kind"] == "Status"


def test_a_namespace_must_exist(api: Api) -> None:
    reply = api.call("POST", maps("nowhere"), config_map("a", "nowhere"))
    assert (reply.code, reply.body["message"]) == (404, 'namespaces "nowhere" not found')


def test_an_update_over_an_old_resource_version_conflicts(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("a", namespace, x="1"))
    assert api.call("PUT", maps(namespace, "a"), {**made, "data": {"x": "2"}}).code == 200
    reply = api.call("PUT", maps(namespace, "a"), {**made, "data": {"x": "3"}})
    assert reply.code == 409
    assert reply.body["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_an_update_that_changes_nothing_keeps_the_resource_version(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("a", namespace, x="1"))
    again = api.call("PUT", maps(namespace, "a"), made).body
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_patches_of_three_dialects_change_the_object(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace, x="1", y="2"))
    api.patch(maps(namespace, "a"), {"data": {"x": None}})
    api.patch(maps(namespace, "a"), [{"op": "add", "path": "/data/z", "value": "3"}], JSON_PATCH)
    made = api.patch(maps(namespace, "a"), {"metadata": {"labels": {"l": "m"}}}, STRATEGIC)
    assert made["data"] == {"y": "2", "z": "3"}
    assert made["metadata"]["labels"] == {"l": "m"}


def test_a_patch_of_an_unknown_type_is_refused(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace))
    reply = api.call("PATCH", maps(namespace, "a"), {}, type_="application/x-patch")
    assert (reply.code, reply.body["message"]) == (415, "415: Unsupported Media Type")


def test_a_dry_run_answers_as_if_and_writes_nothing(api: Api, namespace: str) -> None:
    reply = api.call("POST", maps(namespace) + "?dryRun=All", config_map("a", namespace, x="1"))
    assert reply.code == 201
    assert reply.body["metadata"]["uid"]
    assert api.call("GET", maps(namespace, "a")).code == 404


def test_a_delete_checks_its_preconditions_and_answers_with_a_status(api: Api, namespace: str) -> None:
    made = api.create(maps(namespace), config_map("a", namespace))
    wrong = api.call("DELETE", maps(namespace, "a"), {"preconditions": {"uid": "other"}})
    assert (wrong.code, wrong.body["reason"]) == (409, "Conflict")
    right = api.call("DELETE", maps(namespace, "a"), {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert right.body["status"] == "Success"
    assert right.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(api: Api, namespace: str) -> None:
    body = config_map("a", namespace)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(maps(namespace), body)
    held = api.call("DELETE", maps(namespace, "a"))
    assert held.body["metadata"]["deletionTimestamp"]
    added = api.call("PATCH", maps(namespace, "a"), {"metadata": {"finalizers": ["example.com/hold", "example.com/b"]}},
                     type_="application/merge-patch+json")  # fmt: skip
    assert "no new finalizers can be added" in added.body["message"]
    api.patch(maps(namespace, "a"), {"metadata": {"finalizers": None}})
    assert api.call("GET", maps(namespace, "a")).code == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan"), ("Background", None)]
)
def test_a_propagation_policy_becomes_a_finalizer(api: Api, namespace: str, policy: str, finalizer: str | None) -> None:
    api.create(maps(namespace), config_map("a", namespace))
    api.call("DELETE", maps(namespace, "a"), {"propagationPolicy": policy})
    left = api.call("GET", maps(namespace, "a"))
    if finalizer is None:
        assert left.code == 404
    else:
        assert left.body["metadata"]["finalizers"] == [finalizer]


def test_a_collection_is_deleted_by_label(api: Api, namespace: str) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        body = config_map(name, namespace)
        body["metadata"]["labels"] = {"colour": colour}
        api.create(maps(namespace), body)
    assert api.call("DELETE", maps(namespace) + "?labelSelector=colour%3Dred").code == 200
    assert [item["metadata"]["name"] for item in api.get(maps(namespace))["items"]] == ["c"]


SELECTORS = [
    ("colour=red", ["a", "b"], "equality"),
    ("colour!=red", ["c", "d"], "an absent label differs from every value"),
    ("colour in (red, blue)", ["a", "b", "c"], "a set"),
    ("colour notin (red)", ["c", "d"], "not in a set, or absent"),
    ("colour", ["a", "b", "c"], "presence"),
    ("!colour", ["d"], "absence"),
    ("colour=red,size>3", ["b"], "two terms, one a number"),
]


@pytest.mark.parametrize(("selector", "wanted", "reason"), SELECTORS)
def test_a_label_selector_chooses(api: Api, namespace: str, selector: str, wanted: list[str], reason: str) -> None:
    labels = {
        "a": {"colour": "red", "size": "3"},
        "b": {"colour": "red", "size": "4"},
        "c": {"colour": "blue"},
        "d": {},
    }
    for name, each in labels.items():
        body = config_map(name, namespace)
        body["metadata"]["labels"] = each
        api.create(maps(namespace), body)
    from urllib.parse import quote

    found = api.get(maps(namespace) + f"?labelSelector={quote(selector)}")["items"]
    assert [item["metadata"]["name"] for item in found] == wanted, reason


def test_pages_of_a_list_are_of_one_revision(api: Api, namespace: str) -> None:
    for name in "abcde":
        api.create(maps(namespace), config_map(name, namespace))
    first = api.get(maps(namespace) + "?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    api.call("DELETE", maps(namespace, "d"))
    api.create(maps(namespace), config_map("cc", namespace))
    rest = api.get(maps(namespace) + f"?limit=10&continue={first['metadata']['continue']}")
    names = [item["metadata"]["name"] for item in first["items"] + rest["items"]]
    assert names == ["a", "b", "c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_table_has_columns_and_rows_with_metadata(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace, x="1"))
    table = api.get(maps(namespace), accept=TABLE)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] == ["a", 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_a_running_pod_lingers_for_its_grace_period_and_a_forced_delete_ends_it(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    made = api.create(pods, pod("a"))
    assert made["status"]["phase"] == "Pending"
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    assert api.call("POST", f"{pods}/a/binding", bound).code == 201
    again = api.call("POST", f"{pods}/a/binding", bound)
    assert again.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"'
    )
    going = api.call("DELETE", f"{pods}/a").body
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.call("GET", f"{pods}/a").code == 200
    api.call("DELETE", f"{pods}/a", {"gracePeriodSeconds": 0})
    assert api.call("GET", f"{pods}/a").code == 404


def test_a_deleted_namespace_takes_nothing_new_and_goes_with_its_finalizer(api: Api, namespace: str) -> None:
    gone = api.call("DELETE", f"/api/v1/namespaces/{namespace}").body
    assert gone["status"]["phase"] == "Terminating"
    refused = api.call("POST", maps(namespace), config_map("a", namespace))
    assert refused.code == 403
    assert refused.body["message"] == (
        f'configmaps "a" is forbidden: unable to create new content in namespace {namespace} because it is being terminated'
    )
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    gone["spec"]["finalizers"] = []
    assert api.call("PUT", f"/api/v1/namespaces/{namespace}/finalize", gone).code == 200
    assert api.call("GET", f"/api/v1/namespaces/{namespace}").code == 404


def test_a_service_gets_an_address_that_cannot_be_changed(api: Api, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    made = api.create(services, body)
    assert made["spec"]["clusterIP"].startswith("10.96.")
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    kept = api.call("PUT", f"{services}/s", body).body
    assert kept["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    refused = api.call(
        "PATCH", f"{services}/s", {"spec": {"clusterIP": "10.96.9.9"}}, type_="application/merge-patch+json"
    )
    assert "may not change once set" in refused.body["message"]


def test_string_data_of_a_secret_is_stored_as_data(api: Api, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    made = api.create(secrets, body)
    assert made["data"] == {"k": "dg=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_patches_of_one_object_at_the_same_time_all_count(api: Api, namespace: str) -> None:
    api.create(maps(namespace), config_map("a", namespace))

    def patch(number: int) -> int:
        mine = Api(api.kubeconfig)
        done = 0
        for turn in range(5):
            key = f"k{number}-{turn}"
            done += mine.call("PATCH", maps(namespace, "a"), {"data": {key: "1"}}, type_=MERGE).code == 200
        return done

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(patch, range(16))) == 80
    assert len(api.get(maps(namespace, "a"))["data"]) == 80


def test_a_lease_may_be_created_by_an_update_and_is_never_overwritten_blindly(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l"
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "one"},
    }
    assert api.call("PUT", path, body).code == 201
    reply = api.call("PUT", path, {**body, "spec": {"holderIdentity": "two"}})
    assert reply.code == 422
    assert "must be specified for an update" in reply.body["message"]
    assert api.call("PUT", maps(namespace, "absent"), config_map("absent", namespace)).code == 404


def test_what_the_server_fills_in_belongs_to_no_field_manager(api: Api, namespace: str) -> None:
    services = f"/api/v1/namespaces/{namespace}/services"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    owned = api.create(services, body)["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:ports" in owned
    assert "f:clusterIP" not in owned
    pods = f"/api/v1/namespaces/{namespace}/pods"
    owned = api.create(pods, pod("p"))["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:containers" in owned
    assert "f:priority" not in owned


def test_a_binding_is_no_new_generation_and_names_no_manager(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    made = api.create(pods, pod("p"))
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    api.create(f"{pods}/p/binding", bound)
    after = api.get(f"{pods}/p")
    assert after["spec"]["nodeName"] == "n"
    assert after["metadata"]["generation"] == made["metadata"]["generation"]
    assert after["metadata"]["managedFields"] == made["metadata"]["managedFields"]


def test_empty_lists_and_maps_of_a_built_in_kind_are_as_good_as_absent(api: Api, namespace: str) -> None:
    body = config_map("e", namespace)
    body["metadata"]["finalizers"] = []
    made = api.create(maps(namespace), body)
    assert "data" not in made
    assert "finalizers" not in made["metadata"]


def test_a_secret_that_is_no_base64_is_refused_where_it_breaks(api: Api, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "Yg==", "b": "ab!d"}}
    reply = api.call("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    assert (reply.code, reply.body["message"]) == (
        400,
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 2',
    )


def test_a_limit_below_zero_is_none(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.create(path, config_map("a", namespace))
    assert [item["metadata"]["name"] for item in api.get(f"{path}?limit=-1")["items"]] == ["a"]
    assert api.call("GET", f"{path}?limit=x").code == 400
