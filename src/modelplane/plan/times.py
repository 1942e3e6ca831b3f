"""Times as API objects have them: RFC 3339, mostly UTC in whole seconds, but other writers may use zones and fractions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_USUAL: Final = len("2026-01-01T00:00:00Z")


def instant(text: str) -> float | None:
    """An RFC 3339 time as seconds since the epoch; None for any other text."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError:
        return None


def comparable(text: str) -> str:
    """The time in UTC without its fraction, whose texts compare as times do; empty for what is no time."""
    if len(text) == _USUAL and text[-1] == "Z" and text[10] == "T":
        return text
    seconds = instant(text)
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
