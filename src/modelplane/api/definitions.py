"""Definitions of the kinds for API servers: CustomResourceDefinitions, and CompositeResourceDefinitions for Crossplane.

Crossplane makes the CustomResourceDefinition itself and adds its own bookkeeping fields, conditions and columns; what we hand it
are spec and status of the same schema.
"""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import Object
from modelplane.api.schema import Describe, root_schema, silent
from modelplane.api.shape import Column, Definition

SYNCED: Final = Column(name="SYNCED", path=".status.conditions[?(@.type=='Synced')].status")
READY: Final = Column(name="READY", path=".status.conditions[?(@.type=='Ready')].status")
AGE: Final = Column(name="AGE", path=".metadata.creationTimestamp", type="date")


def custom_resource_definition(definition: Definition, describe: Describe = silent) -> Object:
    """The CustomResourceDefinition of a kind (apiextensions.k8s.io/v1)."""
    resource = definition.resource
    gvk = resource.gvk
    subresources: Object = {"status": {}}
    if definition.scale:
        scale = {"specReplicasPath": definition.scale.spec, "statusReplicasPath": definition.scale.status}
        if definition.scale.selector:
            scale["labelSelectorPath"] = definition.scale.selector
        subresources["scale"] = scale
    names: Object = {
        "categories": list(definition.categories),
        "kind": gvk.kind,
        "listKind": f"{gvk.kind}List",
        "plural": resource.plural,
        "singular": gvk.kind.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{gvk.group}"},
        "spec": {
            "group": gvk.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": gvk.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_column(column) for column in columns_of(definition)],
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": root_schema(definition, describe)},
                }
            ],
        },
    }


def columns_of(definition: Definition) -> tuple[Column, ...]:
    """All columns: the kind's own that always show, whether it works, its age, and the wide ones."""
    always = tuple(column for column in definition.columns if column.priority == 0)
    wide = tuple(column for column in definition.columns if column.priority > 0)
    state = (SYNCED, READY) if definition.machinery else ()
    return (*always, *state, AGE, *wide)


def _column(column: Column) -> Object:
    entry: Object = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    if column.priority:
        entry["priority"] = column.priority
    return entry


def composite_resource_definition(definition: Definition, describe: Describe = silent) -> Object:
    """The CompositeResourceDefinition of a kind (apiextensions.crossplane.io/v2); the composition has the definition's name."""
    crd = custom_resource_definition(definition, describe)
    name = crd["metadata"]["name"]
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]
    status["properties"].pop("conditions", None)
    made: Object = {
        "name": version["name"],
        "served": True,
        "referenceable": True,
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                **({"description": schema["description"]} if "description" in schema else {}),
                "properties": {"spec": schema["properties"]["spec"], "status": status},
                "required": ["spec"],
            }
        },
    }
    if "scale" in version["subresources"]:
        made["subresources"] = {"scale": version["subresources"]["scale"]}
    names = {key: value for key, value in crd["spec"]["names"].items() if key != "listKind"}
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": crd["spec"]["group"],
            "names": names,
            "scope": crd["spec"]["scope"],
            "defaultCompositionRef": {"name": name},
            "versions": [made],
        },
    }
