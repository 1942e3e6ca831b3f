"""Our controllers leave the same objects behind as kube-controller-manager, step by step of what people do to workloads.

Ours are the processes that run everywhere: `modelplane apiserver` and `modelplane controllers`. Nodes and kubelets are a stand-in,
the same for both sides. What differs is listed with its reason in the page of simulated clusters, and taken out when it does not.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from modelplane.local.controllers.service import CONTROLLERS
from modelplane.server.testing import running_server
from tests.kubernetes.plane import running_plane
from tests.kubernetes.script import Played, play, topics
from tests.kubernetes.tally import count

PAGE: Final = Path(__file__).parents[2] / "docs" / "simulated-clusters.md"
CASES: Final = [f"{topic}/{case.case}" for topic, cases in topics().items() for case in cases]
_ROW: Final = re.compile(r"^\| `([a-z]+/[a-z*-]+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
FLAGS: Final = {
    # Both sides without what looks after nodes, which are a stand-in, and without accounts for pods.
    "apiserver": ("--disable-admission-plugins=ServiceAccount,PodTopologyLabels",),
    "controller_manager": (
        "--controllers=*,-node-lifecycle-controller,-pod-garbage-collector-controller,-taint-eviction-controller,-device-taint-eviction-controller",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ),
}


class Row(NamedTuple):
    """One of the page: which cases, where after any step, and why; with wildcards."""

    case: str
    where: str
    reason: str

    def covers(self, case: str, where: str) -> bool:
        return fnmatchcase(case, self.case) and fnmatchcase(where.partition(":")[2], self.where.replace("[", "[[]"))


class Page(tuple[Row, ...]):
    """All rows."""

    def allows(self, case: str, where: str) -> bool:
        return any(row.covers(case, where) for row in self)

    def lacks(self, case: str, found: Collection[str]) -> list[Row]:
        return [row for row in self if row.case == case and not any(row.covers(case, where) for where in found)]


LISTED: Final = Page(Row(*found) for found in _ROW.findall(PAGE.read_text()))


@contextmanager
def our_cluster(root: Path) -> Iterator[Path]:
    """The kubeconfig of an embedded server with our controllers."""
    names = ",".join(name for name in CONTROLLERS if name != "nodelifecycle")
    with running_server(root / "server", "--no-install-crds") as server, (root / "controllers.log").open("wb") as log:
        command = [sys.executable, "-m", "modelplane", "controllers", "--controllers", names]
        process = subprocess.Popen([*command, "--kubeconfig", str(server.kubeconfig)], stdout=log, stderr=log)
        try:
            yield server.kubeconfig
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def played(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Played]:
    root = tmp_path_factory.mktemp("controllers")
    with running_plane(binaries, root / "real", "controller_manager", flags=FLAGS) as plane, our_cluster(root) as ours:
        return asyncio.run(play(ours, plane.kubeconfig, LISTED))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_both_leave_the_same_objects(case: str, played: Mapping[str, Played]) -> None:
    outcome = played[case]
    assert not outcome.trouble, outcome.trouble
    count("cases")
    count("states compared", outcome.compared)
    count("places that differ, all listed with a reason", len(outcome.found))
    unlisted = {where: both for where, both in outcome.found.items() if not LISTED.allows(case, where)}
    assert not unlisted, "\n" + "\n".join(
        f"step {where}\n  ours: {one!r}\n  real: {other!r}" for where, (one, other) in unlisted.items()
    )
    stale = LISTED.lacks(case, outcome.found)
    assert not stale, f"no longer differs: take {stale} out of {PAGE.name}"


def test_every_listed_divergence_names_a_case_or_all_of_a_topic() -> None:
    assert [row for row in LISTED if not any(fnmatchcase(case, row.case) for case in CASES)] == []


@pytest.mark.parametrize("row", [row for row in LISTED if "*" in row.case], ids=lambda row: f"{row.case} {row.where}")
def test_what_is_listed_for_many_cases_still_differs_in_one(row: Row, played: Mapping[str, Played]) -> None:
    assert any(row.covers(case, where) for case, outcome in played.items() for where in outcome.found)


def test_names_of_cases_are_good_for_namespaces() -> None:
    assert len(set(CASES)) == len(CASES)
    assert [case for case in CASES if not re.fullmatch(r"[a-z0-9-]{1,63}", case.replace("/", "-"))] == []
