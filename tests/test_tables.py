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
    words = "some words that could be put one below the other"
    text = table(("A", "B", "C"), [["x" * 70, words, "y"]], 74)
    folded = [line[72:86].strip() for line in text.splitlines()[1:]]
    assert all(len(word) <= NARROWEST for word in folded)
    assert len(folded) == 4


def test_a_last_column_of_words_goes_below_where_there_is_no_room_beside() -> None:
    """Two names of clusters and a reason are more than 80 columns; the reason is what is read, and the names are copied."""
    header = ("CHANGE", "DEPLOYMENT", "REPLICA", "FROM", "TO", "WHY")
    row = [
        "moved",
        "ml-team/mock-demo",
        "mock-demo-49b71",
        "gpu-us-east-0",
        "gpu-us-west-0",
        "it has words " * 8 + "end",
    ]
    lines = table(header, [row, [*row[:5], "-"]], 80).splitlines()
    assert lines[0].split() == list(header[:-1])
    assert lines[1] == "    WHY"
    assert lines[2].split() == row[:5]
    assert lines[3].startswith("    it has words it has words")
    assert " ".join(" ".join(lines[3:5]).split()) == row[5]
    assert lines[-1].split() == row[:5], "nothing to say is not said"
    assert max(map(len, lines)) <= 80


def test_a_table_without_rows_is_nothing() -> None:
    assert table(HEADER, []) == ""


def test_a_paragraph_is_folded_between_words() -> None:
    assert fold("one two three", 8) == "one two\nthree"
    assert fold("one two three") == "one two three"
