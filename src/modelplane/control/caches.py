"""Everything that we know of any cluster, in watch caches that start when somebody first asks.

One cache per cluster, kind and scope. On the control cluster a kind is watched whole, except Secrets and ConfigMaps, of which we
look only at those that are asked for. On a remote cluster our own objects are watched by our label, other reads as they are asked.
Losing a cluster empties nothing: answers become Unavailable, and the last sight of our children stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from modelplane.api.meta import GVK, SYSTEM_NAMESPACE, Key, Object
from modelplane.compose.contract import Absent, Answer, Found, FoundAll, Pending, Read, Unavailable
from modelplane.control.charts import RELEASE, SECRET, revisions_of
from modelplane.control.index import Place, selects
from modelplane.control.ownership import CONTROL_PLANE, NARROW, Ref, owner_uid
from modelplane.errors import ApiError, Forbidden, NotFound, Unauthorized
from modelplane.kube import Client, Informer


class Scope(msgspec.Struct, frozen=True):
    """The part of a kind that one cache holds."""

    namespace: str | None = None
    name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()


class Slot(msgspec.Struct, frozen=True):
    """Identity of a cache."""

    cluster: str | None
    kind: GVK
    scope: Scope

    @property
    def place(self) -> Place:
        return self.cluster, self.kind


class Watch:
    """One running cache."""

    def __init__(self, slot: Slot, informer: Informer) -> None:
        self.slot = slot
        self.informer = informer
        self.task: asyncio.Task[None] | None = None
        self.failed_since = ""
        self._by_label: dict[str, dict[str, dict[Key, Object]]] = {}
        self.by_owner: dict[str, dict[Key, Object]] = defaultdict(dict)

    def labelled(self, name: str, value: str) -> Iterable[Object]:
        """Objects by one label, from an index that the first question builds."""
        index = self._by_label.get(name)
        if index is None:
            index = self._by_label[name] = defaultdict(dict)
            for obj in self.informer.items():
                found = (obj["metadata"].get("labels") or {}).get(name)
                if found is not None:
                    index[found][Key.of(obj)] = obj
        return index[value].values() if value in index else ()

    def note(self, old: Object | None, new: Object | None) -> None:
        """Keep the indexes as current as the objects."""
        for obj, present in ((old, False), (new, True)):
            if obj is None:
                continue
            key, labels, uid = Key.of(obj), obj["metadata"].get("labels") or {}, owner_uid(obj)
            for name, index in self._by_label.items():
                if name in labels:
                    _toggle(index, labels[name], key, obj if present else None)
            if uid:
                _toggle(self.by_owner, uid, key, obj if present else None)


def _toggle(index: dict[str, dict[Key, Object]], value: str, key: Key, obj: Object | None) -> None:
    if obj is not None:
        index.setdefault(value, {})[key] = obj
    elif value in index:
        index[value].pop(key, None)
        if not index[value]:
            del index[value]


CONNECTING = "Connecting"
"""Reason of a cluster that has neither answered nor failed to answer yet: what is asked of it is pending."""

Changed: TypeAlias = Callable[[Place, Object | None, Object | None], None]
Fresh: TypeAlias = Callable[[str | None, GVK | None], None]
"""Called with a cluster and a kind; None for the kind means anything at that cluster."""


class Caches:
    """``changed`` hears of every object, ``fresh`` when a cache became ready, was lost or came back. ``clock`` gives RFC 3339;
    ``given_charts``: whoever installs charts is not us, so releases are looked for by Helm's marks instead of ours."""

    def __init__(
        self, client: Client, *, clock: Callable[[], str], quiet: float = 2.0, given_charts: bool = False
    ) -> None:
        self._clients: dict[str | None, Client | None] = {None: client}
        self._lost: dict[str, Unavailable] = {}
        self._watches: dict[Slot, Watch] = {}
        self._clock = clock
        self._quiet = quiet
        self._given_charts = given_charts
        self._changed: list[Changed] = []
        self._fresh: list[Fresh] = []
        self.control_plane = ""

    def on_change(self, callback: Changed) -> None:
        self._changed.append(callback)

    def on_fresh(self, callback: Fresh) -> None:
        self._fresh.append(callback)

    # --- clusters --------------------------------------------------------------------------------------------------

    def client(self, cluster: str | None) -> Client | None:
        return self._clients.get(cluster)

    def lost(self, cluster: str | None) -> Unavailable | None:
        """Why a cluster cannot be used now; None when it can."""
        if cluster is None:
            return None
        if cluster not in self._clients:
            return Unavailable("ClusterMissing", "", f"InferenceCluster {cluster} does not exist")
        return self._lost.get(cluster)

    def connecting(self, cluster: str | None) -> bool:
        lost = self._lost.get(cluster) if cluster is not None else None
        return lost is not None and lost.reason == CONNECTING

    def attach(self, cluster: str, client: Client | None, lost: Unavailable | None) -> None:
        """A cluster, new or with another client. Caches that run are moved to the new client and keep their objects."""
        self._clients[cluster] = client
        self._set_lost(cluster, lost)
        for watch in self._at(cluster):
            self._stop(watch)
            if client is not None:
                watch.informer.rebind(client)
                self._start(watch)
        self._tell_fresh(cluster, None)

    def set_lost(self, cluster: str, lost: Unavailable | None) -> None:
        """A cluster stopped or started answering."""
        if self._lost.get(cluster) != lost:
            self._set_lost(cluster, lost)
            for watch in self._at(cluster):
                if lost is None:
                    watch.informer.nudge()
            self._tell_fresh(cluster, None)

    def _set_lost(self, cluster: str, lost: Unavailable | None) -> None:
        if lost is None:
            self._lost.pop(cluster, None)
        else:
            self._lost[cluster] = lost

    def detach(self, cluster: str) -> None:
        """Forget a cluster that is not registered any more."""
        self._clients.pop(cluster, None)
        self._lost.pop(cluster, None)
        for watch in self._at(cluster):
            self._stop(watch)
            del self._watches[watch.slot]
        self._tell_fresh(cluster, None)

    def troubled(self, cluster: str) -> bool:
        """Whether any cache of a cluster has lost its stream: a reason to knock at once."""
        return any(watch.informer.error is not None for watch in self._at(cluster))

    def _at(self, cluster: str) -> list[Watch]:
        return [watch for slot, watch in self._watches.items() if slot.cluster == cluster]

    # --- caches ----------------------------------------------------------------------------------------------------

    def watch(self, cluster: str | None, kind: GVK, scope: Scope = Scope()) -> Watch:  # noqa: B008 - frozen
        """The cache, started if need be."""
        slot = Slot(cluster, kind, scope)
        found = self._watches.get(slot)
        if found is not None:
            return found
        client = self._clients.get(cluster)
        fields = {"metadata.name": scope.name} if scope.name else None
        # A cluster without credential has a cache too: it starts when the credential comes.
        stand_in = client if client is not None else self._clients[None]
        assert stand_in is not None
        labels = dict(scope.labels) or None
        # What a release is made of may be a megabyte, and nobody here looks at it.
        without = ("data",) if kind == SECRET and labels is not None and "owner" in labels else ()
        informer = Informer(stand_in, kind, scope.namespace, labels, fields, quiet=self._quiet, without=without)
        watch = self._watches[slot] = Watch(slot, informer)

        def changed(old: Object | None, new: Object | None) -> None:
            watch.note(old, new)
            for callback in self._changed:
                callback(slot.place, old, new)

        def health() -> None:
            watch.failed_since = "" if informer.error is None else self._clock()
            self._tell_fresh(slot.cluster, slot.kind)

        informer.subscribe(changed)
        informer.on_health(health)
        if client is not None:
            self._start(watch)
        return watch

    def _start(self, watch: Watch) -> None:
        watch.task = asyncio.create_task(
            watch.informer.run(), name=f"watch {watch.slot.kind} at {watch.slot.cluster or 'control'}"
        )

    def _stop(self, watch: Watch) -> None:
        if watch.task is not None:
            watch.task.cancel()
            watch.task = None

    def unread(self) -> Sequence[tuple[GVK, ApiError | None]]:
        """Kinds of the control cluster that were never read whole, with the last answer where it was a refusal."""
        return [
            (slot.kind, watch.informer.error)
            for slot, watch in self._watches.items()
            if slot.cluster is None and not watch.informer.synced.is_set()
        ]

    def _tell_fresh(self, cluster: str | None, kind: GVK | None) -> None:
        for callback in self._fresh:
            callback(cluster, kind)

    async def close(self) -> None:
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        self._watches.clear()

    # --- reads -----------------------------------------------------------------------------------------------------

    def answer(self, read: Read) -> Answer:
        """What a composer may know now. Starts the cache behind the question."""
        if read.cluster is not None and read.cluster not in self._clients:
            return self.lost(read.cluster) or Pending()
        if self.connecting(read.cluster):
            return Pending()
        watch = self.watch(read.cluster, read.kind, self._scope(read))
        informer = watch.informer
        unavailable = self._unavailable(watch)
        if unavailable is not None:
            return unavailable
        if not informer.synced.is_set():
            return Pending()
        if read.name is not None:
            obj = informer.get(Key(read.namespace or "", read.name))
            return Absent() if obj is None else Found(obj)
        found = watch.labelled(*read.labels[0]) if read.labels else informer.items()
        chosen = [
            obj
            for obj in found
            if read.namespace in (None, obj["metadata"].get("namespace") or "") and selects(read, obj)
        ]
        return FoundAll(tuple(sorted(chosen, key=Key.of)))

    def _scope(self, read: Read) -> Scope:
        if read.cluster is not None:
            return Scope(read.namespace, read.name, read.labels)
        if read.kind not in NARROW:
            return Scope()
        if read.namespace == SYSTEM_NAMESPACE:
            return Scope(read.namespace)
        return Scope(read.namespace, read.name, read.labels)

    def _unavailable(self, watch: Watch) -> Unavailable | None:
        error, cluster = watch.informer.error, watch.slot.cluster
        if cluster is not None and (lost := self._lost.get(cluster)):
            return lost
        if cluster is None and watch.informer.synced.is_set():
            # The copy of our own cluster stands, whatever a later request met: one that has just been started refuses everybody
            # until it has read its roles, and what it refuses to show has not gone.
            return None
        if isinstance(error, NotFound):
            return Unavailable("KindMissing", watch.failed_since, str(error))
        if isinstance(error, Forbidden):
            return Unavailable("Forbidden", watch.failed_since, str(error))
        if cluster is None or error is None:
            return None
        reason = "Unauthorized" if isinstance(error, Unauthorized) else "Unreachable"
        return Unavailable(reason, watch.failed_since, str(error))

    # --- children --------------------------------------------------------------------------------------------------

    def children_of(self, cluster: str | None, kind: GVK) -> Watch:
        """The cache that holds our own objects of a kind. A release of a chart is looked for where Helm keeps it."""
        if kind == RELEASE:
            kind = SECRET
        if cluster is None and kind not in NARROW:
            return self.watch(None, kind)
        return self.watch(cluster, kind, Scope(labels=((CONTROL_PLANE, self.control_plane),)))

    def watch_of(self, ref: Ref) -> Watch:
        """The cache that shows one child. A release that a person installed has Helm's marks alone."""
        if ref.gvk == RELEASE and self._given_charts:
            return self.watch(ref.target, SECRET, Scope(ref.namespace, labels=tuple(revisions_of(ref.name).items())))
        return self.children_of(ref.target, ref.gvk)

    def child(self, ref: Ref) -> Object | None:
        return self.watch_of(ref).informer.get(Key(ref.namespace, ref.name))

    def sees_all(self, ref: Ref) -> bool:
        """Whether `child` would show an object of anybody: the kind is watched whole, and the stream is up."""
        return ref.target is None and ref.gvk not in NARROW and self.watch(None, ref.gvk).informer.healthy

    def stale_since(self, ref: Ref) -> str | None:
        """When the child was last seen for sure, if it cannot be seen now."""
        lost = self.lost(ref.target)
        if lost is not None:
            return lost.since or self._clock()
        watch = self.watch_of(ref)
        return watch.failed_since if watch.informer.error is not None and ref.target is not None else None

    def settle(self, cluster: str | None, obj: Object) -> None:
        """Take over what a write of ours returned, where a cache already knows the object."""
        kind = GVK.of(obj)
        for slot, watch in self._watches.items():
            if slot.cluster == cluster and slot.kind == kind:
                watch.informer.accept(msgspec.json.decode(msgspec.json.encode(obj)))

    def objects(self, kind: GVK) -> Sequence[Object]:
        """All objects of a kind on the control cluster."""
        return self.watch(None, kind).informer.items()

    def get(self, kind: GVK, key: Key) -> Object | None:
        return self.watch(None, kind).informer.get(key)
