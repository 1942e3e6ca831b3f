"""Nothing vanishes because something could not be seen: composers never drop a child for want of an input."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelplane.api.meta import GVK
from modelplane.compose.contract import Unavailable
from modelplane.compose.kinds import (
    CONFIG_MAP,
    DEVICE_CLASS,
    INFERENCE_CLASS,
    INFERENCE_CLUSTER,
    INFERENCE_GATEWAY,
    MODEL_DEPLOYMENT,
    MODEL_ENDPOINT,
    MODEL_REPLICA,
    MODEL_SERVICE,
    NAMESPACE,
    NODE,
    RESOURCE_SLICE,
    SECRET,
    SERVING_STACK,
)
from tests.compose.fleet import Fleet
from tests.compose.two_regions import CLUSTERS, settled

READ = [
    CONFIG_MAP,
    DEVICE_CLASS,
    INFERENCE_CLASS,
    INFERENCE_CLUSTER,
    INFERENCE_GATEWAY,
    MODEL_ENDPOINT,
    MODEL_REPLICA,
    NAMESPACE,
    NODE,
    RESOURCE_SLICE,
    SECRET,
]
"""Kinds that composers look at."""

PARENTS = [
    INFERENCE_CLUSTER,
    INFERENCE_GATEWAY,
    MODEL_DEPLOYMENT,
    MODEL_ENDPOINT,
    MODEL_REPLICA,
    MODEL_SERVICE,
    SERVING_STACK,
]
_LOST = Unavailable("Unreachable", "2026-01-01T00:00:00Z", "check the network")


def identities(fleet: Fleet) -> set[tuple[str | None, tuple[GVK, str, str]]]:
    return {(cluster, key) for cluster, store in fleet.stores.items() for key in store}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    unread=st.sets(st.sampled_from(READ)),
    lost=st.sets(st.sampled_from(sorted(CLUSTERS))),
    absent=st.sets(st.sampled_from([INFERENCE_CLASS, SECRET, INFERENCE_GATEWAY])),
    order=st.permutations(PARENTS),
)
def test_inputs_that_are_missing_for_a_while_take_no_child_along(
    unread: set[GVK], lost: set[str], absent: set[GVK], order: list[GVK]
) -> None:
    world = settled()
    before = identities(world)
    taken = {key: world.stores[None].pop(key) for key in list(world.stores[None]) if key[0] in absent}
    world.unread = set(unread)
    world.unavailable = dict.fromkeys(lost, _LOST)
    for kind in (*order, *order):
        for parent in world.all(kind):
            world.reconcile(parent)
    assert before - identities(world) == {(None, key) for key in taken}

    world.stores[None].update(taken)
    world.unread = set()
    world.unavailable = {}
    world.settle()
    assert identities(world) == before
    for kind in PARENTS:
        for parent in world.all(kind):
            assert world.condition(parent, "Ready")[0] == "True"
