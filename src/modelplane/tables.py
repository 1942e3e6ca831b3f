"""Text for people: columns and paragraphs that keep to a terminal's width, and to none where programs read along.

A column of words is folded; a name, an address or a command is never cut, so that it can be copied, and may stick out instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

GAP: Final = "  "
NARROWEST: Final = 14
"""A column of words is not folded below this."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """Columns under a header, nothing without rows; columns of words are folded to fit ``width``, 0 leaves them."""
    if not rows:
        return ""
    lines = [header, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    if width:
        _narrow(widths, [_least([line[at] for line in lines]) for at in range(len(header))], width)
    return "\n".join(text for line in lines for text in _folded(line, widths))


def fold(text: str, width: int = 0) -> str:
    """A paragraph in lines of at most ``width``; lines that it has already stay lines."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line, width)) if width else text


def _least(cells: Sequence[str]) -> int:
    """How narrow a column may become: its longest word, and not less than can be read."""
    natural = max(map(len, cells))
    return min(natural, max(NARROWEST, *(len(word) for cell in cells for word in cell.split(" "))))


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take from the widest column that can give, until all fit or none can."""
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
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
