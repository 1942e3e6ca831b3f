"""Two fake clusters per test: the control cluster and one remote."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.control.harness import Toys
from tests.kube.fake_api import FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


@pytest.fixture
async def remote() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


@pytest.fixture
def toys() -> Toys:
    return Toys()
