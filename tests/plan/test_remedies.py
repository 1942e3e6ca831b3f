"""The smallest change is smallest by the documented order, and one more replica really fits after it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Fleet, PlacementRequest, Pool, plan
from modelplane.plan.capacity import PoolCapacity
from modelplane.plan.remedies import Change, Step, smallest_change
from tests.plan.examples import examples
from tests.plan.test_oracle import CLUSTERS, ENGINES, EngineShape, PoolShape, cluster_of, engine_of
from tests.plan.words import (
    GPU,
    ask,
    cluster,
    fleet,
    gang,
    gpu,
    memory,
    pool,
    replica,
    stamped,
    standalone,
    tainted,
    tolerating,
    want,
)

OTHER = Key("ml", "other")
EIGHT = gpu(count=8)

CASES = [
    (fleet(cluster("a", pool())), want(), [], "one more fits already"),
    (fleet(cluster("a", pool("p", 1)), replica("a/0", stamped(pool="p"), of=OTHER)), want(),
     ["Free: free 1 node of pool p"], "the one node is taken: freeing it is smaller than adding one"),
    (fleet(cluster("a", pool("p", 1)), replica("a/0", stamped(pool="p"))), want(2),
     ["AddNodes: add 1 node to pool p"], "its own replica has the node: taking that away wins nothing"),
    (fleet(cluster("a", pool("p", 2)), replica("a/0", stamped(pool="p")), replica("a/1", stamped(pool="p"), of=OTHER)),
     want(2), ["Free: free 1 node of pool p"], "of two nodes another deployment has one"),
    (fleet(cluster("a", pool("p", 3)), replica("a/0", stamped(pool="p")), replica("a/1", stamped(pool="p"), of=OTHER)),
     want(2, gang(2, [ask()], [ask()])), ["AddNodes: add 2 nodes to pool p"], "two can be had, three cannot, whoever goes"),
    (fleet(cluster("a", pool("p", 0, gpu(count=2), free=[({GPU: 1}, 1)])), replica("a/0", stamped(pool="p"))),
     want(2, standalone(ask(count=2))),
     ["AddNodes: add 1 node to pool p"], "the device that is taken may be its own, which nobody saw yet"),
    (fleet(cluster("a", pool("p", 0))), want(), ["AddNodes: add 1 node to pool p"], "there is nothing to free"),
    (fleet(cluster("a", pool("p", 1), pool("q", 1))), want(1, gang(2, [ask()], [ask()])),
     ["AddNodes: add 2 nodes to pool p"], "a gang goes whole onto one pool; the first of the owner's order"),
    (fleet(cluster("a", pool("p", 0), pool("q", 2))), want(1, gang(2, [ask()], [ask()])),
     ["AddNodes: add 1 node to pool q"], "the pool that lacks least"),
    (fleet(cluster("a", pool("p", 0, EIGHT, free=[({GPU: 6}, 1), ({GPU: 1}, 1)]))), want(1, standalone(ask(count=8))),
     [f"Free: free 2 devices in pool p, so that 1 more pod can have 8 x {GPU} on one node"], "the node that lacks least"),
    (fleet(cluster("a", pool("p", 0, EIGHT, free=[]))), want(1, standalone(ask(count=8))),
     ["AddNodes: add 1 node to pool p"], "no node is there"),
    (fleet(cluster("a", pool("p", 3), taints=tainted("k=v:NoSchedule"))), want(),
     ["Tolerate: tolerate k=v:NoSchedule"], "a taint"),
    (fleet(cluster("a", pool("p", 3), taints=tainted("modelplane.ai/drain:NoExecute"))), want(),
     ["Undrain: modelplane undrain a"], "a drain"),
    (fleet(cluster("a", pool("p", 0), labels={"r": "us"})), want(selector={"r": "eu"}),
     ["Label: label cluster a r=eu, or drop that from the cluster selector", "AddNodes: add 1 node to pool p"],
     "the label and the room"),
    (fleet(cluster("a", labels={"r": "us"})), want(selector={"r": "eu"}, staged={"r": "eu", "w": "yes"}),
     ["Label: label cluster a r=eu, or drop that from the cluster selector",
      "StageCache: label cluster a w=yes, or drop that from the clusterSelector of the ModelCache"], "the label and the cache's"),
    (fleet(cluster("a", pool("p", 3), cache_storage=False)), want(needs_cache_storage=True),
     ["StageCache: give cluster a a storage class for caches, so that the ModelCache is staged there"], "the cache"),
    (fleet(cluster("a", pool("p", 3), ready=False, not_ready_reason="Unreachable")), want(),
     ["Wait: wait until cluster a is Ready (now: Unreachable)"], "a cluster that is not ready"),
    (fleet(cluster("a", pool("p", 3))), want(fill=False, cache="w"),
     ["CreateCache: create the ModelCache ml/w"], "a cache that is not there"),
    (fleet(cluster("a", pool("p", 0), cache_storage=False)), want(fill=False, cache="w"),
     ["CreateCache: create the ModelCache ml/w",
      "StageCache: give cluster a a storage class for caches, so that the ModelCache is staged there",
      "AddNodes: add 1 node to pool p"], "which will want storage, beside the room"),
    (fleet(cluster("a", pool("p", 3), ready=False)), want(),
     ["Wait: wait until cluster a is Ready (now: not ready)"], "of unknown reason"),
    (fleet(cluster("a", pool("p", 3), gateway="")), want(),
     ["Wait: wait until cluster a publishes its gateway's address"], "or without an address"),
    (fleet(cluster("a", pool("p", 3), deleting=True)), want(), [], "a cluster that goes takes nothing"),
    (fleet(Cluster(name="a", gateway="g")), want(), [], "nor does one without pools"),
    (fleet(cluster("a", pool("p", 3, gpu("80Gi")))), want(1, standalone(ask())),
     [f"DropSelector: engine main: drop from request gpu the selector {memory('141Gi')}"], "no device is that large"),
    (fleet(cluster("a", pool("p", 3, gpu(count=4)))), want(1, standalone(ask(count=8))),
     ["LowerCount: engine main: lower the count of request gpu from 8 to 4"], "no node has so many"),
    (fleet(cluster("a", pool("p", 3, gpu("80Gi", 4)))), want(1, standalone(ask(count=8))), [], "two changes at once are not tried"),
    (fleet(cluster("a", pool("p", 1, gpu("80Gi")), pool("q", 1))),
     want(1, standalone(ask(memory("80Gi", "==")), name="x"), standalone(ask(), name="y", copies=2)),
     ["AddNodes: add 1 node to pool q"], "engines on different pools"),
    (fleet(cluster("a", pool("p", 0, gpu("80Gi")), pool("q", 0))),
     want(1, standalone(ask(memory("80Gi", "==")), name="x"), standalone(ask(), name="y")),
     ["AddNodes: add 1 node to pool p", "AddNodes: add 1 node to pool q"], "both pools lack a node"),
]  # fmt: skip


@pytest.mark.parametrize(("world", "request_", "steps", "reason"), CASES, ids=[case[3] for case in CASES])
def test_the_smallest_change_is_named(world: Fleet, request_: PlacementRequest, steps: list[str], reason: str) -> None:
    found = smallest_change(world, request_, world.clusters["a"])
    assert [f"{change.step}: {change.text}" for change in found] == steps


def test_a_tolerated_taint_is_no_step() -> None:
    one = cluster("a", pool("p", 3), taints=tainted("k=v:NoSchedule"))
    request = want(tolerations=tolerating(("k", "Exists", "", "")))
    assert smallest_change(fleet(one), request, one) == ()


def test_adding_to_many_pools_is_given_up_after_so_many_tries() -> None:
    pools = [pool(f"p{number}", 0, gpu(f"{number + 1}Gi")) for number in range(8)]
    engines = [standalone(ask(memory(f"{number + 1}Gi", "==")), name=f"e{number}", copies=9) for number in range(8)]
    one = cluster("a", *pools)
    found = smallest_change(fleet(one), want(1, *engines), one)
    assert found == ()


def test_kinds_of_steps_are_ordered_as_documented() -> None:
    assert [str(step) for step in Step] == [
        "Wait",
        "Undrain",
        "Tolerate",
        "Label",
        "CreateCache",
        "StageCache",
        "Free",
        "AddNodes",
        "LowerCount",
        "DropSelector",
    ]
    one, two = Change(step=Step.FREE, text="b", amount=2), Change(step=Step.ADD_NODES, text="a", amount=1)
    assert one.size() < two.size()


@examples(120)
@given(CLUSTERS, st.lists(ENGINES, min_size=1, max_size=2))
def test_after_the_added_nodes_the_replica_fits(shapes: list[list[PoolShape]], engines: list[EngineShape]) -> None:
    request = want(1, *[engine_of(f"e{index}", shape) for index, shape in enumerate(engines)])
    for pools in shapes:
        one = cluster_of("c", pools)
        world = fleet(one)
        steps = smallest_change(world, request, one)
        fits = bool(plan(world, request).placements)
        assert not (fits and steps), "what fits needs no change"
        if steps and all(step.step is Step.ADD_NODES for step in steps):
            grown = msgspec.structs.replace(one, pools=tuple(_grown(entry, steps) for entry in one.pools))
            assert plan(fleet(grown), request).placements


def _grown(one: Pool, steps: tuple[Change, ...]) -> Pool:
    more = sum(step.amount for step in steps if step.pool == one.name)
    capacity = one.capacity
    buckets = capacity.buckets if capacity.buckets is None else (*capacity.buckets, (one.whole_node, more))
    made = PoolCapacity(capacity.nodes + more, capacity.grow, buckets, capacity.whole, capacity.observed_time)
    return msgspec.structs.replace(one, capacity=made)
