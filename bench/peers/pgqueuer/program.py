"""pgqueuer around no-op jobs. A job's payload is its number and, for the future, when it is due.

Best: the documentation says to fetch more at a time where jobs are short, to run `pgq autovac`, and that dequeuers
share a queue; uvloop is what its own benchmark uses. Of 1 or 2 processes with batches of 10, 100, 250 and 500,
2 processes with 100 did best here, with 250 equal.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import speak
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

# What has a due time goes in smaller calls: pgqueuer takes it as a distance from the time of the statement.
FUTURE_BATCH = 100


@asynccontextmanager
async def queries() -> AsyncIterator[Queries]:
    """Its statements on a connection of their own."""
    connection = await asyncpg.connect(os.environ["PEER_DATABASE_URL"])
    try:
        yield Queries(AsyncpgDriver(connection))
    finally:
        await connection.close()


async def setup() -> None:
    """The tables, all of them logged ("durable", its default)."""
    async with queries() as its:
        await its.install()
        if speak.BEST:
            await its.optimize_autovacuum()


@asynccontextmanager
async def queue() -> AsyncIterator[speak.Queue]:
    """The bulk call: lists."""
    async with queries() as its:

        async def add(numbers: range, due: Sequence[float] | None) -> None:
            if due is None:
                payloads = [str(number).encode() for number in numbers]
                await its.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))
                return
            for at in range(0, len(numbers), FUTURE_BATCH):
                pairs = list(zip(numbers, due, strict=True))[at : at + FUTURE_BATCH]
                payloads = [f"{number} {when!r}".encode() for number, when in pairs]
                now = time.time()
                after = [timedelta(seconds=when - now) for _, when in pairs]
                await its.enqueue(["noop"] * len(pairs), payloads, [0] * len(pairs), after)

        yield add


async def work() -> None:
    """One manager on a connection of its own, as `pgq run` makes it."""
    record = speak.Record()
    manager = PgQueuer.from_asyncpg_connection(await asyncpg.connect(os.environ["PEER_DATABASE_URL"]))

    async def noop(job: Job) -> None:
        number, *due = (job.payload or b"").split()
        record.ran(int(number), *map(float, due))

    manager.entrypoint("noop")(noop)
    async with speak.working(record, manager.shutdown.set):
        if speak.BEST:
            await manager.run(batch_size=100)
        else:
            await manager.run()


if __name__ == "__main__":
    (uvloop if speak.BEST else asyncio).run(speak.main(speak.Program(setup, queue, work)))
