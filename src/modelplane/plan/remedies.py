"""The smallest change after which one more replica would fit a cluster; each is tried out on the planner's own functions.

Smaller is, in this order: fewer steps; then the kinds of steps in the order of `Step`; then fewer nodes or devices; then the text.
Steps that open a cluster (a taint, labels, a cache, a cluster that is not ready) have no alternative and are all named. Room is
looked for among devices that are taken (to free them), in nodes to come, in what the deployment asks for, and where none of these
is enough alone, in asking for less together with room.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from modelplane.plan.capacity import Claims, Ledger, Need, PoolLedger, pods_per_node
from modelplane.plan.devices import Request
from modelplane.plan.fitting import Matcher, Option, fit
from modelplane.plan.fleet import Cluster, Fleet, Pool, Shape
from modelplane.plan.request import Engine, PlacementRequest, lacking
from modelplane.plan.taints import DRAIN, untolerated
from modelplane.plan.verdicts import GANG_STACK

_TRIES: Final = 300
"""Ways to add nodes to several pools, and ways to ask for less together with room, that are tried before a search gives up."""


class Step(StrEnum):
    """Kinds of change, the smaller first."""

    WAIT = "Wait"
    """The cluster becomes ready, or publishes its gateway or pools, without anybody changing the deployment."""
    UNDRAIN = "Undrain"
    """End the drain of the cluster."""
    TOLERATE = "Tolerate"
    """Add a toleration to the deployment."""
    LABEL = "Label"
    """Label the cluster, or drop the entry from the cluster selector."""
    CREATE_CACHE = "CreateCache"
    """Create the ModelCache that the deployment names; nothing new is placed before."""
    STAGE_CACHE = "StageCache"
    """Give the cluster storage for model caches, or have the ModelCache choose it, so that the cache is staged there."""
    FREE = "Free"
    """Free devices, or whole nodes, that others hold; never those of the deployment's own replicas."""
    ADD_NODES = "AddNodes"
    """Add empty nodes to a pool."""
    LOWER_COUNT = "LowerCount"
    """Ask for fewer devices on one node."""
    DROP_SELECTOR = "DropSelector"
    """Drop one selector of a request."""


_RANK: Final = {step: rank for rank, step in enumerate(Step)}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One step: ``amount`` are nodes or devices, in the unit of the text; ``pool`` and ``engine`` where it concerns one."""

    step: Step
    text: str
    amount: int = 0
    pool: str = ""
    engine: str = ""

    def size(self) -> tuple[int, int, str]:
        return _RANK[self.step], self.amount, self.text


def smallest_change(
    fleet: Fleet, request: PlacementRequest, cluster: Cluster, *, opened: bool = False
) -> tuple[Change, ...]:
    """The steps that let one more replica fit, or nothing where it fits already or no such change is known. ``opened`` leaves out
    what opens the cluster: a replica that is there needs room alone."""
    opening = [] if opened else list(_opening(cluster, request))
    if cluster.deleting or not cluster.pools or (request.gang and cluster.stack != GANG_STACK):
        return ()
    shape, ledger = fleet.memo.shapes[cluster.name], fleet.ledger(cluster.name)
    mine = (one for one in fleet.of_deployment(request.key) if one.cluster == cluster.name)
    own = [need for replica in mine for need in replica.needs]
    options = Matcher(request.engines).options(shape)
    if fit(options, ledger) is not None:
        return tuple(opening)
    found = _room(cluster, options, ledger, own)
    if found is None or len(found) > 1:
        found = _less(shape, request.engines, ledger) or _first(
            itertools.chain([found] if found else [], _less_and_room(cluster, shape, request.engines, ledger, own))
        )
    return (*opening, *found) if found is not None else ()


def _first(found: Iterator[tuple[Change, ...]]) -> tuple[Change, ...] | None:
    """The smallest of them."""
    return min(found, key=lambda steps: (len(steps), [step.size() for step in steps]), default=None)


# --- opening ------------------------------------------------------------------------------------------------------


def _opening(cluster: Cluster, request: PlacementRequest) -> Iterator[Change]:
    lacks = [] if cluster.ready else ["is Ready"]
    lacks += [] if cluster.gateway else ["publishes its gateway's address"]
    if lacks:
        now = "" if cluster.ready else f" (now: {cluster.not_ready_reason or 'not ready'})"
        yield Change(step=Step.WAIT, text=f"wait until cluster {cluster.name} {' and '.join(lacks)}{now}")
    for taint in untolerated(cluster.taints, request.tolerations):
        if taint.key == DRAIN:
            yield Change(step=Step.UNDRAIN, text=f"modelplane undrain {cluster.name}")
        else:
            yield Change(step=Step.TOLERATE, text=f"tolerate {taint}")
    wrong = lacking(cluster.labels, request.selector)
    if wrong:
        text = f"label cluster {cluster.name} {' '.join(wrong)}, or drop that from the cluster selector"
        yield Change(step=Step.LABEL, text=text, amount=len(wrong))
    if not request.fill:
        yield Change(step=Step.CREATE_CACHE, text=f"create the ModelCache {request.key.namespace}/{request.cache}")
    unstaged = [label for label in lacking(cluster.labels, request.staged) if label not in wrong]
    if unstaged:
        text = f"label cluster {cluster.name} {' '.join(unstaged)}, or drop that from the clusterSelector of the ModelCache"
        yield Change(step=Step.STAGE_CACHE, text=text, amount=len(unstaged))
    if (request.needs_cache_storage or not request.fill) and not cluster.cache_storage:
        text = f"give cluster {cluster.name} a storage class for caches, so that the ModelCache is staged there"
        yield Change(step=Step.STAGE_CACHE, text=text)


# --- room ---------------------------------------------------------------------------------------------------------


def _room(
    cluster: Cluster, options: Sequence[Sequence[Option]], ledger: Ledger, own: Sequence[Need]
) -> tuple[Change, ...] | None:
    """The smallest way to room for engines that all have pools; None where one has none, or no way is known."""
    if not all(options):
        return None
    return _first(_freeing(cluster, options, ledger, own)) or _first(_adding(cluster, options, ledger))


def _others(pool: Pool, ledger: PoolLedger, own: Sequence[Need]) -> int:
    """What others hold of a pool, in nodes where those are counted, else in devices: nobody makes room for a replica by taking away
    another of the same deployment."""
    mine = [need for need in own if need.pool == pool.name]
    if ledger.buckets is None:
        return max(0, pool.capacity.nodes - ledger.nodes - sum(need.pods for need in mine))
    whole = sum(count for _, count in pool.whole_node) * max(0, pool.capacity.nodes)
    free = sum(nodes * sum(count for _, count in free) for free, nodes in ledger.buckets.items())
    return max(0, whole - free - sum(need.pods * sum(count for _, count in need.claims) for need in mine))


def _freeing(
    cluster: Cluster, options: Sequence[Sequence[Option]], ledger: Ledger, own: Sequence[Need]
) -> Iterator[tuple[Change, ...]]:
    """Free devices on one pool, as few as let everything fit, of those that others hold."""
    for pool in cluster.pools:
        others = _others(pool, ledger.pools[pool.name], own)
        wanted = sorted(
            {need.claims for found in options for one in found for need in one.needs if one.pool == pool.name}
        )
        if not wanted:
            continue
        for claims in wanted:
            trial = ledger.copy()
            freed = nodes = 0
            # As often as there are pods that could go there, or that are there and too many; each round makes room for one.
            pods = sum(one.pods for found in options for one in found if one.pool == pool.name)
            for _ in range(pods + ledger.pools[pool.name].overdrawn):
                amount = _free_one(trial.pools[pool.name], claims, max(0, pool.capacity.nodes), pool.whole_node)
                if not amount:
                    break
                freed, nodes = freed + amount, nodes + 1
                if freed > others:
                    break
                if fit(options, trial) is not None:
                    yield (_freed(pool.name, claims, freed, nodes, pool.capacity.observed),)
                    break


def _free_one(pool: PoolLedger, claims: Claims, nodes: int, whole: Claims) -> int:
    """Make room for one more pod with these claims: devices that were freed for it, 0 where nothing more can be."""
    if pool.buckets is None:
        if pool.nodes >= nodes:
            return 0
        pool.nodes += 1
        return 1
    best: tuple[int, Claims, Claims] | None = None
    limit = dict(whole)
    for free in sorted(pool.buckets):
        have = dict(free)
        times = pods_per_node(free, claims) + 1
        after = {**have, **{name: max(have.get(name, 0), times * count) for name, count in claims}}
        if all(limit.get(name, 0) >= after[name] for name, _ in claims):
            cost = sum(after.values()) - sum(have.values())
            if best is None or cost < best[0]:
                best = cost, free, tuple(sorted(after.items()))
    if best is None:
        return 0
    cost, before, later = best
    pool.buckets[before] -= 1
    if not pool.buckets[before]:
        del pool.buckets[before]
    pool.buckets[later] = pool.buckets.get(later, 0) + 1
    return cost


def _freed(pool: str, claims: Claims, freed: int, nodes: int, observed: bool) -> Change:
    if not observed:
        text = f"free {nodes} {_plural('node', nodes)} of pool {pool}"
        return Change(step=Step.FREE, text=text, amount=nodes, pool=pool)
    wanted = " and ".join(f"{count} x {name}" for name, count in claims)
    more = f"{nodes} more {_plural('pod', nodes)}"
    text = f"free {freed} {_plural('device', freed)} in pool {pool}, so that {more} can have {wanted} on one node"
    return Change(step=Step.FREE, text=text, amount=freed, pool=pool)


def _adding(cluster: Cluster, options: Sequence[Sequence[Option]], ledger: Ledger) -> Iterator[tuple[Change, ...]]:
    """Add empty nodes, as few as let everything fit; one pool before several."""
    usable = [pool for pool in cluster.pools if any(one.pool == pool.name for found in options for one in found)]
    lacking = {pool.name: ledger.pools[pool.name].overdrawn for pool in usable}
    most = sum(max(one.pods for one in found) for found in options) + sum(lacking.values())
    ways = itertools.islice(_ways(usable, lacking, most), _TRIES)
    for _, alike in itertools.groupby(ways, key=lambda way: (len(way), sum(way.values()))):
        found = [way for way in alike if fit(options, _larger(ledger, usable, way)) is not None]
        if found:
            for way in found:
                yield tuple(_added(name, nodes) for name, nodes in way.items())
            return


def _ways(usable: Sequence[Pool], lacking: Mapping[str, int], most: int) -> Iterator[Mapping[str, int]]:
    """Nodes to add by pool: fewer pools first, then fewer nodes."""
    for pools in range(1, len(usable) + 1):
        for total in range(pools, most + 1):
            for chosen in itertools.combinations([pool.name for pool in usable], pools):
                # Nodes that a pool lacks for what is there make no room yet.
                owed = [lacking[name] for name in chosen]
                for split in _splits(total - sum(owed), pools):
                    yield {name: more + due for name, more, due in zip(chosen, split, owed, strict=True)}


def _larger(ledger: Ledger, pools: Sequence[Pool], way: Mapping[str, int]) -> Ledger:
    """The ledger with empty nodes added."""
    trial = ledger.copy()
    for pool in pools:
        _add(trial.pools[pool.name], way.get(pool.name, 0), pool.whole_node)
    return trial


def _added(pool: str, nodes: int) -> Change:
    text = f"add {nodes} {_plural('node', nodes)} to pool {pool}"
    return Change(step=Step.ADD_NODES, text=text, amount=nodes, pool=pool)


def _add(pool: PoolLedger, nodes: int, whole: Claims) -> None:
    if pool.buckets is None:
        pool.nodes += nodes
    elif nodes:
        pool.buckets[whole] = pool.buckets.get(whole, 0) + nodes


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Ways to write ``total`` as so many numbers of 1 at least."""
    if parts == 1:
        if total > 0:
            yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in _splits(total - first, parts - 1):
            yield (first, *rest)


# --- asking for less ----------------------------------------------------------------------------------------------


def _less(shape: Shape, engines: Sequence[Engine], ledger: Ledger) -> tuple[Change, ...] | None:
    """The smallest way to ask for less that is enough."""
    return _first(
        (change,) for change, asked in _asking_less(engines) if fit(Matcher(asked).options(shape), ledger) is not None
    )


def _less_and_room(
    cluster: Cluster, shape: Shape, engines: Sequence[Engine], ledger: Ledger, own: Sequence[Need]
) -> Iterator[tuple[Change, ...]]:
    """Ways to ask for less that need room besides."""
    asking = ((change, Matcher(asked).options(shape)) for change, asked in _asking_less(engines))
    for change, options in itertools.islice((one for one in asking if all(one[1])), _TRIES):
        room = _room(cluster, options, ledger, own)
        if room is not None:
            yield (change, *room)


def _asking_less(engines: Sequence[Engine]) -> Iterator[tuple[Change, list[Engine]]]:
    """One request of one member asks for fewer devices, or with one selector less."""
    for e, engine in enumerate(engines):
        for m, member in enumerate(engine.members):
            who = f"engine {engine.name}" if len(engine.members) == 1 else f"{member.role} of engine {engine.name}"
            for r, asked in enumerate(member.requests):
                for change, smaller in _smaller(who, engine.name, asked):
                    requests = (*member.requests[:r], smaller, *member.requests[r + 1 :])
                    changed = msgspec.structs.replace(member, requests=requests)
                    members = (*engine.members[:m], changed, *engine.members[m + 1 :])
                    after = list(engines)
                    after[e] = msgspec.structs.replace(engine, members=members)
                    yield change, after


def _smaller(who: str, engine: str, asked: Request) -> Iterator[tuple[Change, Request]]:
    for count in range(asked.count - 1, 0, -1):
        text = f"{who}: lower the count of request {asked.name} from {asked.count} to {count}"
        yield (
            Change(step=Step.LOWER_COUNT, text=text, amount=asked.count - count, engine=engine),
            msgspec.structs.replace(asked, count=count),
        )
    for position, selector in enumerate(asked.selectors):
        text = f"{who}: drop from request {asked.name} the selector {selector.text}"
        rest = (*asked.selectors[:position], *asked.selectors[position + 1 :])
        change = Change(step=Step.DROP_SELECTOR, text=text, engine=engine)
        yield change, msgspec.structs.replace(asked, selectors=rest)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
