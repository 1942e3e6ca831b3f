"""Small pieces that the reconciler stands on: projections, the read index, the queue, names of owners, conditions."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.meta import GVK, Condition, Key, Object, Status
from modelplane.compose.contract import Cel, ConditionTrue, OnCreate, Read, Ready
from modelplane.control.conditions import ChildState, ready, stored
from modelplane.control.index import Parent, ReadIndex
from modelplane.control.inventory import Entry
from modelplane.control.ownership import Ref, label_value
from modelplane.control.projection import part
from modelplane.control.queue import WorkQueue
from modelplane.control.readiness import is_ready
from modelplane.control.want import covers

POD = GVK("", "v1", "Pod")
A, B = (Parent(POD, Key("ns", name)) for name in "ab")


def pod(name: str = "p", labels: dict[str, str] | None = None, phase: str = "Running") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": labels or {}},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
        },
        "data": {"tls.crt": "x"},
    }


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("status.phase", "Running"),
        ("status.conditions[Ready]", {"type": "Ready", "status": "True"}),
        ("status.conditions[Ready].status", "True"),
        ("status.conditions[Absent]", None),
        ("spec.nothing", None),
        ("metadata.name.deeper", None),
        ("data.tls.crt", "x"),
    ],
)
def test_a_path_finds_its_part(path: str, want: object) -> None:
    assert part(pod(), path) == want


@pytest.mark.parametrize(
    ("read", "old", "new", "woken", "reason"),
    [
        (Read(kind=POD, name="p", namespace="ns"), None, pod(), True, "it appeared"),
        (Read(kind=POD, name="p", namespace="ns"), pod(), None, True, "it went"),
        (Read(kind=POD, name="q", namespace="ns"), None, pod(), False, "another name"),
        (Read(kind=POD, name="p", namespace="other"), None, pod(), False, "another namespace"),
        (
            Read(kind=POD, name="p", namespace="ns", project=("spec",)),
            pod(),
            pod(phase="Failed"),
            False,
            "outside of view",
        ),
        (
            Read(kind=POD, name="p", namespace="ns", project=("status.phase",)),
            pod(),
            pod(phase="Failed"),
            True,
            "in view",
        ),
        (
            Read(kind=POD, labels=(("a", "1"),)),
            pod(labels={"a": "1"}),
            pod(labels={"a": "2"}),
            True,
            "it left the selection",
        ),
        (
            Read(kind=POD, labels=(("a", "1"),)),
            pod(labels={"a": "2"}),
            pod(labels={"a": "1"}),
            True,
            "it joined the selection",
        ),
        (Read(kind=POD, labels=(("a", "1"),)), pod(), pod(phase="Failed"), False, "never selected"),
        (Read(kind=POD, namespace="other"), None, pod(), False, "a list of another namespace"),
        (Read(kind=POD, cluster="east"), None, pod(), False, "another cluster"),
    ],
)
def test_a_change_wakes_who_can_see_it(
    read: Read, old: Object | None, new: Object | None, woken: bool, reason: str
) -> None:
    index = ReadIndex()
    index.put(A, [read])
    assert (A in index.readers((None, POD), old, new)) is woken, reason


def test_a_new_watch_set_replaces_the_old_one() -> None:
    index = ReadIndex()
    index.put(A, [Read(kind=POD, name="p", namespace="ns")])
    index.put(B, [Read(kind=POD, name="p", namespace="ns"), Read(kind=POD, cluster="east")])
    index.put(A, [])
    assert index.readers((None, POD), None, pod()) == {B}
    assert index.readers_at("east") == {B}
    assert index.readers_at("east", GVK("", "v1", "Node")) == set()


async def test_the_queue_takes_by_rank_and_never_twice_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda item: (item,))
    for item in "cabca":
        queue.add(item)
    assert [await queue.take() for _ in range(3)] == ["a", "b", "c"]
    queue.add("b")
    assert not queue._ready, "it is being worked on"
    queue.done("b")
    assert await queue.take() == "b"
    for item in "abc":
        queue.done(item)
    assert queue.idle


async def test_the_earlier_of_two_delays_counts_and_a_wake_beats_both() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda item: ())
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 60)
    async with asyncio.timeout(5):
        assert await queue.take() == "a"
    queue.done("a")
    queue.add_after("a", 60)
    queue.add("a")
    async with asyncio.timeout(5):
        assert await queue.take() == "a"
    queue.done("a")
    assert queue.idle
    queue.close()


@given(st.text(max_size=200))
def test_every_key_has_a_valid_label_value_of_its_own(key: str) -> None:
    value = label_value(key)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)
    assert label_value(key + "/") != value


@given(
    st.builds(
        Entry,
        st.text(),
        st.builds(Ref, st.text(), st.just(POD), st.text(), st.text(min_size=1)),
        st.text(),
        st.booleans(),
        st.booleans(),
    )
)
def test_an_entry_of_the_inventory_survives_its_status(entry: Entry) -> None:
    assert Entry.read(entry.record()) == entry


@pytest.mark.parametrize(
    ("rule", "change", "want", "reason"),
    [
        (OnCreate(), {}, True, "it exists"),
        (OnCreate(), {"metadata": {"deletionTimestamp": "2026-11-29T12:00:00Z"}}, False, "it is on its way out"),
        (ConditionTrue("Ready"), {}, True, "the condition is True; foreign ones need no reason"),
        (ConditionTrue("Other"), {}, False, "the condition is False"),
        (ConditionTrue("Absent"), {}, False, "there is no such condition"),
        (
            ConditionTrue("Ready"),
            {
                "metadata": {"generation": 2},
                "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]},
            },
            False,
            "the controller has not seen the newest spec",
        ),
        (Cel("object.status.phase == 'Running'"), {}, True, "the expression holds"),
        (Cel("object.status.nothing.here == 1"), {}, False, "an error is not true"),
    ],
)
def test_a_child_is_ready_by_its_rule(rule: Ready, change: Object, want: bool, reason: str) -> None:
    assert is_ready(rule, {**pod(), "metadata": {}, **change}) is want, reason


def test_nothing_is_not_ready() -> None:
    assert not is_ready(OnCreate(), None)


@pytest.mark.parametrize(
    ("observed", "wanted", "want"),
    [
        ({"a": 1, "default": 2}, {"a": 1}, True),
        ({"a": [{"b": 1, "default": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}]}, False),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": {"b": 1}}, False),
        (None, {"a": 1}, False),
    ],
)
def test_defaults_around_a_wish_are_no_difference(observed: object, wanted: object, want: bool) -> None:
    assert covers(observed, wanted) is want


def test_the_time_of_a_condition_moves_with_its_status_alone() -> None:
    first = stored([], [_condition(Status.FALSE, "A")], generation=1, now="t1", keep=())
    second = stored(first, [_condition(Status.FALSE, "B")], generation=2, now="t2", keep=())
    third = stored(second, [_condition(Status.TRUE, "B")], generation=2, now="t3", keep=())
    assert [(e["lastTransitionTime"], e["reason"], e["observedGeneration"]) for [e] in (first, second, third)] == [
        ("t1", "A", 1),
        ("t1", "B", 2),
        ("t3", "B", 2),
    ]


@pytest.mark.parametrize(
    ("children", "options", "status", "reason"),
    [
        ([], {}, "False", "Creating"),
        ([ChildState(key="a", name="A", ready=True)], {}, "True", "Available"),
        ([ChildState(key="a", name="A", ready=True, changed=True)], {}, "False", "Creating"),
        (
            [ChildState(key="a", name="A", ready=True), ChildState(key="b", name="B", ready=False)],
            {},
            "False",
            "Creating",
        ),
        ([ChildState(key="a", name="A", ready=True, lost="gone")], {}, "Unknown", "Unreachable"),
        ([ChildState(key="a", name="A", ready=True)], {"failed": True}, "False", "ReconcileError"),
    ],
)
def test_ready_is_derived_and_never_vacuous(
    children: list[ChildState], options: dict[str, bool], status: str, reason: str
) -> None:
    condition = ready(None, children, failed=options.get("failed", False), held=False)
    assert condition is not None
    assert (condition.status, condition.reason) == (status, reason)


def _condition(status: Status, reason: str) -> Condition:
    return Condition(type="T", status=status, reason=reason)
