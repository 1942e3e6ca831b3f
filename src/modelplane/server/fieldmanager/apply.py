"""Server-side apply and update tracking, by the rules of structured merge.

A field that somebody else manages and that apply would change is a conflict; a field that the same manager applied
before and no longer applies goes, unless another manager claims it. Whoever updates a field takes it from the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from modelplane.api.meta import GVK, Object
from modelplane.errors import ApplyConflict, BadBody
from modelplane.server.equality import same
from modelplane.server.fieldmanager import claims
from modelplane.server.fieldmanager import managed as entries
from modelplane.server.fieldmanager.claims import NEVER_MANAGED
from modelplane.server.fieldmanager.fieldset import FieldSet, Path, readable
from modelplane.server.fieldmanager.managed import APPLY, UPDATE, Managed, Managers, Owner
from modelplane.server.fieldmanager.typed import (
    Comparison,
    compare,
    merge,
    remove,
    undeclared,
    with_named_fields,
)  # fmt: skip
from modelplane.server.schema import Schema
from modelplane.server.schema.node import Node

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_ESCAPED: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_BEFORE: Final = "before-first-apply"
_NEVER_MANAGED: Final = FieldSet.of(
    ("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in NEVER_MANAGED)
)  # fmt: skip
_STATUS: Final = FieldSet.of(("f:status",))
_SPEC: Final = FieldSet.of(("f:spec",), ("f:metadata", "f:labels"))


def apply(
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    schema: Schema,
    time: str,
    subresource: str = "",
    force: bool = False,
) -> Object:
    """The object after an apply patch, not yet defaulted, with ``managedFields`` kept.

    ``live`` is None when the patch creates the object. ``applied`` is what ``judge`` passed. Raises ``ApplyConflict``, or
    ``BadBody`` for another version than that of the object.
    """
    version = applied.get("apiVersion") or ""
    stored = live if live is not None else {"apiVersion": version, "kind": applied.get("kind")}
    _acceptable(stored, applied)
    managers, current = _taken_apart(stored)
    who = entries.owner(APPLY, manager, version, subresource)
    if live is None:
        fields = claims.applied(applied, schema)
        merged, listed = {**stored, **applied}, [entries.entry(who, fields, version, time)] if fields else []
    else:
        merged, listed = _over(current, applied, managers, who, version, schema, time, force)
    if manager == _KUBECTL and _annotations(merged).get(LAST_APPLIED):
        merged = _with_annotation(merged, LAST_APPLIED, _last_applied(applied))
    return _with_managers(merged, listed)


def _over(
    current: Object,
    applied: Object,
    managers: Managers,
    who: Owner,
    version: str,
    schema: Schema,
    time: str,
    force: bool,
) -> tuple[Object, list[Object]]:
    """A configuration laid over an object that is there, and who manages what then."""
    if not managers and (before := FieldSet.decode(claims.created(current, schema))):
        managers[entries.owner(UPDATE, _BEFORE, version, "")] = Managed(before, version, time)
    try:
        merged, after = _applied(current, applied, dict(managers), who, version, schema, force)
    except ApplyConflict:
        allowed = _from_last_applied(current, version, schema.root) if who.manager == _KUBECTL and not force else None
        if allowed is None:
            raise
        merged, after = _applied(current, applied, dict(managers), who, version, schema, force, allowed)
    if not same(current, merged) and who in after:
        after[who] = Managed(after[who].fields, version, time)
    return merged, entries.encode(after)


def judge(applied: Object, schema: Schema) -> None:
    """Raises BadBody for a configuration that the schema does not allow."""
    wrong = undeclared(schema.root, applied)
    if wrong:
        metadata, gvk = applied.get("metadata") or {}, GVK.of(applied)
        told = wrong[0] if len(wrong) == 1 else "errors:\n  " + "\n  ".join(wrong)
        place = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        what = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
        raise BadBody(f"failed to create typed patch object ({place}; {what}): {told}")


def track_update(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    schema: Schema,
    time: str,
    subresource: str = "",
) -> Object:
    """``new`` with ``managedFields`` brought up to date after a create, update or patch.

    ``old`` is None on create. A client may edit ``managedFields`` through the main resource: what it sends counts when
    it is well formed, and a list of one empty entry resets them.
    """
    version = new.get("apiVersion") or ""
    sent = (new.get("metadata") or {}).get("managedFields")
    known, before = _taken_apart(old) if old else ({}, {})
    managers = known if subresource else _sent_or_known(sent, known)
    who = entries.owner(UPDATE, manager, version, subresource)
    if old is None and not managers:
        fields = claims.created(new, schema)
        return _with_managers(new, [entries.entry(who, fields, version, time)] if fields else [])
    _, after = _taken_apart(new)
    if not managers:
        return _put_together(after, {})
    if old is None:
        comparison = Comparison(added=FieldSet.decode(claims.created(after, schema)))
    else:
        comparison = _filtered_comparison(compare(schema.root, before, after), subresource, schema)
    _tracked(comparison, managers, who, version, time)
    entries.cap(managers)
    return _put_together(after, managers)


def unchanged(old: Object, new: Object) -> bool:
    """Whether a write changes nothing but the times of managed fields: it is answered, not stored."""
    if not same(_bare(old), _bare(new)):
        return False

    def told(obj: Object) -> list[Object]:
        listed = (obj.get("metadata") or {}).get("managedFields") or []
        return [{key: value for key, value in entry.items() if key != "time"} for entry in listed]

    before, after = told(old), told(new)
    return len(before) == len(after) and all(any(same(a, b) for b in before) for a in after)


def _bare(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _taken_apart(obj: Object) -> tuple[Managers, Object]:
    """The managers of an object, and the object without them."""
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return {}, obj
    try:
        managers = entries.decode(metadata["managedFields"])
    except BadBody:
        managers = {}
    return managers, _bare(obj) if "metadata" in obj else dict(obj)


def _put_together(obj: Object, managers: Managers) -> Object:
    return _with_managers(obj, entries.encode(managers))


def _with_managers(obj: Object, listed: list[Object]) -> Object:
    metadata = dict(obj.get("metadata") or {})
    if listed:
        metadata["managedFields"] = listed
    else:
        metadata.pop("managedFields", None)
    return {**obj, "metadata": metadata}


def _sent_or_known(sent: object, known: Managers) -> Managers:
    if sent is None:
        return known
    if isinstance(sent, list) and len(sent) == 1 and not sent[0]:
        return {}
    if sent == []:
        return {}
    try:
        return entries.decode(sent) or known
    except BadBody:
        return known


def _acceptable(live: Object, applied: Object) -> None:
    version, expected = applied.get("apiVersion"), live.get("apiVersion")
    if version != expected:
        raise BadBody(
            f"Incorrect version specified in apply patch. Specified patch version: {version}, expected: {expected}"
        )
    if (applied.get("metadata") or {}).get("managedFields"):
        raise BadBody("metadata.managedFields must be nil")


def _applied(
    live: Object,
    applied: Object,
    managers: Managers,
    who: Owner,
    version: str,
    schema: Schema,
    force: bool,
    allowed: FieldSet | None = None,
) -> tuple[Object, Managers]:
    node = schema.root
    merged = merge(node, live, applied)
    assert isinstance(merged, dict)
    last = managers.get(who)
    claimed = _filtered(_claimed(node, applied), who.subresource, schema)
    managers[who] = Managed(claimed, version, last.time if last else None)
    if last is not None and last.fields:
        merged = _without_dropped(node, merged, last.fields, managers)
    if len(managers) > 1:
        comparison = _filtered_comparison(compare(node, live, merged), who.subresource, schema)
        _take(comparison, managers, who, force, allowed)
    _strip(managers, who)
    return merged, managers


def _claimed(node: Node, value: object) -> FieldSet:
    return FieldSet.decode(claims.claimed(node, value))


def _without_dropped(node: Node, merged: Object, last: FieldSet, managers: Managers) -> Object:
    """Remove what the manager applied before and nobody claims now; what nobody ever applied stays."""
    last = with_named_fields(node, last)
    pruned = remove(node, merged, last)
    owned = FieldSet()
    for managed in managers.values():
        owned = owned.union(managed.fields)
    everything = with_named_fields(node, _claimed(node, merged))
    assert isinstance(pruned, dict)
    kept = with_named_fields(node, _claimed(node, pruned)).union(with_named_fields(node, owned))
    pruned = remove(node, merged, everything.difference(kept))
    assert isinstance(pruned, dict)
    left = with_named_fields(node, _claimed(node, pruned))
    result = remove(node, merged, everything.difference(left).intersection(last))
    assert isinstance(result, dict)
    return result


def _take(comparison: Comparison, managers: Managers, who: Owner, force: bool, allowed: FieldSet | None = None) -> None:
    """Let ``who`` have what changed; other managers lose it, or it is a conflict."""
    changed = comparison.modified.union(comparison.added)
    conflicts: list[tuple[Owner, Path]] = []
    for other, managed in list(managers.items()):
        if other == who:
            continue
        clash = managed.fields.intersection(changed)
        conflicts += [(other, path) for path in clash.paths()]
        left = managed.fields.difference(clash).difference(comparison.removed)
        managers[other] = Managed(left, managed.api_version, managed.time)
    if not force:
        disputed = [(other, path) for other, path in conflicts if allowed is None or not allowed.has(path)]
        if disputed:
            raise _conflict(disputed)
    for other in [other for other, managed in managers.items() if not managed.fields]:
        del managers[other]


def _conflict(conflicts: Iterable[tuple[Owner, Path]]) -> ApplyConflict:
    named = sorted((str(who), readable(path)) for who, path in conflicts)
    if len(named) == 1:
        message = f"Apply failed with 1 conflict: conflict with {named[0][0]}: {named[0][1]}"
    else:
        lines = []
        for who in dict.fromkeys(who for who, _ in named):
            lines += [f"conflicts with {who}:", *(f"- {path}" for other, path in named if other == who)]
        message = f"Apply failed with {len(named)} conflicts: " + "\n".join(lines)
    return ApplyConflict(message, tuple(named))


def _tracked(comparison: Comparison, managers: Managers, who: Owner, version: str, time: str) -> None:
    """Let ``who``, which is no applier, have what changed."""
    _take(comparison, managers, Owner(UPDATE, "current-operation"), force=True)
    took = comparison.modified.union(comparison.added).difference(_NEVER_MANAGED)
    if took:
        before = managers.get(who)
        managers[who] = Managed(took.union(before.fields) if before else took, version, time)


def _strip(managers: Managers, who: Owner) -> None:
    managed = managers.get(who)
    if managed is None:
        return
    left = managed.fields.difference(_NEVER_MANAGED)
    if left:
        managers[who] = Managed(left, managed.api_version, managed.time)
    else:
        del managers[who]


def _filtered(fields: FieldSet, subresource: str, schema: Schema) -> FieldSet:
    """Without the fields that this path of the API ignores on writes."""
    if not schema.status_subresource:
        return fields
    if subresource == "status":
        return fields.without_below(_SPEC) if schema.builtin else fields.only_below("f:status")
    return fields.without_below(_STATUS)


def _filtered_comparison(comparison: Comparison, subresource: str, schema: Schema) -> Comparison:
    if not schema.status_subresource:
        return comparison
    return Comparison(
        _filtered(comparison.added, subresource, schema),
        _filtered(comparison.modified, subresource, schema),
        _filtered(comparison.removed, subresource, schema),
    )


def _annotations(obj: Object) -> Object:
    annotations: Object = (obj.get("metadata") or {}).get("annotations") or {}
    return annotations


def _with_annotation(obj: Object, name: str, value: str) -> Object:
    metadata = {**(obj.get("metadata") or {}), "annotations": {**_annotations(obj), name: value}}
    return {**obj, "metadata": metadata}


def _last_applied(applied: Object) -> str:
    """What was applied, as Go's encoder writes it: sorted, with a line end, and fit for HTML."""
    kept = applied
    annotations = _annotations(applied)
    if LAST_APPLIED in annotations:
        others = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        kept = {**applied, "metadata": {**applied["metadata"], "annotations": others}}
    text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return text.translate(_ESCAPED) + "\n"


def _from_last_applied(live: Object, version: str, node: Node) -> FieldSet | None:
    """The fields that `kubectl apply` set on the client's side and that still have its values.

    `kubectl apply --server-side` may take these without a conflict: that is how an object changes over.
    """
    try:
        last = json.loads(_annotations(live).get(LAST_APPLIED) or "null")
    except ValueError:
        return None
    if not isinstance(last, dict) or last.get("apiVersion") != version:
        return None
    found = compare(node, last, live)
    return _claimed(node, last).difference(found.modified).difference(found.added).difference(found.removed)
