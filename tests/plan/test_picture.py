"""A picture that changes answers as a fleet that is built anew: nothing that was remembered outlives what it was about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.meta import Key
from modelplane.plan import Cluster, Fleet, PlacementRequest, Replica, plan
from modelplane.plan import facts as facts_module
from modelplane.plan import fleet as fleet_module
from modelplane.plan.fitting import take as take_fit
from modelplane.plan.fleet import Picture
from tests.plan.examples import examples
from tests.plan.words import (
    GPU,
    ask,
    cluster,
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

pytestmark = pytest.mark.timeout(600)
"""Properties share the machine with other tests."""

EIGHT = gpu(count=8)
NAMES = ("a", "b", "c")


def variants(name: str) -> list[Cluster]:
    """What a cluster may be from one moment to the next."""
    return [
        cluster(name, pool("default", 1)),
        cluster(name, pool("default", 3)),
        cluster(name, pool("default", 1), pool("other", 2, gpu("80Gi"))),
        cluster(name, pool("default", 0, EIGHT, free=[({GPU: 8}, 1), ({GPU: 3}, 2)], grow=1)),
        cluster(name, pool("default", 2, grow=1), pool("seen", 0, EIGHT, free=[({GPU: 5}, 1)])),
        cluster(name, pool("default", 2), taints=tainted("k=v:NoSchedule")),
        cluster(name, pool("default", 2), taints=tainted("modelplane.ai/drain:NoExecute")),
        cluster(name, pool("default", 2), labels={"region": "eu"}),
        cluster(name, pool("default", 2), ready=False),
    ]


REQUESTS: list[PlacementRequest] = [
    want(2, uid="u1", key=Key("ml", "one")),
    want(3, standalone(ask(count=2)), uid="u2", key=Key("ml", "two")),
    want(1, gang(1, [ask()], [ask()]), uid="u3", key=Key("ml", "gang")),
    want(2, standalone(ask(memory("80Gi", "=="))), uid="u4", key=Key("ml", "small")),
    want(2, selector={"region": "eu"}, uid="u5", key=Key("ml", "eu")),
    want(2, uid="u6", key=Key("ml", "tolerant"), tolerations=tolerating(("k", "Exists", "", ""))),
    want(1, standalone(ask(), name="x"), standalone(ask(), name="y"), uid="u7", key=Key("ml", "pair")),
]

FOREIGN = [
    replica(f"{name}/{index}", stamped("main", ("Standalone", where, 1, ((GPU, devices),))), of=Key("other", "o"))
    for name in NAMES
    for index, where, devices in ((0, "default", 1), (1, "default", 3), (2, "seen", 2), (3, "nowhere", 1))
]

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(0, 8)),
    st.tuples(st.just("drop"), st.sampled_from(NAMES), st.just(0)),
    st.tuples(st.just("show"), st.just(""), st.integers(0, len(FOREIGN) - 1)),
    st.tuples(st.just("hide"), st.just(""), st.integers(0, len(FOREIGN) - 1)),
    st.tuples(st.just("plan"), st.just(""), st.integers(0, len(REQUESTS) - 1)),
    st.tuples(st.just("plan"), st.just(""), st.integers(0, len(REQUESTS) - 1)),
    st.tuples(st.just("look"), st.just(""), st.integers(0, len(REQUESTS) - 1)),
)


def take(picture: Picture, step: tuple[str, str, int]) -> None:
    verb, name, number = step
    match verb:
        case "put":
            picture.put(variants(name)[number])
        case "drop":
            picture.drop(name)
        case "show":
            picture.show(FOREIGN[number])
        case "hide":
            picture.hide(FOREIGN[number].key)
        case _:
            request = REQUESTS[number]
            fleet = picture.fleet
            anew = Fleet.of(list(fleet.clusters.values()), list(fleet.by_key.values()))
            found = plan(fleet, request, explain=True)
            assert found == plan(anew, request, explain=True)
            if verb == "plan":
                for removal in found.removed:
                    picture.hide(Key(request.key.namespace, removal.name))
                for one in found.assumed():
                    picture.promise(one)


@examples(300)
@given(st.lists(STEPS, max_size=25))
def test_what_is_remembered_is_never_out_of_date(steps: list[tuple[str, str, int]]) -> None:
    picture = Picture()
    for name in NAMES:
        picture.put(variants(name)[0])
    for step in steps:
        take(picture, step)


@examples(60)
@given(st.lists(STEPS, min_size=10, max_size=40))
def test_nor_when_little_is_remembered(steps: list[tuple[str, str, int]]) -> None:
    kept: Any = facts_module.KEPT, fleet_module.LOG
    facts_module.KEPT, fleet_module.LOG = 1, 0  # type: ignore[misc]
    try:
        test_what_is_remembered_is_never_out_of_date.hypothesis.inner_test(steps)  # type: ignore[attr-defined]
    finally:
        facts_module.KEPT, fleet_module.LOG = kept  # type: ignore[misc]


def test_a_promise_gives_way_to_what_exists_and_not_the_other_way_round() -> None:
    picture = Picture()
    promised = replica("a/0", assumed=True)
    seen = replica("a/0", ready=True)
    picture.promise(promised)
    picture.show(seen)
    picture.promise(promised)
    assert picture.fleet.replicas == (seen,)
    picture.hide(seen.key)
    picture.hide(seen.key)
    assert picture.fleet.replicas == ()
    assert not picture.fleet.by_cluster
    assert not picture.fleet.by_deployment


def test_the_log_of_changes_does_not_grow_for_ever() -> None:
    picture = Picture()
    for _ in range(5_000):
        picture.put(variants("a")[0])
    assert len(picture.fleet.memo.log) < 1_500
    assert plan(picture.build(), want(1)).placed == 1


def test_a_shared_room_is_not_charged_by_a_plan_that_is_only_asked_for() -> None:
    picture = Picture()
    picture.put(cluster("a", pool("default", 1), pool("seen", 0, EIGHT, free=[({GPU: 8}, 1)])))
    before = {name: one.state() for name, one in picture.build().room("a").pools.items()}
    assert plan(picture.fleet, want(9)).placed == 9
    assert {name: one.state() for name, one in picture.fleet.room("a").pools.items()} == before


def test_a_replica_of_a_cluster_that_is_not_there_is_kept_for_when_it_comes() -> None:
    picture = Picture()
    lost: Replica = replica("a/0", of=Key("other", "o"))
    picture.show(lost)
    assert plan(picture.fleet, want(1)).placed == 0
    picture.put(cluster("a", pool("default", 1)))
    assert plan(picture.fleet, want(1)).placed == 0, "it takes its node again"
    picture.hide(lost.key)
    assert plan(picture.fleet, want(1)).placed == 1


def test_kinds_of_requests_that_were_not_asked_for_longest_are_forgotten() -> None:
    picture = Picture()
    picture.put(variants("a")[0])
    kept: Any = facts_module.KEPT
    facts_module.KEPT = 0  # type: ignore[misc]
    try:
        for number in range(40):
            plan(picture.fleet, want(1, selector={"n": str(number)}))
        assert len(picture.fleet.memo.facts) == 16
    finally:
        facts_module.KEPT = kept  # type: ignore[misc]


def test_a_fit_is_taken_from_the_ledger_that_it_was_found_for() -> None:
    picture = Picture()
    picture.put(cluster("a", pool("default", 1)))
    for request in (REQUESTS[0], REQUESTS[6]):
        roomy = Picture()
        roomy.put(cluster("a", pool("default", 2)))
        known = facts_module.Facts.of(roomy.fleet, request)
        found = known.fit(roomy.fleet, "a", roomy.fleet.room("a"))
        assert found is not None
        full = picture.fleet.ledger("a")
        full.pools["default"].nodes = 0
        with pytest.raises(AssertionError, match="pool default is full"):
            take_fit(found, full)
