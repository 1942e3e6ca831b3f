"""Text for people: columns and paragraphs that keep to a terminal's width, and to none where programs read along.

A column of words is folded; a name, an address or a command is never cut, so that it can be copied, and may stick out instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

GAP: Final = "  "
HANG: Final = "    "
NARROWEST: Final = 14
"""A column of words is not folded below this."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """Columns under a header, nothing without rows; columns of words are folded to fit ``width``, 0 leaves them. Where that is not
    enough, a last column of words goes below the others, a little to the right."""
    if not rows:
        return ""
    lines = [header, *rows]
    widths = _fitting(lines, width)
    if not width or _total(widths) <= width or len(header) < 2 or not any(" " in row[-1] for row in rows):
        return "\n".join(text for line in lines for text in _folded(line, widths))
    widths = _fitting([line[:-1] for line in lines], width)
    return "\n".join(text for line in lines for text in (*_folded(line[:-1], widths), *_hung(line[-1], width)))


def fold(text: str, width: int = 0) -> str:
    """A paragraph in lines of at most ``width``; lines that it has already stay lines."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line, width)) if width else text


def _hung(cell: str, width: int) -> list[str]:
    """The cell below its row; one that says nothing is left out."""
    return [HANG + part for part in _wrapped(cell, width - len(HANG))] if cell not in ("", "-") else []


def _fitting(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Widths of the columns, as far as words allow within ``width``."""
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width:
        _narrow(widths, [_least(column) for column in columns], width)
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _least(cells: Sequence[str]) -> int:
    """How narrow a column may become: its longest word, and not less than can be read."""
    natural = max(map(len, cells))
    return min(natural, max(NARROWEST, *(len(word) for cell in cells for word in cell.split(" "))))


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take from the widest column that can give, until all fit or none can."""
    while _total(widths) > width:
        giving = [at for at, wide in enumerate(widths) if wide > least[at]]
        if not giving:
            return
        widths[max(giving, key=lambda at: widths[at])] -= 1


def _folded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [_wrapped(cell, wide) for cell, wide in zip(line, widths, strict=True)]
    height = max(map(len, cells))
    return [
        GAP.join(
            (cell[at] if at < len(cell) else "").ljust(wide) for cell, wide in zip(cells, widths, strict=True)
        ).rstrip()
        for at in range(height)
    ]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(1, width), break_long_words=False, break_on_hyphens=False) or [""]
