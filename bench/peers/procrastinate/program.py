"""Procrastinate around no-op jobs. A job carries its number and, for the future, when it is due.

Best: the documentation names `concurrency` for throughput, with as many connections in the pool, and the polling
interval for what falls due later (a job of the future sends no notice when its time comes). Jobs are kept, as is its
default. Of 1 or 2 processes with a concurrency of 1, 10 and 30, one with 10 did best here; uvloop changed nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import procrastinate
import speak

RECORD = speak.Record()
BEST_WORKER = {"concurrency": 10, "fetch_job_polling_interval": 0.1}
BEST_POOL = {"max_size": 12}


async def noop(number: int, due: float | None = None) -> None:
    """The job."""
    RECORD.ran(number, due)


app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(
        conninfo=os.environ["PEER_DATABASE_URL"], **(BEST_POOL if speak.BEST else {})
    )
)
task = app.task(name="noop")(noop)


async def setup() -> None:
    """The tables."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@asynccontextmanager
async def queue() -> AsyncIterator[speak.Queue]:
    """The bulk call; with due times it is the one below it, which takes a time for each job."""
    async with app.open_async():

        async def add(numbers: range, due: Sequence[float] | None) -> None:
            if due is None:
                await task.batch_defer_async(*({"number": number} for number in numbers))
                return
            await app.job_manager.batch_defer_jobs_async(
                [
                    task.configure(schedule_at=datetime.fromtimestamp(when, UTC)).make_new_job(number=number, due=when)
                    for number, when in zip(numbers, due, strict=True)
                ]
            )

        yield add


async def work() -> None:
    """A worker, ended by the signal that its documentation names."""
    async with app.open_async(), speak.working(RECORD, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        await app.run_worker_async(**(BEST_WORKER if speak.BEST else {}))


if __name__ == "__main__":
    asyncio.run(speak.main(speak.Program(setup, queue, work)))
