"""The reader of the feed: its pace, and the ids as the store sent them."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import pytest

from tickwise.control.live import reader
from tickwise.control.live.filters import EventFilter
from tickwise.control.live.reader import BREATH_SECONDS, POLL_SECONDS, FeedReader
from tickwise.control.live.streams import EventStream
from tickwise.domain.feed import FeedPlace
from tickwise.ports.feed import FeedPage, PackedIds

PLACE = FeedPlace(0, 1)


class Clock:
    """A clock that only the feed moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


class SlowFeed:
    """A feed of which each page takes its time."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    async def watch(self) -> FeedPlace:
        return PLACE

    async def since(self, place: FeedPlace, **_asked: object) -> FeedPage:
        self.clock.at += self.seconds
        return FeedPage((), place, place)


@pytest.mark.parametrize(("takes", "pause"), [(0.0, POLL_SECONDS), (0.06, POLL_SECONDS - 0.06), (0.5, BREATH_SECONDS)])
async def test_the_time_of_a_page_does_not_come_on_top_of_the_pause(
    takes: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages begin at the pace that is promised; after a slow one the process gets its breath."""
    pauses: list[float] = []
    clock = Clock()
    made = FeedReader(cast(Any, SlowFeed(clock, takes)), cast(Any, clock))
    stream = EventStream(EventFilter(namespace=None), None, clock.monotonic, made.leave)

    async def paused(_event: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            stream.abandon()

    monkeypatch.setattr(reader, "wait_for", paused)
    await made.join(stream, None)
    if made._task is not None:
        await made._task
    assert [pytest.approx(POLL_SECONDS), pytest.approx(pause), pytest.approx(pause)] == pauses


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 523])
def test_packed_ids_are_read_at_any_stride(count: int) -> None:
    """Of an array as PostgreSQL sends it, an empty one has no ids at all, and of ids without gaps."""
    ids = [os.urandom(16) for _ in range(count)]
    array = bytes(20) + b"".join(b"\0\0\0\x10" + each for each in ids) if ids else bytes(12)
    for packed in (PackedIds(b"".join(ids)), PackedIds(array, first=24, stride=20)):
        assert ids == packed.each()
        assert ids == [packed.at(index) for index in range(len(packed))]
