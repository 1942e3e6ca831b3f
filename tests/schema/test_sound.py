"""The one pass that finds nothing to say, against the walks that would say it: it is never silent where one of them is not."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import modelplane.api
from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import builtin_schema
from modelplane.server.crd import resource_types
from modelplane.server.fieldmanager.typed import _undeclared
from modelplane.server.schema import Schema
from modelplane.server.schema.cel import CelEngine
from modelplane.server.schema.decode import decode_json
from modelplane.server.schema.default import _without_nulls, drop_nulls
from modelplane.server.schema.node import Compiler
from modelplane.server.schema.sound import sound
from modelplane.server.schema.validate import validate

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES: list[Any] = [
    None,
    0,
    -1,
    2**40,
    1.5,
    True,
    "",
    "x",
    "a/b",
    "1Gi",
    "!" * 300,
    [],
    {},
    [None],
    ["a", "a"],
    [{}],
    {"a": 1},
]
META = {
    "name": "a",
    "labels": {"app": "x"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
}
CONTAINER = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
}
BUILTIN: list[Object] = [
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": META,
        "secrets": [{"name": "s"}],
        "automountServiceAccountToken": True,
    },
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": META,
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": META,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": META,
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]},
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": META, "data": {"a": "b"}, "binaryData": {"c": "AAAA"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": META, "data": {"a": "AAAA"}, "type": "Opaque"},
    {"apiVersion": "v1", "kind": "Service", "metadata": META, "spec": {"ports": [{"port": 80, "targetPort": "web"}]}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": {"containers": [CONTAINER], "finalizers": []}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": META,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
        },
    },
]


def schemas() -> dict[tuple[str, str], Schema]:
    bundle = json.loads((Path(modelplane.api.__file__).parent / "bundle" / "crds.json").read_text())
    engine = CelEngine()
    types = [type_ for definition in bundle for type_ in resource_types(definition, engine)]
    return {(type_.gvk.api_version, type_.gvk.kind): type_.schema for type_ in types}


def subjects() -> Iterator[tuple[Schema, Object]]:
    for obj in BUILTIN:
        yield builtin_schema(GVK.parse(obj["apiVersion"], obj["kind"])), obj
    custom = schemas()
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text()):
            if obj and (obj["apiVersion"], obj["kind"]) in custom:
                yield custom[obj["apiVersion"], obj["kind"]], obj


def changed(obj: Object, chance: random.Random) -> Object:
    """The object with one value somewhere in it replaced, or with a field that was not there."""
    made = copy.deepcopy(obj)
    holders: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            holders.append((value, key))
            if isinstance(item, dict | list):
                walk(item)

    walk(made)
    holder, key = chance.choice(holders)
    value = copy.deepcopy(chance.choice(VALUES))
    if isinstance(holder, list) and chance.random() < 0.3:
        holder.append(copy.deepcopy(holder[key]))
    elif isinstance(holder, dict) and chance.random() < 0.2:
        holder["unknownField"] = value
    else:
        holder[key] = value
    return made


def test_nothing_is_said_of_what_it_finds_sound_by_any_walk() -> None:
    chance = random.Random(11)
    found = {True: 0, False: 0}
    for schema, example in subjects():
        for obj in (example, *(changed(example, chance) for _ in range(60))):
            verdict = schema.sound(obj)
            found[verdict] += 1
            if verdict:
                assert schema.decoding_error(obj) == ""
                assert schema.prune(obj) == (obj, [])
                own = schema.node.properties.get("metadata")
                said = validate(schema.node, obj)
                assert [error for error in said if schema.builtin or not error.path.startswith("metadata")] == [], obj
                assert schema.builtin or said == (validate(own, obj["metadata"], None, "metadata") if own else [])
                assert _undeclared(schema.root, obj, ()) == []
    assert found[True] > 200, "most that is written is sound, and is found to be"
    assert found[False] > 200


def test_a_kind_that_is_stored_as_it_is_written_needs_no_second_look() -> None:
    chance = random.Random(7)
    judged = 0
    for schema, example in subjects():
        for obj in (example, *(changed(example, chance) for _ in range(60))):
            if schema.as_written and schema.sound(obj):
                judged += 1
                assert schema.default(obj) == obj
                served = {
                    **obj,
                    "metadata": {**obj["metadata"], "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
                }
                assert schema.validate(served, known_sound=True) == schema.validate(served)
    assert judged > 20


CASES: list[tuple[str, Object, Any, bool]] = [
    ("a field that is not known", {"type": "object", "properties": {"a": {"type": "string"}}}, {"b": "x"}, False),
    ("a field that is required", {"type": "object", "required": ["a"]}, {}, False),
    ("a whole number written with a point", {"type": "integer"}, 1.0, False),
    ("true is no number", {"type": "integer"}, True, False),
    ("null, although it may be", {"type": "string", "nullable": True}, None, False),
    ("an item twice", {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ["a", "a"], False),
    ("items that differ", {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ["a", "b"], True),
    ("a limit that holds", {"type": "integer", "minimum": 1}, 1, True),
    ("a limit that does not", {"type": "integer", "minimum": 1}, 0, False),
    ("a branch that fails", {"type": "object", "additionalProperties": True, "not": {"required": ["a"]}}, {"a": 1}, False),
    ("what is kept unknown", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": [None]}, True),
]  # fmt: skip


@pytest.mark.parametrize(("why", "schema", "value", "want"), CASES, ids=[case[0] for case in CASES])
def test_a_value_is_sound_or_left_to_the_walks(why: str, schema: Object, value: Any, want: bool) -> None:
    assert sound(Compiler().compile(schema), value) is want


@pytest.mark.parametrize(
    ("body", "value", "twice"),
    [
        (b'{"a":1,"b":[{"c":"d"}]}', {"a": 1, "b": [{"c": "d"}]}, []),
        (b'{"a":1,"a":2}', {"a": 2}, ["a"]),
        (b'{"b":{"a":null,"a":null}}', {"b": {"a": None}}, ["b.a"]),
        (b'{ "a" : 1 }\n', {"a": 1}, []),
        (b'{"a":"\\u003c","n":1e2,"big":123456789012345678901}', {"a": "<", "n": 100.0, "big": 123456789012345678901}, []),
    ],
)  # fmt: skip
def test_keys_that_are_there_twice_are_told_however_the_text_is_written(
    body: bytes, value: Any, twice: list[str]
) -> None:
    assert decode_json(body) == (value, twice)


def test_nulls_are_dropped_wherever_they_are_and_only_they() -> None:
    text = {"type": "string"}
    below = {"type": "object", "properties": {"c": text}}
    node = Compiler().compile({"type": "object", "properties": {"a": text, "b": below}})
    for obj in ({"a": "null", "b": {"c": "x"}}, {"a": None, "b": {"c": None}}, {"a": "x", "b": {"c": None}}):
        assert drop_nulls(node, obj) == _without_nulls(node, obj)
