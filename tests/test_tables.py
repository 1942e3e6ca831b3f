"""Tables fit a terminal where words allow it, and lose nothing."""

from __future__ import annotations

import pytest

from modelplane.tables import NARROWEST, fold, table

FULL = "engine mock needs 1 node of pool gpu-eu-west, 0 of 1 free, cannot grow"
ROWS = [
    ["gpu-eu-west", "Full", FULL, "free 1 node of pool gpu-eu-west"],
    ["gpu-us-east", "Tainted", "modelplane.ai/drain:NoExecute", "modelplane undrain gpu-us-east"],
]
HEADER = ("CLUSTER", "ONE MORE", "WHY", "SMALLEST CHANGE")


def test_without_a_width_every_row_is_one_line() -> None:
    lines = table(HEADER, ROWS).splitlines()
    assert len(lines) == 3
    assert lines[1] == "  ".join((ROWS[0][0], "Full    ", ROWS[0][2], ROWS[0][3]))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_columns_of_words_are_folded_to_the_terminal(width: int) -> None:
    text = table(HEADER, ROWS, width)
    assert max(map(len, text.splitlines())) <= width
    assert sorted(text.split()) == sorted(table(HEADER, ROWS).split()), "no word is lost or cut"
    assert table(HEADER, ROWS, 200) == table(HEADER, ROWS), "what fits is left alone"


def test_a_name_or_an_address_is_never_cut() -> None:
    address = "http://127.0.0.1:40123/ml-team/mock-demo-49b71/v1"
    text = table(("ENDPOINT", "URL", "NOTE"), [["ml-team/mock-demo-49b71", address, "a note of words"]], 40)
    assert address in text
    assert "ml-team/mock-demo-49b71" in text


def test_a_column_stays_wide_enough_to_read() -> None:
    text = table(("A", "B"), [["x" * 70, "some words that could be put one below the other"]], 74)
    words = [line[72:] for line in text.splitlines()[1:]]
    assert all(len(word) <= NARROWEST for word in words)
    assert len(words) == 4


def test_a_table_without_rows_is_nothing() -> None:
    assert table(HEADER, []) == ""


def test_a_paragraph_is_folded_between_words() -> None:
    assert fold("one two three", 8) == "one two\nthree"
    assert fold("one two three") == "one two three"
