"""Who may write what: scope follows ownership, and what is composed is read-only to everybody."""

from __future__ import annotations

import pytest

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.roles import cluster_roles

ROLES = {role["metadata"]["name"].removeprefix("modelplane-"): role for role in cluster_roles(DEFINITIONS)}


def may(role: str, verb: str, resource: str, group: str = "modelplane.ai") -> bool:
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in ROLES[role]["rules"]
    )


@pytest.mark.parametrize(
    ("role", "verb", "resource", "want", "reason"),
    [
        ("platform", "create", "inferenceclusters", True, "the fleet is theirs"),
        ("platform", "patch", "inferencegateways", True, "front doors are theirs"),
        ("platform", "list", "modelreplicas", True, "a drain has to be looked at"),
        ("platform", "create", "modeldeployments", False, "what is served is the developers'"),
        ("platform", "update", "modelreplicas", False, "composed"),
        ("developer", "create", "modeldeployments", True, "what is served is theirs"),
        ("developer", "patch", "modeldeployments/scale", True, "kubectl scale"),
        ("developer", "create", "modelendpoints", True, "outside providers are theirs"),
        ("developer", "get", "modelreplicas", True, "where their replicas are"),
        ("developer", "delete", "modelreplicas", False, "composed"),
        ("developer", "create", "modelroutes", False, "composed"),
        ("developer", "create", "inferenceclusters", False, "the fleet is the platform's"),
        ("developer", "get", "inferenceclusters", False, "bound in a namespace, it would mean nothing"),
        ("viewer", "list", "inferenceclusters", True, "reads the fleet"),
        ("viewer", "create", "modeldeployments", False, "reads only"),
    ],
)
def test_who_may_do_what(role: str, verb: str, resource: str, want: bool, reason: str) -> None:
    assert may(role, verb, resource) == want, reason


def test_nobody_writes_status_or_secrets() -> None:
    for role in ROLES.values():
        for rule in role["rules"]:
            assert not [
                resource for resource in rule["resources"] if resource.endswith("/status") or resource == "secrets"
            ]
            assert "*" not in rule["resources"] + rule["verbs"] + rule["apiGroups"]


def test_cloud_clusters_are_read_only_to_everybody() -> None:
    for role in ROLES:
        assert may(role, "get", "gkeclusters", "infrastructure.modelplane.ai")
        assert not may(role, "update", "gkeclusters", "infrastructure.modelplane.ai")
