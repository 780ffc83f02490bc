"""Wake-ups: what a bell must do where nothing is lost. That rings may be lost is the listeners' business."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tickwise.ports.signals import MAX_ABOUT, Signals, Topic
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS = 60.0
QUIET_SECONDS = 0.5
SCENES = 5
"""A ring that a slow machine held up for longer than the quiet may wake anybody once; a bell that does not tell its
listeners apart wakes all of them each time."""


class SignalsContract(Contract):
    """The promises of all signals. The adapter's class provides the fixture `bells`: two that hear each other, not
    started.

    Where only one can be, it is the same object twice.
    """

    @pytest_asyncio.fixture
    async def started(self, bells: tuple[Signals, Signals]) -> AsyncIterator[tuple[Signals, Signals]]:
        """Both, hearing."""
        for bell in bells:
            await bell.start()
        yield bells
        for bell in bells:
            await bell.stop()

    async def rings(self, event: asyncio.Event) -> None:
        """It is heard."""
        await asyncio.wait_for(event.wait(), WITHIN_SECONDS)

    async def ring_until_heard(self, bell: Signals, topic: Topic, event: asyncio.Event) -> None:
        """Rings before the link is made are lost; so ring again until one is heard."""

        async def ring() -> None:
            while not event.is_set():
                bell.send(topic)
                heard = asyncio.ensure_future(event.wait())
                await asyncio.wait([heard], timeout=0.05)
                heard.cancel()

        await asyncio.wait_for(ring(), WITHIN_SECONDS)

    async def until_quiet(self, events: list[asyncio.Event]) -> None:
        """Nothing rang for half a second: what was still under way (late rings are allowed) has come."""

        async def settle() -> None:
            while True:
                for event in events:
                    event.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), QUIET_SECONDS)
                if not any(event.is_set() for event in events):
                    return

        await asyncio.wait_for(settle(), WITHIN_SECONDS)

    async def test_every_listener_of_a_topic_hears_a_ring(self, started: tuple[Signals, Signals]) -> None:
        """In this process and in the other one, the sender's own included."""
        here, there = started
        events = [here.listen(Topic.RUNS), here.listen(Topic.RUNS), there.listen(Topic.RUNS)]
        for event in events:
            await self.ring_until_heard(here, Topic.RUNS, event)

    async def test_a_ring_wakes_nobody_who_listens_for_something_else(self, started: tuple[Signals, Signals]) -> None:
        """Each topic is a bell of its own, once the links are made: a new link wakes everybody once."""
        here, there = started
        runs, *others = heard = [there.listen(topic) for topic in (Topic.RUNS, Topic.TIMERS, Topic.CANCELS)]
        for topic, event in zip((Topic.RUNS, Topic.TIMERS, Topic.CANCELS), heard, strict=True):
            await self.ring_until_heard(here, topic, event)
        woken = []
        for _ in range(SCENES):
            await self.until_quiet(heard)
            await self.ring_until_heard(here, Topic.RUNS, runs)
            woken.append(any(event.is_set() for event in others))
            if not woken[-1]:
                break
        assert not all(woken)

    async def test_a_ring_after_the_listener_cleared_its_event_is_heard(self, started: tuple[Signals, Signals]) -> None:
        """Clear, look, wait: nothing falls between."""
        here, there = started
        event = there.listen(Topic.TIMERS)
        for _ in range(3):
            await self.ring_until_heard(here, Topic.TIMERS, event)
            event.clear()

    async def test_a_burst_of_rings_is_heard(self, started: tuple[Signals, Signals]) -> None:
        """Hundreds of sends cost no more than a few rings, and none blocks."""
        here, there = started
        event = there.listen(Topic.CANCELS)
        await self.ring_until_heard(here, Topic.CANCELS, event)
        event.clear()
        for _ in range(1000):
            here.send(Topic.CANCELS)
        await self.rings(event)

    async def test_a_ring_about_something_wakes_who_is_concerned_and_nobody_else(
        self, started: tuple[Signals, Signals]
    ) -> None:
        """In both processes; who does not say what concerns them hears every ring."""
        here, there = started
        mine, other = UUID(int=1), UUID(int=2)
        concerned = [bell.listen(Topic.CANCELS, lambda each: each == mine) for bell in started]
        unconcerned = [bell.listen(Topic.CANCELS, lambda each: each == other) for bell in started]
        anybody = there.listen(Topic.CANCELS)
        await self.ring_until_heard(here, Topic.CANCELS, anybody)
        woken = []
        for _ in range(SCENES):
            await self.until_quiet([*concerned, *unconcerned, anybody])
            here.send(Topic.CANCELS, [UUID(int=3), mine])
            for event in (*concerned, anybody):
                await self.rings(event)
            woken.append(any(event.is_set() for event in unconcerned))
            if not woken[-1]:
                break
        assert not all(woken)

    @pytest.mark.parametrize("about", [0, MAX_ABOUT + 1, 100_000])
    async def test_a_ring_about_nothing_or_about_too_much_concerns_everybody(
        self, started: tuple[Signals, Signals], about: int
    ) -> None:
        """A ring is small, whatever it is about."""
        here, there = started
        events = [bell.listen(Topic.CANCELS, lambda _: False) for bell in started]
        heard = there.listen(Topic.CANCELS)
        await self.ring_until_heard(here, Topic.CANCELS, heard)
        await self.until_quiet([*events, heard])
        here.send(Topic.CANCELS, [UUID(int=number) for number in range(about)])
        for event in events:
            await self.rings(event)

    async def test_rings_about_different_things_that_are_sent_together_all_arrive(
        self, started: tuple[Signals, Signals]
    ) -> None:
        """One ring carries all subjects that were gathered; a ring with too many subjects to name concerns all
        listeners."""
        here, there = started
        ids = [UUID(int=number) for number in range(3 * MAX_ABOUT)]
        heard = there.listen(Topic.CANCELS)
        await self.ring_until_heard(here, Topic.CANCELS, heard)
        events = [there.listen(Topic.CANCELS, mine.__eq__) for mine in ids]
        await self.until_quiet([heard])
        for each in ids:
            here.send(Topic.CANCELS, [each])
        for event in events:
            await self.rings(event)

    async def test_sending_never_raises(self, bells: tuple[Signals, Signals]) -> None:
        """Neither before the start, nor after the stop, nor with nobody there."""
        bell, _ = bells
        bell.send(Topic.RUNS)
        await bell.start()
        bell.send(Topic.RUNS)
        await bell.stop()
        bell.send(Topic.RUNS)

    async def test_stopping_twice_is_stopping_once(self, bells: tuple[Signals, Signals]) -> None:
        """And one that never began may be stopped."""
        bell, other = bells
        await other.stop()
        await bell.start()
        await bell.stop()
        await bell.stop()
