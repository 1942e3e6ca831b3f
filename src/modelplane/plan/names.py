"""Names of replicas: opaque, and a function of deployment, cluster and index alone.

So a replica that leaves and comes back to the same slot has the same name.
"""

from __future__ import annotations

import hashlib
from typing import Final

LIMIT: Final = 63
_USUAL: Final = 5
TAKEN: Final = 10
"""Digits where another owner has the usual name."""


def replica_name(deployment: str, cluster: str, index: int, *, digits: int = _USUAL) -> str:
    """The deployment's name, cut to fit 63 characters, and hex digits of the SHA-256 of all three parts."""
    digest = hashlib.sha256(f"{deployment}-{cluster}-{index}".encode()).hexdigest()[:digits]
    return f"{deployment[: LIMIT - 1 - digits].rstrip('-')}-{digest}"
