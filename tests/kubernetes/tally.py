"""What a run of `make conformance` compared, for its closing table.

A suite is a test file and has a row of its own: how many of its tests passed and how long they took is found by pytest, what it
compared is said by the test with one call while it runs::

    from tests.kubernetes.tally import count

    count("selector and device pairs", 20_000)

The counts of a suite are summed under the words that they were given.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parents[2] / "docs" / "embedded-server.md"
_COUNTED: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
_LISTED: Final = re.compile(r"^\| `[^`]+` \| `\S+` \| .+ \|$", re.MULTILINE)
_FIXED: Final = re.compile(r"(\d+) divergences found this way are fixed")


def count(what: str, number: int = 1) -> None:
    """Add to what the running test's file compared; ``what`` is a plural."""
    _COUNTED[_suite(os.environ["PYTEST_CURRENT_TEST"])][what] += number


def save(file: Path) -> None:
    """What was counted in this process, for one that stands for it."""
    file.write_text(json.dumps(_COUNTED))


def load(file: Path) -> None:
    """Add what another process saved, if it did."""
    if file.exists():
        for suite, counts in json.loads(file.read_text()).items():
            _COUNTED[suite].update(counts)


def counted() -> Mapping[str, int]:
    """Everything that was counted, of all suites."""
    return sum(_COUNTED.values(), Counter())


def fixed() -> int:
    """How many divergences were taken out of the product; the page of the embedded server keeps the number."""
    found = _FIXED.search(PAGE.read_text())
    assert found, f"{PAGE} says nowhere how many divergences are fixed"
    return int(found[1])


def listed() -> int:
    """How many rows of divergences the page has, each with its reason."""
    return len(_LISTED.findall(PAGE.read_text()))


def table(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """The closing lines: a row for every suite that ran, and what became of the divergences."""
    seconds: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for report in reports:
        suite = _suite(report.nodeid)
        seconds[suite] += report.duration
        passed[suite] += report.when == "call" and report.passed
        skipped[suite] += report.skipped
    yield f"{'suite':40} {'passed':>7} {'skipped':>7} {'seconds':>7}  compared"
    for suite, took in sorted(seconds.items()):
        compared = ", ".join(f"{number:,} {what}" for what, number in _COUNTED[suite].items())
        yield f"{suite:40} {passed[suite]:7} {skipped[suite]:7} {took:7.0f}  {compared}".rstrip()
    yield f"{'all':40} {passed.total():7} {skipped.total():7} {sum(seconds.values()):7.0f}"
    yield f"divergences of the embedded server: {fixed()} fixed, {listed()} listed with a reason in docs/{PAGE.name}"


def close(terminal: pytest.TerminalReporter) -> None:
    """Write the table of a session to its terminal."""
    terminal.section("what real Kubernetes was asked")
    reports = [one for of in ("passed", "failed", "skipped", "error", "") for one in terminal.stats.get(of, ())]
    for line in table(one for one in reports if isinstance(one, pytest.TestReport)):
        terminal.write_line(line)


def _suite(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")
