"""Dramatiq around no-op messages.

Best: its default is a process for each core with 8 threads; what else its documentation names for short messages is
how many a worker takes ahead (`dramatiq_queue_prefetch`).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import speak

BEST_ENVIRONMENT = {"dramatiq_queue_prefetch": "256"}


async def setup() -> None:
    """Nothing to make."""


@asynccontextmanager
async def queue() -> AsyncIterator[speak.Queue]:
    """It has no bulk call."""
    from actors import actor

    async def add(numbers: range, due: Sequence[float] | None) -> None:
        assert due is None, "due times are not measured for Dramatiq"
        for number in numbers:
            actor.send(number)

    yield add


async def work() -> None:
    """Its command, as processes and threads come by default; ready when each process is up."""
    environment = os.environ | (BEST_ENVIRONMENT if speak.BEST else {})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dramatiq", "actors"), env=environment, stdout=subprocess.DEVNULL
    )
    speak.when_told_to_end(process.terminate)
    record = Path(os.environ["PEER_RECORD"])
    while len(list(record.parent.glob(f"{record.name}.up-*"))) < len(os.sched_getaffinity(0)):
        if process.returncode is not None:
            sys.exit("dramatiq ended before it was up")
        await asyncio.sleep(0.01)
    speak.say("ready")
    await process.wait()
    speak.write_joined()


if __name__ == "__main__":
    asyncio.run(speak.main(speak.Program(setup, queue, work)))
