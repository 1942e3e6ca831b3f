"""The definitions that we hand to Crossplane: spec and status of the same schema, without what Crossplane adds itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from modelplane.api.definitions import composite_resource_definition, custom_resource_definition
from modelplane.api.kinds import AGENT_DEFINITIONS, DEFINITIONS
from modelplane.api.shape import Definition

XRD = (
    Path(__file__).parents[3]
    / "shared"
    / "crds"
    / "crossplane"
    / "apiextensions.crossplane.io_compositeresourcedefinitions.yaml"
)
KINDS = pytest.mark.parametrize(
    "definition",
    [d for d in DEFINITIONS if d not in AGENT_DEFINITIONS],
    ids=lambda definition: definition.resource.gvk.kind,
)


def schemas(definition: Definition) -> tuple[dict[str, Any], dict[str, Any]]:
    xrd = composite_resource_definition(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    crd = custom_resource_definition(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return xrd, crd


@KINDS
def test_spec_and_rules_are_those_of_the_custom_resource(definition: Definition) -> None:
    xrd, crd = schemas(definition)
    assert xrd["properties"]["spec"] == crd["properties"]["spec"]
    assert set(xrd["properties"]) == {"spec", "status"}


@KINDS
def test_conditions_and_common_columns_are_left_to_crossplane(definition: Definition) -> None:
    xrd, crd = schemas(definition)
    assert "conditions" not in xrd["properties"]["status"]["properties"]
    assert set(crd["properties"]["status"]["properties"]) == {*xrd["properties"]["status"]["properties"], "conditions"}
    columns = composite_resource_definition(definition)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert not {"SYNCED", "AGE"} & {column["name"] for column in columns}


@KINDS
def test_definitions_are_valid_for_crossplane(definition: Definition) -> None:
    if not XRD.exists():
        pytest.skip("Crossplane's own schema is not beside this clone")
    crd = yaml.load(XRD.read_text(), yaml.CSafeLoader)
    version = next(v for v in crd["spec"]["versions"] if v["name"] == "v2")
    jsonschema_rs.validator_for(version["schema"]["openAPIV3Schema"]).validate(
        composite_resource_definition(definition)
    )
