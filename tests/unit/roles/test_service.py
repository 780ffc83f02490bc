"""The frame that every role shares: no error ends a loop, and what missed the store comes back to it one by one."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import structlog

from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import StoreUnavailable
from tickwise.roles.shared.service import BACKOFF_FIRST_SECONDS, BACKOFF_LEAST_SHARE, BACKOFF_MAX_SECONDS, Loop, Service


class Recorder:
    """A step that fails while the test says so, and when it was made."""

    def __init__(self, clock: VirtualClock, trouble: type[Exception] | None = None) -> None:
        self._clock = clock
        self.trouble = trouble
        self.at: list[float] = []

    async def step(self) -> float:
        self.at.append(self._clock.monotonic())
        if self.trouble is not None:
            raise self.trouble("the test says so")
        return 10.0

    def pauses(self) -> list[float]:
        """Between one step and the next."""
        return [after - before for before, after in zip(self.at, self.at[1:], strict=False)]


async def passed(clock: VirtualClock, loop: Loop, seconds: float) -> None:
    """Let it run for so long."""
    task = asyncio.ensure_future(loop.run())
    await clock.advance(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("trouble", [StoreUnavailable, ValueError])
async def test_pauses_grow_while_nothing_works_up_to_a_bound(trouble: type[Exception]) -> None:
    """An absent store is not flooded, and its return is felt within seconds."""
    clock = VirtualClock()
    recorder = Recorder(clock, trouble)
    with structlog.testing.capture_logs():
        await passed(clock, Loop("test", recorder.step, clock), 60.0)
    pauses = recorder.pauses()
    longest = [min(BACKOFF_FIRST_SECONDS * 2.0**number, BACKOFF_MAX_SECONDS) for number in range(len(pauses))]
    shares = [pause / most for pause, most in zip(pauses, longest, strict=True)]
    assert [] == [share for share in shares if not BACKOFF_LEAST_SHARE - 1e-6 <= share <= 1.0 + 1e-6]
    assert 60.0 / BACKOFF_MAX_SECONDS <= len(pauses)


async def test_those_who_missed_the_store_together_do_not_come_back_together() -> None:
    """Each draws its own pauses."""
    clock = VirtualClock()
    recorders = [Recorder(clock, StoreUnavailable) for _ in range(20)]
    tasks = [asyncio.ensure_future(Loop("test", recorder.step, clock).run()) for recorder in recorders]
    await clock.advance(30.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert 20 == len({recorder.at[-1] for recorder in recorders})


async def test_a_first_step_can_come_after_the_start() -> None:
    """Not before its time; from then on at its own pace."""
    clock = VirtualClock()
    recorder = Recorder(clock, None)
    begun = clock.monotonic()
    await passed(clock, Loop("test", recorder.step, clock, after=5.0), 4.9)
    assert [] == recorder.at
    await passed(clock, Loop("test", recorder.step, clock, after=5.0), 9.0)
    assert begun + 4.9 + 5.0 == pytest.approx(recorder.at[0])


async def test_what_works_again_keeps_its_own_pace() -> None:
    """As if nothing had been."""
    clock = VirtualClock()
    recorder = Recorder(clock, StoreUnavailable)
    task = asyncio.ensure_future(Loop("test", recorder.step, clock).run())
    await clock.advance(30.0)
    recorder.trouble = None
    await clock.advance(30.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 10.0 == pytest.approx(recorder.pauses()[-1])


async def test_a_cancel_ends_a_loop_though_its_step_says_something_else() -> None:
    """A driver that cleans up after a cancel may fail at that, and then its error is all that comes out."""

    async def step() -> float:
        try:
            await asyncio.Event().wait()
        finally:
            raise StoreUnavailable("the connection could not be given back")

    clock = VirtualClock()
    task = asyncio.ensure_future(Loop("test", step, clock).run())
    await clock.settle()
    task.cancel()
    await clock.advance(60.0)
    assert task.done()


async def test_a_cancel_that_a_driver_lost_ends_a_loop_without_another_pause() -> None:
    """The step returns as if nothing had been asked; its next would be an hour later, or never."""
    clock = VirtualClock()
    wake = asyncio.Event()

    async def step() -> float:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 3600.0

    tasks = [
        asyncio.ensure_future(Loop("pauses", step, clock).run()),
        asyncio.ensure_future(Loop("is woken", step, clock, wake).run()),
    ]
    await clock.settle()
    for task in tasks:
        task.cancel()
    await clock.settle()
    assert [True, True] == [task.done() for task in tasks]


async def test_a_role_ends_though_the_first_cancel_is_lost_in_a_step() -> None:
    """The step goes on to wait for what never comes."""
    lost = asyncio.Event()

    async def step() -> float:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        lost.set()
        await asyncio.Event().wait()
        return 0.0

    clock = VirtualClock()
    role = Service()
    role.spawn(Loop("test", step, clock))
    await clock.settle()
    await role.stop()
    assert lost.is_set()
