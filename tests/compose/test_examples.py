"""Everything that the examples become: every deployment finds its places, and every object is one that Kubernetes takes."""

from __future__ import annotations

import pytest
import yaml

from modelplane.compose.kinds import LEADER_WORKER_SET, MODEL_DEPLOYMENT
from tests.compose.examples import documents, settled
from tests.compose.test_validity import faults
from tests.compose.two_regions import EXAMPLE, ROOT

SHARED = ROOT.parent / "shared" / "cases" / "two-regions"


def test_every_deployment_of_the_examples_finds_a_place_for_every_replica() -> None:
    fleet = settled()
    deployments = fleet.all(MODEL_DEPLOYMENT)
    assert len(deployments) >= 5
    for deployment in deployments:
        assert fleet.condition(deployment, "ReplicasScheduled")[0] == "True", deployment["metadata"]["name"]
    assert fleet.all(LEADER_WORKER_SET, "nebius-eu-north1"), "the gang is there too"


def test_every_object_of_the_examples_is_valid() -> None:
    assert faults(settled()) == []


def test_the_manifests_that_the_reference_was_recorded_with_are_those_of_the_example() -> None:
    if not SHARED.is_dir():
        pytest.skip("the manifests of the reference are not beside this checkout")
    recorded = [obj for path in sorted(SHARED.glob("*.yaml")) for obj in yaml.safe_load_all(path.read_text())]
    assert recorded == list(documents(EXAMPLE))
