"""A count of requests that cannot be shared for now: each process keeps to its share, says so once, and comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.pacing import MAX_CALLERS, OwnCount, SharedLimits, Standing, Wanted, count
from tickwise.ports.limits import Pace

PACE = Pace(rate=1.0, burst=12)


class Counter:
    """A shared count that may be away, or silent."""

    def __init__(self) -> None:
        self.away = False
        self.silent = False
        self.asked: list[Mapping[str, Wanted]] = []

    async def __call__(self, asked: Mapping[str, Wanted]) -> Mapping[str, Standing]:
        self.asked.append(asked)
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise OSError("gone")
        return {who: count(wanted.pace, 0.0, wanted.requests) for who, wanted in asked.items()}


async def settled(clock: VirtualClock, seconds: float = 0.0) -> None:
    """All that follows until then has happened."""
    await clock.advance(seconds)


async def test_while_it_is_away_each_process_keeps_to_its_share_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The share of one of four; when it is back, that is said too, and it is asked again."""
    clock, shared = VirtualClock(), Counter()
    limits = SharedLimits(shared, clock=clock, away=(OSError,), api_processes=lambda: 4)

    def told() -> list[str]:
        return [record.levelname for record in caplog.records if record.name.startswith("tickwise")]

    await limits.start()
    shared.away = True
    with caplog.at_level(logging.INFO):
        first = await limits.hit("anna", PACE)
        answers = [first, *[await limits.hit("anna", PACE) for _ in range(5)]]
        assert [True, True, True, False, False, False] == [answer.allowed for answer in answers]
        assert 4.0 == pytest.approx(answers[-1].retry_seconds)
        await settled(clock, 3.5)
        assert ["WARNING"] == told()
        shared.away = False
        await settled(clock, 1.5)
        assert ["WARNING", "INFO"] == told()
    shared.asked.clear()
    assert (await limits.hit("anna", PACE)).allowed
    assert [{"anna": Wanted(1, PACE)}] == shared.asked
    await limits.stop()


async def test_one_that_does_not_answer_holds_nobody_up_for_long() -> None:
    """Those who ask meanwhile hear from their own process, and so do all who come later."""
    shared = Counter()
    shared.silent = True
    limits = SharedLimits(shared, clock=VirtualClock(), away=(OSError,), wait_seconds=0.01)
    await limits.start()
    answers = await asyncio.gather(*(limits.hit(who, PACE) for who in ("anna", "bert")))
    assert [True, True] == [answer.allowed for answer in answers]
    assert (await limits.hit("anna", PACE)).allowed
    assert 1 == len(shared.asked)
    await limits.stop()


async def test_an_error_of_our_own_answers_everybody_all_the_same() -> None:
    """No request waits for ever because a count has a fault."""

    async def broken(_: Mapping[str, Wanted]) -> Mapping[str, Standing]:
        raise ZeroDivisionError

    limits = SharedLimits(broken, clock=VirtualClock(), away=(OSError,))
    await limits.start()
    assert (await limits.hit("anna", PACE)).allowed
    await limits.stop()


async def test_requests_that_come_while_a_count_is_under_way_are_counted_together() -> None:
    """However many there are, they are one question."""
    shared = Counter()
    limits = SharedLimits(shared, clock=VirtualClock(), away=(OSError,))
    await limits.start()
    answers = await asyncio.gather(*(limits.hit("anna", PACE) for _ in range(20)))
    assert 12 == sum(answer.allowed for answer in answers)
    assert 20 == sum(asked["anna"].requests for asked in shared.asked)
    assert len(shared.asked) <= 2
    await limits.stop()


async def test_made_up_callers_push_out_nobody_who_has_to_wait() -> None:
    """The memory has an end, and what is forgotten are counts that hardly hold anybody up."""
    own = OwnCount(VirtualClock())
    assert 12 == own.count(PACE, "first", 20).granted
    for number in range(3 * MAX_CALLERS):
        own.count(PACE, f"{number}", 1)
    assert 0 == own.count(PACE, "first", 1).granted
    assert len(own._times) <= MAX_CALLERS


async def test_a_caller_that_comes_too_early_is_refused_without_a_question() -> None:
    """Until the time that it was told; another pace is asked for."""
    clock, asked = VirtualClock(), 0
    own = OwnCount(clock)

    async def shared(wanted: Mapping[str, Wanted]) -> Mapping[str, Standing]:
        nonlocal asked
        asked += 1
        return {who: own.count(each.pace, who, each.requests) for who, each in wanted.items()}

    limits = SharedLimits(shared, clock=clock, away=(OSError,))
    await limits.start()
    pace = Pace(rate=1.0, burst=2)
    first = [await limits.hit("anna", pace) for _ in range(3)]
    assert [True, True, False] == [answer.allowed for answer in first]
    await clock.advance(0.25)
    again = [await limits.hit("anna", pace) for _ in range(20)]
    assert {(False, 0.75, 1.75)} == {(each.allowed, each.retry_seconds, each.reset_seconds) for each in again}
    assert 3 == asked
    assert (await limits.hit("anna", Pace(rate=1.0, burst=3))).allowed
    await clock.advance(0.75)
    assert 4 == asked
    await limits.hit("anna", pace)
    assert 5 == asked
    await limits.stop()


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (float("inf"), 1), (1.0, 0)])
def test_a_pace_that_means_nothing_is_refused(rate: float, burst: int) -> None:
    """Where it is made."""
    with pytest.raises(ValueError, match="pace"):
        Pace(rate, burst)
