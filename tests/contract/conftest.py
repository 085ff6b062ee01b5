"""A frontier with workers for each test, on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from crawler.frontier import line
from tests.fleet import Fleet


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "FIRST_WAIT_S", 0.001)


@pytest.fixture
async def make_fleet(redis_url: str) -> AsyncIterator[Callable[..., Fleet]]:
    """Give the function that makes a frontier of the rules named."""
    async with AsyncExitStack() as stack:

        def make(**rules: Any) -> Fleet:
            fleet = Fleet(redis_url, **rules)
            stack.push_async_callback(fleet.close)
            return fleet

        yield make


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """Give a frontier without delays."""
    return make_fleet()
