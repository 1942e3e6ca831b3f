"""Why a cluster takes no further replica: a stable code, the nearest miss in figures, and the smallest change that would help.

The codes are an enumeration in order of precedence; the first that applies is the verdict. The digest of all verdicts fits a
condition: under 1 KiB, the same bytes for the same fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from modelplane.plan.capacity import Claims, Ledger, Need, PoolCapacity, PoolLedger
from modelplane.plan.devices import explain_miss
from modelplane.plan.fitting import Matcher, Option, fit
from modelplane.plan.fleet import Cluster, Pool
from modelplane.plan.request import Engine, PlacementRequest, lacking
from modelplane.plan.taints import DRAIN, untolerated

LONGEST: Final = 1000
"""Bytes of a digest: with the rest of a condition it stays under 1 KiB."""


class Code(StrEnum):
    """Reason codes in order of precedence."""

    WRONG_LABELS = "WrongLabels"
    """The cluster lacks labels that the deployment asks for."""
    NOT_STAGED = "NotStaged"
    """The deployment's ModelCache does not choose the cluster, so the model is not staged there."""
    NO_CACHE_STORAGE = "NoCacheStorage"
    """The cluster has no storage class for model caches, and the deployment uses one."""
    WRONG_STACK = "WrongStack"
    """The cluster's serving stack runs gangs in a way that this version does not write, and the deployment has one."""
    DELETING = "Deleting"
    """The cluster is being deleted."""
    NOT_READY = "NotReady"
    """The cluster is not Ready."""
    NO_GATEWAY = "NoGateway"
    """The cluster has published no gateway address, so nobody could call a replica there."""
    TAINTED = "Tainted"
    """The cluster has a taint that the deployment does not tolerate."""
    NO_POOLS = "NoPools"
    """The cluster publishes no pool."""
    NO_DEVICE = "NoDevice"
    """No pool has a device that satisfies a request."""
    TOO_FEW_DEVICES = "TooFewDevices"
    """The devices match and no node carries as many as one pod needs."""
    NOTHING_CLAIMED = "NothingClaimed"
    """The engine's requests match devices that are only matched and never claimed."""
    GANG_TOO_LARGE = "GangTooLarge"
    """The engine needs more nodes than any one pool could ever have."""
    FULL = "Full"
    """The devices match and the room is taken."""
    FITS = "Fits"
    """One more replica fits."""


FOREIGN: Final = (Code.WRONG_LABELS, Code.NOT_STAGED)
"""Verdicts of clusters that neither deployment nor cache choose."""
GANG_STACK: Final = "Standard"
"""The serving stack whose gangs, LeaderWorkerSets, we write."""

_REFUSALS: Final = 10_000
_RANK: Final = {code: rank for rank, code in enumerate(Code)}
"""The later in the precedence, the nearer the cluster came."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cluster's answer. ``short`` is by how much it missed, in the unit of its message."""

    cluster: str
    code: Code
    message: str = ""
    remedy: str = ""
    engine: str = ""
    pool: str = ""
    short: int = 0

    def __str__(self) -> str:
        return f"{self.cluster} {self.code}{f' ({self.message})' if self.message else ''}"


def closed(cluster: Cluster, request: PlacementRequest) -> Verdict | None:
    """Why the cluster is no candidate for a new replica whatever its pools; None for a candidate."""

    def verdict(code: Code, message: str = "", remedy: str = "") -> Verdict:
        return Verdict(cluster=cluster.name, code=code, message=message, remedy=remedy)

    wrong = request.selector and lacking(cluster.labels, request.selector)
    if wrong:
        return verdict(
            Code.WRONG_LABELS, f"lacks {', '.join(wrong)}", "label the cluster, or change the cluster selector"
        )
    unstaged = request.staged and lacking(cluster.labels, request.staged)
    if unstaged:
        message = f"ModelCache {request.cache or 'of the deployment'} is not staged on {cluster.name}: lacks {', '.join(unstaged)}"
        return verdict(Code.NOT_STAGED, message, "label the cluster, or change the clusterSelector of the ModelCache")
    if request.needs_cache_storage and not cluster.cache_storage:
        return verdict(Code.NO_CACHE_STORAGE, "has no storage class for caches", "set its cache.storageClassName")
    if cluster.stack != GANG_STACK and request.gang:
        message = f"stack {cluster.stack} does not run gangs as {GANG_STACK} does"
        return verdict(Code.WRONG_STACK, message, f"use a cluster with stack {GANG_STACK}")
    if cluster.deleting:
        return verdict(Code.DELETING, "is being deleted")
    if not cluster.ready:
        reason = cluster.not_ready_reason
        return verdict(Code.NOT_READY, reason, "see the conditions of the InferenceCluster")
    if not cluster.gateway:
        return verdict(Code.NO_GATEWAY, "no gateway address yet", "see the gateway of its ServingStack")
    taints = untolerated(cluster.taints, request.tolerations)
    if taints:
        drained = all(taint.key == DRAIN for taint in taints)
        remedy = "undrain the cluster, or tolerate the taint" if drained else "tolerate the taint, or remove it"
        return verdict(Code.TAINTED, ", ".join(map(str, taints)), remedy)
    return None


Refusals: TypeAlias = dict[Hashable, tuple[Sequence[Option], Verdict]]
"""What was said already about pools that are too full, for one kind of request."""


def judge(
    cluster: Cluster,
    request: PlacementRequest,
    matcher: Matcher,
    ledger: Ledger,
    options: Sequence[Sequence[Option]],
    refusals: Refusals,
) -> Verdict:
    """What one more replica would meet on a candidate cluster."""
    if not cluster.pools:
        return Verdict(
            cluster=cluster.name,
            code=Code.NO_POOLS,
            message="publishes no pool",
            remedy="see the conditions of the InferenceCluster",
        )
    if fit(options, ledger) is not None:
        return Verdict(cluster=cluster.name, code=Code.FITS)
    misses = [
        _device_miss(cluster, engine, matcher)
        for engine, found in zip(request.engines, options, strict=True)
        if not found
    ]
    if misses:
        return min(misses, key=lambda miss: (_RANK[miss.code], -miss.short, miss.engine))
    return _capacity_miss(cluster, request.engines, ledger, options, refusals)


def _device_miss(cluster: Cluster, engine: Engine, matcher: Matcher) -> Verdict:
    """No pool's devices satisfy the engine: the pool that came nearest."""
    best: tuple[tuple[int, int, str], Verdict] | None = None
    for pool in cluster.pools:
        failing = [member for member in engine.members if matcher.matching(member, pool.devices) is None]
        if not failing:
            verdict = Verdict(
                cluster=cluster.name,
                code=Code.NOTHING_CLAIMED,
                message=f"engine {engine.name}: no member claims a device in pool {pool.name}",
                remedy="ask for a device with claim DRA",
                engine=engine.name,
                pool=pool.name,
            )
            rank = (-4, 0, pool.name)
        else:
            miss = min((explain_miss(member.requests, pool.devices) for member in failing), key=lambda m: m.rank)
            counted = miss.rank > 1
            verdict = Verdict(
                cluster=cluster.name,
                code=Code.TOO_FEW_DEVICES if counted else Code.NO_DEVICE,
                message=f"pool {pool.name}: {miss.text}",
                remedy="lower the request's count" if counted else "change the request's selectors",
                engine=engine.name,
                pool=pool.name,
                short=miss.short,
            )
            rank = (-miss.rank, miss.short, pool.name)
        if best is None or rank < best[0]:
            best = (rank, verdict)
    assert best is not None
    return best[1]


def _capacity_miss(
    cluster: Cluster,
    engines: Sequence[Engine],
    ledger: Ledger,
    options: Sequence[Sequence[Option]],
    refusals: Refusals,
) -> Verdict:
    """Every engine has pools and they have no room: the first engine that fits none of its own, else all together."""
    for engine, found in zip(engines, options, strict=True):
        if len(engines) == 1 or fit([found], ledger) is None:
            return _refused(cluster, engine, found, ledger, refusals)
    pods = sum(max(option.pods for option in found) for found in options)
    return Verdict(
        cluster=cluster.name,
        code=Code.FULL,
        message=f"its {len(engines)} engines fit one by one and not together: they need {pods} pods with devices",
        remedy="add nodes to a pool that matches",
        short=1,
    )


def _refused(cluster: Cluster, engine: Engine, found: Sequence[Option], ledger: Ledger, refusals: Refusals) -> Verdict:
    """`_full`, made once for clusters that are alike: with whole nodes, counts say everything."""
    counts: list[object] = [id(found)]
    wanted = {option.pool for option in found}
    for pool in cluster.pools:
        if pool.name in wanted:
            left, capacity = ledger.pools[pool.name], pool.capacity
            if left.buckets is not None or capacity.observed:
                return _full(cluster, engine, found, ledger)
            counts += (left.nodes, left.grow, capacity.nodes, capacity.grow)
    key = tuple(counts)
    kept = refusals.get(key)
    if kept is None:
        if len(refusals) >= _REFUSALS:
            refusals.clear()
        # The options stay beside their verdict: as long as they are there nothing else has their identity.
        kept = refusals[key] = found, _full(cluster, engine, found, ledger)
    known = kept[1]
    return Verdict(
        cluster=cluster.name,
        code=known.code,
        message=known.message,
        remedy=known.remedy,
        engine=known.engine,
        pool=known.pool,
        short=known.short,
    )


def _full(cluster: Cluster, engine: Engine, found: Sequence[Option], ledger: Ledger) -> Verdict:
    pools = {pool.name: pool for pool in cluster.pools}
    ranked = []
    for option in found:
        pool = pools[option.pool]
        left, capacity = ledger.pools[option.pool], pool.capacity
        never, largest = _at_most(capacity.nodes, capacity.grow, capacity.observed, pool.whole_node, option.needs)
        short = option.pods - left.how_many(option.needs) + left.overdrawn
        ranked.append(((never, max(1, short), option.pool), option, pool, largest))
    (never, short, _), option, pool, largest = min(ranked, key=lambda entry: entry[0])
    if never:
        biggest = max(entry[3] for entry in ranked)
        name = "pod" if pool.capacity.observed else "node"
        wanted = f"{option.pods} {_plural(name, option.pods)}"
        return Verdict(
            cluster=cluster.name,
            code=Code.GANG_TOO_LARGE,
            message=f"engine {engine.name} needs {wanted} in one pool, the largest has {biggest}",
            remedy=f"add room for {short} {_plural(name, short)} to pool {pool.name}, or use a smaller gang",
            engine=engine.name,
            pool=pool.name,
            short=short,
        )
    message, remedy = _shortfall(engine, option, pool, ledger.pools[pool.name], short)
    return Verdict(
        cluster=cluster.name,
        code=Code.FULL,
        message=message,
        remedy=remedy,
        engine=engine.name,
        pool=pool.name,
        short=short,
    )


@lru_cache(maxsize=8_192)
def _at_most(nodes: int, grow: int, observed: bool, whole: Claims, needs: tuple[Need, ...]) -> tuple[bool, int]:
    """Whether these pods are too many for a pool with nothing on its nodes, and how many it would take. Pools of a fleet are alike,
    and each refusal asks."""
    buckets = ((whole, max(0, nodes)),) if observed else None
    empty = PoolLedger.of(PoolCapacity(max(0, nodes), max(0, grow), buckets, whole))
    return not empty.fits(needs), empty.how_many(needs)


def _shortfall(engine: Engine, option: Option, pool: Pool, ledger: PoolLedger, short: int) -> tuple[str, str]:
    needs = option.needs
    # The first that finds no room beside those before it; where each does, they only do not fit together.
    claims = next(
        (
            need.claims
            for at, need in enumerate(needs, 1)
            if ledger.how_many(needs[:at]) < sum(n.pods for n in needs[:at])
        ),
        needs[0].claims,
    )
    grows = ledger.growth(claims)
    growth = f"could grow by {grows}" if grows else "cannot grow"
    if not pool.capacity.observed:
        free = ledger.free(claims)
        message = (
            f"engine {engine.name} needs {option.pods} {_plural('node', option.pods)} of pool {pool.name}, "
            f"{free} of {pool.capacity.nodes} free, {growth}"
        )
        return message, f"free or add {short} {_plural('node', short)} in pool {pool.name}"
    have = ledger.most_free(claims)
    wanted = ", ".join(f"{count} x {name}" for name, count in claims)
    best = ", ".join(f"{have.get(name, 0)}" for name, _ in claims)
    like = sum(need.pods for need in needs if need.claims == claims)
    pods = f"{option.pods} {_plural('pod', option.pods)}"
    those = f"{pods} with {wanted} each" if like == option.pods else f"{pods}, {like} of them with {wanted},"
    fits = f"{ledger.free(claims)} fit" if like == option.pods else f"{ledger.free(claims)} such fit"
    message = f"engine {engine.name} needs {those} in pool {pool.name}, {fits}, best node has {best} free, {growth}"
    return message, f"free {wanted} on a node of pool {pool.name}, or add a node"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def by_nearness(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The cluster that came nearest first: by code, by how much it missed, by name."""
    return sorted(verdicts, key=lambda verdict: (-_RANK[verdict.code], verdict.short, verdict.cluster))


# --- the digest ----------------------------------------------------------------------------------------------------


def digest(head: str, verdicts: Sequence[Verdict], notes: Sequence[str] = ()) -> str:
    """The head, then every verdict in order of cluster; where that is too long, counts per code and the nearest misses."""
    refusals = [verdict for verdict in verdicts if verdict.code is not Code.FITS]
    full = head + (f": {'; '.join(map(str, refusals))}" if refusals else "")
    if not _too_long(full + "."):
        return _with_notes(full, notes)
    counts = Counter(verdict.code for verdict in refusals)
    counted = ", ".join(f"{counts[code]} {code}" for code in Code if counts[code])
    text = f"{head}: {counted}"
    nearest = [str(verdict) for verdict in by_nearness(refusals)]
    shown = 0
    # All of them are too long, or they would have been told in order of cluster.
    while not _too_long(f"{text}; nearest: {'; '.join(nearest[: shown + 1])}."):
        shown += 1
    if shown:
        text = f"{text}; nearest: {'; '.join(nearest[:shown])}"
    return _with_notes(text, notes)


def notice(head: str, verdicts: Sequence[Verdict], notes: Sequence[str] = (), *, more: str) -> tuple[str, str]:
    """What an event says, and the code of the nearest miss, whose change is news: counts per code, that miss, what helps it, and
    where to read ``more``. Where no cluster refused the code is empty, and the notes say what is the matter; under 1 KiB."""
    nearest = by_nearness(verdict for verdict in verdicts if verdict.code is not Code.FITS)
    if not nearest:
        return digest(head, (), notes), ""
    first = nearest[0]
    counts = Counter(verdict.code for verdict in nearest)
    counted = ", ".join(f"{counts[code]} {code}" for code in Code if counts[code])
    text = f"{head}: {counted}; nearest {first}: {first.remedy}"
    room = LONGEST - len(more.encode()) - 4
    if len(text.encode()) > room:
        text = text.encode()[: room - 4].decode(errors="ignore").rstrip() + " ..."
    return f"{text}. {more}", str(first.code)


def _too_long(text: str) -> bool:
    return len(text.encode()) > LONGEST


def _with_notes(text: str, notes: Sequence[str]) -> str:
    for note in notes:
        if _too_long(f"{text}; {note}."):
            break
        text = f"{text}; {note}"
    return f"{text}."
