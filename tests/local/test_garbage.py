"""The garbage collector takes only what belongs to nobody: where the API cannot say that an owner is gone, dependents stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelplane.api.meta import GVK, Object, Resource
from modelplane.errors import NotFound
from modelplane.kube import Client
from modelplane.kube.resources import known
from modelplane.local.caches import Caches
from modelplane.local.controllers.garbage import GarbageCollector
from modelplane.local.kinds import CONFIG_MAP, NAMESPACE

NOBODY = "11111111-1111-4111-8111-111111111111"
CRD = known("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
THING = Resource(GVK("example.com", "v1", "Thing"), "things", True)


@pytest.fixture
async def client(server_alone: Client) -> Client:
    return server_alone


@pytest.fixture
async def collector(client: Client) -> AsyncIterator[None]:
    caches = Caches(client)
    tasks = [asyncio.create_task(each) for each in (caches.run(), GarbageCollector(client, caches).run())]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def config_map(name: str, owner: Object | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "default"}
    if owner is not None:
        of = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        metadata["ownerReferences"] = [{**of, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def collected(client: Client, eventually: Any) -> None:
    """An owner and its dependent go: whatever was made before them has been looked at."""
    owner = await client.create(config_map("marked-owner"))
    await client.create(config_map("marker", owner))
    await client.delete(CONFIG_MAP, "marked-owner", "default")
    await eventually(lambda: gone(client, "marker"))


async def gone(client: Client, name: str) -> bool:
    try:
        await client.get(CONFIG_MAP, name, "default")
    except NotFound:
        return True
    return False


async def test_of_an_owner_whose_kind_is_not_served_nobody_can_say_that_it_is_gone(
    client: Client, collector: None, eventually: Any
) -> None:
    nobody = {"metadata": {"name": "x", "uid": NOBODY}}
    await client.create(config_map("of-a-thing", {"apiVersion": "example.com/v1", "kind": "Thing", **nobody}))
    await client.create(config_map("of-nobody", {"apiVersion": "v1", "kind": "ConfigMap", **nobody}))
    await eventually(lambda: gone(client, "of-nobody"))
    await collected(client, eventually)
    assert not await gone(client, "of-a-thing")


async def test_an_object_in_no_namespace_cannot_belong_to_one_in_a_namespace(
    client: Client, collector: None, eventually: Any
) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": NOBODY}
    metadata = {"name": "owned", "ownerReferences": [reference]}
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    await collected(client, eventually)
    found = await client.get(NAMESPACE, "owned")
    assert "deletionTimestamp" not in found["metadata"]


async def test_an_owner_that_was_seen_to_go_is_gone_although_its_kind_went_too(
    client: Client, collector: None, eventually: Any
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": "things.example.com"}
    await client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        }
    )

    async def made(name: str) -> Object | None:
        try:
            body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}}
            return await client.create(body)
        except NotFound:
            return None

    for name in ("x", "y"):
        await client.create(config_map(f"of-{name}", await eventually(lambda name=name: made(name))))
    await client.delete(THING, "y", "default")
    await eventually(lambda: gone(client, "of-y"))  # so the kind is watched
    await client.delete(CRD, "things.example.com")
    await eventually(lambda: gone(client, "of-x"))
