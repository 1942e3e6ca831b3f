"""Cluster taints and the tolerations of deployments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
DRAIN: Final = "modelplane.ai/drain"
"""Key of the taint that the drain verb sets."""


class Taint(msgspec.Struct, frozen=True, order=True):
    """Repels replicas that do not tolerate it; NoExecute also moves those that are there."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True):
    """An empty effect is for any effect; operator Exists without a key is for every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.key == taint.key and self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> tuple[Taint, ...]:
    """The taints that no toleration is for, in order of key."""
    tolerations = tuple(tolerations)
    return tuple(sorted(taint for taint in taints if not any(one.tolerates(taint) for one in tolerations)))


def evicting(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> tuple[Taint, ...]:
    """Those among the untolerated taints that move replicas away."""
    return tuple(taint for taint in untolerated(taints, tolerations) if taint.effect == NO_EXECUTE)
