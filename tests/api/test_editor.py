"""The JSON Schemas for editors take every example and underline what an API server would call unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from modelplane.api.kinds import DEFINITIONS

ROOT = Path(__file__).parents[2]
MANIFESTS = [
    obj for file in sorted((ROOT / "examples").rglob("*.yaml")) for obj in yaml.safe_load_all(file.read_text())
]


def validator(kind: str) -> Any:
    return jsonschema_rs.validator_for(json.loads((ROOT / "schemas" / f"{kind.lower()}_v1alpha1.json").read_text()))


def test_every_kind_has_one() -> None:
    assert {file.stem for file in (ROOT / "schemas").iterdir()} == {
        f"{definition.resource.gvk.kind.lower()}_v1alpha1" for definition in DEFINITIONS
    }


@pytest.mark.parametrize("obj", MANIFESTS, ids=lambda obj: f"{obj['kind']}-{obj['metadata']['name']}")
def test_examples_are_valid(obj: dict[str, Any]) -> None:
    validator(obj["kind"]).validate(obj)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spec": {"endpoints": [{"selector": {"matchLabels": {"a": "b"}}, "wait": 3}]}}, "a misspelt field"),
        ({"spec": {}}, "a required field that is missing"),
        ({"kind": "ModelServices"}, "another kind"),
        ({"metadata": {}}, "no name"),
    ],
)
def test_mistakes_are_underlined(change: dict[str, Any], reason: str) -> None:
    good = next(obj for obj in MANIFESTS if obj["kind"] == "ModelService")
    assert not validator("ModelService").is_valid({**good, **change}), reason
