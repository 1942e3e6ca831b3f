"""Tables and metadata-only views: what `kubectl get` prints, and what cheap informers read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from modelplane.api.meta import Object
from modelplane.server import refusals
from modelplane.server.call import Call
from modelplane.server.resource import Printer


def partial(obj: Object, version: str) -> Object:
    """Only the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version or 'v1'}",
        "metadata": obj.get("metadata") or {},
    }


def columns(printer: Printer) -> list[Object]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in printer.columns
    ]


def table(
    call: Call, objects: Sequence[Object], revision: str, *, headers: bool = True, printer: Printer | None = None
) -> Object:
    """Rows for some objects, by the printer of the request's kind unless they are of another.

    ``includeObject`` decides whether a row carries nothing, its metadata or all of it.
    """
    include = call.request.query.get("includeObject") or "Metadata"
    if include not in ("Metadata", "Object", "None"):
        what = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise refusals.bad_request(f"Unable to convert to Table as requested: {what}")
    version = call.media.version
    printer = printer or call.type.printer
    moment = datetime.now(UTC)
    rows: list[Object] = []
    for obj in objects:
        row: Object = {"cells": printer.row(obj, moment), "object": None}
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = partial(obj, version)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {"resourceVersion": revision} if revision else {},
        "columnDefinitions": columns(printer) if headers else None,
        "rows": rows,
    }
