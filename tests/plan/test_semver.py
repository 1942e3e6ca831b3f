"""Semantic versions: strict for attributes, lenient on request, build metadata never counts."""

from __future__ import annotations

import pytest

from modelplane.plan.semver import SemverError, is_semver, parse_semver

STRICT = ["1.0.0", "1.2.3-beta.1+build.1", "1.2.3-0a", "1.2.3+01", "1.2.3+b-7", "1.2.3-a-b", "18446744073709551615.0.0"]
NOT_STRICT = ["hello", "", "v1.0.0", "v1.0", "1", "1.1", "01.01.01", "200K", "Mi", " 1.0.0", "1. 0.0", "1.0.0 ", "1.2.3-rc..1",
              "1.2.3-01", "1.2.3.4", "580.95.05", "1.2.3-", "1.2.3+", "V1.2.3", "18446744073709551616.0.0", "１.0.0"]  # fmt: skip
LENIENT = ["v1.0.0", "01.01.01", "1", "1.1", "580.95.05", "v0", "00.00.00"]
NOT_LENIENT = ["", " 1.0.0", "1.0.0 ", "V1.2.3", "1.2-rc", "1+b", "vv1", "1.2.3.4"]


@pytest.mark.parametrize("text", STRICT)
def test_a_version_of_three_numbers_is_read(text: str) -> None:
    assert is_semver(text)


@pytest.mark.parametrize("text", NOT_STRICT)
def test_anything_else_is_refused_for_an_attribute(text: str) -> None:
    assert not is_semver(text)


@pytest.mark.parametrize("text", LENIENT)
def test_lenient_reading_completes_and_strips(text: str) -> None:
    assert is_semver(text, lenient=True)


@pytest.mark.parametrize("text", NOT_LENIENT)
def test_lenient_reading_has_limits(text: str) -> None:
    assert not is_semver(text, lenient=True)


@pytest.mark.parametrize(
    ("left", "right", "expected", "reason"),
    [
        ("1.2.3", "1.2.3", 0, "equal"),
        ("1.2.3", "2.0.0", -1, "major first"),
        ("1.2.3", "0.1.2", 1, "major first, the other way"),
        ("1.10.0", "1.9.0", 1, "numbers, not text"),
        ("1.0.0", "1.0.0-rc.1", 1, "a release outranks its prereleases"),
        ("1.0.0-alpha", "1.0.0-alpha.1", -1, "more identifiers are greater"),
        ("1.0.0-2", "1.0.0-a", -1, "numeric identifiers come first"),
        ("1.0.0-10", "1.0.0-9", 1, "numeric identifiers by value"),
        ("1.0.0-a", "1.0.0-A", 1, "alphanumeric ones by ASCII"),
        ("1.0.0+a", "1.0.0+b", 0, "build metadata is ignored"),
    ],
)
def test_precedence(left: str, right: str, expected: int, reason: str) -> None:
    a, b = parse_semver(left), parse_semver(right)
    assert a.compare(b) == expected, reason
    assert (a == b) is (expected == 0)
    assert expected != 0 or hash(a) == hash(b)


def test_lenient_parts_are_filled_with_zero() -> None:
    assert parse_semver("v01.01", lenient=True) == parse_semver("1.1.0")
    assert parse_semver("580.95.05", lenient=True).patch == 5
    assert parse_semver("1.0", lenient=True).patch == 0


def test_a_refusal_says_what_is_wrong() -> None:
    with pytest.raises(SemverError, match=r'Patch number must not contain leading zeroes "05"'):
        parse_semver("580.95.05")
    with pytest.raises(SemverError, match=r"No Major\.Minor\.Patch"):
        parse_semver("9.0")
