"""A copy of one kind's objects that keeps itself current: list once, watch for ever, and say how fresh it is.

Resumes from the last bookmark after a broken stream, lists again only when that version is gone. Its health is what the rest of
the system calls reachability: an error stays until the server has answered again, and objects stay meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

from modelplane.api.meta import Key, Object, Resource
from modelplane.errors import ApiError, Gone, Invalid, ServerFailure, TemporaryError, Throttled
from modelplane.kube.backoff import Backoff
from modelplane.kube.client import Client, Kind, Param, Selector, selector

log = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[Object | None, Object | None], None]
"""Called with (old, new); old None is an addition, new None a removal. Must not block or raise."""

INITIAL_END: Final = "k8s.io/initial-events-end"
INITIAL_LIMIT: Final = 20.0
"""Seconds for a streamed list to be complete."""


class Informer:
    """Watch cache of one kind, in one namespace or all, under one selector. Objects lack ``metadata.managedFields``, and the
    top-level fields of ``without``."""

    def __init__(
        self,
        client: Client,
        resource: Kind,
        namespace: str | None = None,
        labels: Selector = None,
        fields: Selector = None,
        *,
        quiet: float = 2.0,
        backoff: Backoff | None = None,
        without: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._without = without
        self._kind = resource
        self._namespace = namespace
        self._selectors: dict[str, str | None] = {"labelSelector": selector(labels), "fieldSelector": selector(fields)}
        self._quiet = quiet
        self._backoff = backoff or Backoff()
        self._objects: dict[Key, Object] = {}
        self._callbacks: list[Callback] = []
        self._health: list[Callable[[], None]] = []
        self._version = ""
        self._nudged = asyncio.Event()
        self._initial: asyncio.Timeout | None = None
        self.synced = asyncio.Event()
        """Set after the first complete list and never cleared: afterwards the copy may be old, but is whole."""
        self.error: ApiError | None = None
        """Why the copy is not current; None while it is."""

    @property
    def healthy(self) -> bool:
        """Listed, and the stream is up (or was when we last looked, at most six seconds ago)."""
        return self.synced.is_set() and self.error is None

    @property
    def last_contact(self) -> float:
        """`time.monotonic()` of the server's last answer to anything of this client."""
        return self._client.last_contact

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def items(self) -> Sequence[Object]:
        return list(self._objects.values())

    def subscribe(self, callback: Callback) -> None:
        """Every later change; what is there already is reported at once as additions."""
        self._callbacks.append(callback)
        for obj in list(self._objects.values()):
            callback(None, obj)

    def on_health(self, callback: Callable[[], None]) -> None:
        """Called when `error` changes between None and something, or becomes another kind of failure, and when first synced."""
        self._health.append(callback)

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        while True:
            began = time.monotonic()
            try:
                resource = await self._client.resource_for(self._kind)
                if self._version:
                    await self._follow(resource, {"resourceVersion": self._version})
                elif self._client.watch_list_offered:
                    await self._watch_list(resource)
                else:
                    await self._list(resource)
            except Gone:
                self._version = ""
            except Invalid as error:
                if not self._client.watch_list_offered or self._version:
                    self._fail(error)
                self._client.watch_list_offered = False
            except ApiError as error:
                self._fail(error)
            except Exception as error:
                # A copy that stops silently is worse than one that starts over.
                log.exception("watching %s failed; it is listed again", self._kind)
                self._version = ""
                self._fail(ServerFailure(f"watching {self._kind}: {type(error).__name__}: {error}"))
            if time.monotonic() - began < self._quiet:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.next()):
                        await self._nudged.wait()
            self._nudged.clear()

    def nudge(self) -> None:
        """Try again now instead of when the back-off ends: somebody knows that the server is there."""
        self._backoff.reset()
        self._nudged.set()

    def rebind(self, client: Client) -> None:
        """Take another client for the next run, such as one with a rotated credential. Objects stay until they are listed
        again, since the new credential may lead to another server. Not while `run` is running."""
        self._client = client
        self._version = ""

    def accept(self, obj: Object) -> None:
        """Take the newer state of a known object that a write of ours returned, without waiting for the watch to bring it."""
        key = Key.of(obj)
        known = self._objects.get(key)
        if known is not None and _version(obj) > _version(known):
            self._put(key, obj)

    async def _list(self, resource: Resource) -> None:
        labels, fields = self._selectors["labelSelector"], self._selectors["fieldSelector"]
        answer = await self._client.list(resource, self._namespace, labels, fields)
        self._replace(answer.items, answer.resource_version)
        self._backoff.reset()
        await self._follow(resource, {"resourceVersion": self._version})

    async def _watch_list(self, resource: Resource) -> None:
        """One stream instead of pages: the objects as additions, then a bookmark that ends the list, then changes."""
        try:
            async with asyncio.timeout(INITIAL_LIMIT) as self._initial:
                await self._follow(resource, {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"})
        except TimeoutError:
            # A server of before 1.27 ignores the parameters and never says that the list is whole.
            self._client.watch_list_offered = False

    async def _follow(self, resource: Resource, params: Mapping[str, Param]) -> None:
        initial: list[Object] | None = [] if "sendInitialEvents" in params else None
        opened = self._recover if initial is None else (lambda: None)
        stream = self._client.watch(
            resource, self._namespace, {**self._selectors, **params}, quiet=self._quiet, opened=opened
        )
        async with aclosing(stream) as events:
            async for event in events:
                if initial is None:
                    self._take(event.type, event.object)
                elif event.type != "BOOKMARK":
                    initial.append(event.object)
                elif (event.object["metadata"].get("annotations") or {}).get(INITIAL_END) == "true":
                    self._replace(initial, event.object["metadata"]["resourceVersion"])
                    initial = None
                    if self._initial is not None:
                        self._initial.reschedule(None)

    def _take(self, kind: str, obj: Object) -> None:
        self._version = obj["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        key = Key.of(obj)
        if kind != "DELETED":
            known = self._objects.get(key)
            if known is None or _changed(known, obj):
                self._put(key, obj)
        elif (old := self._objects.pop(key, None)) is not None:
            self._tell(old, None)

    def _put(self, key: Key, obj: Object) -> None:
        obj["metadata"].pop("managedFields", None)
        for field in self._without:
            obj.pop(field, None)
        old = self._objects.get(key)
        self._objects[key] = obj
        self._tell(old, obj)

    def _replace(self, objects: Iterable[Object], version: str) -> None:
        fresh = {Key.of(obj): obj for obj in objects}
        for key in [key for key in self._objects if key not in fresh]:
            self._tell(self._objects.pop(key), None)
        for key, obj in fresh.items():
            known = self._objects.get(key)
            if known is None or known["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                self._put(key, obj)
        self._version = version
        self._recover()

    def _tell(self, old: Object | None, new: Object | None) -> None:
        for callback in self._callbacks:
            try:
                callback(old, new)
            except Exception:
                log.exception("a subscriber of %s failed", self._kind)

    def _recover(self) -> None:
        changed = self.error is not None or not self.synced.is_set()
        self.error = None
        self.synced.set()
        self._backoff.reset()
        if changed:
            self._report()

    def _fail(self, error: ApiError) -> None:
        if isinstance(error, Throttled) and not self.synced.is_set():
            # A server says that of a kind whose definition it has just got. It is there, and the kind is not read yet.
            log.debug("watching %s: %s", self._kind, error)
            return
        changed = type(self.error) is not type(error)
        self.error = error
        if changed:
            # A lost server is told once by whoever owns the client; a refusal concerns this kind alone, and lasts.
            passing = isinstance(error, TemporaryError)
            log.log(logging.DEBUG if passing else logging.WARNING, "watching %s: %s", self._kind, error)
            self._report()

    def _report(self) -> None:
        for callback in self._health:
            callback()


def _changed(known: Object, obj: Object) -> bool:
    """Not what a write of ours brought already, and nothing older than that."""
    same = known["metadata"].get("resourceVersion") == obj["metadata"].get("resourceVersion")
    return not same and _version(obj) >= _version(known)


def _version(obj: Object) -> int:
    """Resource versions of one resource are ordered numbers (guaranteed since Kubernetes 1.35)."""
    text = str(obj["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0
