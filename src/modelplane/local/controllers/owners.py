"""Owner references, in the API's own rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelplane.api.meta import Object


def controller_of(obj: Object) -> Mapping[str, Any] | None:
    """The owner reference that controls the object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Mapping[str, Any] = reference
            return found
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def controlled(owner: Object) -> list[Object]:
    """The ownerReferences of a new object that `owner` controls."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """A LabelSelector. None selects nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or ():
        value, values = labels.get(expression["key"]), expression.get("values") or ()
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(expression["operator"], False)
        if not holds:
            return False
    return True
