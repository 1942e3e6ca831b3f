"""The kinds that every server serves from its first request, as resource descriptions.

Making the table costs microseconds; schemas are compiled when a request first needs them and share their parts.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from modelplane.api.meta import GVK
from modelplane.server.builtin.checks import check_of
from modelplane.server.builtin.defaults import DEFAULTS
from modelplane.server.builtin.definitions import definition
from modelplane.server.builtin.kinds import KINDS, Kind, definition_name, subresources
from modelplane.server.columns import builtin_printer
from modelplane.server.resource import ResourceType
from modelplane.server.schema import Schema
from modelplane.server.schema.names import dns_label, dns_subdomain, path_segment
from modelplane.server.schema.node import OBJECT_META, Compiler, Node

__all__ = ["builtin_schema", "object_meta", "resource_types"]

_RBAC: Final = "rbac.authorization.k8s.io"
_NAMES: Final = {("", "Namespace"): dns_label, ("", "Service"): dns_label}


@cache
def resource_types() -> tuple[ResourceType, ...]:
    """All built-in kinds, in the order of discovery."""
    return tuple(_resource_type(kind) for kind in KINDS)


@cache
def _compiler() -> Compiler:
    return Compiler(definition, builtin=True)


def object_meta() -> Node:
    """The schema of ``metadata``, of whatever kind."""
    return _compiler().named(OBJECT_META)


@cache
def builtin_schema(gvk: GVK) -> Schema:
    """The schema of a built-in kind, or of one that is only a body (Scale, Eviction, TokenRequest)."""
    return Schema(
        _compiler().named(definition_name(gvk)),
        object_meta(),
        fill=DEFAULTS.get((gvk.api_version, gvk.kind)),
        name=_NAMES.get((gvk.group, gvk.kind)) or (path_segment if gvk.group == _RBAC else dns_subdomain),
        check=check_of(gvk.group, gvk.kind),
        builtin=True,
        status_subresource=any(kind.gvk == gvk and "status" in kind.subresources for kind in KINDS),
    )


def _resource_type(kind: Kind) -> ResourceType:
    return ResourceType(
        gvk=kind.gvk,
        plural=kind.plural,
        singular=kind.singular,
        namespaced=kind.namespaced,
        load_schema=lambda: builtin_schema(kind.gvk),
        load_printer=lambda: builtin_printer(kind.gvk),
        list_kind=f"{kind.kind}List",
        short_names=kind.short_names,
        categories=kind.categories,
        verbs=kind.verbs,
        subresources=subresources(kind),
        scale=kind.scale,
        selectable_fields=kind.selectable,
        generation=kind.generation,
        storage_version=kind.storage,
        deprecation=kind.deprecation,
        returns_deleted=kind.returns_deleted,
    )
