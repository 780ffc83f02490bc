"""Group commit: many requests, one write.

    put(job) ─┐
    put(job) ─┼──► waiting ──► writer: take up to `limit`, write them in one transaction ──► each caller hears
    put(job) ─┘                (what arrives during a write goes into the next one)

A lone request is written at once. Only when the last write carried several does the writer wait for more (as shipped,
one turn of the event loop), so the wait is paid where it saves writes and nowhere else.

Invariants: the caller that put a job is answered after its commit, or told that it failed; nobody is left waiting. What
waits for a store that is slower than the load is bounded by number and by bytes: beyond that callers hear `Busy`, and
from how fast it was written lately when there will be room. What is done after the commit (`wrote`) comes after the
answers, so it cannot make a failure of what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from sys import getsizeof
from typing import Final, TypeVar

import structlog

from tickwise.domain.errors import Busy, InDoubt, NamespaceMoved, ShardUnavailable, StoreUnavailable, Unavailable
from tickwise.observability.buffers import Buffer
from tickwise.observability.draining import Drain
from tickwise.ports.clock import Clock
from tickwise.ports.store import Added, NewJob

REPEATS_IN_DOUBT: Final = 3
"""A commit whose answer was lost is repeated with the same ids this often, then its callers are told."""
PAUSE_IN_DOUBT_SECONDS: Final = 0.2
ROOM_BYTES: Final = 64 << 20
"""Of definitions that wait for the store, all submits of a process together: a tenth of a second's work of a store that
is well, and a bound on memory for one that is not."""

logger = structlog.get_logger("tickwise.gather")

Write = Callable[[Sequence[NewJob]], Awaitable[Sequence[Added]]]
Waiting = tuple[NewJob, "asyncio.Future[Added]"]
T = TypeVar("T")


async def surely(write: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Repeat a write whose outcome is unknown; with the same ids, twice is once.

    Raises `InDoubt` if it stays unknown: a store that cannot be reached afterwards says nothing of the first try.
    """
    doubt: InDoubt | None = None
    for _ in range(REPEATS_IN_DOUBT + 1):
        if doubt is not None:
            await clock.sleep(PAUSE_IN_DOUBT_SECONDS)
        try:
            return await write()
        except InDoubt as failure:
            doubt = failure
        except StoreUnavailable:
            if doubt is None:
                raise
    raise doubt or InDoubt("the write was not tried")


class Room:
    """Bytes of what waits for the store. Shared by all ways in."""

    def __init__(self, clock: Clock, most: int = ROOM_BYTES) -> None:
        self._most = most
        self._taken = 0
        self._drain = Drain(clock)

    @property
    def buffer(self) -> Buffer:
        """Its fill in bytes."""
        return Buffer(self._taken, self._most)

    def take(self, size: int) -> None:
        """Raises `Busy` if so much does not fit beside what waits. Alone anything fits: what a body may be at most is
        said elsewhere."""
        if not self._taken:
            self._drain.filled()
        elif self._taken + size > self._most:
            raise Busy(
                "too many writes wait, because the store is slower than the requests; send the same later",
                retry_after_seconds=self._drain.wait_seconds(size),
            )
        self._taken += size

    def give(self, size: int) -> None:
        """Remove an item of this size from the count of waiting ones."""
        self._taken -= size
        self._drain.left(size)

    @contextmanager
    def taken(self, jobs: Sequence[NewJob]) -> Iterator[None]:
        """Room for these jobs while the block lasts. Raises `Busy`."""
        size = sum(size_of(job) for job in jobs)
        self.take(size)
        try:
            yield
        finally:
            self.give(size)


def size_of(job: NewJob) -> int:
    """Bytes in memory of the part of a job that its sender chooses the size of."""
    return getsizeof(job.definition)


class Gatherer:
    """Turns single jobs into batches."""

    def __init__(
        self,
        write: Write,
        clock: Clock,
        *,
        wait_seconds: float = 0.003,
        limit: int = 500,
        waiting_max: int = 20_000,
        room: Room | None = None,
        wrote: Callable[[Sequence[NewJob], Sequence[Added]], None] | None = None,
    ) -> None:
        """`wrote` is told of each batch that was committed and of the results, after its callers were."""
        self._write = write
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._limit = limit
        self._waiting_max = waiting_max
        self.room = room or Room(clock)
        self._drain = Drain(clock)
        self._wrote = wrote
        self._waiting: list[Waiting] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def put(self, job: NewJob) -> asyncio.Future[Added]:
        """The result for the job, once it is durable. Raises `Busy` if too many wait already, or too much."""
        if len(self._waiting) >= self._waiting_max:
            raise Busy(
                "too many jobs wait to be written; send the same again a little later",
                retry_after_seconds=self._drain.wait_seconds(),
            )
        if self._closing or self._task is None:
            raise Unavailable("this server is going down; send the same again to another, or a little later")
        self.room.take(size_of(job))
        if not self._waiting:
            self._drain.filled()
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        self._wake.set()
        return future

    def buffers(self) -> Mapping[str, Buffer]:
        """The waiting jobs, by number and by bytes."""
        return {"submits": Buffer(len(self._waiting), self._waiting_max), "submits_bytes": self.room.buffer}

    async def start(self) -> None:
        """Begin to write."""
        self._closing = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write the waiting requests, then end."""
        self._closing = True
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def _run(self) -> None:
        busy = False
        while True:
            if not self._waiting:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            if busy and not self._closing and len(self._waiting) < self._limit:
                await self._clock.sleep(self._wait_seconds)
            batch = self._waiting[: self._limit]
            del self._waiting[: self._limit]
            self._drain.left(len(batch))
            busy = len(batch) > 1
            if batch:
                try:
                    await self._settle(batch)
                finally:
                    self.room.give(sum([size_of(job) for job, _ in batch]))

    async def _settle(self, batch: Sequence[Waiting]) -> None:
        """Write a batch and answer each of its callers."""
        jobs = [job for job, _ in batch]
        try:
            results = await surely(lambda: self._write(jobs), self._clock)
        except Unavailable as away:
            if isinstance(away, ShardUnavailable | NamespaceMoved) and len({job.namespace for job in jobs}) > 1:
                # The database of some of them is away; for what is stored already, this is a repeat.
                apart: dict[str, list[Waiting]] = {}
                for each in batch:
                    apart.setdefault(each[0].namespace, []).append(each)
                await asyncio.gather(*map(self._settle, apart.values()))
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(_copy(away))
        except Exception as failure:
            # One job that the store chokes on must not take the others with it.
            if len(batch) > 1:
                logger.exception("batch_refused", jobs=len(batch))
                for single in batch:
                    await self._settle([single])
            elif not batch[0][1].done():
                batch[0][1].set_exception(failure)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
            if self._wrote is not None:
                self._wrote(jobs, results)


def _copy(away: Unavailable) -> Unavailable:
    """An exception of its own for each caller: one that is raised in many tasks collects all their traces."""
    return copy(away)
