"""How many examples a property is tried on. The run over mutants asks for fewer than usual, `make fuzz` for more."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

ASKED: Final = os.environ.get("MODELPLANE_EXAMPLES")


def examples(count: int) -> settings:
    """Settings for a property: ``count`` examples, or as many as ``MODELPLANE_EXAMPLES`` asks for."""
    return settings(
        max_examples=int(ASKED) if ASKED else count,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
