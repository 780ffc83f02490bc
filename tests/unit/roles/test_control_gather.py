"""Group commit: many submits, one write; everybody is answered, and nobody by another's fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Busy, InDoubt, StoreUnavailable, Unavailable
from tickwise.domain.model import Lane
from tickwise.ports.store import Added, NewJob
from tickwise.roles.shared import group_commit
from tickwise.roles.shared.group_commit import Gatherer, Room


def job(number: int) -> NewJob:
    return NewJob(
        job_id=UUID(int=number), namespace="default", name=str(number), schedule_type="IMMEDIATE", task_kind="shell",
        definition="{}", lane=Lane(), created_by="a", recurring=False, run_id=None, due=None,
    )  # fmt: skip


class Writer:
    """A store's write that can be held, and can fail."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.failures: list[Exception] = []
        self.held: asyncio.Event | None = None
        self.chokes_on: int | None = None

    async def __call__(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        if self.held is not None:
            await self.held.wait()
        self.writes.append([each.job_id.int for each in jobs])
        if self.failures:
            raise self.failures.pop(0)
        if self.chokes_on in self.writes[-1]:
            raise ValueError("cannot be encoded")
        return [Added.REPEATED if each.job_id.int == 7 else Added.CREATED for each in jobs]


@asynccontextmanager
async def gathering(writer: Writer, **options: Any) -> AsyncIterator[Gatherer]:
    made = Gatherer(writer, SystemClock(), **options)
    await made.start()
    yield made
    await made.stop()


async def test_what_arrives_during_a_write_goes_into_the_next() -> None:
    """The first is written alone; the hundred that came meanwhile are one write."""
    writer = Writer()
    writer.held = asyncio.Event()
    async with gathering(writer) as made:
        first = made.put(job(1))
        while not made._wake.is_set() or made._waiting:
            await SystemClock().sleep(0)
        others = [made.put(job(number)) for number in range(2, 102)]
        writer.held.set()
        results = await asyncio.gather(first, *others)
    assert [[1], list(range(2, 102))] == writer.writes
    assert {Added.CREATED, Added.REPEATED} == set(results)
    assert Added.REPEATED == results[6]


async def test_a_write_takes_no_more_than_the_limit() -> None:
    """In the order of arrival."""
    writer = Writer()
    async with gathering(writer, limit=4) as made:
        await asyncio.gather(*(made.put(job(number)) for number in range(10)))
    assert [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] == writer.writes


async def test_a_store_that_is_away_is_told_to_everybody() -> None:
    """Each gets an error of its own; the next write is tried anew."""
    writer = Writer()
    async with gathering(writer) as made:
        writer.failures = [StoreUnavailable("away", retry_after_seconds=9)]
        found = await asyncio.gather(made.put(job(1)), made.put(job(2)), return_exceptions=True)
        assert [StoreUnavailable, StoreUnavailable] == [type(each) for each in found]
        assert found[0] is not found[1]
        assert isinstance(found[0], Unavailable)
        assert 9 == found[0].retry_after_seconds
        assert Added.CREATED == await made.put(job(3))


async def test_a_commit_in_doubt_is_repeated_with_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice is once, so nobody has to hear of it unless it stays in doubt."""
    monkeypatch.setattr(group_commit, "PAUSE_IN_DOUBT_SECONDS", 0.0)
    writer = Writer()
    async with gathering(writer) as made:
        writer.failures = [InDoubt("lost"), InDoubt("lost")]
        assert Added.CREATED == await made.put(job(1))
        assert [[1], [1], [1]] == writer.writes
        writer.failures = [InDoubt("lost")] * 4
        with pytest.raises(InDoubt):
            await made.put(job(2))


async def test_a_store_that_is_gone_after_a_doubt_leaves_the_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it cannot be reached now says nothing of the write before: nobody is told that nothing was written."""
    monkeypatch.setattr(group_commit, "PAUSE_IN_DOUBT_SECONDS", 0.0)
    writer = Writer()
    async with gathering(writer) as made:
        writer.failures = [InDoubt("lost"), *[StoreUnavailable("away")] * 3]
        with pytest.raises(InDoubt):
            await made.put(job(1))
        writer.failures = [InDoubt("lost"), StoreUnavailable("away")]
        assert Added.CREATED == await made.put(job(2))


async def test_what_was_written_is_told_after_its_callers_were() -> None:
    """Once a batch, and not for a batch that failed."""
    told: list[tuple[list[int], bool]] = []
    writer = Writer()

    def wrote(jobs: Sequence[NewJob], added: Sequence[Added]) -> None:
        assert [Added.CREATED] * len(jobs) == list(added)
        told.append(([each.job_id.int for each in jobs], all(future.done() for future in waiting)))

    async with gathering(writer, wrote=wrote) as made:
        writer.failures = [StoreUnavailable("away")]
        waiting = [made.put(job(1))]
        await asyncio.gather(*waiting, return_exceptions=True)
        waiting = [made.put(job(2)), made.put(job(3))]
        await asyncio.gather(*waiting)
    assert [([2, 3], True)] == told


async def test_a_job_that_the_store_chokes_on_harms_no_other() -> None:
    """The batch is written one by one; only the one at fault fails."""
    writer = Writer()
    writer.chokes_on = 2
    async with gathering(writer) as made:
        found = await asyncio.gather(*(made.put(job(number)) for number in (1, 2, 3)), return_exceptions=True)
    assert [Added.CREATED, Added.CREATED] == [found[0], found[2]]
    assert isinstance(found[1], ValueError)


async def test_a_full_buffer_refuses_instead_of_growing() -> None:
    """429 for the caller; nothing was taken."""
    writer = Writer()
    async with gathering(writer, waiting_max=2) as made:
        waiting = [made.put(job(1)), made.put(job(2))]
        with pytest.raises(Busy):
            await made.put(job(3))
        await asyncio.gather(*waiting)
    assert [[1, 2]] == writer.writes


def large(number: int) -> NewJob:
    """600 characters and a little."""
    return job(number)._replace(definition="x" * 600)


async def test_bytes_are_bounded_whatever_their_number() -> None:
    """A second large job does not fit beside the first; once that is durable, it does."""
    writer = Writer()
    writer.held = asyncio.Event()
    async with gathering(writer, room=Room(SystemClock(), 1_000)) as made:
        first = made.put(large(1))
        with pytest.raises(Busy, match="the store is slower than the requests"):
            await made.put(large(2))
        small = made.put(job(3))
        writer.held.set()
        await asyncio.gather(first, small)
        assert Added.CREATED == await made.put(large(2))


async def test_what_is_larger_than_all_room_fits_alone() -> None:
    """What one body may be at most is said elsewhere: nobody is told to come back for ever."""
    writer = Writer()
    async with gathering(writer, room=Room(SystemClock(), 100)) as made:
        assert Added.CREATED == await made.put(large(1))
        assert Added.CREATED == await made.put(large(2))


async def test_a_failed_write_gives_its_room_back() -> None:
    """Else a store that was away would leave less room each time."""
    writer = Writer()
    async with gathering(writer, room=Room(SystemClock(), 1_000)) as made:
        writer.failures = [StoreUnavailable("away")]
        with pytest.raises(StoreUnavailable):
            await made.put(large(1))
        assert Added.CREATED == await made.put(large(2))


async def test_batches_and_single_jobs_share_the_room() -> None:
    """While a batch waits for the store there is no room for a large job, and afterwards there is."""
    writer, room = Writer(), Room(SystemClock(), 1_000)
    async with gathering(writer, room=room) as made:
        with room.taken([large(1)]), pytest.raises(Busy):
            await made.put(large(2))
        assert Added.CREATED == await made.put(large(2))


async def test_a_caller_who_left_does_not_stop_the_others() -> None:
    """A cancelled wait is skipped when the answers are given out."""
    writer = Writer()
    async with gathering(writer) as made:
        gone, there = made.put(job(1)), made.put(job(2))
        gone.cancel()
        assert Added.CREATED == await there


async def test_stop_writes_what_waits_and_takes_nothing_more() -> None:
    """An acknowledged job is never lost by a clean stop; a late one is told to go elsewhere."""
    writer = Writer()
    made = Gatherer(writer, SystemClock())
    await made.start()
    waiting = [made.put(job(number)) for number in range(3)]
    await made.stop()
    assert [Added.CREATED] * 3 == [future.result() for future in waiting]
    with pytest.raises(Unavailable):
        await made.put(job(9))
