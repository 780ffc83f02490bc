"""The search for circles of objects in a keeper."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.observability.tasks import end_tasks
from tickwise.wiring.cassandra import circles


class Ring:
    """Points at itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def searches() -> Iterator[None]:
    """None but those of the test. Afterwards all is frozen, as it was after the tests were collected: a search through
    them takes seconds, and would fall on a test that measures its time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


async def after_one_round(clock: VirtualClock) -> None:
    """Let the loop look once."""
    looking = asyncio.create_task(circles.freeze_loop(clock))
    await clock.advance(circles.FREEZE_SECONDS)
    await end_tasks([looking])


async def test_what_lives_is_searched_no_more() -> None:
    """A state of a million objects holds up no answer."""
    before = gc.get_freeze_count()
    state = [[number] for number in range(1_000)]
    await after_one_round(VirtualClock())
    assert gc.get_freeze_count() >= before + len(state)


async def test_where_circles_are_made_the_older_ones_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away fails thousands of calls; what they leave does not stay for ever."""
    found = iter([0, circles.FEW_FOUND + 1, 0])
    monkeypatch.setattr(circles, "_found", lambda: next(found))
    ring = Ring()
    gc.collect(0)
    there = weakref.ref(ring)
    del ring
    await after_one_round(VirtualClock())
    assert there() is None
