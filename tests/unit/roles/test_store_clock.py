"""What an executor takes for the store's time: never ahead of it, whatever this machine's own clock says."""

from __future__ import annotations

import pytest

from tickwise.roles.executor.store_clock import RENEW_SECONDS, StoreClock
from tickwise.testing.clock import VirtualClock

NOW = 1_900_000_000.0


class WrongClock(VirtualClock):
    """A machine whose wall clock is an hour fast."""

    def now(self) -> float:
        return super().now() + 3600.0


@pytest.fixture
def clock() -> WrongClock:
    return WrongClock()


async def test_the_stores_word_counts_and_not_this_machines_clock(clock: WrongClock) -> None:
    """It goes on from there by what has passed here."""
    time = StoreClock(clock)
    time.saw(NOW)
    await clock.advance(5.0)
    assert pytest.approx(NOW + 5.0) == time.now()


async def test_an_answer_that_was_long_under_way_does_not_put_it_back(clock: WrongClock) -> None:
    """The best of all answers counts: each says what the time was at least."""
    time = StoreClock(clock)
    time.saw(NOW)
    await clock.advance(5.0)
    time.saw(NOW + 2.0)
    assert pytest.approx(NOW + 5.0) == time.now()


async def test_a_store_whose_clock_was_set_back_is_followed(clock: WrongClock) -> None:
    """At once if the answer shows it, and after a while in any case."""
    time = StoreClock(clock)
    time.saw(NOW)
    time.saw(NOW - 3600.0, asked=clock.monotonic())
    assert pytest.approx(NOW - 3600.0) == time.now()
    await clock.advance(RENEW_SECONDS + 1.0)
    time.saw(NOW - 7200.0)
    assert pytest.approx(NOW - 7200.0) == time.now()


def test_it_says_nothing_before_the_store_has(clock: WrongClock) -> None:
    """A guess would start something early."""
    with pytest.raises(RuntimeError, match="before the store was"):
        StoreClock(clock).now()
