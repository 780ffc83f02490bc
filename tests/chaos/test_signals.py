"""A Redis that forgets, is away, takes nothing, answers late. The rows: `tests/chaos/rows`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds


@pytest.mark.takes_up_to(SECONDS)
async def test_whatever_happens_to_redis_costs_time_and_no_run() -> None:
    """Emptied all the time, killed, read-only, slow, standing still: jobs run, and cancels are heard."""
    await holds("R8")
