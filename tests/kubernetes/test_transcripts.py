"""Every recorded request gets the same answer from the embedded server and from kube-apiserver, or is listed with a reason."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.kubernetes.pair import Pair
from tests.kubernetes.tally import count
from tests.kubernetes.transcript import Case, Player, differences, topics

LIST: Final = Path(__file__).parents[2] / "docs" / "embedded-server.md"
CASES: Final = [(topic, case) for topic, cases in topics().items() for case in cases]
_ROW: Final = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)


class Listed(NamedTuple):
    """A row of the page: which cases, where in which answers (`3:body.message`), and why; with wildcards."""

    case: str
    where: str
    reason: str


LISTED: Final = [Listed(*found) for found in _ROW.findall(LIST.read_text())]


def covers(row: Listed, case: str, where: str) -> bool:
    return fnmatchcase(case, row.case) and fnmatchcase(where, row.where.replace("[", "[[]"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("topic", "case"), CASES, ids=[f"{topic}/{case.case}" for topic, case in CASES])
def test_both_servers_answer_alike(pair: Pair, topic: str, case: Case) -> None:
    name = f"{topic}/{case.case}"
    namespace = name.replace("/", "-")
    ours, real = Player(pair.ours, namespace).play(case), Player(pair.real, namespace).play(case)
    found = {}
    for number, (one, other) in enumerate(zip(ours, real, strict=True), 1):
        found.update({f"{number}:{where}": (a, b) for where, a, b in differences(one, other)})
    rows = [row for row in LISTED if fnmatchcase(name, row.case)]
    count("cases")
    count("recorded requests", len(case.steps))
    count("places that differ, all listed", len(found))
    unlisted = {where: both for where, both in found.items() if not any(covers(row, name, where) for row in rows)}
    assert not unlisted, "\n" + "\n".join(
        f"{case.steps[int(where.partition(':')[0]) - 1].send}\n  {where}\n    ours: {a!r}\n    real: {b!r}"
        for where, (a, b) in unlisted.items()
    )
    stale = [row for row in rows if "*" not in row.case and not any(covers(row, name, where) for where in found)]
    assert not stale, f"no longer diverges: take {stale} out of {LIST.name}"


def test_every_listed_divergence_names_a_case() -> None:
    names = [f"{topic}/{case.case}" for topic, case in CASES]
    assert [row for row in LISTED if not any(fnmatchcase(name, row.case) for name in names)] == []


def test_names_of_cases_are_unique_and_good_for_namespaces() -> None:
    names = [f"{topic}-{case.case}" for topic, case in CASES]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z0-9-]{1,63}", name)] == []
