"""How many examples a property is tried on: fewer where the environment says so, as the run over mutants does."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

MOST: Final = int(os.environ.get("MODELPLANE_EXAMPLES", "1000"))


def examples(count: int) -> settings:
    """Settings for a property: ``count`` examples, or as few as ``MODELPLANE_EXAMPLES`` asks for."""
    few = count > MOST
    return settings(
        max_examples=min(count, MOST),
        deadline=None,
        derandomize=few,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
