"""T1 and T2 with every role as a process: who uses the cores, and what each statement costs a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil

from bench.costs.meter import Meter, Reading, family, less
from bench.costs.spending import rows_text
from bench.harness import SQL, Failed, Rig
from bench.stream import flowing
from bench.work import jobs, store

BATCH = 500
MAX_STILL_SECONDS = 7.0
"""Less than a lease."""


@dataclass(frozen=True)
class Whole:
    """What a case used, from its first run to its last durable end."""

    name: str
    runs: int
    seconds: float
    used: Reading
    rows: str
    """What a run wrote, by table."""


@contextlib.contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A process and its children are stopped meanwhile."""
    stopped = [psutil.Process(one) for one in family(pid)]
    for process in stopped:
        process.suspend()
    try:
        yield
    finally:
        for process in stopped:
            process.resume()


async def _until_empty(rig: Rig, meter: Meter) -> None:
    """Wait until no run waits or runs. Asked of the small table, so that the asking costs next to nothing."""
    while await meter.connection.fetchval(SQL["waiting"]):
        await rig.clock.sleep(0.05)


async def drain(rig: Rig, meter: Meter, count: int = 100_000) -> Whole:
    """T1: 100k queued runs, from the moment at which the executor is there."""
    await rig.reset()
    async with rig.role("executor") as executor:
        await rig.until_executors(1)
        async with store(rig) as opened:
            await opened.jobs.add(jobs(rig, BATCH))
        await rig.until_ended(BATCH, 30)
        meter.programs = {"executor": executor.pid}
        # Its start is not what is measured: it stands still while the work is handed in.
        with standing_still(executor.pid):
            await _hand_in(rig, count)
            await meter.reset()
            before, begun = await meter.read(), perf_counter()
        await _until_empty(rig, meter)
        seconds = perf_counter() - begun
        after = await meter.read()
    await rig.outcome(count + BATCH)
    rows = less(await meter.tables(), before.tables)
    return Whole("T1", count, seconds, after.since(before), rows_text(rows, count))


async def _hand_in(rig: Rig, count: int) -> None:
    """Raises Failed if it takes so long that the executor's lease is in danger."""
    begun = perf_counter()
    async with store(rig) as opened:
        for _ in range(0, count, 1000):
            await opened.jobs.add(jobs(rig, 1000))
    if perf_counter() - begun > MAX_STILL_SECONDS:
        raise Failed("handing in took so long that the executor's lease is in danger")


async def sustained(rig: Rig, meter: Meter, seconds: float = 8.0) -> Whole:
    """T2: handed in while they run, in full flow."""
    tables = await meter.tables()
    async with flowing(rig) as stream:
        meter.programs = {**stream.processes, "submitter": os.getpid()}
        await meter.reset()
        earlier, _ = await stream.ended()
        before, begun = await meter.read(), perf_counter()
        await rig.clock.sleep(seconds)
        after, taken = await meter.read(), perf_counter() - begun
        later, _ = await stream.ended()
        await stream.finish()
        sent = stream.sent
    rows = less(await meter.tables(), tables)
    return Whole("T2", later - earlier, taken, after.since(before), rows_text(rows, sent))


class WatchedRig(Rig):
    """Its executors note where they are."""

    @property
    def samples(self) -> Path:
        """The file in which they say so."""
        return self.folder / "samples.json"

    def role(
        self, *arguments: str, **settings: object
    ) -> contextlib.AbstractAsyncContextManager[subprocess.Popen[bytes]]:
        """One process of the product."""
        if arguments[0] != "executor":
            return super().role(*arguments, **settings)
        return self.program("-m", "bench.costs.sampled", str(self.samples), *arguments, **settings)


async def functions(rig: Rig, meter: Meter, seconds: float = 8.0) -> tuple[float, dict[str, float]]:
    """Of the executor's main process in T2: its microseconds a run, and the share of each function."""
    watched = WatchedRig(rig.dsn, rig.folder, full=rig.full)
    async with flowing(watched) as stream:
        meter.programs = {"executor": stream.processes["executor"]}
        earlier, _ = await stream.ended()
        os.kill(stream.processes["executor"], signal.SIGUSR1)
        before = await meter.read()
        await rig.clock.sleep(seconds)
        used = (await meter.read()).since(before)
        later, _ = await stream.ended()
        await stream.finish()
    counts = dict(json.loads(watched.samples.read_text()))
    shares = {name: count / sum(counts.values()) for name, count in counts.items()}
    return used.programs["executor"].cpu * 1e6 / (later - earlier), shares
