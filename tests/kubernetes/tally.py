"""What a session compared, for its closing table."""

from __future__ import annotations

from collections import Counter

TALLY: Counter[str] = Counter()
