"""Server-side apply: the patch that says what its manager wants, created where nothing is there yet."""

from __future__ import annotations

from modelplane.api.meta import GVK, Object
from modelplane.errors import ApplyConflict, BadBody, Refusal
from modelplane.server import bodies, fieldmanager, refusals, shaping, writing
from modelplane.server.call import Answer, Call
from modelplane.server.objects import now
from modelplane.server.reading import one
from modelplane.server.schema.decode import field_warnings, strict_error
from modelplane.server.store import Entry


async def apply(call: Call) -> Answer:
    """PATCH of type apply. Raises a 409 that names the managers and fields in conflict, unless it is forced."""
    applied = _configuration(call)
    manager = call.request.query.get("fieldManager")
    if not manager:
        body = "Required value: is required for apply patch"
        raise refusals.invalid_field("PatchOptions", "meta.k8s.io", "", "fieldManager", body, "FieldValueRequired")
    created, entry = await _apply(call, applied, manager)
    return one(call, entry, 201 if created else 200)


async def _apply(call: Call, applied: Object, manager: str) -> tuple[bool, Entry]:
    def merge(live: Object | None) -> Object:
        try:
            return fieldmanager.apply(
                live,
                applied,
                manager=manager,
                schema=call.type.schema,
                time=now(),
                subresource=call.subresource,
                force=call.request.query.flag("force"),
            )
        except BadBody as error:
            if not str(error).startswith("failed to create typed"):
                raise
            raise Refusal(500, "", str(error)) from None
        except ApplyConflict as conflict:
            causes = [
                {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
                for who, path in conflict.conflicts
            ]
            raise refusals.apply_conflict(str(conflict), causes) from None

    if call.backend.store.get(call.key) is None:
        if call.subresource:
            raise call.not_found()
        uid = applied["metadata"].get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise call.conflict(call.name, why)
        try:
            return True, await writing.insert(call, merge(None), tracked=True)
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
    return False, await writing.modify(call, merge, tracked=True)


def _configuration(call: Call) -> Object:
    value, duplicates = bodies.parse_yaml(call.request.body)
    if not isinstance(value, dict):
        raise refusals.bad_request("error decoding YAML: the body is not an object")
    if not value.get("kind") or not value.get("apiVersion"):
        given = GVK.parse(str(value.get("apiVersion") or ""), str(value.get("kind") or ""))
        raise refusals.bad_request(f"invalid object type: {given.group}/{given.version}, Kind={given.kind}")
    value = bodies.expect(value, call.type.gvk, custom=True, body=call.request.body)
    validation = shaping.field_validation(call)
    if duplicates and validation == "Strict":
        raise refusals.bad_request(f"error strict decoding YAML: {strict_error((), duplicates)}")
    if validation == "Warn":
        for text in field_warnings((), duplicates):
            call.request.warn(text)
    metadata = value.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise refusals.bad_request("error decoding YAML: metadata is not an object")
    if metadata.get("managedFields") is not None:
        raise refusals.bad_request("metadata.managedFields must be nil")
    if metadata.get("name") not in (None, "", call.name):
        raise refusals.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["name"] = call.name
    if not call.type.custom:
        value = shaping.of_kind(value, call.type.gvk)
        metadata = value["metadata"]
    if call.type.namespaced:
        metadata["namespace"] = call.namespace
    return value
