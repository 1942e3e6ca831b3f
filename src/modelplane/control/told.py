"""What was told about whom, so that a failure that lasts is in the log once and not at every try.

The same words about the same thing are told again after a while: a log is rotated, and who reads its end should find what is wrong.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable
from typing import Final

from modelplane.errors import Forbidden, Unauthorized

AGAIN: Final = 600.0
"""Seconds after which the same is told once more."""


_RIGHT: Final = re.compile(r'cannot \w+ resource "[^"]*" in API group "[^"]*"')


def topic(error: Exception) -> str:
    """What a refusal is about where it concerns everybody alike: our credential, or a right of ours. Empty for one object's own."""
    if isinstance(error, Unauthorized):
        return "Unauthorized"
    found = _RIGHT.search(str(error)) if isinstance(error, Forbidden) else None
    return found[0] if found else ""


class Told:
    """``now`` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._said: dict[Hashable, tuple[str, float]] = {}

    def news(self, about: Hashable, text: str) -> bool:
        """Whether this is to be told now, which then counts as told."""
        now = self._now()
        said = self._said.get(about)
        if said is not None and said[0] == text and now - said[1] < AGAIN:
            return False
        self._said[about] = text, now
        return True

    def forget(self, about: Hashable) -> None:
        """It is well again, or gone: the next failure is news."""
        self._said.pop(about, None)
