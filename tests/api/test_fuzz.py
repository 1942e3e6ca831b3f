"""Objects made from the schemas, most of them slightly wrong: nothing crashes, and three judges agree.

The judges are the offline check (the server's code), a JSON Schema validator over the generated schema, and the rules evaluated one
by one over it. `make fuzz` runs ten thousand objects; the default run takes five hundred.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from modelplane.api.kinds import DEFINITIONS
from modelplane.api.meta import Object
from modelplane.api.schema import root_schema
from modelplane.api.shape import Definition, read
from modelplane.errors import InvalidObject
from modelplane.plan.cel import compile_rule
from modelplane.plan.cel.admission import complaints
from modelplane.server.offline import Judge
from modelplane.server.schema import Schema
from tests.api.admission import schema_for
from tests.api.test_served import CASES, manifest

OBJECTS = int(os.environ.get("MODELPLANE_FUZZ", "500"))
COUNTS: Counter[str] = Counter()

KEYS = st.sampled_from(["a", "team", "example.com/x", "memory", "gpu.example.com/memory"])
BAD_KEYS = st.sampled_from(["modelplane.ai/x", "-bad", "", "x" * 64])
WORDS = st.sampled_from(["a", "engine", "gpu", "v1", "1.2.3", "80Gi", "/v1", "https://a.example"])
BAD_WORDS = st.sampled_from(["", "http://1.2.3.4", "not a url", "x" * 300])
SELECTORS = st.sampled_from(["true", "device.driver == 'a'"])
BAD_SELECTORS = st.sampled_from(["device.x", "1 +", "device.driver"])
ANYTHING = st.sampled_from(["wrong", 7, True, {}, [], {"unknown": 1}])


@st.composite
def mostly(draw: st.DrawFn, good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any], percent: int = 2) -> Any:
    """A good value, and a bad one a few times in a hundred."""
    return draw(bad if draw(st.integers(0, 99)) >= 100 - percent else good)


@st.composite
def values(draw: st.DrawFn, schema: Object, name: str = "") -> Any:
    """A value for a schema: mostly right, sometimes over a bound, rarely of another type, never null."""
    if draw(st.integers(0, 99)) == 99:
        return draw(ANYTHING)
    type_ = schema["type"]
    if type_ == "object":
        return draw(members(schema))
    if type_ == "array":
        least = schema.get("minItems", 0)
        most = max(least, min(schema.get("maxItems", 2), 2))
        return draw(st.lists(values(schema["items"]), min_size=least, max_size=most))
    if type_ == "boolean":
        return draw(st.booleans())
    if type_ == "integer":
        least, most = schema.get("minimum", -1), schema.get("maximum", 100)
        return draw(mostly(st.integers(least, most), st.sampled_from([least - 1, most + 1])))
    if "enum" in schema:
        return draw(mostly(st.sampled_from(schema["enum"]), st.just("Other")))
    if name == "cel":
        return draw(mostly(SELECTORS, BAD_SELECTORS))
    if "pattern" in schema:
        good = st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: len(text) < 40)
        return draw(mostly(good, BAD_WORDS))
    if name == "name" and schema.get("minLength") == 1 and "maxLength" not in schema:
        return "engine"
    return draw(mostly(WORDS, BAD_WORDS))


@st.composite
def members(draw: st.DrawFn, schema: Object) -> Object:
    if isinstance(schema.get("additionalProperties"), dict):
        return draw(st.dictionaries(mostly(KEYS, BAD_KEYS), values(schema["additionalProperties"]), max_size=3))
    made: Object = {}
    for name, inner in schema.get("properties", {}).items():
        if draw(st.integers(0, 99)) < (99 if name in schema.get("required", ()) else 40):
            made[name] = draw(values(inner, name))
    return made


@st.composite
def manifests(draw: st.DrawFn) -> tuple[Definition, Object]:
    definition = draw(st.sampled_from(DEFINITIONS))
    schema = root_schema(definition)["properties"]["spec"]
    spec = draw(members(schema))
    gvk = definition.resource.gvk
    return definition, {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": "x"}, "spec": spec}


@cache
def validator(kind: str) -> Any:
    return jsonschema_rs.validator_for(root_schema(next(d for d in DEFINITIONS if d.resource.gvk.kind == kind)))


def duplicates(schema: Object, value: Any) -> Iterator[str]:
    """Entries of keyed lists that have the same key: what JSON Schema cannot say."""
    if isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        seen = [tuple(item.get(key) for key in keys) for item in value if isinstance(item, dict)] if keys else []
        yield from (str(key) for key, times in Counter(seen).items() if times > 1)
        for item in value:
            yield from duplicates(schema["items"], item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from duplicates(
                schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {}, item
            )


def broken(schema: Object, value: Any) -> Iterator[str]:
    """Messages of the rules that a structurally valid value breaks."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not compile_rule(rule["rule"], ("self",)).holds(self=value):
            yield rule["message"]
    if isinstance(value, list):
        for item in value:
            yield from broken(schema["items"], item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from broken(schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {}, item)


def stored(schema: Schema, obj: Object) -> Object:
    return schema.default(schema.prune(obj)[0])


JUDGE = Judge()


@seed(20261129)
@settings(max_examples=OBJECTS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(manifests())
def agree(made: tuple[Definition, Object]) -> None:
    definition, obj = made
    kind = definition.resource.gvk.kind
    findings = JUDGE.judge(obj)
    errors = [found for found in findings if found.severity == "error"]
    for found in errors:
        assert found.path or "some validation rules were not checked" in found.message, "a refusal has a field path"
    whole = stored(schema_for(kind), obj)
    tree = root_schema(definition)
    structural = not validator(kind).is_valid(whole) or bool(list(duplicates(tree, whole)))
    rules = [] if structural else list(broken(tree, whole))
    reviewed = complaints(whole)
    assert bool(errors) == bool(structural or rules or reviewed), (kind, obj, errors, structural, rules)
    for message in rules:
        assert any(message in found.message for found in errors), (message, errors)
    if not errors:
        assert read(definition.type, whole)  # what is accepted can be read
    elif structural and not any("Duplicate" in found.message for found in errors):
        with contextlib.suppress(InvalidObject):
            read(definition.type, whole)  # what is refused ends in nothing else
    COUNTS["accepted" if not errors else "refused"] += 1


@pytest.mark.timeout(3600)
def test_three_judges_agree_about_any_object() -> None:
    COUNTS.clear()
    agree()
    print(f"\nfuzzed {sum(COUNTS.values())} objects: {COUNTS['accepted']} accepted, {COUNTS['refused']} refused")
    assert COUNTS["accepted"] > OBJECTS / 20
    assert COUNTS["refused"] > OBJECTS / 20


def test_three_judges_agree_about_the_golden_set() -> None:
    differing = []
    for kind, spec in CASES:
        obj = manifest(kind, spec)
        errors = [found for found in JUDGE.judge(obj) if found.severity == "error"]
        whole = stored(schema_for(kind), obj)
        tree = root_schema(next(d for d in DEFINITIONS if d.resource.gvk.kind == kind))
        where = {pointed(error.instance_path) for error in validator(kind).iter_errors(whole)}
        twice = [] if where else list(duplicates(tree, whole))
        rules = [] if where or twice else list(broken(tree, whole))
        places = {found.path.replace("[", ".").replace("]", "") for found in errors}
        unseen = [path for path in where if not any(place.startswith(path) for place in places)]
        if bool(errors) != bool(where or twice or rules or complaints(whole)) or unseen:
            differing.append((kind, spec, [str(found) for found in errors], unseen))
    assert differing == []


def pointed(path: list[str | int]) -> str:
    """A path as the validator gives it, with dots; a missing field is reported at its parent."""
    return ".".join(str(part) for part in path)
