"""Numbers that options take, refused in words: a port that the system would cut to 16 bits, a time that is not a number.

Checked where they are given, so that no verb starts on half of them and fails in the words of a socket.
"""

from __future__ import annotations

import math
from typing import Final

import click

HIGHEST: Final = 65_535


class Port(click.ParamType):  # type: ignore[type-arg]  # generic from 8.4 on
    """A port to listen on. ``free`` allows 0, which leaves the choice to the system."""

    name = "port"

    def __init__(self, *, free: bool = True) -> None:
        self._lowest = 0 if free else 1

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit() and self._lowest <= int(text[:9]) <= HIGHEST and len(text) <= 9):
            zero = "; 0 is any free one" if not self._lowest else ""
            self.fail(f"{text!r} is no port: give a number from {self._lowest} to {HIGHEST}{zero}", param, ctx)
        return int(text)


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A time that ends: a number of at least 0, and neither infinite nor no number at all."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not (math.isfinite(seconds) and seconds >= 0):
            self.fail(f"{value!r} is no time: give seconds, 0 or more", param, ctx)
        return seconds


PORT: Final = Port()
LISTENER: Final = Port(free=False)
"""A port of a Gateway's listener, which Kubernetes wants to be a certain one."""
SECONDS: Final = Seconds()
