"""Which replicas of a deployment stay, which go at once, and which leave once they are replaced.

The world may change under a replica (labels, classes, selectors of a cache): it stays. A NoExecute taint, a lost cluster or
a lost pool takes it away. A change of the deployment's own constraints makes it leave where it no longer satisfies them;
whether they changed is told by the digest under which it was placed. A size (copies, nodes) is no constraint: see `outgrown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from modelplane.plan.capacity import Need, within
from modelplane.plan.devices import Matching, claims_by_class, flows
from modelplane.plan.fitting import Matcher
from modelplane.plan.fleet import Cluster, Fleet, Replica
from modelplane.plan.outcome import Departure, PlacedEngine, PlacedMember
from modelplane.plan.request import Engine, Member, PlacementRequest, lacking
from modelplane.plan.taints import evicting


class Kept(msgspec.Struct, frozen=True):
    """It stays. ``note`` says what a person should know about that."""

    replica: Replica
    engines: tuple[PlacedEngine, ...]
    note: str = ""


class Leaving(msgspec.Struct, frozen=True):
    """It no longer satisfies the deployment and may serve until its replacement does."""

    replica: Replica
    reason: Departure
    message: str


class Lost(msgspec.Struct, frozen=True):
    """It goes at once."""

    replica: Replica
    reason: Departure
    message: str


Judged: TypeAlias = Kept | Leaving | Lost


def owns(request: PlacementRequest, replica: Replica) -> bool:
    """Whether the replica belongs to the deployment: name and namespace, and the owner where both are known."""
    if replica.deployment != request.key.name or replica.key.namespace != request.key.namespace:
        return False
    return not (replica.owner and request.uid) or replica.owner == request.uid


def judge_replicas(fleet: Fleet, request: PlacementRequest, matcher: Matcher, digest: str) -> list[Judged]:
    """Every replica of the deployment with its judgement, in order of name."""
    judged: list[Judged] = []
    identities: set[tuple[str, int]] = set()
    for replica in fleet.of_deployment(request.key):
        if not owns(request, replica):
            continue
        identity = (replica.cluster, replica.index)
        if identity in identities:
            message = f"another replica has index {replica.index} on {replica.cluster}"
            judged.append(Lost(replica, Departure.DUPLICATE, message))
            continue
        one = _judge(fleet.clusters.get(replica.cluster), request, replica, matcher, digest)
        if not isinstance(one, Lost):
            identities.add(identity)
        judged.append(one)
    return judged


def as_stamped(replica: Replica) -> tuple[PlacedEngine, ...]:
    """The engines as the replica has them, its requests left alone."""
    return tuple(
        PlacedEngine(
            engine.name,
            engine.copies,
            tuple(PlacedMember(member.role, member.pool, member.pods, None) for member in engine.members),
        )
        for engine in replica.engines
    )


def _judge(
    cluster: Cluster | None, request: PlacementRequest, replica: Replica, matcher: Matcher, digest: str
) -> Judged:
    if cluster is None:
        return Lost(replica, Departure.CLUSTER_GONE, f"cluster {replica.cluster} does not exist")
    taints = evicting(cluster.taints, request.tolerations)
    if taints:
        return Lost(replica, Departure.EVICTED, f"cluster {cluster.name} has taint {', '.join(map(str, taints))}")
    engines = {engine.name: engine for engine in request.engines}
    if not _same_shape(engines, replica):
        return Leaving(replica, Departure.SHAPE_CHANGED, "the deployment's engines or members changed")
    for pool in sorted({member.pool for engine in replica.engines for member in engine.members}):
        if cluster.pool(pool) is None and pool not in cluster.declared_pools:
            return Lost(replica, Departure.POOL_GONE, f"cluster {cluster.name} has no pool {pool}")
    changed = replica.constraints != digest
    if changed and not request.selects(cluster.labels):
        whose = (
            "deployment's cluster selector" if lacking(cluster.labels, request.selector) else "ModelCache's selector"
        )
        message = f"the {whose} no longer matches cluster {cluster.name}"
        return Leaving(replica, Departure.NO_LONGER_MATCHES, message)
    placed, complaint = _resolve(cluster, engines, replica, matcher)
    if complaint and changed:
        return Leaving(replica, Departure.NO_LONGER_MATCHES, complaint)
    note = ""
    if complaint:
        note = f"replica {replica.key.name} stays on {cluster.name}, though {complaint}"
    elif not request.selects(cluster.labels):
        whose = "cluster selector" if lacking(cluster.labels, request.selector) else "ModelCache's selector"
        note = f"replica {replica.key.name} stays on {cluster.name}, which the {whose} no longer matches"
    return Kept(replica, placed, note)


def _same_shape(engines: Mapping[str, Engine], replica: Replica) -> bool:
    if {engine.name for engine in replica.engines} != set(engines) or len(replica.engines) != len(engines):
        return False
    return all(
        [member.role for member in stamped.members] == [member.role for member in engines[stamped.name].members]
        for stamped in replica.engines
    )


def _resolve(
    cluster: Cluster, engines: Mapping[str, Engine], replica: Replica, matcher: Matcher
) -> tuple[tuple[PlacedEngine, ...], str]:
    """The replica's engines on their pools with requests resolved anew, and the first complaint."""
    complaint = ""
    placed = []
    for stamped in replica.engines:
        engine = engines[stamped.name]
        members = []
        claims = False
        for pinned, member in zip(stamped.members, engine.members, strict=True):
            matching = _matching(cluster, pinned.pool, member, matcher)
            if isinstance(matching, str):
                complaint = complaint or (f"engine {engine.name}: {matching}" if matching else "")
                members.append(PlacedMember(member.role, pinned.pool, member.pods, None))
                claims = claims or bool(pinned.claims)
            else:
                members.append(PlacedMember(member.role, pinned.pool, member.pods, matching.resolved))
                claims = claims or matching.claims_any
        if not claims:
            complaint = complaint or f"engine {engine.name} claims no device in its pool"
        placed.append(PlacedEngine(engine.name, engine.copies, tuple(members)))
    return tuple(placed), complaint


def _matching(cluster: Cluster, name: str, member: Member, matcher: Matcher) -> Matching | str:
    """How the pool meets the member, a complaint, or the empty text where the pool is not published now and cannot be judged."""
    pool = cluster.pool(name)
    if pool is None:
        return ""
    matching = matcher.matching(member, pool.devices)
    return matching if matching is not None else f"its requests no longer match pool {name}"


def demand(kept: Kept) -> list[tuple[str, Need]]:
    """What the replica takes at the deployment's size, engine by engine; requests that cannot be resolved now stay as stamped."""
    stamped = {engine.name: engine.members for engine in kept.replica.engines}
    found = []
    for engine in kept.engines:
        for member, pinned in zip(engine.members, stamped[engine.name], strict=True):
            claims = pinned.claims if member.requests is None else claims_by_class(member.requests)
            if claims:
                found.append((engine.name, Need(member.pool, member.pods * engine.copies, claims)))
    return found


def outgrown(kept: Kept, cluster: Cluster) -> bool:
    """Whether the deployment now asks for more than the replica has: more nodes where nodes are counted, and where devices are, a
    pod that no pod of today leaves as much room for."""
    held, wanted = kept.replica.stamped_needs, [need for _, need in demand(kept)]
    if sorted(held) == sorted(wanted):
        return False
    for name in {need.pool for need in wanted}:
        before, after = ([need for need in needs if need.pool == name] for needs in (held, wanted))
        pool = cluster.pool(name)
        if pool is not None and not pool.capacity.observed:
            if sum(need.pods for need in after) > sum(need.pods for need in before):
                return True
        elif not flows(
            [(need.pods, [at for at, one in enumerate(before) if within(need.claims, one.claims)]) for need in after],
            [one.pods for one in before],
        ):
            return True
    return False
