"""Our scheduler binds exactly when kube-scheduler binds, and gives what kube-scheduler could have given.

Two hundred clusters that a seed makes; one of them alone is `MODELPLANE_SEEDS=17 pytest tests/kubernetes/test_scheduler.py`,
other ones are `MODELPLANE_SEEDS=1000-1200`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.kubernetes.blind import BLIND, Blind, decide
from tests.kubernetes.clusters import cluster
from tests.kubernetes.judge import faults, timeless
from tests.kubernetes.plane import running_plane
from tests.kubernetes.tally import count
from tests.kubernetes.verdicts import Decision, decisions

SEEDS: Final = os.environ.get("MODELPLANE_SEEDS", "0-200")
FLAGS: Final = {
    # Nodes are objects here: nobody takes the taint of a new node off, nobody makes service accounts.
    "apiserver": ("--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",),
    "scheduler": ("--kube-api-qps=2000", "--kube-api-burst=4000"),
}


def seeds() -> range:
    first, _, last = SEEDS.partition("-")
    return range(int(first), int(last or int(first) + 1))


@pytest.fixture(scope="module")
def decided(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Decision]:
    with running_plane(binaries, tmp_path_factory.mktemp("plane"), "scheduler", flags=FLAGS) as plane:
        return asyncio.run(decisions(plane.kubeconfig, [cluster(seed) for seed in seeds()]))


def report(found: dict[str, list[str]]) -> str:
    return "\n" + "\n".join(f"{where}: {fault}" for where, every in sorted(found.items()) for fault in every)


@pytest.mark.timeout(600)
def test_every_verdict_of_ours_is_one_of_kube_scheduler(decided: Sequence[Decision]) -> None:
    count("random clusters", len(seeds()))
    count("pods that both schedulers decided", len(decided))
    count("claims that both allocated", sum(len(d.ours.allocations) for d in decided if d.ours.node))
    found = {d.where: wrong for d in decided if (wrong := faults(d, d.ours))}
    assert not found, report(found)


def test_the_judge_finds_nothing_wrong_with_kube_scheduler(decided: Sequence[Decision]) -> None:
    found = {d.where: wrong for d in decided if (wrong := faults(d, d.real))}
    assert not found, report(found)


def test_a_pod_that_waits_says_why_in_the_same_words(decided: Sequence[Decision]) -> None:
    """kube-scheduler goes on about preemption, which we do not have; of a claim that cannot be judged it names any node's fault."""
    found = {
        d.where: [f"{d.ours.message}\n  {d.real.message}"]
        for d in decided
        if not d.ours.node
        and not d.real.node
        and d.ours.reason == "Unschedulable"
        and not d.real.message.startswith(d.ours.message)
    }
    count("sentences about pods that wait", sum(not d.ours.node for d in decided))
    assert not found, report(found)


def test_the_decision_alone_is_what_the_service_does(decided: Sequence[Decision]) -> None:
    """So that what follows about a blind decision is about the service."""
    for decision in decided:
        alone = decide(decision.pod, decision.state)
        assert alone.node == decision.ours.node, decision.where
        written = {name: timeless(allocation) for name, allocation in decision.ours.allocations.items()}
        assert {name: written[name] for name in alone.allocations} == dict(alone.allocations), decision.where


@pytest.mark.parametrize("blind", BLIND, ids=[f"blind to {each.to}" for each in BLIND])
def test_the_comparison_notices_a_scheduler_that_is(blind: Blind, decided: Sequence[Decision]) -> None:
    if len(seeds()) < 100:
        pytest.skip("a few clusters do not have everything that one may be blind to")
    count("blind schedulers found out")
    assert any(faults(decision, blind.verdict(decision)) for decision in decided)


def test_the_clusters_are_neither_too_easy_nor_too_hard(decided: Sequence[Decision]) -> None:
    if len(seeds()) < 100:
        pytest.skip("few clusters may be of one kind")
    outcomes = Counter(bool(d.real.node) for d in decided)
    assert 0.35 < outcomes[True] / len(decided) < 0.65, outcomes
    said = " ".join(d.real.message for d in decided)
    for reason in (
        "Insufficient cpu", "Insufficient memory", "Insufficient example.com/fpga", "Too many pods", "untolerated taint",
        "were unschedulable", "didn't match Pod's node affinity/selector", "didn't satisfy plugin(s) [NodeAffinity]",
        "didn't have free ports", "cannot allocate all claims", "invalid resource pools", "does not exist",
        "resourceclaim not available on the node", "CEL runtime error", "currently being updated", "currently invalid",
        "a claim constraint would not be satisfied",
    ):  # fmt: skip
        assert reason in said, f"no pod waits for: {reason}"
