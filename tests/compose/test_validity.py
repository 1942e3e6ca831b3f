"""What we compose is what Kubernetes takes: every object of a built-in kind against that kind's own schema."""

from __future__ import annotations

import pytest

from modelplane.api.meta import GVK, Object
from modelplane.server.builtin import builtin_schema
from modelplane.server.builtin.kinds import KINDS
from tests.compose.fleet import Fleet
from tests.compose.objects import container, engine, member, model_replica
from tests.compose.test_replicas import NAME, placed
from tests.compose.two_regions import settled

BUILTIN = {kind.gvk for kind in KINDS}


def faults(fleet: Fleet) -> list[str]:
    """Unknown fields and broken rules of all objects, each with its object's name."""
    found = []
    for cluster, store in fleet.stores.items():
        for (kind, _, name), stored in store.items():
            if kind in BUILTIN and kind.kind not in ("Node", "Secret", "ResourceSlice", "DeviceClass"):
                found += [f"{cluster} {kind.kind} {name}: {fault}" for fault in _faults(kind, stored)]
    return found


def _faults(kind: GVK, stored: Object) -> list[str]:
    schema = builtin_schema(kind)
    metadata = {key: value for key, value in stored["metadata"].items() if key != "ownerReferences"}
    obj = {field: value for field, value in stored.items() if field != "status"} | {"metadata": metadata}
    pruned, unknown = schema.prune(obj)
    found = [*unknown, schema.decoding_error(obj), *map(str, schema.validate(schema.default(pruned)))]
    return [fault for fault in found if fault]


@pytest.fixture(scope="module")
def two_regions() -> Fleet:
    return settled()


def test_every_object_of_the_example_is_valid(two_regions: Fleet) -> None:
    assert faults(two_regions) == []


def test_every_object_of_a_rich_replica_is_valid() -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "hf", "optional": True}}}]
    user = container(command=["vllm"], args=["--block-size", "32"], env=env)
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    one = member(container=user, metadata=metadata, pull=("registry",))
    gang = engine("gang", member("Leader", claims=False), member("Worker", worker={"nodes": 3}))
    fleet = placed(
        replica=model_replica(NAME, engine("main", one, copies=3), gang, modelCacheRef={"name": "qwen"}), healthy=False
    )
    assert faults(fleet) == []


def test_every_object_of_prefill_and_decode_is_valid() -> None:
    engines = (engine("d", phase="Decode"), engine("p", phase="Prefill"))
    assert faults(placed(replica=model_replica(NAME, *engines, serving={"mode": "PrefillDecode"}))) == []


AWKWARD = [
    ("a digit in front", "7b-chat-be445", "main"),
    ("dots", "qwen.v2-49b71", "main"),
    ("the longest name", "a" * 57 + "-be445", "b" * 63),
    ("an engine that is no DNS label", NAME, "My Engine_1"),
]


@pytest.mark.parametrize(("reason", "replica", "name"), AWKWARD, ids=[case[0] for case in AWKWARD])
def test_every_object_is_valid_whatever_people_call_things(reason: str, replica: str, name: str) -> None:
    assert faults(placed(replica=model_replica(replica, engine(name)))) == [], reason


def test_a_name_that_no_service_may_have_would_be_seen(two_regions: Fleet) -> None:
    kind = GVK("", "v1", "Service")
    bad = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "7B", "namespace": "x"}, "spec": {"prts": []}}
    assert len(_faults(kind, bad)) > 1
