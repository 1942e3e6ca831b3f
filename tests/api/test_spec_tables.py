"""Every row of the specification's field tables holds for the generated schemas, and they have no field besides.

Each departure is an entry with its reason; an entry that is no longer needed fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from modelplane.api.kinds import AGENT_DEFINITIONS, DEFINITIONS
from modelplane.api.schema import root_schema
from modelplane.api.shape import Definition
from tests.api.spec_tables import Row, identity, paths, rows

FACTS = (
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)

UNION = "design 4: the older and the current shape are one kind, and a rule says which fields go together"
STACK = "design 4: ServingStack has the current shape only"
TIMEOUT = "design 5.17: no request has a total timeout unless the service asks for one"
BARE_METAL = "spec 9.3: source and provider VultrBaremetal"
LATER = "spec: the later table of the section wins"

DEPARTURES: dict[tuple[str, str, int, str], str] = {
    # kind, path, number of the table, what departs
    ("InferenceCluster", "spec.cluster.source", 0, "enum"): BARE_METAL,
    ("InferenceClass", "spec.provisioning.provider", 0, "enum"): BARE_METAL,
    ("ServingStack", "spec.cloud", 2, "enum"): BARE_METAL,
    ("InferenceGateway", "spec.backend", 0, "required"): UNION,
    ("InferenceGateway", "spec.clusterName", 2, "required"): UNION,
    ("ModelDeployment", "spec.template.spec.tolerations", 0, "maxItems"): "a bound for the cost of its rules",
    ("ModelDeployment", "spec.replicas", 0, "minimum"): "design 4: replicas are 0 to 1000",
    ("ModelDeployment", "spec.replicas", 0, "maximum"): "design 4: replicas are 0 to 1000",
    (
        "ModelService",
        "spec.endpoints",
        0,
        "maxItems",
    ): "the current shape's bound; it keeps the rule on names within its cost",
    ("ModelService", "spec.endpoints", 0, "x-kubernetes-list-type"): "design 4: an atomic list",
    ("ModelService", "spec.endpoints[].weight", 0, "format"): LATER,
    ("ModelService", "spec.endpoints[].selector.matchLabels", 0, "minProperties"): LATER,
    ("ModelService", "spec.endpoints[].selector.matchLabels", 0, "maxProperties"): LATER,
    ("ModelService", "spec.endpoints[].selector.matchLabels", 0, "inner maxLength"): LATER,
    (
        "ModelService",
        "spec.endpoints",
        2,
        "x-kubernetes-list-type",
    ): "design 4: an atomic list, because names are optional",
    (
        "ModelService",
        "spec.endpoints",
        2,
        "x-kubernetes-list-map-keys",
    ): "design 4: an atomic list, because names are optional",
    ("ModelService", "spec.endpoints[].name", 2, "required"): "design 4: a missing name is derived from the position",
    ("ModelService", "spec.timeouts", 2, "default"): TIMEOUT,
    ("ModelService", "spec.timeouts.request", 2, "default"): TIMEOUT,
    ("ModelEndpoint", "spec.url", 0, "required"): UNION,
    ("ModelEndpoint", "spec.origin", 2, "required"): UNION,
    (
        "ModelEndpoint",
        "spec.api",
        2,
        "default",
    ): "the default of the current shape would be written into endpoints of the older one",
}

ADDITIONS: dict[str, str] = {
    "status.children": "design 6: the inventory of remote objects",
    "status.conditions": "spec 2.4: every kind has conditions",
    "InferenceCluster status.gpuPools[].capacity": "design 6: what a pool has to give",
    "InferenceCluster spec.cluster.vultrBaremetal": BARE_METAL,
    "InferenceClass spec.provisioning.vultrBaremetal": BARE_METAL,
    "ModelCache status.clusters[].sourceHash": "design 5.10: readiness is latched to a hash of the source",
    "ModelDeployment status.labelSelector": "design 4: the selector path of the scale subresource",
    "ModelDeployment status.placement": "design 6: verdicts of the last placement",
    "ModelReplica status.models": "design 5.6: names that the replica answered with",
    "ModelEndpoint status.models": "design 5.6: names that the endpoint answered with",
}

PARTS: dict[str, tuple[int, ...]] = {"ServingStack": (2,)}
"""Tables of a section that hold, where not all do."""

ALSO: dict[str, str] = {"ServingStack": "spec.secrets[]."}
"""Rows that the tables that hold refer back to."""

COLUMN_DEPARTURES: dict[str, tuple[tuple[str, str, str], ...]] = {
    # Quirk 1 of the specification: the published path points into a string and prints nothing.
    "ModelCache": (("SOURCE", "string", ".spec.huggingFace.repo"), ("READY", "string", ".status.summary.ready")),
}


def _ids(definition: Definition) -> str:
    return definition.resource.gvk.kind


KINDS = pytest.mark.parametrize("definition", [d for d in DEFINITIONS if d not in AGENT_DEFINITIONS], ids=_ids)
AGENT_KINDS = pytest.mark.parametrize("definition", AGENT_DEFINITIONS, ids=_ids)


def tables(definition: Definition) -> list[Row]:
    kind = definition.resource.gvk.kind
    found = rows(kind)
    return [
        row
        for row in found
        if kind not in PARTS or row.table in PARTS[kind] or row.path.startswith(ALSO.get(kind, "-"))
    ]


def at(schema: dict[str, Any], path: str) -> tuple[dict[str, Any], bool] | None:
    """The schema at a path, and whether its parent requires it; None where there is no such field."""
    required = True
    for part in path.replace("[]", ".[]").replace("{}", ".{}").split("."):
        if part == "[]":
            schema = schema["items"]
        elif part == "{}":
            schema = schema["additionalProperties"]
        elif part in schema.get("properties", {}):
            required = part in schema.get("required", ())
            schema = schema["properties"][part]
        else:
            return None
    return schema, required


def differences(row: Row, schema: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    if row.path == "status.conditions":
        return  # stated as a bare array in some sections; the test below holds it against section 2.3
    found = at(schema, row.path)
    if found is None:
        yield "missing", row.path, None
        return
    have, required = found
    if required != row.required:
        yield "required", row.required, required
    for fact in FACTS:
        if have.get(fact) != row.schema.get(fact):
            yield fact, row.schema.get(fact), have.get(fact)
    inner = have.get("items", have.get("additionalProperties", {})) if row.inner else {}
    for fact in FACTS:
        if row.inner and inner.get(fact) != row.inner.get(fact):
            yield f"inner {fact}", row.inner.get(fact), inner.get(fact)


@KINDS
def test_every_row_of_the_specification_holds(definition: Definition) -> None:
    kind = definition.resource.gvk.kind
    schema = root_schema(definition)
    surprises = []
    used = set()
    for row in tables(definition):
        for what, want, have in differences(row, schema):
            key = (kind, row.path, row.table, what)
            if key in DEPARTURES:
                used.add(key)
            else:
                surprises.append(f"{row.path} (table {row.table}): {what} is {have!r}, specified is {want!r}")
    assert surprises == []
    assert {key for key in DEPARTURES if key[0] == kind} - used == set(), "departures that are no longer needed"


@KINDS
def test_every_kind_has_the_conditions_of_section_2_3(definition: Definition) -> None:
    found = at(root_schema(definition), "status.conditions")
    assert found
    conditions = found[0]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    items = conditions["items"]
    assert sorted(items["required"]) == ["lastTransitionTime", "reason", "status", "type"]
    assert items["properties"]["lastTransitionTime"]["format"] == "date-time"
    assert items["properties"]["observedGeneration"]["format"] == "int64"
    assert items["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
    assert items["properties"]["message"]["type"] == "string"


@KINDS
def test_names_scope_categories_columns_and_subresources_are_the_specified_ones(definition: Definition) -> None:
    want = identity(definition.resource.gvk.kind)
    resource = definition.resource
    assert (resource.gvk.group, resource.plural) == (want.group, want.plural)
    assert definition.short_names == ((want.short_name,) if want.short_name else ())
    assert resource.namespaced == (want.scope == "Namespaced")
    assert set(want.categories) <= set(definition.categories)
    shown = tuple((column.name, column.type, column.path) for column in definition.columns if column.priority == 0)
    assert shown == COLUMN_DEPARTURES.get(resource.gvk.kind, want.columns)
    assert (definition.scale is not None) == ("scale" in want.subresources)
    if definition.scale:
        assert f"`{definition.scale.spec}`" in want.subresources
        assert f"`{definition.scale.status}`" in want.subresources


def fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield (where := f"{path}.{name}" if path else name)
        yield from fields(inner, where)
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


@KINDS
def test_there_is_no_field_that_nobody_asked_for(definition: Definition) -> None:
    kind = definition.resource.gvk.kind
    known = {"apiVersion", "kind", "metadata", "metadata.name", "status"}
    for row in tables(definition):
        parts = row.path.split(".")
        known |= {".".join(parts[:length]).removesuffix("[]") for length in range(1, len(parts))} | {row.path}
    added = [path.removeprefix(f"{kind} ") for path in ADDITIONS if " " not in path or path.startswith(f"{kind} ")]
    extra = [
        path
        for path in fields(root_schema(definition))
        if path not in known
        and not any(path == start or path.startswith((f"{start}[", f"{start}.")) for start in added)
    ]
    assert extra == []


@AGENT_KINDS
def test_observations_have_the_published_fields(definition: Definition) -> None:
    schema = root_schema(definition)
    for path, type_ in paths(definition.resource.gvk.kind):
        found = at(schema, path)
        assert found, path
        want = {"[]object": "array", "date-time": "string"}.get(type_, "object" if type_.startswith("map") else type_)
        assert found[0]["type"] == want, path
        assert (found[0].get("format") == "date-time") == (type_ == "date-time"), path
