"""Who gets in and what they may do: tokens, roles, reviews."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.server.testing import ServerProcess, running_server
from tests.server.api import Api, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("server")
    tokens = directory / "tokens.csv"
    tokens.write_text('dora-token,dora,u1,"dev,ops"\n')
    with running_server(directory / "data", "--token-file", str(tokens)) as running:
        yield running


@pytest.fixture
def dora(api: Api) -> Api:
    return api.as_token("dora-token")


def _grant(api: Api, namespace: str, subject: dict[str, str], *rules: dict[str, list[str]]) -> None:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**kind, "kind": "Role", "metadata": {"name": "r"}, "rules": list(rules)}
    api.create(f"{RBAC}/namespaces/{namespace}/roles", role)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    binding = {**kind, "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": ref, "subjects": [subject]}
    api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)


READ_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


def test_an_unknown_token_is_not_let_in(api: Api) -> None:
    reply = api.as_token("wrong").call("GET", "/api/v1/namespaces")
    assert (reply.code, reply.body["reason"], reply.body["message"]) == (401, "Unauthorized", "Unauthorized")


def test_without_a_token_one_sees_health_and_version_only(api: Api) -> None:
    nobody = api.as_token("")
    assert nobody.call("GET", "/readyz").body == "ok"
    assert nobody.get("/version")["major"] == "1"
    reply = nobody.call("GET", "/api/v1/namespaces/default/pods")
    assert reply.body["message"] == (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )


def test_a_user_may_do_what_a_binding_allows_in_that_namespace_only(api: Api, dora: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert dora.call("GET", path).code == 403
    _grant(api, namespace, {"kind": "Group", "name": "ops"}, READ_MAPS)
    assert dora.call("GET", path).code == 200
    refused = dora.call("POST", path, config_map("a", namespace))
    assert refused.body["message"] == (
        f'configmaps is forbidden: User "dora" cannot create resource "configmaps" in API group "" in the namespace "{namespace}"'
    )
    assert dora.call("GET", "/api/v1/namespaces/default/configmaps").code == 403


def test_a_resource_name_limits_a_rule_to_that_object(api: Api, dora: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("a", "b"):
        api.create(path, config_map(name, namespace))
    _grant(api, namespace, {"kind": "User", "name": "dora"}, {**READ_MAPS, "resourceNames": ["a"]})
    assert dora.call("GET", f"{path}/a").code == 200
    assert dora.call("GET", f"{path}/b").code == 403
    assert dora.call("GET", path).code == 403
    assert dora.call("GET", path + "?fieldSelector=metadata.name%3Da").code == 200, "a list of one is a read of it"


def _account_token(api: Api, namespace: str, spec: dict[str, object] | None = None) -> str:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    if api.call("GET", f"{accounts}/robot").code == 404:
        api.create(accounts, body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec or {}}
    token = api.create(f"{accounts}/robot/token", request)["status"]["token"]
    assert isinstance(token, str)
    return token


def test_a_service_account_token_is_its_account_and_dies_with_it(api: Api, namespace: str) -> None:
    robot = api.as_token(_account_token(api, namespace))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    info = robot.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{namespace}:robot"
    assert f"system:serviceaccounts:{namespace}" in info["groups"]
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    _grant(api, namespace, subject, READ_MAPS)
    assert robot.call("GET", f"/api/v1/namespaces/{namespace}/configmaps").code == 200
    api.call("DELETE", f"/api/v1/namespaces/{namespace}/serviceaccounts/robot")
    assert robot.call("GET", f"/api/v1/namespaces/{namespace}/configmaps").code == 401


def test_a_token_with_one_changed_character_is_refused(api: Api, namespace: str) -> None:
    token = _account_token(api, namespace)
    head, claims, signature = token.split(".")
    for forged in (f"{head}.{claims[:-2]}AA.{signature}", f"{head}.{claims}.", f"{head}.{claims}.{signature[::-1]}"):
        assert api.as_token(forged).call("GET", "/api").code == 401


def test_a_token_for_another_audience_is_for_others_to_accept(api: Api, namespace: str) -> None:
    token = _account_token(api, namespace, {"audiences": ["vault"]})
    assert api.as_token(token).call("GET", "/api").code == 401
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert "authenticated" not in api.create(path, review)["status"]
    review["spec"] = {"token": token, "audiences": ["vault"]}
    assert api.create(path, review)["status"]["authenticated"] is True


def test_access_reviews_answer_for_oneself_and_for_others(api: Api, dora: Api, namespace: str) -> None:
    _grant(api, namespace, {"kind": "User", "name": "dora"}, READ_MAPS)
    base = "/apis/authorization.k8s.io/v1"
    attributes = {"namespace": namespace, "verb": "list", "resource": "configmaps"}
    review = {"apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": attributes}}
    mine = dora.create(f"{base}/selfsubjectaccessreviews", {**review, "kind": "SelfSubjectAccessReview"})
    assert mine["status"]["allowed"] is True
    assert mine["status"]["reason"] == f'RBAC: allowed by RoleBinding "b/{namespace}" of Role "r" to User "dora"'
    assert dora.call("POST", f"{base}/subjectaccessreviews", {**review, "kind": "SubjectAccessReview"}).code == 403
    spec = {"user": "dora", "resourceAttributes": {**attributes, "verb": "delete"}}
    other = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    assert api.create(f"{base}/subjectaccessreviews", other)["status"]["allowed"] is False


def test_a_role_that_is_taken_away_stops_counting_at_once(api: Api, dora: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    _grant(api, namespace, {"kind": "User", "name": "dora"}, READ_MAPS)
    assert dora.call("GET", path).code == 200
    api.call("DELETE", f"{RBAC}/namespaces/{namespace}/roles/r")
    assert dora.call("GET", path).code == 403


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_binding_counts_at_once_and_no_longer_than_it_is_there(
    api: Api, dora: Api, namespace: str, kind: str
) -> None:
    """Also for one who has asked before: what was granted then is remembered."""
    maps, group = f"/api/v1/namespaces/{namespace}/configmaps", "rbac.authorization.k8s.io"
    home = f"{RBAC}/namespaces/{namespace}" if kind == "Role" else RBAC
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": f"{namespace}-maps"}}
    api.create(f"{home}/{kind.lower()}s", {**common, "kind": kind, "rules": [READ_MAPS]})
    binding = {**common, "kind": f"{kind}Binding", "subjects": [{"apiGroup": group, "kind": "User", "name": "dora"}]}
    binding["roleRef"] = {"apiGroup": group, "kind": kind, "name": f"{namespace}-maps"}
    for _ in range(2):
        assert dora.call("GET", maps).code == 403
        api.create(f"{home}/{kind.lower()}bindings", binding)
        assert dora.call("GET", maps).code == 200
        api.call("DELETE", f"{home}/{kind.lower()}bindings/{namespace}-maps")
    assert dora.call("GET", maps).code == 403


ROLES = f"{RBAC}/namespaces/{{}}/roles"


def test_a_role_that_grants_more_than_its_author_holds_is_refused(api: Api, dora: Api, namespace: str) -> None:
    author = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}
    _grant(api, namespace, {"kind": "User", "name": "dora"}, READ_MAPS, author)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "more"}}
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    refused = dora.call("POST", ROLES.format(namespace), {**role, "rules": [READ_MAPS, secrets]})
    assert refused.code == 403
    assert refused.body["message"].endswith(
        'is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )  # fmt: skip
    assert dora.call("POST", ROLES.format(namespace), {**role, "rules": [READ_MAPS]}).code == 201


def test_a_binding_to_a_role_that_its_author_does_not_hold_is_refused(api: Api, dora: Api, namespace: str) -> None:
    author = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]}
    _grant(api, namespace, {"kind": "User", "name": "dora"}, author)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "up"},
        "roleRef": ref,
        "subjects": [{"kind": "User", "name": "dora"}],
    }
    assert dora.call("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", body).code == 403


def test_a_role_labelled_for_view_counts_as_part_of_it(api: Api, dora: Api, namespace: str) -> None:
    path = f"/apis/modelplane.ai/v1alpha1/namespaces/{namespace}/modelservices"
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    subjects = [{"kind": "User", "name": "dora"}]
    binding = {**kind, "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": ref, "subjects": subjects}
    api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    assert dora.call("GET", path).code == 403
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rule = {"apiGroups": ["modelplane.ai"], "resources": ["modelservices"], "verbs": ["list"]}
    role = {**kind, "kind": "ClusterRole", "metadata": {"name": "more-view", "labels": labels}, "rules": [rule]}
    api.create(f"{RBAC}/clusterroles", role)
    assert dora.call("GET", path).code == 200
    api.call("DELETE", f"{RBAC}/clusterroles/more-view")


def test_a_user_acts_as_another_only_with_the_right_to(api: Api, dora: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    _grant(api, namespace, {"kind": "User", "name": "dora"}, READ_MAPS)
    assert api.call("GET", path, **{"Impersonate-User": "dora"}).code == 200
    assert api.call("GET", path, **{"Impersonate-User": "nobody"}).code == 403
    assert api.call("GET", path, **{"Impersonate-User": "x", "Impersonate-Group": "system:masters"}).code == 200
    refused = dora.call("GET", path, **{"Impersonate-User": "admin"})
    assert refused.code == 403
    assert 'cannot impersonate resource "users"' in refused.body["message"]
