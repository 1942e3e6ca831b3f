"""The status of a parent: what its composer says, what the host knows, conditions, inventory; written only when it differs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from modelplane.api.meta import GVK, Condition, Object
from modelplane.control.conditions import stored
from modelplane.control.inventory import Entry, records_of
from modelplane.kube import Client

CHILDREN = "children"
CONDITIONS = "conditions"


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """What the host itself finds out about a parent. Composers see it as if it stood in the status already, and it is written
    over theirs. ``types`` and ``names`` are the host's own conditions and fields, kept while it has nothing newer."""

    types: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, Any] = {}

    def over(self, xr: Object, now: str) -> Object:
        """The parent as a composer is to see it."""
        if not self.conditions and not self.fields:
            return xr
        status = dict(xr.get("status") or {})
        generation = int(xr["metadata"].get("generation") or 0)
        status[CONDITIONS] = stored(
            status.get(CONDITIONS) or (), [*self.conditions], generation=generation, now=now, keep=None
        )
        return {**xr, "status": {**status, **self.fields}}


def next_status(
    xr: Object,
    *,
    fields: Mapping[str, Any] | None,
    conditions: Iterable[Condition],
    entries: Iterable[Entry],
    overlay: Overlay,
    complete: bool,
    keep: Collection[str] = (),
    now: str,
) -> Object:
    """The status after a pass. A complete pass replaces what composers said before, any other adds to it; ``fields`` None leaves
    the fields as they are. ``keep`` names conditions that stay as they are."""
    old = xr.get("status") or {}
    ours = {CHILDREN, CONDITIONS}
    kept = {name: value for name, value in old.items() if name not in ours}
    if fields is None:
        status = kept
    elif complete:
        status = {**{name: value for name, value in kept.items() if name in overlay.names}, **fields}
    else:
        status = {**kept, **fields}
    status.update(overlay.fields)
    records = records_of(entries)
    if records:
        status[CHILDREN] = records
    status[CONDITIONS] = stored(
        old.get(CONDITIONS) or (),
        [*conditions, *overlay.conditions],
        generation=int(xr["metadata"].get("generation") or 0),
        now=now,
        keep={*overlay.types, *keep} if complete else None,
    )
    return status


async def write_status(client: Client, xr: Object, status: Object) -> Object:
    """Write what differs; returns the parent as it is then. Raises Conflict when the parent moved since it was read, so that no
    status ever speaks of a spec that it has not seen."""
    if (xr.get("status") or {}) == status:
        return xr
    return await client.replace({**xr, "status": status}, "status")


async def add_finalizer(client: Client, xr: Object, finalizer: str) -> Object:
    finalizers = [*(xr["metadata"].get("finalizers") or ()), finalizer]
    return await _finalizers(client, xr, finalizers)


async def drop_finalizer(client: Client, xr: Object, finalizer: str) -> Object:
    finalizers = [name for name in xr["metadata"].get("finalizers") or () if name != finalizer]
    return await _finalizers(client, xr, finalizers)


async def _finalizers(client: Client, xr: Object, finalizers: list[str]) -> Object:
    metadata = xr["metadata"]
    patch = {"metadata": {"finalizers": finalizers or None, "resourceVersion": metadata["resourceVersion"]}}
    return await client.patch(GVK.of(xr), metadata["name"], metadata.get("namespace"), patch)
