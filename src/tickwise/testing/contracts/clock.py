"""Time, ids and chance."""

from __future__ import annotations

import asyncio

from tickwise.ports.clock import Clock
from tickwise.testing.contracts.base import Contract

DRAWS = 1_000


class ClockContract(Contract):
    """The promises of each clock. The adapter's class provides the fixture `clock`, and `pass_time` if time needs
    help."""

    async def pass_time(self, clock: Clock, seconds: float) -> None:
        """Make sure that `seconds` pass while others sleep."""

    async def test_monotonic_never_goes_back(self, clock: Clock) -> None:
        """However often one looks."""
        seen = [clock.monotonic() for _ in range(DRAWS)]
        assert seen == sorted(seen)

    async def test_no_sleeper_wakes_early(self, clock: Clock) -> None:
        """Not by a microsecond, whatever the loop rounds to."""
        lengths = [0.0003, 0.0011, 0.0029, 0.0101]
        early: list[float] = []

        async def sleep(seconds: float) -> None:
            begin = clock.monotonic()
            await clock.sleep(seconds)
            if clock.monotonic() - begin < seconds:
                early.append(seconds)

        sleepers = asyncio.gather(*(sleep(seconds) for seconds in lengths))
        await self.pass_time(clock, 0.02)
        await sleepers
        assert early == []

    async def test_a_sleep_of_nothing_lets_others_have_a_turn(self, clock: Clock) -> None:
        """And needs no time."""
        turns: list[str] = []

        async def other() -> None:
            turns.append("other")

        task = asyncio.create_task(other())
        await clock.sleep(0.0)
        await clock.sleep(-1.0)
        turns.append("sleeper")
        await task
        assert turns == ["other", "sleeper"]

    async def test_random_bytes_have_the_length_asked_for_and_do_not_repeat(self, clock: Clock) -> None:
        """Ids are made of it."""
        assert [len(clock.random_bytes(count)) for count in (0, 1, 10, 64, 65, 1000)] == [0, 1, 10, 64, 65, 1000]
        assert len({clock.random_bytes(10) for _ in range(DRAWS)}) == DRAWS

    async def test_chance_is_spread_over_zero_to_one(self, clock: Clock) -> None:
        """Never one itself."""
        drawn = [clock.chance() for _ in range(DRAWS)]
        assert all(0.0 <= chance < 1.0 for chance in drawn)
        assert min(drawn) < 0.1
        assert max(drawn) > 0.9
