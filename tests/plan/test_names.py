"""Names of replicas: the published vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.plan.names import replica_name

VECTORS = [
    ("my-model", "cluster-a", 0, "my-model-5ab63"),
    ("my-model", "cluster-a", 1, "my-model-609c5"),
    ("my-model", "cluster-b", 0, "my-model-f0b76"),
    ("llama", "eu1", 0, "llama-74b8e"),
    ("llama", "eu1", 1, "llama-8b130"),
    ("llama", "us1", 0, "llama-758a9"),
    ("mock-demo", "gpu-eu-west", 0, "mock-demo-be445"),
    ("mock-demo", "gpu-us-east", 0, "mock-demo-49b71"),
    ("a" * 63, "eu1", 0, "a" * 57 + "-4d5ba"),
    ("x" * 56 + "-y", "eu1", 0, "x" * 56 + "-3a69a"),
]


@pytest.mark.parametrize(("deployment", "cluster", "index", "expected"), VECTORS)
def test_a_replica_is_named_by_deployment_cluster_and_index(
    deployment: str, cluster: str, index: int, expected: str
) -> None:
    assert replica_name(deployment, cluster, index) == expected


@given(st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z"), st.integers(0, 10_000))
def test_a_name_always_fits(deployment: str, index: int) -> None:
    for digits in (5, 10):
        name = replica_name(deployment, "gpu-eu-west", index, digits=digits)
        assert len(name) <= 63
        assert "--" not in name[-digits - 2 :]
