"""Bring wanted children into being by server-side apply, and only where something differs.

What was applied is remembered with what the server made of it; while neither the wish nor the object moves, nothing is sent.
An object that somebody else owns is never touched, one that cannot be changed in place is deleted and made again, and a
cluster that does not answer is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from modelplane.api.meta import GVK, Object
from modelplane.compose.contract import Chart
from modelplane.control.caches import Caches
from modelplane.control.charts import DEPLOYED, DIGEST, ChartInstaller, command, revision_of
from modelplane.control.ownership import OWNER, Owner, Ref, control_plane_of, owner_labels, owner_uid
from modelplane.control.projection import body
from modelplane.control.want import FIRST, NAMESPACE, Want, covers, digest
from modelplane.errors import ApiError, Conflict, NotFound, PermanentError, Unreachable
from modelplane.kube import Client

PARALLEL: Final = 4
"""Requests at a time and cluster: each takes a connection, and a TLS handshake costs more than waiting for the next free one."""
DIGEST_LENGTH: Final = 16
ASKED: Final = "ChartMissing"
"""Reason of the event that has the command for a chart that this host does not install."""


class NameTaken(PermanentError):
    """An object of the wanted name belongs to somebody else."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one wanted child."""

    want: Want
    object: Object | None = None
    """As the server has it now, as far as known."""
    changed: bool = False
    made: bool = False
    """It was not there before this pass."""
    lost: str = ""
    blocked: str = ""
    error: Exception | None = None
    installed: bool = False
    """A chart was installed or upgraded."""
    asks: str = ""
    """What a person is asked to run."""


WORKLOADS: Final = frozenset({"apps", "batch", "leaderworkerset.x-k8s.io", "grove.io"})
"""API groups whose objects have pods of their own."""


def propagation(kind: GVK) -> str:
    """How a child is deleted. What has pods is gone when they are: until then their devices are taken and they may still answer."""
    return "Foreground" if kind.group in WORKLOADS else "Background"


class Applier:
    """``alive`` says whether a UID belongs to a parent that exists. One for all parents."""

    def __init__(self, caches: Caches, charts: ChartInstaller | None, alive: Callable[[str], bool]) -> None:
        self._caches = caches
        self._charts = charts
        self._alive = alive
        self._applied: dict[Ref, tuple[str, str]] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def apply(self, owner: Owner, wanted: Sequence[Want]) -> list[Outcome]:
        """Namespaces and definitions first, then everything else at once. Errors are in the outcomes."""
        await self._prepare(wanted)
        first = [want for want in wanted if want.ref.gvk in FIRST]
        rest = [want for want in wanted if want.ref.gvk not in FIRST]
        outcomes = await asyncio.gather(*(self._guarded(owner, want, frozenset()) for want in first))
        empty = frozenset(
            (o.want.ref.cluster, o.want.ref.name) for o in outcomes if o.made and o.want.ref.gvk == NAMESPACE
        )
        return [*outcomes, *await asyncio.gather(*(self._guarded(owner, want, empty) for want in rest))]

    async def _prepare(self, wanted: Sequence[Want]) -> None:
        """The namespaces of charts that are not installed yet."""
        missing = {(w.ref.cluster, w.ref.namespace) for w in wanted if w.chart is not None and self.observed(w) is None}
        for cluster, namespace in sorted(missing):
            client = self._caches.client(cluster or None)
            if client is not None and self._charts is not None and self._caches.lost(cluster or None) is None:
                with contextlib.suppress(ApiError):
                    await self._charts.prepare(client, namespace)

    def forget(self, ref: Ref) -> None:
        """The object is gone, or to be written again whatever is remembered."""
        self._applied.pop(ref, None)

    async def _guarded(self, owner: Owner, want: Want, empty: frozenset[tuple[str, str]]) -> Outcome:
        """``empty`` are namespaces (cluster, name) that this very pass has made: nothing can be in them."""
        try:
            async with self._slots.setdefault(want.ref.cluster, asyncio.Semaphore(PARALLEL)):
                if want.chart is not None:
                    return await self._chart(owner, want)
                return await self._object(owner, want, known_absent=(want.ref.cluster, want.ref.namespace) in empty)
        except Unreachable as error:
            return Outcome(
                want=want, object=self._caches.child(want.ref), lost=str(error), blocked=str(error), error=error
            )
        except (ApiError, PermanentError) as error:
            known = None if want.chart is not None else self._caches.child(want.ref)
            return Outcome(want=want, object=known, blocked=str(error), error=error)

    def _client(self, want: Want) -> Client | Outcome:
        lost = self._caches.lost(want.ref.target)
        client = self._caches.client(want.ref.target)
        if lost is None and client is not None:
            return client
        known = self.observed(want)
        why = (lost.message or lost.reason) if lost is not None else "its cluster has no client yet"
        current = known is not None and self._unchanged(want, known)
        return Outcome(want=want, object=known, lost=why, blocked="" if current else f"not applied, {why}")

    # --- objects ---------------------------------------------------------------------------------------------------

    async def _object(self, owner: Owner, want: Want, *, known_absent: bool) -> Outcome:
        client = self._client(want)
        if isinstance(client, Outcome):
            return client
        found = self._caches.child(want.ref)
        if found is None and not known_absent and not self._caches.sees_all(want.ref):
            found = await _live(client, want.ref)
        if found is not None:
            if not self._ours(found, owner, want):
                return self._foreign(found, owner, want)
            if found["metadata"].get("deletionTimestamp"):
                finalizers = ", ".join(found["metadata"].get("finalizers") or ()) or "nothing but time"
                return Outcome(want=want, object=found, blocked=f"is still being deleted, which waits for {finalizers}")
            if (path := want.must_replace(found)) is not None:
                return await self._replace(client, want, found, path)
            if self._unchanged(want, found):
                return Outcome(want=want, object=found)
        applied = await client.apply(want.manifest)
        self._applied[want.ref] = (want.digest, digest(body(applied)))
        self._caches.settle(want.ref.target, applied)
        return Outcome(want=want, object=applied, changed=_moved(found, applied), made=found is None)

    def _unchanged(self, want: Want, found: Object) -> bool:
        """Whether an apply would change nothing: the wish is the one that was applied, and the object is as the server made it
        then, or has all that is wished beside what others have added."""
        applied = self._applied.get(want.ref)
        if applied is None or applied[0] != want.digest:
            return False
        return applied[1] == digest(body(found)) or covers(found, want.manifest)

    def _ours(self, found: Object, owner: Owner, want: Want) -> bool:
        if want.shared:
            return control_plane_of(found) == owner.control_plane
        uid = owner_uid(found)
        if uid == owner.uid:
            return True
        # Left behind by a parent that is gone: nobody else will ever come back for it.
        return uid is not None and control_plane_of(found) == owner.control_plane and not self._alive(uid)

    def _foreign(self, found: Object, owner: Owner, want: Want) -> Outcome:
        other = control_plane_of(found)
        if other is not None and other != owner.control_plane:
            where = want.ref.cluster or "the control cluster"
            raise NameTaken(
                f"{want.ref} belongs to another control plane ({other}), which manages {where}; "
                "unregister the cluster there first"
            )
        if want.ref.gvk == NAMESPACE:
            # A namespace that is already there is as good as one of ours, and stays as it is.
            return Outcome(want=want, object=found)
        raise NameTaken(f"{want.ref} exists and is not ours; delete or rename it, then it is made anew")

    async def _replace(self, client: Client, want: Want, found: Object, path: str) -> Outcome:
        self.forget(want.ref)
        uid, namespace = found["metadata"]["uid"], want.ref.namespace or None
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(want.ref.gvk, want.ref.name, namespace, uid=uid, propagation=propagation(want.ref.gvk))
        if await _live(client, want.ref) is None:
            applied = await client.apply(want.manifest)
            self._applied[want.ref] = (want.digest, digest(body(applied)))
            return Outcome(want=want, object=applied, changed=True)
        return Outcome(
            want=want, object=found, changed=True, blocked=f"is being replaced, since {path} cannot be changed"
        )

    # --- charts ----------------------------------------------------------------------------------------------------

    def observed(self, want: Want) -> Object | None:
        """The object behind a wanted child as caches have it; of a chart, the newest release Secret."""
        return self._caches.child(want.ref) if want.chart is None else release_secret(self._caches, want.ref)

    async def _chart(self, owner: Owner, want: Want) -> Outcome:
        assert want.chart is not None
        client = self._client(want)
        if isinstance(client, Outcome):
            return client
        wanted = want.digest[:DIGEST_LENGTH]
        found = release_secret(self._caches, want.ref)
        uid = owner_uid(found) if found is not None else None
        if uid is not None and uid != owner.uid and self._alive(uid):
            raise NameTaken(f"release {want.ref.name} belongs to somebody else; uninstall it, then it is made anew")
        if self._charts is None:
            if found is not None:
                return Outcome(want=want, object=found)
            where = want.chart.target or "the control cluster"
            blocked = f"is not installed; the event {ASKED} has its command"
            return Outcome(want=want, blocked=blocked, asks=f"run on {where}: {command(want.chart)}")
        if found is not None and found["metadata"]["labels"].get(DIGEST) == wanted:
            return Outcome(want=want, object=found)
        installed = await self._charts.install(client, want.chart, owner_labels(owner, want.key), wanted)
        return Outcome(want=want, object=found, changed=installed, installed=installed)

    def note(self, charts: Sequence[Chart]) -> str:
        """What the installer has to say about charts that were just installed."""
        return self._charts.note(charts) if self._charts is not None and charts else ""

    async def remove_chart(self, owner: Owner, ref: Ref) -> None:
        """Uninstall a release of this owner. One that a person installed is that person's, and stays."""
        if self._charts is None:
            return
        client = self._caches.client(ref.target)
        if client is None:
            raise Unreachable(f"{ref}: its cluster has no client yet")
        await self._charts.uninstall(client, ref.namespace, ref.name, {OWNER: owner.uid})


def release_secret(caches: Caches, ref: Ref) -> Object | None:
    """The newest deployed revision of a release of ours, or of anybody where charts are given."""
    watch = caches.watch_of(ref)
    revisions = [
        secret
        for secret in watch.labelled("name", ref.name)
        if secret["metadata"].get("namespace") == ref.namespace
        and secret["metadata"]["labels"].get("status") == DEPLOYED
    ]
    return max(revisions, key=revision_of, default=None)


async def _live(client: Client, ref: Ref) -> Object | None:
    """Straight from the server: label-filtered caches do not see what is not ours."""
    try:
        return await client.get(ref.gvk, ref.name, ref.namespace or None)
    except NotFound:
        return None


def _moved(before: Object | None, after: Object) -> bool:
    """Whether an apply changed what controllers look at."""
    if before is None:
        return True
    generation = after["metadata"].get("generation")
    if generation is not None and before["metadata"].get("generation") is not None:
        return bool(before["metadata"]["generation"] != generation)
    return digest(body(before)) != digest(body(after))
