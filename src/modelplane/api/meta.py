"""The vocabulary that every kind shares: identities of kinds, conditions, object references.

Manifests of foreign kinds travel as plain JSON objects (`Object`); our own kinds have types, one module each.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON: the edge type. Treat it as immutable unless you made it."""

GROUP: Final = "modelplane.ai"
INFRASTRUCTURE_GROUP: Final = "infrastructure.modelplane.ai"
AGENT_GROUP: Final = "agent.modelplane.ai"
VERSION: Final = "v1alpha1"
SYSTEM_NAMESPACE: Final = "modelplane-system"


class GVK(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Group, version, kind. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GVK:
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> GVK:
        return cls.parse(obj["apiVersion"], obj["kind"])

    def __str__(self) -> str:
        return f"{self.kind}.{self.version}.{self.group}" if self.group else f"{self.kind}.{self.version}"


class Resource(msgspec.Struct, frozen=True, order=True):
    """A kind with what a URL needs: plural and scope."""

    gvk: GVK
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The request path; a namespaced resource without namespace means all namespaces."""
        root = f"/apis/{self.gvk.group}/{self.gvk.version}" if self.gvk.group else f"/api/{self.gvk.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{namespace}"
        root += f"/{self.plural}"
        if name:
            root += f"/{name}"
        if subresource:
            root += f"/{subresource}"
        return root


class Status(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of ``status.conditions``. Times and generations are filled in where the status is written."""

    type: str
    status: Status
    reason: Annotated[str, msgspec.Meta(extra={"required": True})] = ""
    """Ours always have one; other projects' conditions may lack it (a pod's Ready has none)."""
    message: str = ""
    last_transition_time: Annotated[str | None, msgspec.Meta(extra={"format": "date-time", "required": True})] = None
    observed_generation: Annotated[int | None, msgspec.Meta(extra={"format": "int64"})] = None


def condition_of(obj: Mapping[str, Any], type_: str) -> Condition | None:
    """The named condition of an object, or None when the object does not have it."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type_:
            # A pod's conditions have no reason while all is well.
            return msgspec.convert({"reason": "", **entry}, Condition)
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    """Whether the condition is True, and not about an older generation than the object has now."""
    condition = condition_of(obj, type_)
    if condition is None or condition.status is not Status.TRUE:
        return False
    generation = (obj.get("metadata") or {}).get("generation")
    observed = condition.observed_generation
    return observed is None or generation is None or observed >= generation


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The owner whose deletion takes the object along."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The part of ``metadata`` that our code reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class Key(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Namespace and name; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Key:
        metadata = obj["metadata"]
        return cls(metadata.get("namespace") or "", metadata["name"])

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
