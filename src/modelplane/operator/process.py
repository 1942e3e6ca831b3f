"""What the system knows of this process, under the names that Prometheus' client libraries give it.

Usual dashboards and alerts find them there. What a system without /proc does not say is left out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc/self")
_PAGE: Final = resource.getpagesize()


def _pages(field: int) -> float:
    """A field of statm, in bytes."""
    return float(int((PROC / "statm").read_text().split()[field]) * _PAGE)


def _most_files() -> float:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else float(limit)


READERS: Final[Mapping[str, tuple[str, Callable[[], float]]]] = {
    "process_cpu_seconds_total": ("Time on a processor, in the kernel and outside.", time.process_time),
    "process_resident_memory_bytes": ("Memory that is in RAM.", lambda: _pages(1)),
    "process_virtual_memory_bytes": ("Memory that is mapped.", lambda: _pages(0)),
    "process_open_fds": ("Files and sockets that are open.", lambda: float(len(os.listdir(PROC / "fd")))),
    "process_max_fds": ("How many may be open.", _most_files),
}


def reading(name: str) -> Mapping[tuple[str, ...], float]:
    """The figure now, as a gauge wants it."""
    with contextlib.suppress(OSError):
        return {(): READERS[name][1]()}
    return {}
