"""ClusterRoles for the two kinds of people: platform teams write the fleet, developers write what is served on it.

Scope follows ownership, so that plain RBAC separates them: bind the developer role in a team's namespaces by RoleBindings and its
reading of the fleet by the viewer role. What the control plane composes is read-only to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.api.shape import Definition, Owner

READ: Final = ("get", "list", "watch")
WRITE: Final = (*READ, "create", "update", "patch", "delete", "deletecollection")
SCALE: Final = ("get", "update", "patch")


def cluster_roles(definitions: Sequence[Definition]) -> list[Object]:
    """The roles ``modelplane-platform``, ``modelplane-developer`` and ``modelplane-viewer`` over the given kinds."""
    return [
        _role("modelplane-platform", _writing(definitions, Owner.PLATFORM) + _reading(definitions, Owner.PLATFORM)),
        _role("modelplane-developer", _writing(definitions, Owner.DEVELOPER) + _reading(definitions, Owner.DEVELOPER)),
        _role("modelplane-viewer", _rules(definitions, READ)),
    ]


def _role(name: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "modelplane"}},
        "rules": rules,
    }


def _writing(definitions: Sequence[Definition], owner: Owner) -> list[Object]:
    mine = [definition for definition in definitions if definition.owner is owner]
    scaled = [definition for definition in mine if definition.scale]
    return _rules(mine, WRITE) + _rules(scaled, SCALE, "/scale")


def _reading(definitions: Sequence[Definition], owner: Owner) -> list[Object]:
    """What a role only reads: a developer's is bound to a namespace, so cluster-scoped kinds would mean nothing there."""
    others = [definition for definition in definitions if definition.owner is not owner]
    if owner is Owner.DEVELOPER:
        others = [definition for definition in others if definition.resource.namespaced]
    return _rules(others, READ)


def _rules(definitions: Sequence[Definition], verbs: Sequence[str], suffix: str = "") -> list[Object]:
    """One rule per group, kinds in alphabetical order."""
    groups: dict[str, list[str]] = {}
    for definition in definitions:
        groups.setdefault(definition.resource.gvk.group, []).append(definition.resource.plural + suffix)
    return [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(verbs)}
        for group, plurals in sorted(groups.items())
    ]
