"""From what a client sent to what may be stored: unknown fields, defaults, rules; one order for every verb."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.errors import BadBody, Refusal
from modelplane.server import bodies, escalation, gojson, refusals
from modelplane.server.behaviours import behaviour_of
from modelplane.server.builtin import builtin_schema
from modelplane.server.call import Call, storage
from modelplane.server.nulls import without_nulls
from modelplane.server.request import JSON
from modelplane.server.schema import FieldError, summary
from modelplane.server.schema.decode import field_warnings, strict_error

VALIDATIONS = ("Ignore", "Warn", "Strict")
_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
_MANAGED = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
_FREE = ("binding", "ephemeralcontainers", "finalize", "resize")
"""Subresources that exist to change what the object's own path may not."""


def field_validation(call: Call) -> str:
    """Ignore, Warn or Strict; Warn when the request does not say. Raises a 422 for something else."""
    asked = call.request.query.get("fieldValidation")
    if asked and asked not in VALIDATIONS:
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(call.request.method, "PatchOptions")
        body = f'Unsupported value: "{asked}": supported values: "", "Ignore", "Strict", "Warn"'
        raise refusals.invalid_field(kind, "meta.k8s.io", "", "fieldValidation", body, "FieldValueNotSupported")
    return asked or "Warn"


def decoded(call: Call) -> Object:
    """The body of a create or update: of the right kind, of the right types, with known fields only."""
    gvk = call.type.gvk
    try:
        obj, duplicates = bodies.parse_strictly(call.request, field_validation(call) != "Ignore")
    except (BadBody, Refusal) as error:
        if call.request.content_type not in ("", JSON) or getattr(error, "code", 400) != 400:
            raise
        body = call.request.body
        raise refusals.bad_request(gojson.unrecognized(gvk.kind, body, gojson.not_parsed(body))) from None
    return known_fields(call, bodies.expect(obj, gvk, custom=call.type.custom, body=call.request.body), duplicates)


def decoded_as(call: Call, gvk: GVK) -> Object:
    """The body of a request whose kind is not the kind of the path: a review, a Scale, a Binding, a TokenRequest."""
    return of_kind(bodies.expect(bodies.parse(call.request), gvk, custom=False), gvk)


def of_kind(obj: Object, gvk: GVK, *, empty: bool = False) -> Object:
    """An object of a built-in kind with the types that its fields have, and nothing null. Raises a 400."""
    schema = builtin_schema(gvk)
    mismatch = schema.decoding_error(obj)
    if mismatch:
        raise refusals.bad_request(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {mismatch}'
        )
    return without_nulls(schema.root, obj, empty=empty)


def known_fields(call: Call, obj: Object, duplicates: Sequence[str] = (), *, patched: bool = False) -> Object:
    """Without the fields that the schema does not know: refused when strict, else dropped, with warnings if asked."""
    validation = field_validation(call)
    schema = call.type.schema
    sound = schema.sound(obj)
    mismatch = "" if sound else schema.decoding_error(obj)
    if mismatch:
        raise undecodable(call, obj, mismatch, patched)
    if not call.type.custom:
        obj = without_nulls(schema.root, obj)
    elif isinstance(obj.get("metadata"), dict):
        obj = {**obj, "metadata": without_nulls(schema.metadata, obj["metadata"])}
    call.sound = sound and not patched
    kept, unknown = (obj, []) if sound else schema.prune(obj)
    if (unknown or duplicates) and validation == "Strict":
        raise undecodable(call, obj, strict_error(unknown, duplicates), patched)
    if (unknown or duplicates) and validation == "Warn":
        for text in field_warnings(unknown, duplicates):
            call.request.warn(text)
    return kept


def undecodable(call: Call, obj: Object, why: str, patched: bool) -> Refusal:
    """A 400 about a body; about what a patch would leave, a 422 that shows it."""
    gvk = call.type.gvk
    if not patched:
        text = f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {why}'
        return refusals.bad_request(text)
    return not_patched(obj, why)


def not_patched(obj: Object, why: str) -> Refusal:
    """The 422 of a patch whose result is none of its kind."""
    shown = msgspec.json.encode(_as_shown(obj)).decode()
    body = f"Invalid value: {json.dumps(shown, ensure_ascii=False)}: {why}"
    return refusals.invalid_field("", "", "", "patch", body)


def _as_shown(obj: Object) -> Object:
    """The fields of an object in alphabetical order, of its metadata in the order that everybody knows."""
    ordered: Object = msgspec.json.decode(msgspec.json.encode(obj, order="sorted"))
    metadata = ordered.get("metadata")
    if isinstance(metadata, dict):
        ordered["metadata"] = arranged_metadata(metadata)
    return ordered


def arranged_metadata(metadata: Object) -> Object:
    """Metadata with its fields in the order of the API's definition."""

    def arranged(value: Object, order: Sequence[str]) -> Object:
        return {name: value[name] for name in (*order, *sorted(value.keys() - set(order))) if name in value}

    made = arranged(metadata, _METADATA)
    if isinstance(metadata.get("managedFields"), list):
        fields = metadata["managedFields"]
        made["managedFields"] = [arranged(one, _MANAGED) if isinstance(one, dict) else one for one in fields]
    return made


def check(call: Call, new: Object, old: Object | None) -> None:
    """Every rule that holds for the object as a whole. Raises a 422 that lists everything that is wrong."""
    schema, behaviour = call.type.schema, behaviour_of(storage(call.type))
    known = old is None and call.sound and schema.as_written and behaviour.as_written
    errors = schema.validate(new, old, known_sound=known)
    if call.type.custom and call.subresource == "status":
        errors = [_of_status(error) for error in errors]
    if call.subresource not in _FREE:
        errors += behaviour.check(new, old)
    if not errors:
        errors += call.backend.admission.judge(call.type.gvk, new, old)
    if not errors:
        escalation.check(call, new, old)
        return
    raise invalid(call, new["metadata"].get("name", ""), errors)


def _of_status(error: FieldError) -> FieldError:
    """A custom kind's status is judged as a value of its own, whose sentences leave out where it is."""
    if not error.message.startswith("status."):
        return error
    return msgspec.structs.replace(error, message=error.message.removeprefix("status."))


def invalid(call: Call, name: str, errors: Iterable[FieldError]) -> Refusal:
    """The 422 of some field errors."""
    found = list(errors)
    gvk = call.type.gvk
    message = summary(gvk.kind, gvk.group, name, found)
    if call.request.method != "POST" and call.backend.store.get(call.key) is not None:
        found = [error for error in found if error.path.startswith("metadata.")] + found  # judged twice there
    return refusals.invalid(gvk.kind, gvk.group, name, message, causes(found))


def causes(errors: Sequence[FieldError]) -> list[Object]:
    return [{"reason": str(error.type), "message": error.body, "field": error.path or "<nil>"} for error in errors]
