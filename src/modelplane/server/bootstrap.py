"""What a new API server has before anybody writes: namespaces, the `kubernetes` service, the roles everybody relies on.

Written once per object and never again, so that what an administrator changes or adds stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server.authn import ADMIN
from modelplane.server.call import Backend, Call
from modelplane.server.request import Media, Query, Request, Target
from modelplane.server.resource import ResourceType
from modelplane.server.store import Key
from modelplane.server.writing import insert

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ: Final = ["get", "list", "watch"]
_WRITE: Final = ["create", "delete", "deletecollection", "patch", "update"]
_EVERYTHING_NAMESPACED: Final = (
    ("", ["bindings", "configmaps", "endpoints", "events", "persistentvolumeclaims", "persistentvolumeclaims/status",
          "pods", "pods/log", "pods/status", "replicationcontrollers", "replicationcontrollers/scale",
          "replicationcontrollers/status", "serviceaccounts", "services", "services/status"]),
    ("apps", ["controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
              "deployments/status", "replicasets", "replicasets/scale", "replicasets/status", "statefulsets",
              "statefulsets/scale", "statefulsets/status"]),
    ("autoscaling", ["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", ["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("policy", ["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("networking.k8s.io", ["ingresses", "ingresses/status", "networkpolicies"]),
    ("discovery.k8s.io", ["endpointslices"]),
    ("resource.k8s.io", ["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
)  # fmt: skip


def objects() -> Iterator[Object]:
    """Every object that a new server starts with."""
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    yield from _roles()


def _roles() -> Iterator[Object]:
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    yield _role("cluster-admin", everything)
    yield _binding("cluster-admin", "system:masters")
    view = [_rule(group, resources, _READ) for group, resources in _EVERYTHING_NAMESPACED]
    view.append(
        _rule("", ["limitranges", "namespaces", "namespaces/status", "resourcequotas", "resourcequotas/status"], _READ)
    )
    edit = [_rule(group, resources, _WRITE) for group, resources in _EVERYTHING_NAMESPACED]
    edit += [
        _rule("", ["secrets"], [*_READ, *_WRITE]),
        _rule("", ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"], [*_READ, *_WRITE]),
        _rule("", ["pods/eviction", "serviceaccounts/token"], ["create"]),
        _rule("", ["serviceaccounts"], ["impersonate"]),
        _rule("coordination.k8s.io", ["leases"], [*_READ, *_WRITE]),
    ]
    admin = [
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(_RBAC, ["rolebindings", "roles"], [*_READ, *_WRITE]),
    ]
    yield _role("view", view, aggregate="view")
    yield _role("edit", view + edit, aggregate="edit")
    yield _role("admin", view + edit + admin, aggregate="admin")
    paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ]
    yield _role("system:discovery", [{"nonResourceURLs": paths, "verbs": ["get"]}])
    yield _binding("system:discovery", "system:authenticated")
    reviews = _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"])
    yield _role("system:basic-user", [reviews, _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])])
    yield _binding("system:basic-user", "system:authenticated")
    public = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    yield _role("system:public-info-viewer", [{"nonResourceURLs": public, "verbs": ["get"]}])
    yield _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated")
    delegator = [_rule("authentication.k8s.io", ["tokenreviews"], ["create"])]
    delegator.append(_rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]))
    yield _role("system:auth-delegator", delegator)


def _role(name: str, rules: list[Object], aggregate: str = "") -> Object:
    """A role; with ``aggregate`` the rules of roles labelled for it count as its own, as charts of other kinds expect."""
    role: Object = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(_LABELS)},
        "rules": rules,
    }
    if aggregate:
        chosen = {"matchLabels": {f"{_RBAC}/aggregate-to-{aggregate}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [chosen]}
    return role


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _binding(name: str, *groups: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_LABELS)},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
    }


def internal_call(backend: Backend, type_: ResourceType, obj: Object, method: str = "POST") -> Call:
    """A call that the server makes to itself, with the administrator's rights."""
    metadata = obj["metadata"]
    target = Target(path="", verb="create")
    request = Request(method, target, Query("fieldManager=modelplane-apiserver"), {}, b"", ADMIN)
    return Call(backend, type_, request, Media(), metadata.get("namespace", ""), metadata["name"])


async def ensure(backend: Backend) -> None:
    """Create what is missing."""
    for obj in objects():
        group, _, version = obj["apiVersion"].rpartition("/")
        type_ = backend.registry.find_kind(group, version, obj["kind"])
        if type_ is None:
            continue
        metadata = obj["metadata"]
        if backend.store.get(Key(type_.group_resource, metadata.get("namespace", ""), metadata["name"])) is None:
            try:
                await insert(internal_call(backend, type_, obj), obj)
            except Refusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
