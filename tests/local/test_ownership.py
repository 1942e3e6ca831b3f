"""What the garbage collector makes of owners that are gone, going, or still there."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.local.controllers.ownership import Graph, Node, Verdict, blocking, judge
from modelplane.local.kinds import POD


def node(uid: str, *owners: str, finalizers: Any = (), deleting: bool = False, block: bool = True) -> Node:
    references = [{"apiVersion": "v1", "kind": "X", "name": o, "uid": o, "blockOwnerDeletion": block} for o in owners]
    metadata = {
        "name": uid,
        "namespace": "default",
        "uid": uid,
        "ownerReferences": references,
        "finalizers": list(finalizers),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Node.of(POD, {"metadata": metadata})


CASES = [
    ("all owners are there", node("a", "x"), [], [], False, Verdict()),
    ("the only owner is gone", node("a", "x"), ["x"], [], False, Verdict(delete="Background")),
    ("one of two owners is gone: its reference is dropped", node("a", "x", "y"), ["x"], [], False, Verdict(drop=("x",))),
    ("the owner waits for its dependents", node("a", "x"), [], ["x"], False, Verdict(delete="Background")),
    ("a dependent with dependents of its own waits for them too", node("a", "x"), [], ["x"], True, Verdict(delete="Foreground")),
    ("another owner keeps it although one waits", node("a", "x", "y"), [], ["x"], False, Verdict(drop=("x",))),
    ("its own dependents were to be orphaned", node("a", "x", finalizers=["orphan"]), ["x"], [], True, Verdict(delete="Orphan")),
    ("no owners at all", node("a"), [], [], False, Verdict()),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "found", "absent", "waiting", "has", "want"), CASES, ids=[c[0] for c in CASES])
def test_verdicts(reason: str, found: Node, absent: list[str], waiting: list[str], has: bool, want: Verdict) -> None:
    assert judge(found, absent, waiting, has) == want, reason


def test_the_graph_forgets_an_owner_that_was_taken_off() -> None:
    graph = Graph()
    graph.put(node("a", "x", "y"))
    assert [n.uid for n in graph.of_owner("x")] == ["a"]
    graph.put(node("a", "y"))
    assert graph.of_owner("x") == []
    graph.drop("a")
    assert graph.dependents == {}


def test_only_references_that_block_hold_up_a_foreground_deletion() -> None:
    assert blocking([node("a", "x", block=False)], "x") == []
    assert [n.uid for n in blocking([node("a", "x"), node("b", "y")], "x")] == ["a"]
