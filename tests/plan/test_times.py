"""Times of objects, whoever wrote them."""

from __future__ import annotations

import pytest

from modelplane.plan.times import comparable, instant


@pytest.mark.parametrize(
    ("text", "found", "reason"),
    [
        ("2026-11-29T12:00:00Z", "2026-11-29T12:00:00Z", "as Kubernetes writes it"),
        ("2026-11-29T12:00:00.999999Z", "2026-11-29T12:00:00Z", "a MicroTime: the fraction goes, never up"),
        ("2026-11-29T13:00:00+01:00", "2026-11-29T12:00:00Z", "a zone"),
        ("2026-11-30T01:30:00.5+13:30", "2026-11-29T12:00:00Z", "the day before in UTC"),
        ("2026-11-29t12:00:00z", "2026-11-29T12:00:00Z", "small letters are allowed"),
        ("2026-11-29", "", "a day is no time"),
        ("2026-13-29T12:00:00.0Z", "", "there is no such month"),
        ("", "", "none was written"),
    ],
)
def test_times_compare_as_texts(text: str, found: str, reason: str) -> None:
    assert comparable(text) == found, reason


def test_an_instant_is_in_seconds() -> None:
    assert instant("1970-01-01T01:00:01.5+01:00") == 1.5
    assert instant("yesterday") is None
