"""A costly answer serves many callers and is renewed beside them; a cheap one is asked for each time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import StoreUnavailable, Unavailable
from tickwise.roles.shared.costly import STALE_SECONDS, CostlyAnswers


class Questions:
    """Counts the questions that reach the store, each of which takes so long."""

    def __init__(self, seconds: float) -> None:
        self.clock = VirtualClock()
        self.seconds = seconds
        self.asked = 0
        self.fails = False
        self.answers: CostlyAnswers[str, int] = CostlyAnswers(self.clock)

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.clock.advance(self.seconds)
        if self.fails:
            raise Unavailable("the store is away")
        return number

    async def of(self, key: str = "") -> int:
        return await self.answers.of(key, self.ask)


async def settled(done: Callable[[], bool]) -> None:
    """Let what goes on in the background go on until this is so."""
    for _ in range(100):
        if done():
            return
        await asyncio.tasks.sleep(0)
    raise AssertionError("it did not come")


async def test_a_cheap_answer_is_never_old() -> None:
    here = Questions(0.01)
    assert [1, 2, 3] == [await here.of() for _ in range(3)]


async def test_a_costly_answer_serves_those_who_ask_within_twenty_times_its_cost() -> None:
    here = Questions(0.2)
    assert [1, 1, 1] == [await here.of() for _ in range(3)]
    await here.clock.advance(3.9)
    assert 1 == await here.of()
    assert 1 == here.asked


async def test_an_older_one_is_given_while_it_is_renewed_once() -> None:
    here = Questions(0.2)
    await here.of()
    await here.clock.advance(4.1)
    assert [1, 1] == [await here.of(), await here.of()]
    await settled(lambda: here.asked == 2 and not here.answers._asking)
    assert 2 == await here.of()


async def test_nobody_is_given_an_answer_of_long_ago() -> None:
    here = Questions(0.2)
    await here.of()
    await here.clock.advance(STALE_SECONDS)
    assert 2 == await here.of()


async def test_those_who_ask_at_once_share_one_question() -> None:
    here = Questions(0.2)
    assert [1, 1, 1] == await asyncio.gather(*(here.of() for _ in range(3)))


async def test_a_failure_reaches_the_caller_and_is_not_kept() -> None:
    here = Questions(0.2)
    here.fails = True
    with pytest.raises(Unavailable):
        await here.of()
    here.fails = False
    assert 2 == await here.of()


async def test_a_renewal_that_fails_makes_the_next_caller_ask() -> None:
    here = Questions(0.2)
    await here.of()
    await here.clock.advance(5.0)
    here.fails = True
    assert 1 == await here.of()
    await settled(lambda: here.asked == 2 and not here.answers._asking)
    with pytest.raises(Unavailable):
        await here.of()


async def test_keys_do_not_share_and_the_oldest_make_room() -> None:
    here = Questions(0.2)
    assert [1, 2, 1] == [await here.of("a"), await here.of("b"), await here.of("a")]
    for number in range(300):
        await here.of(str(number))
    assert 303 == await here.of("a")


async def test_a_failure_that_nobody_waits_for_any_more_is_no_fault_of_the_loop() -> None:
    """A caller may go away before the store says that it is not there."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    answers, gate = CostlyAnswers[str, int](VirtualClock()), asyncio.Event()

    async def ask() -> int:
        await gate.wait()
        raise StoreUnavailable("away")

    caller = asyncio.create_task(answers.of("key", ask))
    await VirtualClock().settle()
    caller.cancel()
    await asyncio.wait({caller})
    gate.set()
    await VirtualClock().settle()
    gc.collect()
    assert [] == told
