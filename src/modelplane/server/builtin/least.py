"""What an object of a kind needs at least, where nothing but its absence is judged here.

A spec that is left out is an empty one in Go, whose parts are missing one by one; a schema says nothing about what is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.builtin.podchecks import Errors, invalid, required

_Rules = Callable[[Object, Object | None], Errors]


def _needed(*paths: str, **words: str) -> _Rules:
    """These fields; ``words`` says more about one, by its last name."""

    def rules(obj: Object, old: Object | None) -> Errors:
        for path in paths:
            value: object = obj
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if not value:
                yield required(path, words.get(path.rpartition(".")[2], ""))

    return rules


def _claim(obj: Object, old: Object | None) -> Errors:
    yield from _needed("spec.accessModes", accessModes="at least 1 access mode is required")(obj, old)
    resources = (obj.get("spec") or {}).get("resources") or {}
    if "storage" not in (resources.get("requests") or {}):
        yield required("spec.resources[storage]")


def _ingress(obj: Object, old: Object | None) -> Errors:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid("spec", spec or None, "either `defaultBackend` or `rules` must be specified")


LEAST: Final[dict[tuple[str, str], _Rules]] = {
    ("", "PersistentVolumeClaim"): _claim,
    ("", "ReplicationController"): _needed("spec.selector", "spec.template"),
    ("apps", "ControllerRevision"): _needed("data", data="data is mandatory"),
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "IngressClass"): _needed("spec.controller"),
}
