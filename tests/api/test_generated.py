"""What is committed is what the types say, and it obeys the structural rules of Kubernetes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.definitions import custom_resource_definition
from modelplane.api.kinds import DEFINITIONS
from modelplane.api.shape import Definition
from modelplane.api.sources import describe

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
assert spec
assert spec.loader
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)

KINDS = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.gvk.kind)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below a schema with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def root(definition: Definition) -> dict[str, Any]:
    crd = custom_resource_definition(definition, describe)
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_committed_files_are_what_the_types_say() -> None:
    assert [str(path) for path in generate.stale(generate.files())] == []


def test_a_changed_file_and_a_left_over_one_are_found(tmp_path: Path) -> None:
    kept, changed, extra = (tmp_path / name for name in ("kept", "changed", "extra"))
    kept.write_text("a")
    changed.write_text("b")
    extra.write_text("c")
    assert generate.stale({kept: "a", changed: "B", tmp_path / "missing": "d"}) == sorted(
        [changed, extra, tmp_path / "missing"]
    )


def test_two_runs_write_the_same_bytes() -> None:
    assert generate.files() == generate.files()


def test_the_bundle_has_every_definition_once() -> None:
    names = [document["metadata"]["name"] for document in json.loads(generate.BUNDLE.read_text())]
    assert len(names) == len(set(names))
    assert {f"{d.resource.plural}.{d.resource.gvk.group}" for d in DEFINITIONS} <= set(names)


@KINDS
def test_every_field_says_what_it_means(definition: Definition) -> None:
    silent = [
        path
        for path, schema in nodes(root(definition))
        if path and "description" not in schema and not path.endswith(("[]", "{}")) and not path.startswith(".metadata")
    ]
    assert silent == []


@KINDS
def test_schemas_are_structural(definition: Definition) -> None:
    for path, schema in nodes(root(definition)):
        assert "$ref" not in schema, path
        assert schema.get("type") in ("object", "array", "string", "integer", "boolean"), path
        if schema["type"] == "array":
            assert "items" in schema, path
        if schema["type"] == "object" and path != ".metadata":
            ways = [
                key
                for key in ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
                if key in schema
            ]
            assert len(ways) == 1, f"{path} would drop everything or keep everything: {ways}"
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), path


@KINDS
def test_keys_of_lists_are_required_or_have_a_default_and_are_scalars(definition: Definition) -> None:
    for path, schema in nodes(root(definition)):
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            items = schema["items"]
            assert items["properties"][key]["type"] in ("string", "integer", "boolean"), f"{path} {key}"
            assert key in items["required"] or "default" in items["properties"][key], f"{path} {key}"
        assert ("x-kubernetes-list-map-keys" in schema) == (schema.get("x-kubernetes-list-type") == "map"), path


@KINDS
def test_defaults_are_valid_under_their_own_schema(definition: Definition) -> None:
    for path, schema in nodes(root(definition)):
        if "default" not in schema:
            continue
        value = schema["default"]
        kinds: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
        assert isinstance(value, kinds[schema["type"]]), path
        if "enum" in schema:
            assert value in schema["enum"], path
        if schema["type"] == "integer":
            assert schema.get("minimum", value) <= value <= schema.get("maximum", value), path
        if schema["type"] == "string":
            assert schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)), path


@KINDS
def test_rules_have_messages_and_point_at_fields_that_exist(definition: Definition) -> None:
    for path, schema in nodes(root(definition)):
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert "\n" not in rule["message"], path
            assert len(rule["message"]) <= 2048, path
            if "fieldPath" in rule:
                where = schema
                for part in rule["fieldPath"].lstrip(".").split("."):
                    where = where["properties"][part]


@KINDS
def test_columns_show_readiness_and_age_after_the_kinds_own(definition: Definition) -> None:
    version = custom_resource_definition(definition)["spec"]["versions"][0]
    columns = version["additionalPrinterColumns"]
    plain = [column["name"] for column in columns if not column.get("priority")]
    assert plain[len(plain) - 3 if definition.machinery else -1 :] == (
        ["SYNCED", "READY", "AGE"] if definition.machinery else ["AGE"]
    )
    assert [column for column in columns if column["name"].startswith("COMPOSITION")] == []
    assert [column.get("priority", 0) for column in columns] == sorted(column.get("priority", 0) for column in columns)
