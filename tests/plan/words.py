"""Short words for fleets and requests, so that a case fits a line or two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Fleet, PlacementRequest, Plan, Pool, Replica, State
from modelplane.plan.capacity import Claims, PoolCapacity
from modelplane.plan.cel import compile_selector
from modelplane.plan.devices import DRA, Device, Request, signature
from modelplane.plan.fleet import ReplicaEngine, ReplicaMember
from modelplane.plan.names import replica_name
from modelplane.plan.request import Engine, Member
from modelplane.plan.taints import Taint, Toleration

GPU = "gpu.nvidia.com"
NIC = "nic.nvidia.com"
MODEL = Key("ml", "m")


def memory(amount: str, relation: str = ">=") -> str:
    return f'device.capacity["{GPU}"].memory.compareTo(quantity("{amount}")) {relation} 0'


INFINIBAND = f'device.driver == "{NIC}" && device.attributes["{NIC}"].linkType == "infiniband"'


def gpu(amount: str = "141Gi", count: int = 1, claim: str = DRA, device_class: str = GPU, name: str = "gpu") -> Device:
    kind = signature(
        GPU,
        {"architecture": {"string": "Hopper"}},
        {"memory": {"value": amount}},
        claim=claim,
        device_class=device_class,
    )
    return Device(name, kind, count)


def nic(link: str = "infiniband", claim: str = "Synthetic", count: int = 1) -> Device:
    return Device("nic", signature(NIC, {"linkType": {"string": link}}, {}, claim=claim, device_class=NIC), count)


def ask(selector: str = "", count: int = 1, name: str = "gpu") -> Request:
    return Request(name, count, (compile_selector(selector or memory("141Gi")),))


def pool(
    name: str = "default",
    nodes: int = 2,
    *devices: Device,
    grow: int = 0,
    free: Iterable[tuple[Mapping[str, int], int]] | None = None,
    seen: str = "2026-11-29T12:00:00Z",
) -> Pool:
    devices = devices or (gpu(),)
    if free is None:
        return Pool(name, PoolCapacity(nodes, grow), devices)
    buckets: tuple[tuple[Claims, int], ...] = tuple((tuple(sorted(amounts.items())), count) for amounts, count in free)
    whole = Pool(name, PoolCapacity(0), devices).whole_node
    return Pool(name, PoolCapacity(sum(count for _, count in buckets), grow, buckets, whole, seen), devices)


def cluster(name: str, *pools: Pool, **more: Any) -> Cluster:
    return Cluster(name=name, pools=pools or (pool(),), **({"gateway": "10.0.0.1"} | more))


def standalone(*requests: Request, name: str = "main", copies: int = 1) -> Engine:
    return Engine(name, copies, (Member("Standalone", 1, requests or (ask(),)),))


def gang(workers: int, leader: Iterable[Request] = (), worker: Iterable[Request] = (), copies: int = 1) -> Engine:
    return Engine("main", copies, (Member("Leader", 1, tuple(leader)), Member("Worker", workers, tuple(worker))))


def want(replicas: int = 1, *engines: Engine, **more: Any) -> PlacementRequest:
    return PlacementRequest(replicas=replicas, engines=engines or (standalone(),), **({"key": MODEL} | more))


def stamped(
    name: str = "main", *members: tuple[str, str, int, Claims], copies: int = 1, pool: str = "default"
) -> ReplicaEngine:
    found = members or (("Standalone", pool, 1, ((GPU, 1),)),)
    return ReplicaEngine(name, copies, tuple(ReplicaMember(*member) for member in found))


def replica(place: str, *engines: ReplicaEngine, of: Key = MODEL, name: str = "", **more: Any) -> Replica:
    """``replica("a/0")`` is the deployment's own replica on cluster a with index 0, on pool default."""
    home, _, number = place.partition("/")
    return Replica(
        key=Key(of.namespace, name or replica_name(of.name, home, int(number))),
        deployment=of.name,
        cluster=home,
        index=int(number),
        engines=engines or (stamped(),),
        **more,
    )


def fleet(*parts: Cluster | Replica) -> Fleet:
    return Fleet.of(
        [part for part in parts if isinstance(part, Cluster)], [part for part in parts if isinstance(part, Replica)]
    )


def places(plan: Plan) -> list[str]:
    """``["a/0", "b/0"]``, leaving replicas with a bang."""
    return [f"{one.cluster}/{one.index}{'!' if one.state is State.LEAVING else ''}" for one in plan.placements]


def pools_of(plan: Plan) -> list[str]:
    return [member.pool for one in plan.placements for engine in one.engines for member in engine.members]


def tainted(*taints: str) -> tuple[Taint, ...]:
    """``tainted("k=v:NoExecute")``."""
    found = []
    for text in taints:
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        found.append(Taint(key, value, effect))
    return tuple(found)


def tolerating(*tolerations: tuple[str, str, str, str]) -> tuple[Toleration, ...]:
    return tuple(Toleration(*one) for one in tolerations)
