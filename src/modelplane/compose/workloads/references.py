"""Secrets and ConfigMaps that a pod template names: they live beside the deployment, and pods need them beside themselves.

Each is copied to the mirrored namespace under its own name, data and type alone. One that is missing is named in a condition;
a copy that was made before stays, because pods may still start from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from modelplane.api.engines import PlacedEngine
from modelplane.api.meta import GVK, Object
from modelplane.api.pods import KeyRef
from modelplane.compose.contract import Absent, Answer, Child, Found, Read
from modelplane.compose.kinds import CONFIG_MAP, SECRET, manifest
from modelplane.compose.workloads.ground import Ground


class Reference(msgspec.Struct, frozen=True, order=True):
    """One object that a pod template names; ``key`` empty for a pull secret, which is used as a whole."""

    kind: GVK
    name: str
    key: str = ""
    optional: bool = False

    def read(self, namespace: str) -> Read:
        return Read(kind=self.kind, name=self.name, namespace=namespace, project=("data", "binaryData", "type"))

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}" + (f" key {self.key}" if self.key else "")


def references(engines: tuple[PlacedEngine, ...]) -> list[Reference]:
    """What the engines' templates name, without repetition, in a stable order."""
    return sorted(set(_named(engines)))


def _named(engines: tuple[PlacedEngine, ...]) -> Iterator[Reference]:
    for engine in engines:
        for member in engine.members:
            if member.template.spec is None:
                continue
            for secret in member.template.spec.image_pull_secrets:
                yield Reference(SECRET, secret.name)
            for variable in member.template.spec.engine.env:
                source = variable.value_from
                if source and source.secret_key_ref:
                    yield _of(SECRET, source.secret_key_ref)
                if source and source.config_map_key_ref:
                    yield _of(CONFIG_MAP, source.config_map_key_ref)


def _of(kind: GVK, ref: KeyRef) -> Reference:
    return Reference(kind, ref.name, ref.key, bool(ref.optional))


def copies(ground: Ground, wanted: list[Reference], answers: Mapping[Read, Answer]) -> list[Child]:
    """A copy of every object that was found."""
    found: dict[str, Child] = {}
    for reference in wanted:
        answer = answers[reference.read(ground.namespace)]
        if isinstance(answer, Found):
            child = _copy(ground, reference, answer.object)
            found[child.key] = child
    return list(found.values())


def missing(ground: Ground, wanted: list[Reference], answers: Mapping[Read, Answer]) -> list[Reference]:
    """What pods could not start without: the object does not exist, or lacks the key."""
    return [
        reference
        for reference in wanted
        if not reference.optional and _lacks(reference, answers[reference.read(ground.namespace)])
    ]


def _lacks(reference: Reference, answer: Answer) -> bool:
    if isinstance(answer, Absent):
        return True
    if not isinstance(answer, Found) or not reference.key:
        return False
    entries = (answer.object.get("data") or {}).keys() | (answer.object.get("binaryData") or {}).keys()
    return reference.key not in entries


def _copy(ground: Ground, reference: Reference, source: Object) -> Child:
    body = {field: source[field] for field in ("data", "binaryData", "type") if source.get(field) is not None}
    return Child(
        key=f"{reference.kind.kind.lower()}-{reference.name}",
        manifest=manifest(reference.kind, reference.name, ground.remote_namespace, **body),
        target=ground.cluster,
        shared=True,
        immutable=("type",),
    )
