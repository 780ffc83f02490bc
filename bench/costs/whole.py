"""T1 and T2 with every role as a process: who uses the cores, and what each statement costs a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import psutil

from bench.costs.meter import Meter, Reading, family
from bench.harness import SQL, Failed, Rig
from bench.work import jobs, store

BACKLOG_MOST = 20_000
BATCH = 500
STILL_SECONDS_MOST = 7.0
"""Less than a lease."""


@dataclass(frozen=True)
class Whole:
    """What a case used, from its first run to its last durable end."""

    name: str
    runs: int
    seconds: float
    used: Reading
    functions: Mapping[str, float] = field(default_factory=dict)
    """Of the executor's main process: the share of its CPU by function."""


async def _settled(meter: Meter, after: Reading, before: Reading) -> Reading:
    """The difference, with rows as sessions told of them when they ended."""
    return replace(after, tables=await meter.tables()).since(before)


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
    async with store(rig) as opened, rig.role("executor") as executor:
        await rig.until_executors(1)
        await opened.jobs_add(jobs(rig, BATCH))
        await rig.until_ended(BATCH, 30)
        meter.programs = {"executor": executor.pid}
        # Its start is not what is measured: it stands still while the work is handed in.
        with standing_still(executor.pid):
            begun = perf_counter()
            for _ in range(0, count, 1000):
                await opened.jobs_add(jobs(rig, 1000))
            if perf_counter() - begun > STILL_SECONDS_MOST:
                raise Failed("handing in took so long that the executor's lease is in danger")
            await meter.reset()
            before, begun = await meter.read(), perf_counter()
        await _until_empty(rig, meter)
        seconds = perf_counter() - begun
        after = await meter.read()
    await rig.outcome(count + BATCH)
    return Whole("T1", count, seconds, await _settled(meter, after, before))


async def sustained(rig: Rig, meter: Meter, seconds: float = 8.0, *, watch: bool = False) -> Whole:
    """T2: batches of 500 handed in while they run, the backlog bounded. `watch` says where the executor's CPU goes."""
    await rig.reset()
    sent, samples = 0, rig.folder / "samples.json"
    role = rig.program("-m", "bench.costs.sampled", str(samples), "executor") if watch else rig.role("executor")
    async with store(rig) as opened, rig.role("scheduler") as scheduler, role as executor:
        await rig.until_executors(1)
        for _ in range(8):
            await opened.jobs_add(jobs(rig, BATCH))
        await rig.until_ended(8 * BATCH, 30)
        meter.programs = {"scheduler": scheduler.pid, "executor": executor.pid, "submitter": os.getpid()}
        await meter.reset()
        if watch:
            executor.send_signal(signal.SIGUSR1)
        before, begun = await meter.read(), perf_counter()
        while perf_counter() - begun < seconds:
            await opened.jobs_add(jobs(rig, BATCH))
            sent += BATCH
            if sent % 5000 == 0:
                while await meter.connection.fetchval(SQL["waiting"]) > BACKLOG_MOST:
                    await rig.clock.sleep(0.01)
        await _until_empty(rig, meter)
        taken = perf_counter() - begun
        after = await meter.read()
    await rig.outcome(sent + 8 * BATCH)
    return Whole("T2", sent, taken, await _settled(meter, after, before), _shares(samples) if watch else {})


def _shares(samples: Path) -> dict[str, float]:
    counts = dict(json.loads(samples.read_text()))
    return {name: count / sum(counts.values()) for name, count in counts.items()}
