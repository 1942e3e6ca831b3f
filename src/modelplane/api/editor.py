"""JSON Schemas for editors: completion, words at the cursor, and a red line under a misspelt field.

Rules across fields are left to `modelplane check` and API servers; what a JSON Schema can say is the same.
"""

from __future__ import annotations

from typing import Any, Final

from modelplane.api.meta import Object
from modelplane.api.schema import Describe, root_schema, silent
from modelplane.api.shape import Definition

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_STRINGS: Final[Object] = {"type": "object", "additionalProperties": {"type": "string"}}


def json_schema(definition: Definition, describe: Describe = silent) -> Object:
    """The schema of one kind's manifests, closed to unknown fields."""
    schema = root_schema(definition, describe)
    gvk = definition.resource.gvk
    metadata: Object = {
        "type": "object",
        "properties": {
            **schema["properties"]["metadata"]["properties"],
            "generateName": {"type": "string"},
            "labels": _STRINGS,
            "annotations": _STRINGS,
        },
        "anyOf": [{"required": ["name"]}, {"required": ["generateName"]}],
    }
    if definition.resource.namespaced:
        metadata["properties"]["namespace"] = {"type": "string"}
    made: Object = _closed({**schema, "properties": {k: v for k, v in schema["properties"].items() if k != "metadata"}})
    made["properties"] = {
        "apiVersion": {"const": gvk.api_version},
        "kind": {"const": gvk.kind},
        "metadata": metadata,
        **{name: inner for name, inner in made["properties"].items() if name not in ("apiVersion", "kind")},
    }
    made["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return {"$schema": DIALECT, "title": gvk.kind, **made}


def _closed(schema: Any) -> Any:
    """Without Kubernetes' own keywords, and closed wherever the fields are spelt out."""
    if not isinstance(schema, dict):
        return schema
    made: Object = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if "properties" in made:
        made["properties"] = {name: _closed(inner) for name, inner in made["properties"].items()}
        made["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _closed(made[key])
    return made
