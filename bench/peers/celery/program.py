"""Celery around no-op tasks. A task carries its number and, for the future, when it is due (its ETA).

Best: of what the documentation's page on optimizing names, more messages ahead for short tasks, and the thread pool
for tasks that need no process; without the gossip and mingling that one worker has no use for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import speak
from celery import Celery
from celery.signals import worker_process_shutdown, worker_ready, worker_shutdown

RECORD = speak.Record()
BEST_WORKER = ("--pool=threads", "--concurrency=10", "--prefetch-multiplier=64", "--without-gossip", "--without-mingle")

app = Celery("noops", broker=os.environ["PEER_REDIS_URL"])


def noop(number: int, due: float | None = None) -> None:
    """The task."""
    RECORD.ran(number, due)


task = app.task(name="noop")(noop)


async def setup() -> None:
    """Nothing to make."""


@asynccontextmanager
async def queue() -> AsyncIterator[speak.Queue]:
    """It has no bulk call; one producer for all of them is what its documentation advises."""
    with app.producer_or_acquire() as producer:

        async def add(numbers: range, due: Sequence[float] | None) -> None:
            if due is None:
                for number in numbers:
                    task.apply_async((number,), producer=producer)
                return
            for number, when in zip(numbers, due, strict=True):
                task.apply_async((number, when), eta=datetime.fromtimestamp(when, UTC), producer=producer)

        yield add


async def work() -> None:
    """A worker at its default (a process for each core), or with threads; each process leaves its part."""

    def ready(**_: object) -> None:
        speak.say("ready")

    def leave_part(**_: object) -> None:
        RECORD.write_part()

    worker_ready.connect(ready)
    worker_process_shutdown.connect(leave_part)
    worker_shutdown.connect(leave_part)
    speak.when_told_to_end(lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        app.worker_main(["worker", "--loglevel=WARNING", *(BEST_WORKER if speak.BEST else ())])
    finally:
        speak.write_joined()


if __name__ == "__main__":
    asyncio.run(speak.main(speak.Program(setup, queue, work)))
