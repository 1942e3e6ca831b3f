"""The pages of the documentation and the command blocks in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ORDER = (
    "README.md",
    "docs/architecture.md",
    "docs/deciding.md",
    "docs/embedded-server.md",
    "docs/operating.md",
    "docs/gateway.md",
    "docs/simulated-clusters.md",
    "docs/local-fleet.md",
)
"""The order in which a reader could try everything on one fleet: the first page starts it, the last removes it."""
FENCE = re.compile(r"^```(.*)$")
REASON = re.compile(r"^<!-- not run by the tests: \S.{10,} -->$")


class Block(NamedTuple):
    """A fenced block: its info string, its text, and the line before it."""

    page: str
    line: int
    info: str
    text: str
    before: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.info in ("sh", "console")


class Step(NamedTuple):
    """A command and what it prints; None where the page does not say."""

    where: str
    command: str
    expected: str | None


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    lines = (ROOT / page).read_text().splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if start is None:
            start = number
        else:
            before = lines[start - 1] if start else ""
            text = "\n".join(lines[start + 1 : number])
            found.append(Block(page, start + 1, lines[start].removeprefix("```"), text, before))
            start = None
    assert start is None, f"{page}: the block of line {start} has no end"
    return found


def steps(block: Block) -> list[Step]:
    """A shell block is one step. A console block has one for each line with a ``$``; lines with ``>`` go on with it."""
    if block.info == "sh":
        return [Step(block.where, block.text, None)]
    found: list[Step] = []
    command: list[str] = []
    expected: list[str] = []
    line = block.line
    for number, text in enumerate([*block.text.splitlines(), "$ "], block.line + 1):
        if text.startswith("$ "):
            if command:
                found.append(Step(f"{block.page}:{line}", "\n".join(command), "\n".join(expected)))
            command, expected, line = [text[2:]], [], number
        elif text.startswith("> ") and not expected:
            command.append(text[2:])
        else:
            expected.append(text)
    return found


def pattern(expected: str) -> re.Pattern[str]:
    """What a page shows as an expression: ``...`` is anything within a line, alone on a line any number of lines, and the
    width of columns does not matter."""
    parts = []
    for line in expected.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = r"[ \t]+".join(re.escape(word).replace(r"\.\.\.", r"[^\n]*?") for word in line.split())
            parts.append(rf"[ \t]*{words}[ \t]*\n")
    return re.compile("".join(parts))
