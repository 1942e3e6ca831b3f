"""Managed fields at the edge of a write: which manager a request is, and what the field manager records."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server.call import Call


def manager_of(call: Call) -> str:
    """The field manager of a request: its parameter, or the start of its user agent."""
    return call.request.query.get("fieldManager") or call.request.user_agent.partition("/")[0] or "unknown"


def record(call: Call, new: Object, old: Object | None) -> None:
    """Note in metadata.managedFields what this write changed. ``old`` is None on a create."""
    if old is not None and "managedFields" in old["metadata"]:
        new["metadata"].setdefault("managedFields", old["metadata"]["managedFields"])
