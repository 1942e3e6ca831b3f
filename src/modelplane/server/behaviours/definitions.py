"""CustomResourceDefinitions: names filled in, established in the write that brings them, held until they are empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.behaviours.behaviour import Behaviour, unchanged
from modelplane.server.objects import now
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Store

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(frozen=True)
class Definitions(Behaviour):
    """The strategy of definitions: there is nothing to negotiate, so acceptance is immediate."""

    def prepare_create(self, obj: Object, store: Store) -> None:
        _complete(obj)
        metadata = obj["metadata"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or []), CLEANUP]
        obj["status"] = _status(obj, None)

    def prepare_update(self, new: Object, old: Object, store: Store) -> None:
        _complete(new)
        new["status"] = _status(new, old.get("status"))

    def check(self, new: Object, old: Object | None) -> Sequence[FieldError]:
        spec = new.get("spec") or {}
        names = spec.get("names") or {}
        errors = unchanged(new, old, "spec", "scope") + unchanged(new, old, "spec", "group")
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if new["metadata"]["name"] != wanted:
            errors.append(
                FieldError(
                    path="metadata.name",
                    type=ErrorType.INVALID,
                    bad_value=new["metadata"]["name"],
                    message='must be spec.names.plural+"."+spec.group',
                )
            )
        stored = [version for version in spec.get("versions") or () if version.get("storage")]
        if len(stored) != 1:
            errors.append(
                FieldError(
                    path="spec.versions",
                    type=ErrorType.INVALID,
                    bad_value=spec.get("versions") or [],
                    message="must have exactly one version marked as storage version",
                )
            )
        return errors


def _complete(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _status(obj: Object, before: Object | None) -> Object:
    spec = obj["spec"]
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    known = list((before or {}).get("storedVersions") or ())
    conditions = (before or {}).get("conditions") or [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    return {
        "conditions": conditions,
        "acceptedNames": dict(spec["names"]),
        "storedVersions": [*known, *(name for name in stored if name not in known)],
    }


def _condition(type_: str, reason: str, message: str) -> Object:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
