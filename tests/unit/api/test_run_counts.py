"""How many runs came on record, by the hour."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_what_ended_is_counted_in_its_hour_by_its_state(here: Scene) -> None:
    """An hour later there is another row; what has not ended is in none."""
    assert [] == await here.ask("GET", "/runs/counts")
    number = await here.join()
    for _ in range(2):
        await here.create(schedule_type="IMMEDIATE")
        await here.create(schedule_type="IMMEDIATE", queue="nobody-serves-it")
        await here.work(number)
    first = {"hour": "2027-01-15T08:00:00Z", "status": "SUCCESS", "runs": 2}
    assert [first] == await here.ask("GET", "/runs/counts")
    await here.pass_time(3600.0)
    number = await here.join()
    await here.create(schedule_type="IMMEDIATE")
    await here.work(number)
    second = {"hour": "2027-01-15T09:00:00Z", "status": "SUCCESS", "runs": 1}
    assert [first, second] == await here.ask("GET", "/runs/counts")
    assert [second] == await here.ask("GET", "/runs/counts?since=2027-01-15T08:00:01Z")
    assert [first] == await here.ask("GET", "/runs/counts?until=2027-01-15T09:00:00Z")


@pytest.mark.parametrize(
    "window",
    [
        "since=2027-01-01T00:00:00Z&until=2026-01-01T00:00:00Z",
        "since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z",
        "since=2030-01-01T00:00:00Z",
    ],
)
async def test_a_time_that_ends_before_it_begins_or_is_too_long_is_refused(here: Scene, window: str) -> None:
    """With what may be asked."""
    problem = await here.ask("GET", f"/runs/counts?{window}", 422)
    assert "92 days at most" in problem["detail"]
