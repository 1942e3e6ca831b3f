"""Managed fields at the edge of a write: which manager a request is, and what it has set."""

from __future__ import annotations

from modelplane.api.meta import Object
from modelplane.server import fieldmanager, refusals
from modelplane.server.call import Call
from modelplane.server.objects import now
from modelplane.server.schema.errors import shown

LONGEST = 128


def manager_of(call: Call) -> str:
    """The field manager of a request: its parameter, or the start of its user agent."""
    return (call.request.query.get("fieldManager") or call.request.user_agent.partition("/")[0] or "unknown")[:LONGEST]


def check_manager(call: Call) -> None:
    """Raises a 422 for a parameter that is no name of a manager."""
    asked = call.request.query.get("fieldManager")
    if not asked:
        return
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(call.request.method, "PatchOptions")
    if len(asked.encode()) > LONGEST:
        body, reason = f"Too long: may not be more than {LONGEST} bytes", "FieldValueTooLong"
        raise refusals.invalid_field(kind, "meta.k8s.io", "", "fieldManager", body, reason)
    if not asked.isprintable():
        body = f"Invalid value: {shown(asked)}: should not contain unprintable characters"
        raise refusals.invalid_field(kind, "meta.k8s.io", "", "fieldManager", body)


def tracked(call: Call, new: Object, old: Object | None) -> Object:
    """The object with what this write changed noted in metadata.managedFields; ``old`` is None on a create."""
    made = fieldmanager.track_update(
        old, new, manager=manager_of(call), schema=call.type.schema, time=now(), subresource=call.subresource
    )
    if call.subresource != "scale":
        return made
    fields = made["metadata"].get("managedFields") or ()  # of a Scale, kube-apiserver keeps no time
    without = [{k: v for k, v in f.items() if k != "time" or f.get("subresource") != "scale"} for f in fields]
    return {**made, "metadata": {**made["metadata"], "managedFields": without}}
