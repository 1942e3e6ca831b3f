"""Server-side apply: the patch that says what its manager wants, created where nothing is there yet."""

from __future__ import annotations

from modelplane.api.meta import GVK, Object
from modelplane.errors import ApplyConflict, BadBody, Refusal
from modelplane.server import bodies, fieldmanager, refusals, shaping, writing
from modelplane.server.call import Answer, Call
from modelplane.server.nulls import without_nulls
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
            merged = fieldmanager.apply(
                live,
                applied,
                manager=manager,
                schema=call.type.schema,
                time=now(),
                subresource=call.subresource,
                force=call.request.query.flag("force"),
            )
            return merged if call.type.custom else without_nulls(call.type.schema.root, merged)
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
            made = merge(None)
            made["metadata"].pop("resourceVersion", None)  # Of no object: kube-apiserver takes no notice of it either.
            return True, await writing.insert(call, made, tracked=True)
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
    return False, await writing.modify(call, merge, tracked=True)


def _configuration(call: Call) -> Object:
    try:
        value, duplicates = bodies.parse_yaml(call.request.body)
    except BadBody as error:
        raise refusals.bad_request(f"error decoding YAML: {error}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise refusals.bad_request("error decoding YAML: the body is not an object")
    given = GVK.parse(str(value.get("apiVersion") or ""), str(value.get("kind") or ""))
    if given != call.type.gvk:
        raise refusals.bad_request(f"invalid object type: {given.group}/{given.version}, Kind={given.kind}")
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
    if not metadata.get("name"):
        raise refusals.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if metadata["name"] != call.name:
        raise refusals.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    try:
        fieldmanager.judge(value, call.type.schema)
    except BadBody as error:
        raise Refusal(500, "", str(error)) from None
    if not call.type.custom:
        value = shaping.of_kind(value, call.type.gvk, empty=True)
        metadata = value["metadata"]
    if call.type.namespaced:
        metadata["namespace"] = call.namespace
    return value
