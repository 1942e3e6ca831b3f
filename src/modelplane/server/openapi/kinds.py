"""What both documents ask of a kind: the name of its schema, the definitions that it needs, and what tells it from another."""

from __future__ import annotations

from typing import Final

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin.definitions import names
from modelplane.server.builtin.kinds import definition_name
from modelplane.server.resource import ResourceType
from modelplane.server.schema.node import OBJECT_META

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
LIST_META: Final = _META + "ListMeta"
STATUS: Final = _META + "Status"
ALWAYS: Final = frozenset({STATUS, _META + "DeleteOptions", OBJECT_META, LIST_META})
"""Definitions that every document has."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def is_builtin(gvk: GVK) -> bool:
    return definition_name(gvk) in names()


def component(gvk: GVK) -> str:
    """The name of a kind's schema: Go's for built-in kinds, the reversed group for custom ones."""
    if is_builtin(gvk):
        return definition_name(gvk)
    return f"{'.'.join(reversed(gvk.group.split('.')))}.{gvk.version}.{gvk.kind}"


def told(gvk: GVK) -> Object:
    """A kind as extensions say it."""
    return {"group": gvk.group, "kind": gvk.kind, "version": gvk.version}


def needed(type_: ResourceType) -> set[str]:
    """The built-in definitions that a kind is described with."""
    found = {component(below.gvk) for below in type_.subresources.values() if is_builtin(below.gvk)}
    if type_.load_source is None:
        name = component(type_.gvk)
        found |= {name, *({f"{name}List"} if "list" in type_.verbs else ())}
    return found


def traits(type_: ResourceType) -> bytes:
    """All that goes into the description of a kind: it changes when one of them does."""
    told_ = f"{type_.gvk} {type_.plural} {type_.list_kind} {sorted(type_.subresources)} {type_.namespaced} "
    source = type_.load_source() if type_.load_source is not None else None
    return told_.encode() + _encode([type_.selectable_fields, source])
