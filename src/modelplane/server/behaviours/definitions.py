"""CustomResourceDefinitions: established in the write that brings them, held until they are empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import Object
from modelplane.server import crd
from modelplane.server.behaviours.behaviour import Behaviour
from modelplane.server.objects import now, read
from modelplane.server.store import Store

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"


@dataclass(frozen=True)
class Definitions(Behaviour):
    """The strategy of definitions: names are judged against the stored definitions, at once and not in a while."""

    unconditional: bool = False

    def prepare_create(self, obj: Object, store: Store) -> None:
        obj.pop("status", None)
        _establish(obj, store)

    def prepare_update(self, new: Object, old: Object, store: Store) -> None:
        _establish(new, store)

    def begin_delete(self, obj: Object) -> Object:
        """Held until its objects are gone."""
        finalizers = obj["metadata"].get("finalizers") or []
        if CLEANUP in finalizers:
            return obj
        return {**obj, "metadata": {**obj["metadata"], "finalizers": [*finalizers, CLEANUP]}}


def _establish(obj: Object, store: Store) -> None:
    spec = obj.get("spec") or {}
    if spec.get("names") and spec.get("versions"):  # else the schema refuses it in a moment
        obj["status"] = crd.established(obj, _taken(obj["metadata"]["name"], spec.get("group", ""), store), now())


def _taken(name: str, group: str, store: Store) -> Iterator[Object]:
    for entry in store.scan(RESOURCE):
        if entry.key.name.endswith(f".{group}") and entry.key.name != name:
            other = read(entry)
            if other["spec"]["group"] == group:
                yield (other.get("status") or {}).get("acceptedNames") or {}
