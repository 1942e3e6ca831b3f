"""Quantities: Kubernetes' own answers, also the surprising ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.plan.quantity import Quantity, QuantityError, is_quantity, parse_quantity

COMPARED = [
    ("12Mi", "12Mi", 0, "the same spelling"),
    ("256e3", "256000", 0, "an exponent is only a spelling"),
    ("0.0000000004", "0.000000001", 0, "rounded up to nano"),
    ("200M", "0.2G", 0, "a fraction of a larger unit"),
    ("2M", "0.002G", 0, "three spellings of one value, first pair"),
    ("2M", "2000k", 0, "three spellings of one value, second pair"),
    ("50M", "50Mi", -1, "decimal units are smaller than binary ones"),
    ("8Ei", "9223372036854775807", 0, "binary suffixes saturate"),
    ("8Ei", "10Ei", 0, "both saturate"),
    ("10Ei", "100Ei", 0, "both saturate, far beyond"),
    ("-10Ei", "-9223372036854775807", 0, "saturation keeps the sign"),
    ("7Ei", "8Ei", -1, "just below saturation"),
    ("256E", "256000000000000000000", 0, "decimal suffixes do not saturate"),
    ("256E", "1Ei", 1, "so they can exceed a saturated one"),
    ("0.1n", "1n", 0, "less than a nano is a nano"),
    ("9223372036854775808", "8Ei", 1, "only a binary suffix saturates"),
    ("1e400", "1", 1, "Kubernetes reads 1e400"),
    ("1e2000000000", "1e1999999999", 1, "exponents too large to write out still compare"),
    ("-1e2000000000", "1", -1, "and so do negative ones"),
    ("0", "-0", 0, "zero has no sign"),
    ("Gi", "0", 0, "a bare suffix is zero"),
    (".", "0", 0, "a bare point is zero"),
]
ACCEPTED = ["20", "20M", "20Mi", "1.3G", "1.3Gi", "10000k", "256e3", "1E3", "100n", "100u", "5.", "256E", "10E", "+5", ".5",
            "5.Gi", "0.5Gi", "1e-3", "1e+3", "1e0003", "Ti"]  # fmt: skip
REFUSED = ["20Mo", "10Mm", "200K", "1,3G", "Three", "", " 1", "1 ", "1e", "1Ee3", "1gi", "1ki", "1Kib", "1 Gi", "1_000", "0x10",
           "inf", "nan", "1..2", "1\n", "５", "--1", "Ei", "1e99999999999999999999"]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "expected", "reason"), COMPARED, ids=[f"{c[0]}~{c[1]}" for c in COMPARED])
def test_values_compare_by_amount_not_by_spelling(left: str, right: str, expected: int, reason: str) -> None:
    a, b = parse_quantity(left), parse_quantity(right)
    assert a.compare(b) == expected, reason
    assert b.compare(a) == -expected, reason
    if expected == 0 and "e2" not in left:
        assert hash(a) == hash(b), reason


@pytest.mark.parametrize("text", ACCEPTED)
def test_every_spelling_of_the_grammar_is_read(text: str) -> None:
    assert is_quantity(text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    assert not is_quantity(text)


def test_sums_and_differences_are_exact() -> None:
    fifty = parse_quantity("50k")
    assert fifty.add(parse_quantity("20")) == parse_quantity("50.02k")
    assert fifty.sub(parse_quantity("20")) == parse_quantity("49.98k")
    assert fifty.add(Quantity(20)).compare(parse_quantity("50020")) == 0
    assert fifty.add(Quantity(20)).sub(parse_quantity("100k")).as_integer() == -49980
    assert fifty.add(Quantity(20)).sub(parse_quantity("100k")).sub(parse_quantity("-50000")).as_integer() == 20
    assert parse_quantity("8Ei").add(Quantity(1)) != parse_quantity("8Ei")


def test_an_addition_that_would_need_billions_of_digits_is_refused() -> None:
    with pytest.raises(QuantityError, match="orders of magnitude"):
        parse_quantity("1e2000000000").add(Quantity(1))


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("50k", 50000, "a scale above zero is multiplied out"),
        ("5.Gi", 5 * 2**30, "an empty fraction is none"),
        ("1000m", None, "a negative scale is never an integer, whatever the value"),
        ("1Pi", None, "Kubernetes keeps it as a decimal, and decimals are no integers"),
        ("9223372036854775807", None, "19 digits are kept as a decimal"),
        ("1e18", 10**18, "a large exponent that still fits"),
        ("50000000G", 50000000 * 10**9, "50 peta"),
        ("9" * 37 + "G", None, "far beyond 64 bits"),
    ],
)
def test_integers_are_those_that_kubernetes_holds_as_integers(text: str, expected: int | None, reason: str) -> None:
    assert parse_quantity(text).as_integer() == expected, reason


def test_signs_and_floats() -> None:
    assert [parse_quantity(text).sign() for text in ("50k", "-50k", "0")] == [1, -1, 0]
    assert parse_quantity("50.703k").as_approximate_float() == 50703.0
    assert parse_quantity("1e400").as_approximate_float() == float("inf")


def test_whole_amounts_round_up() -> None:
    assert parse_quantity("100m").whole() == 1
    assert parse_quantity("141Gi").whole() == 141 * 2**30
    with pytest.raises(QuantityError):
        parse_quantity("1e2000").whole()


@given(st.integers(-(10**25), 10**25), st.integers(-8, 8), st.integers(-(10**25), 10**25), st.integers(-8, 8))
def test_order_and_sum_agree_with_exact_fractions(a: int, ae: int, b: int, be: int) -> None:
    left, right = parse_quantity(f"{a}e{ae}"), parse_quantity(f"{b}e{be}")
    x, y = a * Fraction(10) ** ae, b * Fraction(10) ** be
    assert left.compare(right) == (x > y) - (x < y)
    total = left.add(right)
    assert total.unscaled * Fraction(10) ** total.exponent == x + y
