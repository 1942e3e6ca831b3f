"""A rehearsal foresees of a cluster what its composer publishes: one rule, and the two held against each other."""

from __future__ import annotations

import pytest

from modelplane.api.meta import Key, Object, condition_of
from modelplane.compose.kinds import INFERENCE_CLUSTER
from modelplane.plan.edits import Edits, edited
from modelplane.plan.scene import Scene
from tests.compose.fleet import Fleet
from tests.compose.objects import device_class, inference_class, inference_cluster, kubeconfig, node, resource_slice

POOL = {"name": "pool", "className": "synthetic-gpu"}
CASES = {
    "one pool of a fixed size": inference_cluster(nodePools=[POOL | {"nodeCount": 3}]),
    "the size that is left out": inference_cluster(nodePools=[POOL]),
    "a pool that may grow, on a cluster where nobody adds nodes": inference_cluster(
        nodePools=[POOL | {"nodeCount": 1, "maxNodeCount": 4}]
    ),
    "an empty pool beside another": inference_cluster(nodePools=[POOL | {"nodeCount": 0}, POOL | {"name": "q"}]),
    "storage for caches": inference_cluster(existing={"cache": {"storageClassName": "fast"}}),
    "a class that is not there": inference_cluster(nodePools=[POOL, POOL | {"name": "q", "className": "nobodys"}]),
}


@pytest.mark.parametrize("cluster", CASES.values(), ids=CASES)
def test_what_is_foreseen_is_what_is_published(cluster: Object) -> None:
    fleet = Fleet("eu")
    for obj in (inference_class(), cluster, kubeconfig()):
        fleet.apply(obj)
    for obj in (node(), resource_slice(), device_class()):
        fleet.apply(obj, "eu")
    fleet.settle()
    published = fleet.get(INFERENCE_CLUSTER, "eu")

    then = edited(Scene([inference_class()]), Edits(manifests=[cluster])).scene.get(INFERENCE_CLUSTER, Key("", "eu"))
    assert then is not None
    for field in ("gpuPools", "cache"):
        assert then["status"].get(field) == published["status"].get(field)
    one, other = condition_of(then, "Ready"), condition_of(published, "Ready")
    assert one is not None
    assert other is not None
    assert one.status == other.status, "a rehearsal places where production would"


def test_a_class_that_goes_missing_keeps_the_pools_and_takes_nothing_new() -> None:
    """As the composer holds: pools that vanish would move replicas."""
    fleet = Fleet("eu")
    cluster = inference_cluster(nodePools=[POOL])
    for obj in (inference_class(), cluster, kubeconfig()):
        fleet.apply(obj)
    for obj in (node(), resource_slice(), device_class()):
        fleet.apply(obj, "eu")
    fleet.settle()
    before = fleet.get(INFERENCE_CLUSTER, "eu")
    changed = inference_cluster(nodePools=[POOL, POOL | {"name": "q", "className": "nobodys"}])
    fleet.apply(changed)
    fleet.settle()
    published = fleet.get(INFERENCE_CLUSTER, "eu")
    made = edited(Scene([inference_class(), before]), Edits(manifests=[changed]))
    then = made.scene.get(INFERENCE_CLUSTER, Key("", "eu"))
    assert then is not None
    assert then["status"]["gpuPools"] == published["status"]["gpuPools"] == before["status"]["gpuPools"]
    one, other = condition_of(then, "Ready"), condition_of(published, "Ready")
    assert one is not None
    assert other is not None
    assert (one.status, one.reason) == (other.status, other.reason) == ("False", "WaitingForClasses")
    assert made.notes == ("cluster eu: InferenceClass nobodys is not there, so nothing new goes there; add it",)
