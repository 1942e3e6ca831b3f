"""Random applies and updates, held against what Kubernetes' own structured-merge-diff answered (recorded beside)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.errors import ApplyConflict
from modelplane.server.builtin import object_meta
from modelplane.server.fieldmanager import apply, track_update
from modelplane.server.schema import Schema
from modelplane.server.schema.node import Compiler

RUNS = json.loads(gzip.decompress((Path(__file__).parent / "structured_merge" / "recorded.json.gz").read_bytes()))
STRINGS: Object = {"type": "array", "items": {"type": "string"}}
SET = {**STRINGS, "x-kubernetes-list-type": "set"}
INTEGER: Object = {"type": "integer"}
ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "v": INTEGER,
        "tags": SET,
        "sub": {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}},
    },
}
SPEC: Object = {
    "type": "object",
    "properties": {
        "n": INTEGER,
        "atomic": STRINGS,
        "set": SET,
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": ITEM,
        },
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SCHEMA = Schema(Compiler().compile({"type": "object", "properties": {"spec": SPEC}}), object_meta())


def without_managers(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {
        **{key: value for key, value in obj.items() if key != "metadata"},
        **({"metadata": metadata} if metadata else {}),
    }


def step(live: Object | None, given: Any) -> tuple[Object | None, list[str]]:
    """The object after one request, and the conflicts that it met."""
    obj, manager = given["object"], given["manager"]
    if given["op"] == "update":
        metadata = {**obj["metadata"], "managedFields": ((live or {}).get("metadata") or {}).get("managedFields")}
        return track_update(live, {**obj, "metadata": metadata}, manager=manager, schema=SCHEMA, time="t"), []
    try:
        return apply(live, obj, manager=manager, schema=SCHEMA, time="t", force=given["force"]), []
    except ApplyConflict as conflict:
        named = (
            (who.split('"')[1], "Update" if " using " in who else "Apply", path) for who, path in conflict.conflicts
        )
        return live, sorted(f"{operation}:{name} {path}" for name, operation, path in named)


@pytest.mark.parametrize("part", range(8))
def test_every_step_gives_the_object_owners_and_conflicts_of_the_reference(part: int) -> None:
    for number, steps in enumerate(RUNS[part::8]):
        live: Object | None = None
        for position, given in enumerate(steps):
            live, conflicts = step(live, given)
            answer, at = given["answer"], f"run {part + 8 * number}, step {position}"
            seen = live or {"apiVersion": "example.com/v1", "kind": "Widget"}
            entries = (seen.get("metadata") or {}).get("managedFields") or []
            assert conflicts == answer["conflicts"], at
            assert without_managers(seen) == answer["object"], at
            assert {f"{e['operation']}:{e['manager']}": e["fieldsV1"] for e in entries} == answer["managers"], at


def test_the_recording_has_conflicts_updates_and_forced_applies_in_number() -> None:
    steps = [given for run in RUNS for given in run]
    assert len(steps) > 1000
    assert sum(bool(given["answer"]["conflicts"]) for given in steps) > 100
    assert sum(given["op"] == "update" for given in steps) > 100
