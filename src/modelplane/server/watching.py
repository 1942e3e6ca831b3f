"""Watch: the changes of one collection as a stream of JSON lines.

A watch starts from a revision of the past (or answers 410 when the log no longer reaches it), from now with everything
that exists as ADDED, or as a WatchList that marks where the existing part ends. A selector sees an object enter and
leave: a change from matching to not matching is a DELETED with the last state that matched.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Final

from modelplane.api.meta import Object
from modelplane.errors import Refusal
from modelplane.server import refusals, views
from modelplane.server.call import Call, Sink, Stream, storage, view, view_bytes
from modelplane.server.objects import encode
from modelplane.server.reading import Selection, minimum
from modelplane.server.schema import ErrorType, FieldError, summary
from modelplane.server.schema.errors import supported
from modelplane.server.shaping import causes
from modelplane.server.store import Change, Compacted, Entry, Event, Subscription

BOOKMARK_SECONDS: Final = 60.0
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_TYPES: Final = {Change.ADDED: b"ADDED", Change.MODIFIED: b"MODIFIED", Change.DELETED: b"DELETED"}


def watch(call: Call) -> Stream:
    """Raises a refusal before the stream starts; after that, trouble is an ERROR event."""
    query = call.request.query
    selection = Selection(call)
    bookmarks = query.flag("allowWatchBookmarks")
    watch_list = query.flag("sendInitialEvents")
    _check_options(call, watch_list)
    since = minimum(call)
    seconds = query.number("timeoutSeconds") or 0
    query.number("limit")  # which does not matter here, but is a number
    deadline = time.monotonic() + (seconds if seconds > 0 else random.uniform(1800, 3600))
    store, resource = call.backend.store, storage(call.type)
    from_now = watch_list or not since
    if query.has("sendInitialEvents") and not watch_list:
        from_now = False
        since = since or store.revision
    initial: list[Entry] = []
    refusal: Refusal | None = None
    try:
        subscription = store.subscribe(resource, None if from_now else since)
    except Compacted:
        subscription = store.subscribe(resource)
        refusal = refusals.expired(f"too old resource version: {since} ({store.revision})")
    if from_now:
        initial = selection.of_now()
    marked = from_now and watch_list and bookmarks
    stream = _Stream(call, selection, subscription, deadline, bookmarks, initial, refusal, marked)
    return Stream(stream.run, _stream_type(call))


def _stream_type(call: Call) -> str:
    return call.media.type


def _check_options(call: Call, watch_list: bool) -> None:
    query = call.request.query
    match = query.get("resourceVersionMatch")
    if watch_list and match != "NotOlderThan":
        message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors = [FieldError(path="resourceVersionMatch", type=ErrorType.FORBIDDEN, message=message)]
        if match:
            errors.append(supported("resourceVersionMatch", match, ("NotOlderThan",)))
        told = summary("ListOptions", "meta.k8s.io", "", errors)
        raise refusals.invalid("ListOptions", "meta.k8s.io", "", told, causes(errors))
    if match and not query.has("sendInitialEvents"):
        body = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise refusals.invalid_field(
            "ListOptions", "meta.k8s.io", "", "resourceVersionMatch", body, "FieldValueForbidden"
        )


class _Stream:
    def __init__(
        self,
        call: Call,
        selection: Selection,
        subscription: Subscription,
        deadline: float,
        bookmarks: bool,
        initial: list[Entry],
        refusal: Refusal | None,
        marked: bool,
    ) -> None:
        self._call = call
        self._selection = selection
        self._subscription = subscription
        self._deadline = deadline
        self._bookmarks = bookmarks
        self._initial = initial
        self._refusal = refusal
        self._marked = marked
        self._trouble: Exception | None = None
        self._headers_due = True
        self._raw = not (call.media.table or call.media.partial)

    async def run(self, sink: Sink) -> None:
        """The stream. It ends at its deadline, when the server stops, or after an ERROR event."""
        subscription = self._subscription
        loop = asyncio.get_running_loop()
        # One timer for a whole wait, and none for each event: most watches hear many before anything is due.
        timer, woken_at = loop.call_later(0, subscription.wake), 0.0
        try:
            if self._refusal is not None:
                sink.write(_line(b"ERROR", encode(refusals.status_of(self._refusal))))
                return
            sink.write(self._first())
            subscription.listen(lambda: self._pass_on(sink))
            bookmark_at = time.monotonic() + BOOKMARK_SECONDS
            while True:
                await sink.ready()
                self._pass_on(sink)
                if self._trouble is not None:
                    raise self._trouble
                if subscription.overrun:
                    gone = refusals.expired("too old resource version: the watch could not keep up")
                    sink.write(_line(b"ERROR", encode(refusals.status_of(gone))))
                    return
                moment = time.monotonic()
                if self._bookmarks and moment >= min(bookmark_at, self._deadline):
                    sink.write(self._bookmark(subscription.progress))
                    bookmark_at = moment + BOOKMARK_SECONDS
                if moment >= self._deadline or self._call.backend.stopping:
                    return
                due = min(self._deadline, bookmark_at) if self._bookmarks else self._deadline
                if due != woken_at:
                    timer.cancel()
                    timer, woken_at = loop.call_later(due - moment, subscription.wake), due
                await subscription.wait()
        finally:
            timer.cancel()
            subscription.close()

    def _first(self) -> bytes:
        """What is there already, and the mark after it."""
        first = b"".join([self._event(Change.ADDED, entry) for entry in self._initial])
        self._initial = []
        if self._marked:
            first += self._bookmark(self._subscription.progress, {INITIAL_EVENTS_END: "true"})
        return first

    def _pass_on(self, sink: Sink) -> None:
        """Write what is due, unless the client is behind: then it waits here, where it is bounded."""
        if sink.full:
            self._subscription.wake()
            return
        try:
            sink.write(b"".join([self._translate(event) for event in self._subscription.take()]))
        except Exception as error:
            self._trouble = error
            self._subscription.listen(None)
            self._subscription.wake()

    def _translate(self, event: Event) -> bytes:
        entry = event.entry
        namespace = self._call.namespace
        if namespace and entry.key.namespace != namespace:
            return b""
        if self._selection.everything:
            return self._event(event.change, entry)
        matches = self._selection.matches(entry)
        if self._selection.by_key:
            return self._event(event.change, entry) if matches else b""
        if event.change is Change.ADDED:
            return self._event(Change.ADDED, entry) if matches else b""
        matched = self._selection.matches(event.previous) if event.previous is not None else True
        if event.change is Change.DELETED:
            return self._event(Change.DELETED, entry) if matched or matches else b""
        if matches:
            return self._event(Change.MODIFIED if matched else Change.ADDED, entry)
        return self._gone(event) if matched else b""

    def _gone(self, event: Event) -> bytes:
        """The object stopped matching: its last matching state, at the revision of the change."""
        obj = view(self._call.type, event.previous or event.entry)
        obj["metadata"]["resourceVersion"] = str(event.entry.revision)
        return _line(b"DELETED", self._shape(obj))

    def _event(self, change: Change, entry: Entry) -> bytes:
        if self._raw:
            return _line(_TYPES[change], view_bytes(self._call.type, entry))
        return _line(_TYPES[change], self._shape(view(self._call.type, entry)))

    def _shape(self, obj: Object) -> bytes:
        if self._call.media.table:
            table = views.table(self._call, [obj], obj["metadata"]["resourceVersion"], headers=self._headers_due)
            self._headers_due = False
            return encode(table)
        if self._call.media.partial:
            return encode(views.partial(obj, self._call.media.version))
        return encode(obj)

    def _bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        if self._call.media.partial:
            obj: Object = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{self._call.media.version}"}
        else:
            obj = {"kind": self._call.type.gvk.kind, "apiVersion": self._call.type.gvk.api_version}
        obj["metadata"] = metadata
        if self._call.media.table:
            table = views.table(self._call, [], str(revision), headers=self._headers_due)
            self._headers_due = False
            row = {"cells": self._call.type.printer.row(obj, datetime.now(UTC)), "object": obj}
            obj = {**table, "rows": [row]}
        return _line(b"BOOKMARK", encode(obj))


def _line(type_: bytes, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_, body)
