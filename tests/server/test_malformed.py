"""Bodies with a value of the wrong type somewhere are refused or read as Go would; the server never breaks on them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.api import APPLY, MERGE, STRATEGIC, Api, config_map, pod

RBAC = "rbac.authorization.k8s.io/v1"
VALUES: list[Any] = [None, 1, -1, "x", "", [], {}, [1], [None], ["a"], {"a": None}, {"a": 1}, True, 1.5, [[]], [{}]]
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
}
ROLE = {
    "apiVersion": RBAC,
    "kind": "Role",
    "metadata": {"name": "r"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "a", "groups": ["b"], "resourceAttributes": {"verb": "get", "resource": "pods"}},
}
TOKEN = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"audiences": ["a"], "expirationSeconds": 3600, "boundObjectRef": {"kind": "Pod", "name": "p"}},
}
SELECTOR = {"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}
MEMBER = {
    "role": "Standalone",
    "nodeSelector": {"devices": [SELECTOR]},
    "template": {"spec": {"containers": [{"name": "engine", "image": "x"}]}},
}
DEPLOYMENT = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "md"},
    "spec": {"replicas": 1, "template": {"spec": {"engines": [{"name": "e", "members": [MEMBER]}]}}},
}
SUBJECTS = [
    ("/api/v1/namespaces/{}/pods", pod("p")),
    ("/api/v1/namespaces/{}/configmaps", config_map("c", "")),
    ("/api/v1/namespaces/{}/services", SERVICE),
    (f"/apis/{RBAC}/namespaces/{{}}/roles", ROLE),
    ("/apis/authorization.k8s.io/v1/subjectaccessreviews", REVIEW),
    ("/api/v1/namespaces/{}/serviceaccounts/robot/token", TOKEN),
    ("/apis/modelplane.ai/v1alpha1/namespaces/{}/modeldeployments", DEPLOYMENT),
]
MORE = [
    ("metadata", name) for name in ("labels", "finalizers", "ownerReferences", "managedFields", "uid", "generateName")
]


@pytest.mark.parametrize(("path", "body"), SUBJECTS, ids=[str(body["kind"]) for _, body in SUBJECTS])
def test_no_malformed_body_breaks_the_server(api: Api, namespace: str, path: str, body: dict[str, Any]) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    chance = random.Random(7)
    collection = path.format(namespace)
    name = (body.get("metadata") or {}).get("name")
    for place in [*_places(body), *(MORE if name else ())]:
        for value in chance.sample(VALUES, 2):
            changed = _with(body, place, value)
            replies = [api.call("POST", collection, changed)]
            if name:
                one = f"{collection}/{name}"
                replies.append(api.call("PUT", one, changed))
                replies.append(api.call("PATCH", one, changed, type_=chance.choice([MERGE, STRATEGIC])))
                replies.append(api.call("PATCH", f"{one}?fieldManager=f&force=true", changed, type_=APPLY))
            broken = [r for r in replies if r.code >= 500 and r.body["message"].startswith("Internal error")]
            assert not broken, (place, value, broken)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*at, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _places(item, (*at, position))


def _with(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(body)
    holder: Any = changed
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = copy.deepcopy(value)
    return changed
