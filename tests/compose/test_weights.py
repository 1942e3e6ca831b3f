"""Shares of traffic as integers per endpoint."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.compose.routing.weights import CEILING, spread

CASES = [
    ("95 to 5 over one and three endpoints is exact", [(95, 1), (5, 3)], [57, 1]),
    ("equal weights over two and three endpoints need the common multiple", [(1, 2), (1, 3)], [3, 2]),
    ("a share that is a whole multiple stays small", [(1, 2), (3, 1)], [1, 6]),
    ("equal groups reduce to ones", [(2, 1), (2, 1)], [1, 1]),
    ("one group of many is one each", [(1, 5)], [1]),
    ("80 to 20 over three and one: every endpoint of a group gets the same", [(80, 3), (20, 1)], [4, 3]),
    ("the ceiling clamps, and a live endpoint keeps something", [(1_000_000, 1), (1, 3)], [1_000_000, 1]),
    ("a group without endpoints gives its share away", [(50, 0), (1, 2)], [0, 1]),
    ("an explicit 0 means none", [(0, 2), (3, 1)], [0, 1]),
    ("nobody is there", [(5, 0)], [0]),
    ("no entry at all", [], []),
]


@pytest.mark.parametrize(("reason", "groups", "want"), CASES, ids=[case[0] for case in CASES])
def test_group_weights_become_exact_integers(reason: str, groups: list[tuple[int, int]], want: list[int]) -> None:
    assert spread(groups) == want, reason


@given(st.lists(st.tuples(st.integers(0, 1_000_000), st.integers(0, 12)), max_size=6))
def test_every_group_gets_its_share_unless_the_ceiling_clamps_it(groups: list[tuple[int, int]]) -> None:
    weights = spread(groups)
    live = [(weight, count) for weight, count in groups if weight and count]
    assert all(0 <= weight <= CEILING for weight in weights)
    assert all((weight > 0) == bool(asked and count) for weight, (asked, count) in zip(weights, groups, strict=True))
    if not live:
        return
    asked_total = sum(weight for weight, _ in live)
    given_total = sum(weight * count for weight, (_, count) in zip(weights, groups, strict=True))
    if max(weights) < CEILING:
        for weight, (asked, count) in zip(weights, groups, strict=True):
            if asked and count:
                assert Fraction(weight * count, given_total) == Fraction(asked, asked_total)
