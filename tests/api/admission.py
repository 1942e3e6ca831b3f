"""What an API server does with an object of a kind (defaults, structure, rules): the embedded server's code, without the server."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.meta import Object
from modelplane.api.schema import root_schema
from modelplane.server.schema import Schema
from modelplane.server.schema.cel import CelEngine
from modelplane.server.schema.node import Compiler
from modelplane.server.schema.rules import Rules

GONE = object()
"""A value that takes a field away."""


@cache
def schema_for(kind: str) -> Schema:
    definition = next(d for d in DEFINITIONS if d.resource.gvk.kind == kind)
    schema = root_schema(definition)
    schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    node = Compiler().compile(schema)
    return Schema(node, Compiler().compile(schema["properties"]["metadata"]), rules=Rules(node, CelEngine()))


def admit(kind: str, spec: Object, old: Object | None = None) -> tuple[Object, list[tuple[str, str]]]:
    """The object as it would be stored, and every complaint as path and message. ``old`` is the spec that is stored now."""

    def whole(spec: Object) -> Object:
        definition = next(d for d in DEFINITIONS if d.resource.gvk.kind == kind)
        metadata = {"name": "x", "resourceVersion": "1"} | (
            {"namespace": "ns"} if definition.resource.namespaced else {}
        )
        return {"apiVersion": definition.resource.gvk.api_version, "kind": kind, "metadata": metadata, "spec": spec}

    schema = schema_for(kind)
    pruned, unknown = schema.prune(whole(copy.deepcopy(spec)))
    stored = schema.default(pruned)
    former = schema.default(whole(copy.deepcopy(old))) if old is not None else None
    complaints = [(error.path, f"{error.type}: {error.message}") for error in schema.validate(stored, former)]
    return stored, [(path, f'unknown field "{path}"') for path in unknown] + complaints


def changed(base: Object, changes: Mapping[str, Any]) -> Object:
    """A copy with values set at dotted paths (numbers step into lists); GONE takes a field away."""
    made: Any = copy.deepcopy(base)
    for path, value in changes.items():
        where = made
        *parents, last = path.split(".")
        for part in parents:
            where = where[int(part)] if isinstance(where, list) else where.setdefault(part, {})
        if value is GONE:
            del where[last]
        elif isinstance(where, list):
            where[int(last) : int(last) + 1] = [copy.deepcopy(value)]
        else:
            where[last] = copy.deepcopy(value)
    return made  # type: ignore[no-any-return]
