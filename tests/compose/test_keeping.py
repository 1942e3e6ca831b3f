"""Nothing vanishes because something could not be seen: composers neither drop nor change a child for want of an input."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
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


Identity: TypeAlias = tuple[str | None, tuple[GVK, str, str]]


def specs(fleet: Fleet) -> dict[Identity, Any]:
    """What everything is, but for what is said about it."""
    return {
        (cluster, key): {field: value for field, value in obj.items() if field not in ("metadata", "status")}
        for cluster, store in fleet.stores.items()
        for key, obj in store.items()
    }


class Sight(NamedTuple):
    """What can be seen for the length of some passes."""

    unread: set[GVK]
    refused: set[GVK]
    lost: set[str]
    order: list[GVK]


SIGHTS = st.builds(
    Sight,
    st.sets(st.sampled_from(READ)),
    st.sets(st.sampled_from(READ)),
    st.sets(st.sampled_from(sorted(CLUSTERS))),
    st.permutations(PARENTS),
)
"""A control cluster that has just been started refuses everybody until it has read its roles, kind after kind."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sights=st.lists(SIGHTS, min_size=1, max_size=3),
    absent=st.sets(st.sampled_from([INFERENCE_CLASS, SECRET, INFERENCE_GATEWAY])),
)
@example([Sight(set(), {MODEL_ENDPOINT}, set(), PARENTS)], set()).via("a route lost every backend for a moment")
@example(
    [
        Sight(set(), {INFERENCE_CLUSTER}, set(), [MODEL_REPLICA]),
        Sight(set(), set(), set(), [MODEL_DEPLOYMENT]),
    ],
    set(),
).via("replicas that could not be judged were said not to serve, and their endpoints went")
def test_inputs_that_are_missing_for_a_while_take_nothing_along(sights: list[Sight], absent: set[GVK]) -> None:
    world = settled()
    before = specs(world)
    taken = {key: world.stores[None].pop(key) for key in list(world.stores[None]) if key[0] in absent}
    for sight in sights:
        world.unread, world.refused = sight.unread, sight.refused
        world.unavailable = dict.fromkeys(sight.lost, _LOST)
        for kind in (*sight.order, *sight.order):
            for parent in world.all(kind):
                world.reconcile(parent)
    assert specs(world) == {identity: spec for identity, spec in before.items() if identity[1] not in taken}

    world.stores[None].update(taken)
    world.unread, world.refused, world.unavailable = set(), set(), {}
    world.settle()
    assert specs(world) == before
    for kind in PARENTS:
        for parent in world.all(kind):
            assert world.condition(parent, "Ready")[0] == "True"


@pytest.mark.parametrize(
    ("refused", "parent", "status"),
    [
        pytest.param(MODEL_ENDPOINT, MODEL_SERVICE, "Unknown", id="a service may route as ever"),
        pytest.param(INFERENCE_CLUSTER, MODEL_REPLICA, "Unknown", id="a replica may serve as ever"),
        pytest.param(INFERENCE_CLUSTER, MODEL_DEPLOYMENT, "False", id="a deployment decides nothing"),
        pytest.param(INFERENCE_CLASS, INFERENCE_CLUSTER, "False", id="a cluster does not know its pools"),
    ],
)
def test_what_may_not_be_read_is_said_with_the_reason(refused: GVK, parent: GVK, status: str) -> None:
    world = settled()
    world.refused = {refused}
    for one in world.all(parent):
        world.reconcile(one)
    for one in world.all(parent):
        said, _, message = world.condition(one, "Ready")
        assert said == status
        assert message.endswith(f"not been read yet: {refused.kind} is forbidden")
