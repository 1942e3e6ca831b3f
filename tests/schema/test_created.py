"""Defaults and managed fields of created objects, held against what a real kube-apiserver wrote (recorded beside)."""

import json
from pathlib import Path

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import builtin_schema
from modelplane.server.fieldmanager import track_update
from tests.schema.test_checks import made

RECORDED = json.loads((Path(__file__).parent / "created" / "recorded.json").read_text())
ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def defaulted(obj: Object) -> Object:
    """Without what is allocated rather than defaulted, and without Go's null for a list that is not there."""
    kept = {key: value for key, value in obj.items() if value is not None}
    if obj["kind"] == "Service":
        kept["spec"] = {key: value for key, value in obj["spec"].items() if key not in ALLOCATED}
    return kept


@pytest.mark.parametrize("what", RECORDED)
def test_a_created_object_has_the_defaults_and_the_fields_that_a_real_server_gives(what: str) -> None:
    obj = made(what)
    obj["metadata"] = {"name": "a"}
    schema = builtin_schema(GVK.of(obj))
    filled = schema.default(obj)
    assert filled == defaulted(RECORDED[what]["object"])
    (entry,) = track_update(None, filled, manager="creator", schema=schema, time="t")["metadata"]["managedFields"]
    assert entry["fieldsV1"] == RECORDED[what]["fields"]
