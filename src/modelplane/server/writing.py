"""Create and update: from a decoded body to a stored object.

Every update is the same loop, whatever verb asked for it: read, change, compare, write if the revision is still the
one that was read, else start again. A write that changes nothing is not one: no revision, no event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import fieldmanager, ownership, refusals, shaping
from modelplane.server.behaviours import behaviour_of
from modelplane.server.call import Answer, Call, storage, view
from modelplane.server.conversions import to_stored
from modelplane.server.objects import draft, encode, generate_name, metadata_of, new_uid, now
from modelplane.server.reading import one
from modelplane.server.schema import ErrorType, FieldError
from modelplane.server.store import Entry, Key, KeyExists, StaleRevision

ATTEMPTS: Final = 500
NAME_ATTEMPTS: Final = 8
Change = Callable[[Object], Object]
"""Makes the new object out of a private copy of the stored one; may raise a refusal."""


async def create(call: Call) -> Answer:
    """POST to a collection."""
    entry = await insert(call, shaping.decoded(call))
    return one(call, entry, 201)


async def insert(call: Call, obj: Object, *, tracked: bool = False) -> Entry:
    """Store a new object; ``tracked`` says that its managed fields are right already. Raises what is wrong with it."""
    dry_run = call.request.dry_run
    ownership.check_manager(call)
    prepared = prepare_new(call, obj)
    metadata = prepared["metadata"]
    behaviour = behaviour_of(storage(call.type))
    generated = bool(metadata.get("generateName")) and not metadata.get("name")
    require_namespace(call, metadata.get("name", ""))
    if call.type.leaving:
        why = "create not allowed while custom resource definition is terminating"
        raise call.forbidden(metadata.get("name", ""), why)
    for attempt in range(NAME_ATTEMPTS):
        if generated:
            metadata["name"] = generate_name(metadata["generateName"])
        behaviour.normalize(prepared)
        if not tracked:
            prepared = ownership.tracked(call, prepared, None)
            metadata = prepared["metadata"]
        behaviour.prepare_create(prepared, call.backend.store)
        shaping.check(call, prepared, None)
        for text in behaviour.warnings(prepared):
            call.request.warn(text)
        key = call.key_of(metadata["name"])
        try:
            if dry_run:
                if call.backend.store.get(key) is not None:
                    raise KeyExists(key)
                return _imagined(call, key, prepared, None)
            return await call.backend.store.create(key, draft(stored(call, prepared)))
        except KeyExists:
            if not generated:
                raise _taken(call, key) from None
            if attempt == NAME_ATTEMPTS - 1:
                raise refusals.name_not_generated(call.type.plural, call.type.gvk.group, key.name) from None
    raise AssertionError("unreachable")


def _taken(call: Call, key: Key) -> Refusal:
    refusal = refusals.already_exists(call.type.plural, call.type.gvk.group, key.name)
    entry = call.backend.store.get(key)
    if entry is not None and metadata_of(entry).deletion_timestamp:
        return Refusal(refusal.code, refusal.reason, f"object is being deleted: {refusal}", refusal.details)
    return refusal


def prepare_new(call: Call, obj: Object) -> Object:
    """The object with the metadata that the server gives, defaults, and without what a create cannot set."""
    metadata = dict(_metadata_of(obj))
    if metadata.get("resourceVersion"):
        raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
                 "resourceVersion"):  # fmt: skip
        metadata.pop(name, None)
    _place_in_namespace(call, metadata)
    if not metadata.get("name") and not metadata.get("generateName"):
        body = "Required value: name or generateName is required"
        raise call.invalid("", "metadata.name", body, "FieldValueRequired")
    tidy(call, metadata)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()
    if call.type.generation:
        metadata["generation"] = 1
    prepared = {**obj, "metadata": metadata}
    if call.type.status_subresource and not behaviour_of(storage(call.type)).keeps_status:
        prepared.pop("status", None)
    return call.type.schema.default(prepared)


def _metadata_of(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise refusals.bad_request("metadata must be an object")
    return metadata


def tidy(call: Call, metadata: Object) -> None:
    """Leave out what is empty, as Go does, and owners that are named twice."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]
    owners = metadata.get("ownerReferences")
    if not owners:
        return
    uids = [owner.get("uid") for owner in owners]
    twice = [uid for uid in dict.fromkeys(uids) if uids.count(uid) > 1]
    if twice:
        metadata["ownerReferences"] = [owner for at, owner in enumerate(owners) if owner not in owners[:at]]
        call.request.warn(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
            f"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(twice)}"
        )


def _place_in_namespace(call: Call, metadata: Object) -> None:
    if not call.type.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = call.namespace


def require_namespace(call: Call, name: str) -> None:
    """A namespaced object needs a namespace that exists and is not on its way out."""
    if not call.type.namespaced:
        return
    entry = call.backend.store.get(Key("namespaces", "", call.namespace))
    if entry is None:
        raise refusals.not_found("namespaces", "", call.namespace)
    if metadata_of(entry).deletion_timestamp or call.namespace in call.backend.closing:
        text = f"namespace {call.namespace} is being terminated"
        causes: list[Object] = [{"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}]
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise call.forbidden(name, why, causes)


async def update(call: Call) -> Answer:
    """PUT of an object, its status, or one of the other subresources that have the object's own kind."""
    body = shaping.decoded(call)
    given = _metadata_of(body)
    if not given.get("name"):
        raise refusals.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if given["name"] != call.name:
        raise refusals.bad_request(
            f"the name of the object ({given['name']}) does not match the name on the URL ({call.name})"
        )
    missing = call.backend.store.get(call.key) is None and not call.subresource
    if missing and behaviour_of(storage(call.type)).creates_on_update and not given.get("resourceVersion"):
        return one(call, await insert(call, body), 201)

    def replace(old: Object) -> Object:
        conditional = call.type.custom or not behaviour_of(storage(call.type)).unconditional
        if conditional and not given.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            plural, group = call.type.plural, call.type.gvk.group
            raise refusals.invalid_field(plural, group, call.name, "metadata.resourceVersion", why)
        return {**body, "metadata": dict(given)}

    return one(call, await modify(call, replace))


async def modify(call: Call, change: Change, *, tracked: bool = False) -> Entry:
    """Apply a change to the object that the URL names, and answer with what is stored afterwards.

    An object that is being deleted and loses its last finalizer is removed instead of written.
    """
    store = call.backend.store
    dry_run = call.request.dry_run
    ownership.check_manager(call)
    for _ in range(ATTEMPTS):
        entry = call.entry()
        old = view(call.type, entry)
        new = settle(call, change(view(call.type, entry)), old, tracked=tracked)
        if fieldmanager.unchanged(old, new):
            return entry
        doomed = is_doomed(new)
        try:
            if dry_run:
                return _imagined(call, entry.key, new, entry)
            if doomed:  # watchers hear of its end with what was stored; who let it go, with what it came to
                await store.delete(entry.key, draft(stored(call, old)), entry.revision)
                return _imagined(call, entry.key, new, entry)
            return await store.update(entry.key, draft(stored(call, new)), entry.revision)
        except StaleRevision:
            continue
    raise call.conflict(call.name)


def settle(call: Call, new: Object, old: Object, *, tracked: bool = False) -> Object:
    """The new object with what no update may change, defaults, its owner's hooks, its generation; checked."""
    before = old["metadata"]
    metadata = dict(_metadata_of(new))
    revision = metadata.get("resourceVersion")
    if revision and revision != before["resourceVersion"]:
        raise call.conflict(call.name)
    _place_in_namespace(call, metadata)
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        if call.request.method == "PATCH":
            error = FieldError(path="metadata.uid", type=ErrorType.INVALID, bad_value=uid, message="field is immutable")
            raise shaping.invalid(call, call.name, [error])
        raise call.conflict(call.name, _uid_mismatch(call, uid, before["uid"]))
    if metadata.get("name", call.name) != call.name:
        raise refusals.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )
    metadata["name"] = call.name
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
                 "resourceVersion", "generateName"):  # fmt: skip
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)
    tidy(call, metadata)
    new = _own_part(call, {**new, "metadata": metadata}, old)
    new = call.type.schema.default(new)
    behaviour = behaviour_of(storage(call.type))
    if call.subresource in ("", "status"):
        behaviour.normalize(new)
    if not tracked:
        new = ownership.tracked(call, new, old)
    if not call.subresource:
        behaviour.prepare_update(new, old, call.backend.store)
    if call.type.generation and call.subresource != "binding" and content(call, new) != content(call, old):
        new["metadata"]["generation"] = before.get("generation", 0) + 1
    if fieldmanager.unchanged(old, new):
        return new
    errors = _finalizer_errors(new, old)
    if errors:
        raise shaping.invalid(call, call.name, errors)
    shaping.check(call, new, old)
    for text in behaviour.warnings(new):
        call.request.warn(text)
    return new


def _own_part(call: Call, new: Object, old: Object) -> Object:
    """Keep the part of the object that this path does not write."""
    if call.subresource == "status":
        kept = {key: value for key, value in old.items() if key != "status"}
        if not call.type.custom:
            fixed = behaviour_of(storage(call.type)).status_keeps
            kept["metadata"] = _with_fixed(new["metadata"], old["metadata"], fixed) if fixed else new["metadata"]
        else:
            kept["metadata"] = {**old["metadata"]}
            if "managedFields" in new["metadata"]:
                kept["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        if "status" in new:
            kept["status"] = new["status"]
        return kept
    if call.type.status_subresource and not call.subresource:
        kept = {key: value for key, value in new.items() if key != "status"}
        if "status" in old:
            kept["status"] = old["status"]
        return kept
    return new


def _with_fixed(metadata: Object, before: Object, names: tuple[str, ...]) -> Object:
    """Metadata in which some fields are what they were."""
    kept = {name: value for name, value in metadata.items() if name not in names}
    return kept | {name: before[name] for name in names if name in before}


def content(call: Call, obj: Object) -> Object:
    """What counts for metadata.generation."""
    ignored = ("metadata", "status") if call.type.status_subresource or not call.type.custom else ("metadata",)
    kept = {key: value for key, value in obj.items() if key not in ignored}
    for name in () if call.subresource else behaviour_of(storage(call.type)).generation_counts:
        kept[name] = obj["metadata"].get(name)
    return kept


def is_doomed(obj: Object) -> bool:
    """Whether nothing holds an object any longer that somebody asked to delete."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _finalizer_errors(new: Object, old: Object) -> list[FieldError]:
    if not old["metadata"].get("deletionTimestamp"):
        return []
    known = set(old["metadata"].get("finalizers") or ())
    added = [name for name in new["metadata"].get("finalizers") or () if name not in known]
    if not added:
        return []
    wanted = list(new["metadata"]["finalizers"])
    both: list[FieldError] = []
    if {"orphan", "foregroundDeletion"} <= set(wanted):
        message = "finalizer orphan and foregroundDeletion cannot be both set"
        both.append(FieldError(path="metadata.finalizers", type=ErrorType.INVALID, bad_value=wanted, message=message))
    shown = ", ".join(f'"{name}"' for name in sorted(added))
    message = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [*both, FieldError(path="metadata.finalizers", type=ErrorType.FORBIDDEN, message=message)]


def _uid_mismatch(call: Call, asked: str, found: str) -> str:
    group = f"{call.type.gvk.group}/" if call.type.custom else ""
    place = "/".join(part for part in ("/registry", f"{group}{call.type.plural}", call.namespace, call.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
    )


def stored(call: Call, obj: Object) -> Object:
    """The object in its storage version."""
    if call.type.storage_version:
        return obj
    return to_stored(call.type.gvk, obj, call.backend.registry.storage_version(call.type))


def _imagined(call: Call, key: Key, obj: Object, entry: Entry | None) -> Entry:
    """What a dry run answers: the object as it would be stored, at the revision that it has now, if any."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    if entry is not None:
        metadata["resourceVersion"] = str(entry.revision)
    body = encode(stored(call, {**obj, "metadata": metadata}))
    return Entry(key, body, entry.revision if entry is not None else 0)
