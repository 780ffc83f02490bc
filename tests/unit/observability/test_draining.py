"""Whoever is told to come back later is told a time at which there is room."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import Sequence

import pytest

from tests.unit.roles.test_control_gather import job
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import Busy
from tickwise.observability.draining import MAX_WAIT_SECONDS, WAIT_SECONDS_LEAST, Drain
from tickwise.ports.store import Added, NewJob
from tickwise.roles.shared.group_commit import Gatherer, Room

WRITE_SECONDS = 4.0
LIMIT = 10
MAX_WAITING = 20
JOB_BYTES = 20_000
MAX_GROWTH_BYTES = 4 << 20
"""What the test itself keeps: a future and a number for each job that was taken."""


class SlowStore:
    """Takes its time for each write."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.written: list[int] = []

    async def write(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        await self._clock.sleep(WRITE_SECONDS)
        self.written += [each.job_id.int for each in jobs]
        return [Added.CREATED] * len(jobs)


async def test_who_comes_back_when_told_is_taken() -> None:
    """Thirty are refused in one moment by a full buffer. Each comes back after its own `Retry-After`, and not one is
    refused again, whatever the order."""
    clock = VirtualClock()
    store = SlowStore(clock)
    gatherer = Gatherer(store.write, clock, limit=LIMIT, waiting_max=MAX_WAITING)
    await gatherer.start()
    taken = [gatherer.put(job(number)) for number in range(MAX_WAITING)]
    # A first lump is seen, and the buffer is full again.
    await clock.advance(WRITE_SECONDS + 0.1)
    while gatherer.buffers()["submits"].items < MAX_WAITING:
        taken.append(gatherer.put(job(len(taken))))

    async def client(number: int) -> None:
        try:
            taken.append(gatherer.put(job(number)))
        except Busy as busy:
            await clock.sleep(busy.retry_after_seconds)
        else:
            raise AssertionError("the buffer is not full")
        taken.append(gatherer.put(job(number)))

    clients = [asyncio.create_task(client(1_000 + number)) for number in range(30)]
    await clock.advance(200.0)
    assert [None] * 30 == await asyncio.gather(*clients)
    assert [Added.CREATED] * len(taken) == await asyncio.gather(*taken)
    assert len(set(store.written)) == len(store.written) == len(taken)
    await gatherer.stop()


async def test_room_in_bytes_is_told_by_bytes() -> None:
    """What needs all the room waits for all that is there."""
    clock = VirtualClock()
    room = Room(clock, 1_000)
    room.take(500)
    room.take(500)
    await clock.advance(3.0)
    room.give(500)
    room.take(500)
    with pytest.raises(Busy) as small:
        room.take(500)
    with pytest.raises(Busy) as large:
        room.take(1_000)
    assert [3.0, 9.0] == [small.value.retry_after_seconds, large.value.retry_after_seconds]


async def test_what_stands_still_is_not_called_quick() -> None:
    """The lump under way has taken longer than any before it: the next may, too."""
    clock = VirtualClock()
    drain = Drain(clock)
    drain.filled()
    await clock.advance(1.0)
    drain.left(10)
    await clock.advance(7.0)
    assert 7.0 == drain.wait_seconds()


async def test_a_wait_is_never_below_a_second_nor_without_end() -> None:
    """Whole seconds are told, and nobody waits for ever for a store that does not move."""
    clock = VirtualClock()
    drain = Drain(clock)
    assert WAIT_SECONDS_LEAST == drain.wait_seconds()
    await clock.advance(10_000.0)
    assert MAX_WAIT_SECONDS == drain.wait_seconds()


async def test_an_old_stall_is_forgotten() -> None:
    """After some quick lumps nobody is told of the slow one any more."""
    clock = VirtualClock()
    drain = Drain(clock)
    drain.filled()
    await clock.advance(20.0)
    drain.left(1)
    for _ in range(8):
        await clock.advance(0.5)
        drain.left(10)
    assert 1.0 == drain.wait_seconds()


async def test_a_store_that_is_ten_times_too_slow_costs_no_memory_and_no_job() -> None:
    """Ten times as much comes in as it takes, for ten minutes: from the first full buffer on the process holds no more
    than it held then, and everything that was taken in is written once."""
    clock = VirtualClock()
    store = SlowStore(clock)
    gatherer = Gatherer(store.write, clock, limit=LIMIT, waiting_max=MAX_WAITING)
    await gatherer.start()
    tracemalloc.start()
    numbers, refused, held = itertools.count(), 0, []
    taken: list[asyncio.Future[Added]] = []
    for seconds in range(600):
        for _ in range(round(10 * LIMIT / WRITE_SECONDS)):
            try:
                taken.append(gatherer.put(job(next(numbers))._replace(definition=" " * JOB_BYTES + str(next(numbers)))))
            except Busy:
                refused += 1
        waiting = gatherer.buffers()
        assert waiting["submits"].items <= waiting["submits"].limit == MAX_WAITING
        if seconds in (100, 599):
            held.append(tracemalloc.get_traced_memory()[0])
        await clock.advance(1.0)
    tracemalloc.stop()
    stopping = asyncio.create_task(gatherer.stop())
    await clock.advance(60.0)
    await stopping
    assert [Added.CREATED] * len(taken) == await asyncio.gather(*taken)
    assert len(set(store.written)) == len(store.written) == len(taken)
    assert refused > 8 * len(taken)
    assert held[1] - held[0] < MAX_GROWTH_BYTES < refused * JOB_BYTES / 10
