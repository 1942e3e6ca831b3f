"""One pass over one parent: load, compose, write down, apply, prune, say.

It starts from whatever it finds and may stop anywhere; the next pass goes on from there. Between the first read and the composer's
answer there is no await, so that placing is one step for the whole control plane.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from modelplane.api.meta import GVK, Condition, Key, Object, Status
from modelplane.compose.contract import Child, Composer, Composition, Event, FoundAll, Host, Pending, Read
from modelplane.control import conditions as say
from modelplane.control.apply import ASKED, Applier, Outcome
from modelplane.control.book import Book
from modelplane.control.caches import Caches
from modelplane.control.charts import RELEASE
from modelplane.control.deletion import Deletion, Step, forced
from modelplane.control.events import Recorder
from modelplane.control.index import Parent
from modelplane.control.inventory import Entry, entries_of
from modelplane.control.ownership import Owner, Ref
from modelplane.control.prune import Pruner, Remaining
from modelplane.control.readiness import is_ready
from modelplane.control.status import Overlay, add_finalizer, drop_finalizer, next_status, write_status
from modelplane.control.told import Told, topic
from modelplane.control.want import Want, digest, wants
from modelplane.control.world import PassWorld, load, observe
from modelplane.errors import ApiError, NotFound, PermanentError, TemporaryError
from modelplane.kube import Client, Informer

log = logging.getLogger(__name__)

FINALIZER: Final = "modelplane.ai/cleanup"
ORPHAN: Final = "orphan"
"""The finalizer of an API server while dependents are to be let go (metav1.FinalizerOrphanDependents)."""
PERMANENT_RETRY: Final = 300.0
POSTPONED: Final = 5.0
"""Seconds; whatever a postponed pass waits for wakes it, this is for what nobody thought of."""
NO_OVERLAY: Final = Overlay()

Holders: TypeAlias = Callable[[Object], Sequence[Read]]
Overlays: TypeAlias = Callable[[Object], Overlay]


class Placer(Protocol):
    """The serial placing step (`control.ledger`)."""

    def place(self, owner: Parent, request: Any) -> Any: ...

    def forget(self, owner: Parent) -> None: ...


class Next(msgspec.Struct, frozen=True):
    """When to come again: ``after`` seconds, or only on a change. An ``unfinished`` pass comes again by its growing back-off, and
    after so many seconds at the latest."""

    after: float | None = None
    unfinished: bool = False


class Subject(msgspec.Struct, kw_only=True):
    """The parent of a pass, moving on as the pass writes to it."""

    parent: Parent
    xr: Object
    owner: Owner
    entries: dict[Ref, Entry]
    overlay: Overlay = NO_OVERLAY


class Passes:
    """Makes passes. ``clock`` gives RFC 3339."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        book: Book,
        composers: Mapping[GVK, Composer],
        *,
        host: Callable[[], Host],
        clock: Callable[[], str],
        applier: Applier,
        pruner: Pruner,
        deletion: Deletion,
        recorder: Recorder,
        holders: Mapping[GVK, Holders],
        placer: Placer | None,
        overlays: Mapping[GVK, Overlays],
    ) -> None:
        self._client = client
        self._caches = caches
        self._book = book
        self._composers = composers
        self._host = host
        self._clock = clock
        self._applier = applier
        self._pruner = pruner
        self._deletion = deletion
        self._recorder = recorder
        self._holders = holders
        self._placer = placer
        self._overlays = overlays
        self._told = Told()
        self._bugs = Told()

    async def make(self, parent: Parent) -> Next:
        """One pass. Raises ApiError when the control cluster itself refuses; whatever concerns one child is said in conditions."""
        xr = self._caches.get(parent.kind, parent.key)
        if xr is None:
            self._book.forget(parent)
            self._told.forget(parent)
            self._bugs.forget(parent)
            if self._placer is not None:
                self._placer.forget(parent)
            return Next()
        owner = Owner.of(xr, self._host().control_plane_uid)
        subject = Subject(parent=parent, xr=xr, owner=owner, entries=self._book.entries(parent, xr))
        if xr["metadata"].get("deletionTimestamp"):
            return await self._delete(subject)
        overlays = self._overlays.get(parent.kind)
        if overlays is not None:
            subject.overlay = overlays(xr)
        try:
            composition = self._compose(subject)
        except PermanentError as error:
            return await self._refuse(subject, str(error))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # The same again is one line: the traceback was told.
            log.error("%s: the composer failed: %r", parent, error, exc_info=self._bugs.news(parent, repr(error)))
            return await self._refuse(subject, f"{type(error).__name__}: {error}; the control plane's log has more")
        if composition is None:
            return Next(POSTPONED)
        if composition.held:
            await self._conclude(subject, composition, [], [])
            return Next(composition.requeue_after)
        return await self._carry_out(subject, composition)

    # --- compose ---------------------------------------------------------------------------------------------------

    def _compose(self, subject: Subject) -> Composition | None:
        """None while something has not been read yet."""
        parent, composer = subject.parent, self._composers[subject.parent.kind]
        xr = subject.overlay.over(subject.xr, self._clock())
        answers = load(parent, xr, composer, self._caches, self._book.index)
        if any(isinstance(answer, Pending) for answer in answers.values()) or not self._children_known(subject.entries):
            return None
        rules = self._book.rules.get(parent, {})
        known = {entry.key for entry in subject.entries.values()}
        while True:
            observed = observe(subject.entries, rules, self._caches)
            composition = composer.compose(xr, PassWorld(answers, observed, self._place_for(parent), self._host()))
            fresh = {child.key: child.ready for child in composition.children if isinstance(child, Child)}
            merged = {**rules, **fresh}
            self._book.rules[parent] = merged
            if known <= rules.keys() or merged.keys() & known <= rules.keys():
                return composition
            # The first pass after a start did not know yet by which rules its children are ready.
            rules = merged

    def _place_for(self, parent: Parent) -> Callable[[Any], Any]:
        placer = self._placer

        def place(request: Any) -> Any:
            if placer is None:
                raise TemporaryError(f"{parent} cannot be placed: this control plane has no planner")
            return placer.place(parent, request)

        return place

    def _children_known(self, entries: Mapping[Ref, Entry]) -> bool:
        """Whether the caches of all children have something to say, if only that their cluster is lost, or lacks the kind. Raises
        what else keeps one from being read, since a child that nobody may look at has not gone."""
        for ref in entries:
            if self._caches.connecting(ref.target):
                return False
            if self._caches.lost(ref.target) is None:
                informer = self._watched(ref)
                if informer.synced.is_set() or isinstance(informer.error, NotFound):
                    continue
                if informer.error is not None:
                    raise informer.error.with_traceback(None)
                return False
        return True

    def _watched(self, ref: Ref) -> Informer:
        return self._caches.watch_of(ref).informer

    # --- carry out -------------------------------------------------------------------------------------------------

    async def _carry_out(self, subject: Subject, composition: Composition) -> Next:
        parent, owner, entries = subject.parent, subject.owner, subject.entries
        wanted = {want.ref: want for want in wants(composition.children, owner)}
        keys = {want.key for want in wanted.values()}
        moved = [entry for ref, entry in entries.items() if ref not in wanted and entry.key in keys]
        dropped = [entry for ref, entry in entries.items() if ref not in wanted and entry.key not in keys]
        edges = [*composition.deletion_order, *self._composers[parent.kind].deletion_order(subject.xr)]

        # What cannot be written now is not written down: a cluster that never answered has nothing of ours to be found again.
        lost = {ref.cluster for ref in wanted if self._caches.lost(ref.target) is not None}
        planned = {ref: want for ref, want in wanted.items() if ref.cluster not in lost or ref in entries}
        self._book.waiting[parent] = frozenset(lost)
        subject.entries = {**entries, **{ref: _merged(entries.get(ref), want) for ref, want in planned.items()}}
        await self._write_down(subject, bool(edges))
        for ref in subject.entries:
            # Started now, so that what we are about to make is watched from its first moment.
            self._watched(ref)

        remaining = await self._pruner.remove(parent, owner, moved, edges) if moved else []
        waiting = {item.entry.key: item for item in remaining}
        outcomes = [_waiting(want, waiting[want.key]) for want in wanted.values() if want.key in waiting]
        outcomes += await self._applier.apply(owner, [want for want in wanted.values() if want.key not in waiting])
        gone = {entry.ref for entry in moved} - {item.entry.ref for item in remaining}
        if composition.complete and dropped:
            kept = await self._pruner.remove(parent, owner, dropped, edges)
            gone |= {entry.ref for entry in dropped} - {item.entry.ref for item in kept}
            remaining += kept
        for outcome in outcomes:
            if outcome.object is not None and outcome.want.chart is None and outcome.want.ref in subject.entries:
                ref, uid = outcome.want.ref, outcome.object["metadata"].get("uid", "")
                subject.entries[ref] = msgspec.structs.replace(subject.entries[ref], uid=uid)
        subject.entries = {ref: entry for ref, entry in subject.entries.items() if ref not in gone}
        await self._conclude(subject, composition, outcomes, remaining)
        return self._next(parent, composition, outcomes, remaining)

    async def _write_down(self, subject: Subject, ordered: bool) -> None:
        """Finalizer and inventory, before anything is put where garbage collection cannot see it."""
        remote = {ref for ref in subject.entries if ref.cluster or ref.gvk == RELEASE}
        needed = remote or ordered or subject.parent.kind in self._holders
        if needed and FINALIZER not in (subject.xr["metadata"].get("finalizers") or ()):
            subject.xr = self._settled(await add_finalizer(self._client, subject.xr, FINALIZER))
        if remote - entries_of(subject.xr).keys():
            records = [entry.record() for entry in sorted(subject.entries.values())]
            status = {**(subject.xr.get("status") or {}), "children": records}
            subject.xr = self._settled(await write_status(self._client, subject.xr, status))
        self._book.remember(subject.parent, subject.entries)

    def _settled(self, xr: Object) -> Object:
        self._caches.settle(None, xr)
        return xr

    def _next(
        self, parent: Parent, composition: Composition, outcomes: Sequence[Outcome], remaining: Sequence[Remaining]
    ) -> Next:
        blocked = [outcome for outcome in outcomes if outcome.blocked and not outcome.lost]
        if remaining or any(not isinstance(outcome.error, PermanentError) for outcome in blocked):
            hints = [
                outcome.error.after
                for outcome in blocked
                if isinstance(outcome.error, ApiError) and outcome.error.after
            ]
            return Next(max(hints)) if hints else Next(unfinished=True)
        waits = [PERMANENT_RETRY] if blocked else []
        if composition.requeue_after is not None:
            waits.append(composition.requeue_after)
        return Next(min(waits, default=None))

    # --- say -------------------------------------------------------------------------------------------------------

    async def _conclude(
        self,
        subject: Subject,
        composition: Composition,
        outcomes: Sequence[Outcome],
        remaining: Sequence[Remaining],
    ) -> None:
        self._book.remember(subject.parent, subject.entries)
        children = [_state(outcome) for outcome in outcomes]
        errors = [f"{outcome.want.ref}: {outcome.error}" for outcome in outcomes if outcome.error and not outcome.lost]
        synced = say.synced(errors, children, [f"{item.entry.ref}: {item.why}" for item in remaining])
        ready = say.ready(composition.ready, children, failed=bool(errors), held=composition.held)
        conditions = [*composition.conditions, *([ready] if ready else []), synced]
        complete = composition.complete and not composition.held
        written = await self._write_status(subject, conditions, composition.status, complete=complete)
        note = self._applier.note([o.want.chart for o in outcomes if o.installed and o.want.chart is not None])
        notes = [Event(type="Normal", reason="ChartsInstalled", message=note[:1024])] if note else []
        notes += [Event(type="Warning", reason=ASKED, message=o.asks) for o in outcomes if o.asks]
        failures = [Event(type="Warning", reason=say.ERROR, message=synced.message)] if errors else []
        self._log_failures(subject.parent, outcomes)
        self._recorder.record(written, [*composition.events, *notes, *failures])

    def _log_failures(self, parent: Parent, outcomes: Sequence[Outcome]) -> None:
        """What of a pass failed and does not pass by itself. Of a lost cluster whoever knocks at it tells."""
        lines, own = [], []
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, TemporaryError):
                line, shared = f"{outcome.want.ref}: {outcome.error}", topic(outcome.error)
                if not shared:
                    own.append(line)
                elif self._told.news((outcome.want.ref.cluster, shared), shared):
                    lines.append(line)
        if not own:
            self._told.forget(parent)
        elif self._told.news(parent, "; ".join(own)):
            lines += own
        if lines:
            log.warning("%s: %s", parent, "; ".join(lines))

    async def _refuse(self, subject: Subject, message: str) -> Next:
        """A parent that cannot be composed as it is: say so, and touch nothing."""
        message = message[:1024]
        conditions = [
            Condition(type=kind, status=Status.FALSE, reason=say.ERROR, message=message)
            for kind in (say.READY, say.SYNCED)
        ]
        written = await self._write_status(subject, conditions)
        self._recorder.record(written, [Event(type="Warning", reason=say.ERROR, message=message)])
        return Next(PERMANENT_RETRY)

    async def _write_status(
        self,
        subject: Subject,
        conditions: Sequence[Condition],
        fields: Mapping[str, Any] | None = None,
        *,
        complete: bool = False,
    ) -> Object:
        status = next_status(
            subject.xr,
            fields=fields,
            conditions=conditions,
            entries=subject.entries.values(),
            overlay=subject.overlay,
            complete=complete,
            keep=(say.READY,),
            now=self._clock(),
        )
        wished = digest(status)
        if self._book.written.get(subject.parent) != (wished, digest(subject.xr.get("status") or {})):
            subject.xr = self._settled(await write_status(self._client, subject.xr, status))
            self._book.written[subject.parent] = wished, digest(subject.xr.get("status") or {})
        return subject.xr

    # --- delete ----------------------------------------------------------------------------------------------------

    async def _delete(self, subject: Subject) -> Next:
        parent, xr = subject.parent, subject.xr
        if FINALIZER not in (xr["metadata"].get("finalizers") or ()):
            self._book.index.put(parent, ())
            return Next()
        self._book.remember(parent, subject.entries)
        if ORPHAN in (xr["metadata"].get("finalizers") or ()):
            # Asked for by propagationPolicy Orphan: what it owns stays, and the garbage collector takes the owner references off.
            self._settled(await drop_finalizer(self._client, xr, FINALIZER))
            return Next()
        users = self._users(parent, xr)
        if users is None:
            return Next(POSTPONED)
        step: Step
        if users and not forced(xr):
            step = self._deletion.held(users, list(subject.entries.values()))
        else:
            edges = self._composers[parent.kind].deletion_order(xr)
            step = await self._deletion.step(parent, xr, subject.owner, list(subject.entries.values()), edges)
        subject.entries = {entry.ref: entry for entry in step.left}
        self._book.remember(parent, subject.entries)
        self._recorder.record(xr, step.events)
        if step.done:
            self._settled(await drop_finalizer(self._client, xr, FINALIZER))
            return Next()
        await self._write_status(subject, [step.condition])
        return Next(step.again, unfinished=not users)

    def _users(self, parent: Parent, xr: Object) -> list[str] | None:
        """Who holds the parent, in order; their coming and going wakes it. None while that is not known."""
        holders = self._holders.get(parent.kind)
        reads = frozenset(holders(xr)) if holders is not None else frozenset()
        self._book.index.put(parent, reads)
        answers = [self._caches.answer(read) for read in sorted(reads, key=str)]
        if any(isinstance(answer, Pending) for answer in answers):
            return None
        return [f"{obj['kind']} {Key.of(obj)}" for answer in answers if isinstance(answer, FoundAll) for obj in answer]


def _merged(known: Entry | None, want: Want) -> Entry:
    return want.entry if known is None else msgspec.structs.replace(want.entry, uid=known.uid)


def _waiting(want: Want, item: Remaining) -> Outcome:
    return Outcome(want=want, blocked=f"waits for {item.entry.ref}, which it replaces: {item.why}")


def _state(outcome: Outcome) -> say.ChildState:
    want = outcome.want
    there = outcome.object is not None if want.chart is not None else is_ready(want.ready, outcome.object)
    return say.ChildState(
        key=want.key,
        name=str(want.ref),
        ready=there and not outcome.blocked,
        changed=outcome.changed,
        lost=outcome.lost,
        blocked=outcome.blocked,
    )
