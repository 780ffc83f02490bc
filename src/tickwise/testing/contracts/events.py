"""The channel of events: what it must do where nothing is lost, and that what is lost is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.ports.events import MAX_CHANNEL_LENGTH, MAX_EVENT_BYTES, Event, Events, Subscription
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS = 60.0
MANY = 5_000
"""More than any buffer holds."""
_CLOCK = SystemClock()


class EventsContract(Contract):
    """What every channel does. The adapter's class provides the fixture `channels`: two of different processes, not
    started. Where only one can be, it is the same object twice."""

    @pytest_asyncio.fixture
    async def started(self, channels: tuple[Events, Events]) -> AsyncIterator[tuple[Events, Events]]:
        """Both, at work."""
        for each in channels:
            await each.start()
        yield channels
        for each in channels:
            await each.stop()

    async def next(self, watched: Subscription) -> Event:
        """What comes next."""
        return await asyncio.wait_for(anext(watched), WITHIN_SECONDS)

    async def linked(self, events: Events, watched: Subscription, channel: str) -> bytes:
        """The link is made: what `events` publishes arrives. Takes everything until then; what was published last."""
        mark, quiet = _CLOCK.noise(16), _CLOCK.noise(16)

        async def publish() -> None:
            while True:
                events.publish(channel, mark)
                await _CLOCK.sleep(0.05)

        publishing = asyncio.create_task(publish())
        await self.until(watched, mark)
        publishing.cancel()
        await asyncio.wait([publishing])
        events.publish(channel, quiet)
        await self.until(watched, quiet)
        return quiet

    async def until(self, watched: Subscription, value: bytes) -> None:
        """Take everything up to this."""
        while (await self.next(watched)).value != value:
            pass

    async def test_events_reach_who_watches_in_their_order(self, started: tuple[Events, Events]) -> None:
        """In this process and in the other one; equal ones stay two."""
        here, there = started
        async with here.subscribe(["runs"]) as own, there.subscribe(["runs"]) as other:
            await self.linked(there, own, "runs")
            await self.until(own, await self.linked(here, other, "runs"))
            sent = [b"%d" % (number // 2) for number in range(200)]
            for value in sent:
                here.publish("runs", value)
            for watched in (own, other):
                assert [Event("runs", value) for value in sent] == [await self.next(watched) for _ in sent]

    async def test_who_watches_something_else_hears_nothing(self, started: tuple[Events, Events]) -> None:
        """Each channel is heard by itself; a subscription may have several."""
        here, there = started
        async with there.subscribe(["a"]) as one, there.subscribe(["a", "b"]) as both:
            await self.linked(here, both, "b")
            await self.linked(here, one, "a")
            here.publish("b", b"of b")
            here.publish("a", b"of a")
            assert Event("a", b"of a") == await self.next(one)
            found: list[Event] = []
            while len(found) < 2:
                event = await self.next(both)
                if event.value in (b"of a", b"of b"):
                    found.append(event)
            assert {Event("a", b"of a"), Event("b", b"of b")} == set(found)

    @pytest.mark.parametrize("value", [b"", b"\x00\xff\n'", bytes(MAX_EVENT_BYTES)])
    async def test_any_bytes_arrive_as_they_were_sent(self, started: tuple[Events, Events], value: bytes) -> None:
        """Up to the largest, under the longest name."""
        here, there = started
        channel = "\N{SNOWMAN}" * MAX_CHANNEL_LENGTH
        async with there.subscribe([channel]) as watched:
            await self.linked(here, watched, channel)
            here.publish(channel, value)
            assert Event(channel, value) == await self.next(watched)

    async def test_an_event_that_is_too_large_is_told_as_a_gap(self, started: tuple[Events, Events]) -> None:
        """Who watches looks into the store then; the next event arrives."""
        here, there = started
        async with there.subscribe(["runs"]) as watched:
            await self.linked(here, watched, "runs")
            here.publish("runs", bytes(MAX_EVENT_BYTES + 1))
            assert Event("runs", None) == await self.next(watched)
            here.publish("runs", b"after")
            assert Event("runs", b"after") == await self.next(watched)

    async def test_who_is_slow_is_told_of_the_gap_and_goes_on(self, started: tuple[Events, Events]) -> None:
        """What it had room for comes in order, then the gap, then what was published after it was told."""
        here, there = started
        async with there.subscribe(["runs"]) as watched:
            await self.linked(here, watched, "runs")
            for number in range(MANY):
                here.publish("runs", b"%d" % number)
            heard: list[bytes] = []
            while (event := await self.next(watched)).value is not None:
                heard.append(event.value)
            assert heard == [b"%d" % number for number in range(len(heard))]
            assert len(heard) < MANY
            await self.linked(here, watched, "runs")

    async def test_a_subscription_that_was_left_keeps_nothing(self, started: tuple[Events, Events]) -> None:
        """It may be entered again, and hears what comes then."""
        here, there = started
        watched = there.subscribe(["runs"])
        for _ in range(2):
            async with watched:
                await self.linked(here, watched, "runs")

    @pytest.mark.parametrize("name", ["", "x" * (MAX_CHANNEL_LENGTH + 1), "a\0b", "\ud800"])
    async def test_a_name_that_no_channel_can_have_is_refused(self, started: tuple[Events, Events], name: str) -> None:
        """Where it is said, and nothing is sent."""
        here, _ = started
        with pytest.raises(ValueError, match=r"channel|surrogates"):
            here.publish(name, b"")
        with pytest.raises(ValueError, match=r"channel|surrogates"):
            here.subscribe([name])

    async def test_the_end_ends_every_subscription(self, channels: tuple[Events, Events]) -> None:
        """What was heard before is still given."""
        here, _ = channels
        await here.start()
        async with here.subscribe(["runs"]) as watched:
            here.publish("runs", b"last")
            await here.stop()
            heard = [event async for event in watched]
        assert Event("runs", b"last") in heard

    async def test_publishing_never_waits_and_never_raises(self, channels: tuple[Events, Events]) -> None:
        """Neither before the start, nor after the end, nor with nobody there."""
        here, _ = channels
        for _ in range(MANY):
            here.publish("runs", b"before")
        await here.start()
        here.publish("runs", b"while")
        await here.stop()
        await here.stop()
        here.publish("runs", b"after")
