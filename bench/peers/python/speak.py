"""What the Python peers' programs share: the lines of `bench.peers.program`, and the buffer of what was run.

It runs inside a peer's own environment, so it needs nothing but the standard library. A program gives `main` three
functions around the peer's public interface; whether those are quick is the peer's affair, so nothing here runs per
job but two appends and a look at the clock, about 0.3 us.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

# Queues the jobs of these numbers, to run at once or at these times (seconds since 1970, one for each number).
Queue = Callable[[range, Sequence[float] | None], Awaitable[None]]

BEST = os.environ.get("PEER_SETTINGS") == "best"
BATCH = 1000
REPORT_SECONDS = 0.02


class Record:
    """The buffer of one process. Its threads may all add to it: an append is one step."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.ids = array("q")
        self.late_ms = array("d")

    def ran(self, number: int, due: float | None = None) -> None:
        """A handler has begun. Call it before anything else there."""
        now = time.time()
        if self.first is None:
            self.first = now
        self.ids.append(number)
        if due is not None:
            self.late_ms.append((now - due) * 1000)

    def write(self, file: Path) -> None:
        """The record as `bench.peers.program` reads it."""
        told = {"first": self.first, "ids": self.ids.tolist(), "late_ms": self.late_ms.tolist()}
        file.write_text(json.dumps(told))

    def write_part(self) -> None:
        """For a process that is one of several of a worker, which joins them with `write_joined`."""
        if self.ids:
            self.write(Path(f"{os.environ['PEER_RECORD']}.part-{os.getpid()}"))


def write_joined() -> None:
    """Join the parts that a worker's processes wrote into the worker's record."""
    file = Path(os.environ["PEER_RECORD"])
    parts = [json.loads(part.read_text()) for part in file.parent.glob(f"{file.name}.part-*")]
    told = {
        "first": min((part["first"] for part in parts), default=None),
        "ids": [number for part in parts for number in part["ids"]],
        "late_ms": [late for part in parts for late in part["late_ms"]],
    }
    file.write_text(json.dumps(told))


def say(line: str) -> None:
    """One line to whoever measures; past `sys.stdout`, which a peer may send to its log."""
    os.write(1, f"{line}\n".encode())


def report(count: Callable[[], int]) -> None:
    """Say now and then how many were handled, from a thread of its own, for as long as the process lives."""

    def loop() -> None:
        told = -1
        while True:
            handled = count()
            if handled != told:
                say(f"handled {handled}")
                told = handled
            time.sleep(REPORT_SECONDS)

    threading.Thread(target=loop, daemon=True).start()


def when_told_to_end(stop: Callable[[], object]) -> None:
    """Call `stop`, from another thread, once the input ends."""

    def wait() -> None:
        # Not through sys.stdin: a thread that holds its lock when the interpreter ends would be a fatal error.
        while os.read(0, 4096):
            pass
        stop()

    threading.Thread(target=wait, daemon=True).start()


@asynccontextmanager
async def working(record: Record, stop: Callable[[], object]) -> AsyncIterator[None]:
    """For workers that run in an event loop: ready from here on, `stop` is called in the loop, then the record."""
    loop = asyncio.get_running_loop()
    when_told_to_end(lambda: loop.call_soon_threadsafe(stop))
    report(lambda: len(record.ids))
    say("ready")
    yield
    record.write(Path(os.environ["PEER_RECORD"]))


@dataclass(frozen=True)
class Program:
    """A peer's part. `queue` opens what is needed to queue jobs; `work` runs a worker until it is told to end."""

    setup: Callable[[], Awaitable[None]]
    queue: Callable[[], AbstractAsyncContextManager[Queue]]
    work: Callable[[], Awaitable[None]]


async def _enqueue(program: Program, first: int, count: int, due: tuple[int, int] | None) -> None:
    async with program.queue() as queue:
        for begin in range(first, first + count, BATCH):
            numbers = range(begin, min(begin + BATCH, first + count))
            await queue(numbers, due and [(due[0] + due[1] * (number - first)) / 1000 for number in numbers])


async def _produce(program: Program) -> None:
    total = 0
    async with program.queue() as queue:
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            await queue(range(total, total + int(line)), None)
            total += int(line)
            say(f"enqueued {total}")


async def main(program: Program) -> None:
    """Do what the command line says."""
    what, *numbers = sys.argv[1], *map(int, sys.argv[2:])
    if what == "setup":
        await program.setup()
    elif what == "enqueue":
        await _enqueue(program, numbers[0], numbers[1], (numbers[2], numbers[3]) if len(numbers) == 4 else None)
    elif what == "produce":
        await _produce(program)
    elif what == "work":
        await program.work()
    else:
        sys.exit(f"unknown word {what!r}; there are setup, enqueue, produce, work")
