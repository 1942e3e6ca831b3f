"""Delete: now, after a grace period, or when the last finalizer is gone.

Propagation policies become finalizers, which the garbage collector acts on: ``foregroundDeletion`` holds an owner until
its dependents are gone, ``orphan`` until they are let go. The server itself never deletes a dependent.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import bodies, gojson, refusals, views
from modelplane.server.behaviours import behaviour_of
from modelplane.server.call import Answer, Call, answer, rendered, storage, view
from modelplane.server.objects import draft, encode, now
from modelplane.server.reading import Selection, list_kind, one
from modelplane.server.request import JSON
from modelplane.server.store import Entry, StaleRevision
from modelplane.server.writing import ATTEMPTS, is_doomed, stored

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
POLICIES: Final = ("Background", "Foreground", "Orphan")
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


class Preconditions(msgspec.Struct, rename="camel"):
    """What the object must be for the delete to happen."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """The body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


def options_of(call: Call) -> DeleteOptions:
    """From the body, or from the query when there is none. Raises a 400 or 422."""
    request = call.request
    if request.body:
        if request.content_type in ("", JSON) and (why := gojson.complaint(request.body)):
            raise refusals.bad_request(f"couldn't get version/kind; json parse error: {why}")
        given = bodies.parse(request)
        kind, version = given.get("kind"), given.get("apiVersion")
        if kind not in (None, "", "DeleteOptions"):
            why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
            raise refusals.bad_request(why)
        try:
            options = msgspec.convert(given, DeleteOptions)
        except msgspec.ValidationError as error:
            raise refusals.bad_request(f"cannot read the DeleteOptions: {error}") from None
    else:
        query = request.query
        options = DeleteOptions(
            grace_period_seconds=query.number("gracePeriodSeconds"),
            propagation_policy=query.get("propagationPolicy") or None,
            orphan_dependents=query.flag("orphanDependents") if query.has("orphanDependents") else None,
            dry_run=query.all("dryRun") or None,
        )
    if (options.grace_period_seconds or 0) < 0:
        options = msgspec.structs.replace(options, grace_period_seconds=1)
    for value in options.dry_run or ():
        if value != "All":
            body = f'Unsupported value: ["{value}"]: supported values: "All"'
            raise _bad_option("dryRun", body, "FieldValueNotSupported")
    policy = options.propagation_policy
    if policy is not None and policy not in POLICIES:
        choices = '"Foreground", "Background", "Orphan", "nil"'
        body = f'Unsupported value: "{policy}": supported values: {choices}'
        raise _bad_option("propagationPolicy", body, "FieldValueNotSupported")
    if policy is not None and options.orphan_dependents is not None:
        body = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise _bad_option("propagationPolicy", body, "FieldValueInvalid")
    return options


def _bad_option(path: str, body: str, reason: str) -> Refusal:
    return refusals.invalid_field("DeleteOptions", "meta.k8s.io", "", path, body, reason)


async def delete(call: Call) -> Answer:
    """DELETE of one object."""
    options = options_of(call)
    if storage(call.type) == "namespaces":
        entry, gone = await _remove_namespace(call, options)
    else:
        entry, gone = await remove(call, options)
    if not gone:
        # Only a client that asked to wait for dependents in the old way hears that it is not over.
        return one(call, entry, 202 if options.orphan_dependents is False else 200)
    if call.type.returns_deleted:
        return one(call, entry)
    obj = view(call.type, entry)
    group = call.type.gvk.group
    return answer(call.media, refusals.success(call.name, group, call.type.plural, obj["metadata"]["uid"]))


async def _remove_namespace(call: Call, options: DeleteOptions) -> tuple[Entry, bool]:
    if call.name in IMMORTAL:
        raise call.forbidden(call.name, "this namespace may not be deleted")
    if options.dry_run or call.request.dry_run:
        return await remove(call, options)
    call.backend.closing.add(call.name)
    try:
        return await remove(call, options)
    finally:
        call.backend.closing.discard(call.name)


async def remove(call: Call, options: DeleteOptions) -> tuple[Entry, bool]:
    """Remove the object or mark it for removal; the second value tells which."""
    store = call.backend.store
    dry_run = bool(options.dry_run) or call.request.dry_run
    for _ in range(ATTEMPTS):
        entry = call.entry()
        obj = view(call.type, entry)
        _check_preconditions(call, obj, options)
        marked = _marked(call, obj, options)
        if marked is None:
            marked, doomed = _ended(call, obj, options), True
        else:
            doomed = is_doomed(marked)
        if not doomed and marked == obj:
            return entry, False
        try:
            if dry_run:
                return (entry if doomed else Entry(entry.key, encode(stored(call, marked)), entry.revision)), doomed
            last = draft(stored(call, marked))
            if doomed:
                return await store.delete(entry.key, last, entry.revision), True
            return await store.update(entry.key, last, entry.revision), False
        except StaleRevision:
            continue
    raise call.conflict(call.name)


def _check_preconditions(call: Call, obj: Object, options: DeleteOptions) -> None:
    wanted = options.preconditions
    if wanted is None:
        return
    metadata = obj["metadata"]
    kind, group = call.type.gvk.kind, call.type.gvk.group
    if wanted.uid is not None and wanted.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise refusals.conflict(kind, group, call.name, why)
    if wanted.resource_version is not None and wanted.resource_version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({metadata['resourceVersion']}). The object might have been modified"
        )
        raise refusals.conflict(kind, group, call.name, why)


def _marked(call: Call, obj: Object, options: DeleteOptions) -> Object | None:
    """The object with its deletion begun, or None when it can simply go."""
    behaviour = behaviour_of(storage(call.type))
    begun = obj["metadata"].get("deletionTimestamp")
    if not begun:
        obj = behaviour.begin_delete(obj)
    metadata = dict(obj["metadata"])
    finalizers = _finalizers(metadata.get("finalizers") or [], options)
    grace = behaviour.grace_seconds(obj, options.grace_period_seconds)
    held = bool(finalizers) or bool((obj.get("spec") or {}).get("finalizers") if obj["kind"] == "Namespace" else False)
    if finalizers != (metadata.get("finalizers") or []):
        metadata["finalizers"] = finalizers
    if not begun:
        if not held and not grace:
            return None
        metadata["deletionTimestamp"] = _later(grace) if grace else now()
        if obj["kind"] != "Namespace":
            metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    else:
        pending = metadata.get("deletionGracePeriodSeconds") or 0
        asked = options.grace_period_seconds
        if asked is not None and asked < pending:
            metadata["deletionGracePeriodSeconds"] = asked
            metadata["deletionTimestamp"] = _sooner(begun, pending - asked)
        if not held and not metadata.get("deletionGracePeriodSeconds"):
            return None
    marked = {**obj, "metadata": metadata}
    if obj["kind"] == "Namespace":
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _ended(call: Call, obj: Object, options: DeleteOptions) -> Object:
    """The last state of an object that goes at once: of a kind with grace periods it says that there was none."""
    if not behaviour_of(storage(call.type)).graceful:
        return obj
    metadata = dict(obj["metadata"])
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = now()
        metadata["generation"] = metadata.get("generation", 0) + 1
    metadata["deletionGracePeriodSeconds"] = 0
    return {**obj, "metadata": metadata}


def _finalizers(present: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers after the propagation policy had its say; without a policy what is there stays."""
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return present
    kept = [name for name in present if name not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        return [*kept, FOREGROUND]
    return [*kept, ORPHAN] if policy == "Orphan" else kept


def _later(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sooner(time: str, seconds: int) -> str:
    moved = datetime.fromisoformat(time) - timedelta(seconds=seconds)
    return max(moved, datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def delete_collection(call: Call) -> Answer:
    """DELETE of everything that the selectors choose; answers with what was there."""
    options = options_of(call)
    selection = Selection(call)
    chosen = selection.of_now()
    await asyncio.gather(*(_remove_one(call, entry, options) for entry in chosen))
    seen = [view(call.type, entry) for entry in chosen]  # as they were, as a real API server answers
    revision = str(call.backend.store.revision)
    if call.media.table:
        return rendered(call.media, encode(views.table(call, seen, revision)))
    kind = {"kind": list_kind(call), "apiVersion": call.type.gvk.api_version}
    return answer(call.media, {**kind, "metadata": {"resourceVersion": revision}, "items": seen})


async def _remove_one(call: Call, entry: Entry, options: DeleteOptions) -> None:
    """One object of a collection, which may be gone already. All of them share few commits."""
    namespace = entry.key.namespace if call.type.namespaced else ""
    each = Call(call.backend, call.type, call.request, call.media, namespace, entry.key.name)
    try:
        await remove(each, options)
    except Refusal as refusal:
        if refusal.code != 404:
            raise
