"""Get and list: stored bytes joined into an answer, without decoding what no selector or table asks about."""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from modelplane.errors import Refusal
from modelplane.server import refusals, views
from modelplane.server.call import Answer, Call, rendered, storage, view, view_bytes
from modelplane.server.objects import encode, field_of, labels_of
from modelplane.server.selectors import FieldSelector, LabelSelector, parse_fields, parse_labels
from modelplane.server.store import Compacted, Entry, Key

ALWAYS_SELECTABLE: Final = frozenset({"metadata.name", "metadata.namespace"})
EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Continue(msgspec.Struct):
    """Where the next page of a list starts: after this key, at this revision (-1: whatever is there now)."""

    rv: int
    namespace: str
    name: str

    def token(self) -> str:
        return base64.urlsafe_b64encode(encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> Continue:
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise refusals.bad_request(
                "invalid continue token: continue key is not valid: it was not made by this server"
            ) from None


class Selection:
    """The label and field selectors of a request, ready to judge entries."""

    def __init__(self, call: Call) -> None:
        selectable = set(call.type.selectable_fields)
        if call.type.namespaced:
            selectable.add("metadata.namespace")
        selectable.add("metadata.name")
        self._call = call
        self.labels: LabelSelector = parse_labels(call.request.query.get("labelSelector"))
        text = call.request.query.get("fieldSelector")
        self.fields: FieldSelector = parse_fields(
            text, selectable, plain=not (call.type.selectable_fields or call.type.custom)
        )
        if call.name:  # a watch of one object by its path
            pinned = self.fields.pinned("metadata.name")
            if self.fields.terms and pinned != call.name:
                raise refusals.bad_request("fieldSelector metadata.name doesn't match requested name")
            self.fields = FieldSelector((("metadata.name", call.name, True),))
        self.by_key = not self.labels.requirements and all(
            name in ALWAYS_SELECTABLE for name, _, _ in self.fields.terms
        )
        """Whether the verdict on an object is the same for as long as it lives."""
        self.everything = not self.labels.requirements and not self.fields.terms
        alone = not self.labels.requirements and len(self.fields.terms) == 1
        self._name = self.fields.pinned("metadata.name") if alone else ""
        """The name that is asked for, if nothing else is."""

    def of_now(self) -> list[Entry]:
        """The entries of now that match, in their order; one whose name is pinned is looked up."""
        store, resource, namespace = self._call.backend.store, storage(self._call.type), self._call.namespace
        name = self.fields.pinned("metadata.name")
        if name and (namespace or not self._call.type.namespaced):
            found = store.get(Key(resource, namespace, name))
            return [found] if found is not None and self.matches(found) else []
        entries = store.scan(resource, namespace)
        return entries if self.everything else [entry for entry in entries if self.matches(entry)]

    def matches(self, entry: Entry) -> bool:
        if self.everything:
            return True
        if self._name:
            return entry.key.name == self._name
        if self.labels.requirements and not self.labels.matches(labels_of(entry)):
            return False
        if not self.fields.terms:
            return True
        if self.by_key or all(name in ALWAYS_SELECTABLE for name, _, _ in self.fields.terms):
            known = {"metadata.name": entry.key.name, "metadata.namespace": entry.key.namespace}
            return self.fields.matches(known.__getitem__)
        obj = view(self._call.type, entry)
        return self.fields.matches(lambda path: field_of(obj, path))


def get(call: Call) -> Answer:
    entry = call.entry()
    minimum(call)
    return one(call, entry)


def one(call: Call, entry: Entry, code: int = 200) -> Answer:
    """A stored object as the client wants to see it."""
    if call.media.table:
        return rendered(call.media, encode(views.table(call, [view(call.type, entry)], str(entry.revision))), code)
    if call.media.partial:
        return rendered(call.media, encode(views.partial(view(call.type, entry), call.media.version)), code)
    return rendered(call.media, view_bytes(call.type, entry), code)


def minimum(call: Call) -> int | None:
    """The revision that the client has seen, which this server must have reached. Raises a 504 if it has not."""
    text = call.request.query.get("resourceVersion")
    if not text:
        return None
    if not text.isdigit():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        if call.request.target.verb == "watch":
            raise Refusal(500, "", why)
        raise refusals.bad_request(f"invalid resource version: {why}")
    asked = int(text)
    if asked > call.backend.store.revision:
        raise refusals.revision_too_large(asked, call.backend.store.revision)
    return asked


def list_(call: Call) -> Answer:
    """Answer a list, a Table, or a PartialObjectMetadataList, a page at a time if ``limit`` is given."""
    if call.request.query.has("sendInitialEvents"):
        why = "Forbidden: sendInitialEvents is forbidden for list"
        raise refusals.invalid_field("ListOptions", "meta.k8s.io", "", "sendInitialEvents", why, "FieldValueForbidden")
    selection = Selection(call)
    limit = max(call.request.query.number("limit") or 0, 0)  # fewer than none is all, as zero is
    call.request.query.number("timeoutSeconds")  # which does not matter here, but is a number
    past, revision, consistent = _past(call)
    remaining = 0
    token = ""
    if past is None:
        chosen = selection.of_now()
    else:
        chosen = past if selection.everything else [entry for entry in past if selection.matches(entry)]
    if limit and len(chosen) > limit:
        remaining = len(chosen) - limit
        chosen = chosen[:limit]
        last = chosen[-1].key
        token = Continue(revision if consistent else -1, last.namespace, last.name).token()
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if token or (call.type.custom and not call.media.as_):
        metadata["continue"] = token
    if token and selection.everything:
        metadata["remainingItemCount"] = remaining
    if call.media.table:
        table = views.table(call, [view(call.type, entry) for entry in chosen], str(revision))
        return rendered(call.media, encode({**table, "metadata": metadata}))
    if call.media.partial:
        items = [views.partial(view(call.type, entry), call.media.version) for entry in chosen]
        kind = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{call.media.version}"}
        return rendered(call.media, encode({**kind, "metadata": metadata, "items": items}))
    head = {"kind": list_kind(call), "apiVersion": call.type.gvk.api_version, "metadata": metadata}
    if call.type.storage_version:
        bodies = [entry.body for entry in chosen]
    else:
        bodies = [view_bytes(call.type, entry) for entry in chosen]
    if not bodies:
        return rendered(call.media, encode(head)[:-1] + b',"items":[]}')
    # One copy of everything: the first and the last piece carry what is around the items.
    bodies[0] = encode(head)[:-1] + b',"items":[' + bodies[0]
    bodies[-1] += b"]}"
    return rendered(call.media, b",".join(bodies))


def list_kind(call: Call) -> str:
    return call.type.list_kind or f"{call.type.gvk.kind}List"


def _past(call: Call) -> tuple[list[Entry] | None, int, bool]:
    """The entries of an earlier revision (None: it is about those of now), the revision, and whether later pages can be
    of the same one."""
    store, query = call.backend.store, call.request.query
    resource = storage(call.type)
    match = query.get("resourceVersionMatch")
    if token := query.get("continue"):
        if query.get("resourceVersion") not in ("", "0"):
            raise refusals.bad_request("specifying resource version is not allowed when using continue")
        start = Continue.parse(token)
        revision = store.revision if start.rv < 0 else start.rv
        try:
            entries = store.scan_at(resource, call.namespace, revision)
        except Compacted:
            fresh = Continue(-1, start.namespace, start.name).token()
            expired = refusals.expired(EXPIRED)
            expired.metadata = {"continue": fresh}
            raise expired from None
        after = (start.namespace, start.name)
        return [entry for entry in entries if (entry.key.namespace, entry.key.name) > after], revision, start.rv >= 0
    if match not in ("", "Exact", "NotOlderThan"):
        body = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise refusals.invalid_field(
            "ListOptions", "meta.k8s.io", "", "resourceVersionMatch", body, "FieldValueNotSupported"
        )
    asked = minimum(call)
    if match and asked is None:
        body = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise refusals.invalid_field(
            "ListOptions", "meta.k8s.io", "", "resourceVersionMatch", body, "FieldValueForbidden"
        )
    if match == "Exact":
        if not asked:
            body = 'Forbidden: resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
            raise refusals.invalid_field(
                "ListOptions", "meta.k8s.io", "", "resourceVersionMatch", body, "FieldValueForbidden"
            )
        try:
            return store.scan_at(resource, call.namespace, asked), asked, True
        except Compacted:
            raise refusals.expired(f"The resourceVersion for the provided list is too old: {asked}") from None
    return None, store.revision, True
