"""One frozen picture of the fleet: clusters with their pools, and every replica that is placed or assumed to be.

The planner reads this and nothing else. `Fleet.build` makes it from typed API objects; a test or a rehearsal makes it directly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from modelplane.api.meta import Key
from modelplane.plan.capacity import Claims, Ledger, Need, PoolCapacity, claims_of
from modelplane.plan.devices import DRA, Device
from modelplane.plan.taints import Taint


class Pool(msgspec.Struct, frozen=True):
    """Nodes of one kind. The order of a cluster's pools is its owner's preference."""

    name: str
    capacity: PoolCapacity
    devices: tuple[Device, ...] = ()

    @property
    def whole_node(self) -> Claims:
        """The claimable devices of an empty node."""
        amounts: dict[str, int] = {}
        for device in self.devices:
            if device.signature.claim == DRA:
                amounts[device.signature.group] = amounts.get(device.signature.group, 0) + max(0, device.count)
        return claims_of(amounts)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """An InferenceCluster as placement sees it."""

    name: str
    labels: Mapping[str, str] = {}
    pools: tuple[Pool, ...] = ()
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    not_ready_reason: str = ""
    gateway: str = ""
    cache_storage: bool = True
    deleting: bool = False
    stack: str = "Standard"
    """The serving stack."""
    declared_pools: frozenset[str] = frozenset()
    """Pools of the spec, published or not: a pool that is only not published now is not lost."""

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)


Shape: TypeAlias = tuple[tuple[str, tuple[Device, ...]], ...]
"""A cluster's pools by name with their devices: many clusters have the same."""


class ReplicaMember(msgspec.Struct, frozen=True, gc=False):
    """A member as it was stamped: ``claims`` are the devices of one pod, empty when it claims nothing."""

    role: str
    pool: str
    pods: int
    claims: Claims = ()


class ReplicaEngine(msgspec.Struct, frozen=True, gc=False):
    name: str
    copies: int
    members: tuple[ReplicaMember, ...]


class Replica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A replica that exists, or that a plan has placed and the cache does not show yet (``assumed``)."""

    key: Key
    deployment: str
    cluster: str
    index: int
    engines: tuple[ReplicaEngine, ...]
    owner: str = ""
    """UID of the deployment, where it is known."""
    ready: bool = False
    ready_since: str = ""
    constraints: str = ""
    """Digest of the deployment's constraints by which it was placed; empty when unknown."""
    code: str = ""
    message: str = ""
    """The verdict that placed it."""
    deleting: bool = False
    assumed: bool = False
    growing: tuple[ReplicaEngine, ...] = ()
    """The size and pools that it was just given and does not show yet."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What it takes, at the size that it was stamped with or was just given."""
        return _needs(self.growing or self.engines)

    @property
    def stamped_needs(self) -> tuple[Need, ...]:
        """What it takes at the size that it shows."""
        return _needs(self.engines)


def _needs(engines: Sequence[ReplicaEngine]) -> tuple[Need, ...]:
    return tuple(
        Need(member.pool, member.pods * engine.copies, member.claims)
        for engine in engines
        for member in engine.members
        if member.claims
    )


class Fleet(msgspec.Struct, frozen=True, eq=False):
    """Clusters by name and replicas by key. Build it once and plan many deployments on it; `Picture` keeps one up to date."""

    clusters: Mapping[str, Cluster]
    by_key: Mapping[Key, Replica]
    by_cluster: Mapping[str, Mapping[Key, Replica]]
    by_deployment: Mapping[Key, Mapping[Key, Replica]]
    """By the key of the deployment that the replica's label and namespace name."""
    memo: Memo
    """What was worked out about this fleet and still holds."""

    @classmethod
    def of(cls, clusters: Iterable[Cluster], replicas: Iterable[Replica] = ()) -> Fleet:
        """A snapshot; where a key occurs twice, what exists wins over what is assumed."""
        picture = Picture()
        for cluster in clusters:
            picture.put(cluster)
        for replica in replicas:
            (picture.promise if replica.assumed else picture.show)(replica)
        return picture.fleet

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All of them in order of key."""
        return tuple(self.by_key[key] for key in sorted(self.by_key))

    def assuming(self, replicas: Iterable[Replica]) -> Fleet:
        """The same fleet with reservations beside what exists."""
        return Fleet.of(self.clusters.values(), (*self.by_key.values(), *replicas))

    def of_deployment(self, key: Key) -> list[Replica]:
        """The replicas that name the deployment, in order of key."""
        found = self.by_deployment.get(key, {})
        return [found[one] for one in sorted(found)]

    def on(self, cluster: str) -> Sequence[Replica]:
        """Replicas on a cluster, in order of key."""
        found = self.by_cluster.get(cluster, {})
        return [found[key] for key in sorted(found)]

    def ledger(self, cluster: str, without: frozenset[Key] = frozenset()) -> Ledger:
        """The cluster's capacity less the replicas that it does not account for yet; ``without`` are not charged. Yours."""
        if any(key in without for key in self.by_cluster.get(cluster, ())):
            return self._charged(cluster, without)
        return self.room(cluster).copy()

    def room(self, cluster: str) -> Ledger:
        """The same, shared: to be looked at and not charged."""
        known = self.memo.ledgers.get(cluster)
        if known is None:
            known = self.memo.ledgers[cluster] = self._charged(cluster, frozenset())
        return known

    def vacated(self, cluster: str, without: frozenset[Key], leaving: frozenset[Key]) -> Ledger:
        """The capacity less what stays there, once the ``leaving`` ones have given back what an observation counts as theirs.
        Those ``without`` are not charged either. Yours."""
        return self._charged(cluster, without | leaving, leaving)

    def _charged(self, cluster: str, without: frozenset[Key], leaving: frozenset[Key] = frozenset()) -> Ledger:
        pools = {pool.name: pool.capacity for pool in self.clusters[cluster].pools}
        ledger = Ledger.of(pools)
        there = self.on(cluster)
        for replica in there:
            if replica.growing or replica.key in leaving:
                for need in replica.stamped_needs:
                    if accounted(replica, pools.get(need.pool)):
                        ledger.pools[need.pool].give_back(need)
        ledger.charge(
            need
            for replica in there
            if replica.key not in without
            for need in replica.needs
            if replica.growing or not accounted(replica, pools.get(need.pool))
        )
        return ledger


LOG: Final = 1_000
"""Changes of clusters that are remembered at least."""


class Memo:
    """What was worked out about clusters. Nothing in here is told of changes: it carries the revision that it holds for.

    ``room`` of a cluster moves on when there may be more room than before, and ``rooms`` with it; ``state`` on any change; ``log``
    names the clusters that were put or dropped, so that a reader can catch up.
    """

    __slots__ = ("dropped", "facts", "ledgers", "log", "room", "rooms", "shapes", "state")

    def __init__(self) -> None:
        self.ledgers: dict[str, Ledger] = {}
        self.shapes: dict[str, Shape] = {}
        self.room: dict[str, int] = {}
        self.rooms = 0
        self.state: dict[str, int] = {}
        self.log: list[str] = []
        self.dropped = 0
        """Entries that the log has lost at its beginning: it does not grow for ever."""
        self.facts: dict[Hashable, object] = {}
        """By request; see `plan.facts`."""

    def changed(self, name: str, *, roomier: bool) -> None:
        """Something about a cluster is not what it was; ``roomier`` when it may have more room."""
        self.state[name] = self.state.get(name, 0) + 1
        if roomier:
            self.room[name] = self.room.get(name, 0) + 1
            self.rooms += 1

    def logged(self, name: str) -> None:
        """A cluster was put or dropped."""
        self.changed(name, roomier=True)
        self.log.append(name)
        if len(self.log) > LOG + 2 * len(self.shapes):
            lost = len(self.log) // 2
            del self.log[:lost]
            self.dropped += lost


class Picture:
    """A fleet that changes: every change costs what it touches. ``fleet`` is a view of this moment, good until the next change, so
    a plan is made and counted before anything else happens."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._by_key: dict[Key, Replica] = {}
        self._by_cluster: dict[str, dict[Key, Replica]] = {}
        self._by_deployment: dict[Key, dict[Key, Replica]] = {}
        self._memo = Memo()
        self._shapes: dict[Shape, Shape] = {}
        self.fleet = Fleet(self._clusters, self._by_key, self._by_cluster, self._by_deployment, self._memo)

    def put(self, cluster: Cluster) -> None:
        """A cluster is there, or is another than it was."""
        name = cluster.name
        shape = tuple((pool.name, pool.devices) for pool in cluster.pools)
        self._memo.shapes[name] = self._shapes.setdefault(shape, shape)
        self._clusters[name] = cluster
        self._memo.ledgers.pop(name, None)
        self._memo.logged(name)

    def drop(self, name: str) -> None:
        """A cluster is gone; what is on it stays until it is hidden."""
        if self._clusters.pop(name, None) is not None:
            self._memo.shapes.pop(name)
            self._memo.ledgers.pop(name, None)
            self._memo.logged(name)

    def show(self, replica: Replica) -> None:
        """A replica exists, whatever was assumed under its key."""
        key, cluster = replica.key, replica.cluster
        if key in self._by_key:
            self.hide(key)
        self._by_key[key] = replica
        _add(self._by_cluster, cluster, key, replica)
        _add(self._by_deployment, Key(key.namespace, replica.deployment), key, replica)
        self._charge(replica, 1)

    def promise(self, replica: Replica) -> None:
        """A replica is placed and not seen yet. What exists under its key wins, and is counted at the promised size and place."""
        known = self._by_key.get(replica.key)
        if known is None or known.assumed:
            self.show(replica)
        elif known.engines != replica.engines:
            self.show(msgspec.structs.replace(known, growing=replica.engines))

    def withdraw(self, key: Key) -> None:
        """A promise is off: what is only promised goes, what exists is counted as it shows itself."""
        known = self._by_key.get(key)
        if known is not None and known.assumed:
            self.hide(key)
        elif known is not None and known.growing:
            self.show(msgspec.structs.replace(known, growing=()))

    def hide(self, key: Key) -> None:
        """A replica is gone, and its room free."""
        known = self._by_key.pop(key, None)
        if known is None:
            return
        _discard(self._by_cluster, known.cluster, key)
        _discard(self._by_deployment, Key(key.namespace, known.deployment), key)
        self._charge(known, -1)

    def build(self) -> Fleet:
        """The fleet with the room of every cluster counted, which else happens when it is first asked for."""
        for name in self._clusters:
            self.fleet.room(name)
        return self.fleet

    def _charge(self, replica: Replica, sign: int) -> None:
        """Keep the cluster's room right. Whole nodes are counted up and down. Which devices a pod takes depends on the others, so
        those are counted anew when they are next asked for, but for one more pod beside others like it."""
        ledger = self._memo.ledgers.get(replica.cluster)
        counted = ledger is not None
        if ledger is not None:
            fresh = not replica.ready and not replica.growing
            for engine in replica.growing or replica.engines:
                for member in engine.members:
                    pool = ledger.pools.get(member.pool) if member.claims else None
                    if pool is None:
                        continue
                    pods = member.pods * engine.copies
                    if pool.buckets is None:
                        pool.nodes -= sign * pods
                    elif counted and fresh and sign > 0 and pool.alike(member.claims):
                        pool.charge(Need(member.pool, pods, member.claims))
                    else:
                        counted = False
            if not counted:
                del self._memo.ledgers[replica.cluster]
        self._memo.changed(replica.cluster, roomier=sign < 0 or not counted)


K = TypeVar("K")


def _add(index: dict[K, dict[Key, Replica]], home: K, key: Key, replica: Replica) -> None:
    members = index.get(home)
    if members is None:
        index[home] = {key: replica}
    else:
        members[key] = replica


def _discard(index: dict[K, dict[Key, Replica]], home: K, key: Key) -> None:
    members = index[home]
    del members[key]
    if not members:
        del index[home]


def accounted(replica: Replica, capacity: PoolCapacity | None) -> bool:
    """Whether the observation of a pool already shows the replica's devices as taken.

    It does when the replica was ready before the pool was observed. Until then it is charged, so no slot is given twice; within one
    second, which is what times of objects tell, either may have been first.
    """
    if capacity is None or not capacity.observed:
        return False
    return replica.ready and bool(replica.ready_since) and replica.ready_since < capacity.observed_time
