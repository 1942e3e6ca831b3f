"""What a whole value sets, written down as FieldsV1 in one walk: the fields of a create, and those that an apply claims.

Most writes need their set of fields for nothing but ``managedFields``, and most maps in them have been seen before with the same
names. So no set is built to be encoded: names give their FieldsV1 at once. The results are shared and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from modelplane.api.meta import Object
from modelplane.server.fieldmanager import fieldset
from modelplane.server.fieldmanager.shapes import SCALAR, below, elements, grouped, hollow, merges, shape
from modelplane.server.schema import Schema
from modelplane.server.schema.node import ANYTHING, Node

NEVER_MANAGED: Final = frozenset({
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
})  # fmt: skip
"""Fields of metadata that no manager has."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_TEMPLATE: Final[Object] = {"metadata": {}, "spec": {"containers": None}}
_STRUCTS: Final[dict[str, Object]] = {
    "CronJob": {"spec": {"jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}}}},
    "DaemonSet": {"spec": {"template": _TEMPLATE, "updateStrategy": {}}},
    "Deployment": {"spec": {"template": _TEMPLATE, "strategy": {}}},
    "Event": {"involvedObject": {}, "source": {}},
    "HorizontalPodAutoscaler": {"spec": {"scaleTargetRef": {}}},
    "Job": {"spec": {"template": _TEMPLATE}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "PersistentVolumeClaim": {"spec": {"resources": {}}},
    "Pod": {"spec": {"containers": None}},
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicaSet": {"spec": {"template": _TEMPLATE}},
    "ResourceSlice": {"spec": {"pool": {}}},
    "ResourceClaim": {"spec": {"devices": {}}},
    "ResourceClaimTemplate": {"spec": {"metadata": {}, "spec": {"devices": {}}}},
    "Service": {"status": {"loadBalancer": {}}},
    "StatefulSet": {"spec": {"template": _TEMPLATE, "updateStrategy": {}}},
}
_MOST_NAMES: Final = 32
_ITSELF: Final[Object] = {}
_OWN: Final[Object] = {".": _ITSELF}


def claimed(node: Node, value: object) -> Object:
    """What a configuration claims below a value. A field that the schema declares is there for its own fields alone."""
    if type(value) is dict and not node.atomic:
        if _SCALARS.issuperset(map(type, value.values())):
            return _plain(value)
        made: Object = {}
        for name in sorted(value):
            child, declared = value[name], node.properties.get(name)
            if type(child) is dict or type(child) is list:
                deeper = claimed(declared or node.additional or ANYTHING, child)
                if deeper:
                    made[fieldset.field(name)] = deeper if declared is not None else _OWN | deeper
                    continue
                if declared is not None and child != {} and shape(declared, child) != SCALAR:
                    continue
            made[fieldset.field(name)] = _ITSELF
        return made
    if type(value) is list and merges(node):
        firsts = dict(reversed(elements(node, value)))
        return {element: _with_itself(claimed(node.items or ANYTHING, firsts[element])) for element in sorted(firsts)}
    return _ITSELF


def gained(node: Node, value: object) -> Object:
    """All paths below a value that was not there before, each of them set."""
    if hollow(value):
        return _ITSELF
    if type(value) is dict and not node.atomic:
        if _SCALARS.issuperset(map(type, value.values())):
            return _plain(value)
        return {
            fieldset.field(name): _with_itself(gained(below(node, name), value[name]))
            if type(value[name]) is dict or type(value[name]) is list
            else _ITSELF
            for name in sorted(value)
        }
    if type(value) is list and merges(node):
        groups = grouped(node, value)
        item = node.items or ANYTHING
        return {
            element: _with_itself(gained(item, groups[element][0])) if len(groups[element]) == 1 else _ITSELF
            for element in sorted(groups)
        }
    return _ITSELF


def created(obj: Object, schema: Schema) -> Object:
    """What the create of an object sets. Go's structs of built-in kinds are there before anything is set."""
    structs = _CUSTOM
    if schema.builtin:
        has = schema.node.properties
        structs = _structs(str(obj.get("kind")), "spec" in has, "status" in has)
    return _filled(schema.root, _managed(obj, schema), structs)


_CUSTOM: Final[Mapping[str, object]] = {"metadata": {}}


@lru_cache(maxsize=256)
def _structs(kind: str, spec: bool, status: bool) -> Mapping[str, object]:
    """What is there of an object of a built-in kind before anything is set."""
    told: Object = {"spec": {}} if spec else {}
    return {**_CUSTOM, **told, **({"status": {}} if status else {}), **_STRUCTS.get(kind, {})}


def applied(obj: Object, schema: Schema) -> Object:
    """What a configuration claims that is applied by the main path."""
    return claimed(schema.root, _managed(obj, schema))


def _managed(obj: Object, schema: Schema) -> Object:
    """The part of an object that managers can have."""
    kept = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    if schema.status_subresource:
        kept.pop("status", None)
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in NEVER_MANAGED}
    if metadata:
        kept["metadata"] = metadata
    return kept


def _filled(node: Node, value: Object, structs: Mapping[str, object]) -> Object:
    """What was set in a struct that was there already."""
    made: Object = {}
    for name in sorted(value):
        item, child = value[name], below(node, name)
        if name not in structs:
            made[fieldset.field(name)] = _with_itself(gained(child, item))
            continue
        struct = structs[name]
        if item == struct:
            continue
        if type(struct) is dict and type(item) is dict and not child.atomic:
            deeper = _filled(child, item, struct)
        else:
            deeper = gained(child, item)
            if not deeper:
                made[fieldset.field(name)] = _ITSELF
        if deeper:
            made[fieldset.field(name)] = deeper
    return made


def _with_itself(deeper: Object) -> Object:
    return _OWN | deeper if deeper else _ITSELF


def _plain(value: Object) -> Object:
    """The fields of a map that holds no other."""
    return _of_names(tuple(value)) if len(value) <= _MOST_NAMES else _of_names.__wrapped__(tuple(value))


@lru_cache(maxsize=512)
def _of_names(names: tuple[str, ...]) -> Object:
    return {fieldset.field(name): _ITSELF for name in sorted(names)}
