"""How long to wait before the next try: doubling, jittered, bounded."""

from __future__ import annotations

import random


class Backoff:
    """``next()`` gives seconds, between half and all of a bound that doubles from ``first`` to ``last``; ``reset()`` after a
    success."""

    def __init__(self, first: float = 0.05, last: float = 5.0, *, random_source: random.Random | None = None) -> None:
        self._first = first
        self._last = last
        self._bound = first
        self._random = random_source or random.Random()

    def next(self) -> float:
        bound, self._bound = self._bound, min(self._last, self._bound * 2)
        return bound * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        self._bound = self._first
