"""The count of requests: exact where it is shared, and with an end where it cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.ports.limits import Pace, Passed, RateLimits
from tickwise.testing.contracts.base import Contract

SLOW = Pace(rate=0.001, burst=10)
"""Nothing comes back while a test runs."""
QUICK = Pace(rate=50.0, burst=5)
SHORT = Pace(rate=10.0, burst=3)
_CLOCK = SystemClock()

MakeLimits = Callable[[], tuple[RateLimits, RateLimits]]
StartLimits = Callable[[], Awaitable[tuple[RateLimits, RateLimits]]]


class RateLimitsContract(Contract):
    """The promises of all rate limits. The adapter's class provides the fixture `make_limits`: it makes two
    objects that count together, not started. Where only one can be, it is the same object twice."""

    @pytest_asyncio.fixture
    async def started(self, make_limits: MakeLimits) -> AsyncIterator[StartLimits]:
        """Makes them, at work."""
        made: list[RateLimits] = []

        async def make() -> tuple[RateLimits, RateLimits]:
            pair = make_limits()
            made.extend(pair)
            for each in pair:
                await each.start()
            return pair

        yield make
        for each in made:
            await each.stop()

    async def refused(self, limits: RateLimits, pace: Pace) -> Passed:
        """The refusal of too many requests at once, however slow each answer is."""
        answers = await asyncio.gather(*(limits.hit("anna", pace) for _ in range(20)))
        return next(answer for answer in answers[::-1] if not answer.allowed)

    async def test_all_processes_together_let_through_the_burst_and_no_more(self, started: StartLimits) -> None:
        """Any process may ask, and any number at once."""
        here, there = await started()
        answers = await asyncio.gather(*(each.hit("anna", SLOW) for _ in range(30) for each in (here, there)))
        assert 10 == sum(answer.allowed for answer in answers)
        assert not (await here.hit("anna", SLOW)).allowed
        assert not (await there.hit("anna", SLOW)).allowed

    async def test_each_caller_has_a_count_of_their_own(self, started: StartLimits) -> None:
        """One who asks too much hinders nobody else, also if they ask at the same time."""
        here, there = await started()
        asked = ["anna"] * 40 + [f"caller {number}" for number in range(40)]
        answers = await asyncio.gather(
            *(each.hit(who, SLOW) for who, each in zip(asked, [here, there] * 40, strict=True))
        )
        assert 10 == sum(answer.allowed for answer in answers[:40])
        assert all(answer.allowed for answer in answers[40:])

    async def test_callers_of_different_paces_are_counted_at_the_same_time(self, started: StartLimits) -> None:
        """Each by its own."""
        here, there = await started()
        begun = _CLOCK.monotonic()
        asked = [("anna", SLOW), ("bert", SHORT), ("carl", Pace(rate=0.001, burst=1))] * 20
        answers = await asyncio.gather(
            *(each.hit(who, pace) for (who, pace), each in zip(asked, [here, there] * 30, strict=True))
        )
        passed = [sum(answer.allowed for answer in answers[place::3]) for place in range(3)]
        assert [10, 1] == passed[::2]
        # Some more of a quick pace, if the count takes long.
        assert SHORT.burst <= passed[1] <= SHORT.burst + 1 + SHORT.rate * (_CLOCK.monotonic() - begun)

    async def test_another_pace_counts_from_the_next_request_on(self, started: StartLimits) -> None:
        """A larger burst lets through what it has more; a smaller one takes no longer to come back than its own."""
        here, there = await started()
        for _ in range(10):
            assert (await there.hit("anna", SLOW)).allowed
        assert not (await here.hit("anna", SLOW)).allowed
        larger = Pace(rate=0.001, burst=12)
        answers = [await each.hit("anna", larger) for each in (here, there, here)]
        assert [True, True, False] == [answer.allowed for answer in answers]
        assert 30.0 >= (await there.hit("anna", Pace(rate=0.1, burst=2))).reset_seconds

    async def test_what_is_left_is_told(self, started: StartLimits) -> None:
        """One less each time, and when all of it is there again."""
        here, there = await started()
        answers = [await each.hit("anna", SLOW) for each in (here, there) * 6]
        assert [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0] == [answer.remaining for answer in answers]
        assert answers[0].reset_seconds == pytest.approx(1_000, abs=60)
        assert answers[9].reset_seconds == pytest.approx(10_000, abs=60)
        assert [0.0] * 10 == [answer.retry_seconds for answer in answers[:10]]
        assert answers[10].retry_seconds == pytest.approx(1_000, abs=60)

    async def test_who_comes_again_when_they_were_told_to_is_let_through(self, started: StartLimits) -> None:
        """The time that is told is true, and what was refused is not held against anybody."""
        here, there = await started()
        for _ in range(5):
            answer = await self.refused(here, QUICK)
            assert 0 < answer.retry_seconds <= QUICK.interval_seconds + 1e-6
            for _ in range(3):
                await there.hit("bert", QUICK)
            await _CLOCK.sleep(answer.retry_seconds + 0.001)
            assert (await there.hit("anna", QUICK)).allowed

    async def test_after_a_quiet_time_the_burst_is_there_again_and_no_more(self, started: StartLimits) -> None:
        """However long it was quiet."""
        here, there = await started()
        answer = await self.refused(here, SHORT)
        await _CLOCK.sleep(answer.reset_seconds + 0.5)
        assert 2 == (await there.hit("anna", SHORT)).remaining

    async def test_a_name_may_be_anything(self, started: StartLimits) -> None:
        """The names of keys are free text."""
        here, there = await started()
        for who in ("", "a b", "\N{SNOWMAN}", "x" * 500, "*", "a:b", "%s'\""):
            assert 9 == (await here.hit(who, SLOW)).remaining
            assert 8 == (await there.hit(who, SLOW)).remaining

    async def test_before_the_start_and_after_the_end_there_is_an_answer(self, make_limits: MakeLimits) -> None:
        """Of this process alone."""
        here, _ = make_limits()
        assert (await here.hit("anna", SLOW)).allowed
        await here.start()
        await here.stop()
        await here.stop()
        assert (await here.hit("anna", SLOW)).allowed
