"""Names that Kubernetes takes, whatever people call their deployments and engines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.names import childname, service_name, suffixed
from modelplane.compose.workloads.ground import Ground

VECTORS = [
    (("r", "main"), "r-main-bb4e3"),
    (("r", "main", "standalone", "devices"), "r-main-standalone-devices-f456f"),
    (("mock-demo-be445", "mock"), "mock-demo-be445-mock-47cef"),
    (("modelcache", "ml-team", "qwen"), "modelcache-ml-team-qwen-17db2"),
    (("mp", "ml-team"), "mp-ml-team-51733"),
    (("mp", "a" * 63), "mp-" + "a" * 54 + "-38bfb"),
    (("gateway", "gpu-us-east"), "gateway-gpu-us-east-67a82"),
]


@pytest.mark.parametrize(("parts", "want"), VECTORS)
def test_a_child_name_follows_the_published_recipe(parts: tuple[str, ...], want: str) -> None:
    assert childname(*parts) == want


def test_a_readable_name_that_fits_stays_as_it_is() -> None:
    assert suffixed("mock-demo-be445", "epp") == "mock-demo-be445-epp"


def test_a_readable_name_that_does_not_fit_is_hashed() -> None:
    name = suffixed("a" * 61, "epp")
    assert len(name) == 63
    assert name.startswith("a" * 57 + "-")


SERVICES = [
    ("a valid name stays", "mock-demo-service-0f50e", "mock-demo-service-0f50e"),
    ("a digit in front is refused by DNS-1035", "7b-model-epp", "s-7b-model-epp-"),
    ("dots are refused in Services and allowed in object names", "qwen.v2-epp", "qwen-v2-epp-"),
]


@pytest.mark.parametrize(("reason", "candidate", "prefix"), SERVICES, ids=[case[0] for case in SERVICES])
def test_a_service_name_is_valid(reason: str, candidate: str, prefix: str) -> None:
    name = service_name(candidate)
    assert name.startswith(prefix), reason
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)


def test_pods_are_called_after_workloads_so_their_names_have_no_dots() -> None:
    ground = Ground(replica="qwen.v2-49b71", namespace="ns", deployment="qwen.v2", cluster="eu")
    assert ground.workload("main") == "qwen-v2-49b71-main-" + childname("qwen.v2-49b71", "main")[-5:]


def test_two_candidates_that_look_alike_without_dots_stay_two() -> None:
    assert service_name("a.b") != service_name("a-b")
    assert service_name("1a") != service_name("s-1a")


def test_engines_whose_short_names_are_equal_get_longer_ones() -> None:
    replica = "r" * 63
    seen: dict[str, str] = {}
    for number in range(20_000):
        engine = f"engine-{number}"
        other = seen.setdefault(childname(replica, engine), engine)
        if other != engine:
            break
    else:
        raise AssertionError("no two engines with one short name; look further")
    ground = Ground(replica=replica, namespace="n", deployment="d", cluster="c", engines=(other, engine))
    assert ground.workload(other) == childname(replica, other)
    assert ground.workload(engine) == childname(replica, engine, digits=10)


_LABEL = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?\Z")
_ENGINES = st.lists(st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z"), min_size=1, max_size=8, unique=True)


@given(_LABEL, _LABEL, _ENGINES)
def test_no_object_of_a_replica_exceeds_63_characters_or_takes_anothers_name(
    replica: str, namespace: str, engines: list[str]
) -> None:
    ground = Ground(replica=replica, namespace=namespace, deployment="d", cluster="c", engines=tuple(engines))
    roles = ("Standalone", "Leader", "Worker")
    workloads = [ground.workload(engine) for engine in engines]
    templates = [ground.claim_template(engine, role) for engine in engines for role in roles]
    names = [ground.remote_namespace, ground.pool, ground.picker, *workloads, *templates]
    assert all(len(name) <= 63 for name in names)
    assert len({*workloads, ground.picker}) == len(engines) + 1
    assert len(set(templates)) == len(templates)
