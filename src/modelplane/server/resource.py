"""What the server knows about one served kind, whether it came with the program or from a CustomResourceDefinition.

Storage, HTTP, discovery, apply and tables all ask this one description, so nothing in the server branches on
"built in or custom". Schema and printer are made on first use: most kinds of a running server are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from modelplane.api.meta import GVK, Object, Resource

if TYPE_CHECKING:
    from modelplane.server.schema import Schema

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")
SCALE: Final = GVK("autoscaling", "v1", "Scale")


@dataclass(frozen=True)
class ScalePaths:
    """Where the replica counts live, as JSON paths with a leading dot (``.spec.replicas``); selector may be empty."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True)
class Subresource:
    """One path below an object: the kind that its bodies have, and the verbs that it answers."""

    gvk: GVK
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """One column of a Table, in the words of meta.k8s.io/v1 TableColumnDefinition."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(Protocol):
    """Makes the rows of `kubectl get`."""

    @property
    def columns(self) -> Sequence[Column]: ...

    def row(self, obj: Object, now: datetime) -> list[object]:
        """The cells of one object, in the order of ``columns``; ``now`` (aware) turns times into ages."""


@dataclass(frozen=True, eq=False)
class ResourceType:
    """One kind, one version, as served. Compared by identity; a changed CRD makes a new one."""

    gvk: GVK
    plural: str
    singular: str
    namespaced: bool
    load_schema: Callable[[], Schema]
    load_printer: Callable[[], Printer]
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    """What the collection and object paths answer; ("create",) alone means a review kind that is never stored."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """``status``, ``scale``, and for built-in kinds ``eviction``, ``binding``, ``token``, ``log``, ``finalize``, ..."""
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
    """Fields that a field selector may name besides metadata.name and metadata.namespace (``spec.nodeName``)."""
    generation: bool = True
    """Whether a change outside metadata and status raises metadata.generation."""
    custom: bool = False
    """True when a CustomResourceDefinition defines it: merge instead of strategic-merge patches, schema rules."""
    storage_version: bool = True
    leaving: bool = False
    """Whether its definition is being deleted: what there is goes, and nothing new comes."""
    deprecation: str = ""
    """A warning that every request for this version gets; empty when it is not deprecated."""

    returns_deleted: bool = False
    """Whether a delete answers with the object instead of a Status."""

    load_source: Callable[[], Object] | None = None
    """The OpenAPI schema of a custom kind as its author wrote it; None for built-in kinds."""

    @property
    def resource(self) -> Resource:
        return Resource(self.gvk, self.plural, self.namespaced)

    @property
    def status_subresource(self) -> bool:
        """Whether writes to the main path ignore ``status`` and writes to ``/status`` ignore the rest."""
        return "status" in self.subresources

    @property
    def stored(self) -> bool:
        return "get" in self.verbs

    @cached_property
    def group_resource(self) -> str:
        """The name in messages: ``deployments.apps``, ``pods``."""
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural

    @cached_property
    def schema(self) -> Schema:
        return self.load_schema()

    @cached_property
    def printer(self) -> Printer:
        return self.load_printer()
