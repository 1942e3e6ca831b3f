"""One frozen picture of the fleet: clusters with their pools, and every replica that is placed or assumed to be.

The planner reads this and nothing else. `Fleet.build` makes it from typed API objects; a test or a rehearsal makes it directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

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
    declared_pools: frozenset[str] = frozenset()
    """Pools of the spec, published or not: a pool that is only not published now is not lost."""

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)


class ReplicaMember(msgspec.Struct, frozen=True):
    """A member as it was stamped: ``claims`` are the devices of one pod, empty when it claims nothing."""

    role: str
    pool: str
    pods: int
    claims: Claims = ()


class ReplicaEngine(msgspec.Struct, frozen=True):
    name: str
    copies: int
    members: tuple[ReplicaMember, ...]


class Replica(msgspec.Struct, frozen=True, kw_only=True):
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

    @property
    def needs(self) -> tuple[Need, ...]:
        """What it takes, at the size that it was stamped with."""
        return tuple(
            Need(member.pool, member.pods * engine.copies, member.claims)
            for engine in self.engines
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
        """The cluster's capacity less the replicas that it does not account for yet; ``without`` are not charged."""
        pools = {pool.name: pool.capacity for pool in self.clusters[cluster].pools}
        ledger = Ledger.of(pools)
        for replica in self.on(cluster):
            if replica.key not in without:
                ledger.charge(need for need in replica.needs if not accounted(replica, pools.get(need.pool)))
        return ledger


class Picture:
    """A fleet that changes: every change costs what it touches. ``fleet`` is a view of this moment, good until the next change, so
    a plan is made and counted before anything else happens."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._by_key: dict[Key, Replica] = {}
        self._by_cluster: dict[str, dict[Key, Replica]] = {}
        self._by_deployment: dict[Key, dict[Key, Replica]] = {}
        self.fleet = Fleet(self._clusters, self._by_key, self._by_cluster, self._by_deployment)

    def put(self, cluster: Cluster) -> None:
        """A cluster is there, or is another than it was."""
        self._clusters[cluster.name] = cluster

    def drop(self, name: str) -> None:
        """A cluster is gone; what is on it stays until it is hidden."""
        self._clusters.pop(name, None)

    def show(self, replica: Replica) -> None:
        """A replica exists, whatever was assumed under its key."""
        self.hide(replica.key)
        self._by_key[replica.key] = replica
        self._by_cluster.setdefault(replica.cluster, {})[replica.key] = replica
        home = Key(replica.key.namespace, replica.deployment)
        self._by_deployment.setdefault(home, {})[replica.key] = replica

    def promise(self, replica: Replica) -> None:
        """A replica is placed and not seen yet; what exists under its key wins."""
        known = self._by_key.get(replica.key)
        if known is None or known.assumed:
            self.show(replica)

    def hide(self, key: Key) -> None:
        """A replica is gone, and its room free."""
        known = self._by_key.pop(key, None)
        if known is None:
            return
        _discard(self._by_cluster, known.cluster, key)
        _discard(self._by_deployment, Key(key.namespace, known.deployment), key)


K = TypeVar("K")


def _discard(index: dict[K, dict[Key, Replica]], home: K, key: Key) -> None:
    members = index[home]
    del members[key]
    if not members:
        del index[home]


def accounted(replica: Replica, capacity: PoolCapacity | None) -> bool:
    """Whether the observation of a pool already shows the replica's devices as taken.

    It does when the replica was ready before the pool was observed. Until then it is charged, so no slot is given twice.
    """
    if capacity is None or not capacity.observed:
        return False
    return replica.ready and bool(replica.ready_since) and replica.ready_since <= capacity.observed_time
