"""What every room's tests share: waiting on conditions instead of on the clock."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

# The same examples in every run: what fails here fails everywhere, and a red gate is the fault of the change that it judges.
# `make fuzz` draws fresh ones; what it finds becomes a case.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.register_profile("fresh", database=None, deadline=None, print_blob=True)
settings.load_profile("fresh" if os.environ.get("MODELPLANE_FRESH") else "steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubernetes",
        metavar="DIR",
        type=lambda text: Path(text).absolute(),
        help="run tests/e2e on fleets of the real Kubernetes whose binaries are in DIR, in a network namespace of its own",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole fleets first: they take longest, and nothing should be left waiting for them at the end."""
    items.sort(key=lambda item: "/e2e/" not in item.nodeid)


class Eventually(Protocol):
    """Waits until the condition holds and returns its (true) value; fails with what it saw last."""

    async def __call__(self, condition: Callable[[], object], within: float = 20.0) -> object: ...


@pytest.fixture
def eventually() -> Eventually:
    async def wait(condition, within=20.0):  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + within
        while True:
            seen = condition()
            if inspect.isawaitable(seen):
                seen = await seen
            if seen:
                return seen
            if time.monotonic() > deadline:
                pytest.fail(f"still {seen!r} after {within:g} s: {inspect.getsource(condition).strip()}")
            await asyncio.sleep(0.01)

    return wait
