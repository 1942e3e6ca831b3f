"""What a server serves, for controllers that work on every kind: namespaces and garbage collection."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from modelplane.api.meta import GVK, Object, Resource
from modelplane.errors import NotFound
from modelplane.kube import Client


async def resources(client: Client, verbs: Collection[str]) -> list[Resource]:
    """Every resource in its preferred version that allows all the verbs. A group that cannot be read raises ApiError, since
    acting on half of the kinds would look like success."""
    groups = await client.request("GET", "/apis")
    paths = ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups.get("groups") or ())]
    lists = await asyncio.gather(*(_served(client, path) for path in paths))
    found = []
    for listing in lists:
        for entry in listing.get("resources") or ():
            if "/" not in entry["name"] and set(verbs) <= set(entry.get("verbs") or ()):
                gvk = GVK.parse(listing["groupVersion"], entry["kind"])
                found.append(Resource(gvk, entry["name"], bool(entry["namespaced"])))
    return sorted(found)


async def _served(client: Client, path: str) -> Object:
    try:
        return await client.request("GET", path)
    except NotFound:  # a group that went away between the two requests
        return {}
