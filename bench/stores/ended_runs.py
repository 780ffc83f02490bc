"""Memory and reads of a store over a log while runs end, the size of checkpoints, and the time of the next start.

    python -m bench.stores.ended_runs --runs 1000000 [--in-memory 20000] [--jobs 1000]

Each run is handed in for one of the jobs, claimed and ended, 100 at once; with `--jobs 0` it is a one-time job of its
own. `--in-memory -1` keeps all ended runs there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import ClaimRequest, JobQuery, RunQuery
from tickwise.testing import factories
from tickwise.testing.factories import Factory

AT_ONCE = 100
READS = 300
LISTS = 20


def memory_mb() -> float:
    """What this process has in memory now."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def store_in(folder: Path, in_memory: int) -> KeeperStore:
    """A store over the log in that folder."""
    make_ended: Callable[[], EndedRuns] = (lambda: SpilledRuns(folder, in_memory)) if in_memory >= 0 else EndedRuns
    return KeeperStore(FileLog(folder), SystemClock(), make_ended=make_ended)


async def micros(read: Callable[[], Awaitable[Any]], number: int = READS) -> tuple[float, float]:
    """The median and the longest of so many calls."""
    times = []
    for _ in range(number):
        begun = time.perf_counter()
        await read()
        times.append((time.perf_counter() - begun) * 1e6)
    times.sort()
    return times[len(times) // 2], times[-1]


async def reads(store: KeeperStore, ended: list[UUID], jobs: list[UUID]) -> str:
    """Reads of runs by id and by job, of jobs by id, and lists of both."""
    pick = random.Random(1)  # a sample
    by_id = await micros(lambda: store.runs.get("default", pick.choice(ended)))
    by_job = await micros(
        lambda: store.searches.runs(RunQuery(namespace="default", job_id=pick.choice(jobs), limit=50))
    )
    page = await micros(lambda: store.searches.runs(RunQuery(namespace="default", limit=50, before=pick.choice(ended))))
    job = await micros(lambda: store.jobs.get("default", pick.choice(jobs)))
    listed = await micros(
        lambda: store.searches.jobs(JobQuery(namespace="default", limit=50, before=pick.choice(jobs))), LISTS
    )
    return " | ".join(f"{median:,.0f} / {longest:,.0f}" for median, longest in (by_id, by_job, page, job, listed))


async def hand_in(store: KeeperStore, make: Factory, jobs: list[UUID] | None, number: int) -> tuple[UUID, UUID]:
    """Runs of one of these jobs, or of as many new ones; the first of them and its job."""
    if jobs is None:
        added = [make.job() for _ in range(AT_ONCE)]
        await store.jobs.add(added)
        assert added[0].run_id is not None
        return added[0].run_id, added[0].job_id
    job_id = jobs[number // AT_ONCE % len(jobs)]
    new = [make.run(job_id) for _ in range(AT_ONCE)]
    await store.runs.add("default", job_id, new)
    return new[0].run_id, job_id


async def checkpoints(store: KeeperStore, folder: Path) -> None:
    """Two checkpoints one after the other: their bytes, and those of the blocks that were written for each."""
    for _ in range(2):
        before = {path.name for path in folder.glob("block-*.tw")}
        begun = time.process_time()
        await store.keep_checkpoint()
        spent = time.process_time() - begun
        size = sum(path.stat().st_size for path in folder.glob("checkpoint-*.tw"))
        blocks = sum(path.stat().st_size for path in folder.glob("block-*.tw") if path.name not in before)
        sys.stdout.write(f"a checkpoint: {size:,} bytes, new blocks of {blocks:,} bytes, {spent:.2f} s of CPU\n")


async def main(runs: int, in_memory: int, jobs: int, folder: Path) -> None:
    """Let them end, and print a line after each tenth."""
    store = store_in(folder, in_memory)
    await store.open()
    make = Factory(await store.now(), seed="ended")
    rest = [make.recurring(await store.now() + 1e7) for _ in range(jobs)]
    ids = [job.job_id for job in rest]
    while rest:
        await store.jobs.add(rest[:1_000])
        rest = rest[1_000:]
    executor = await store.executors.join(factories.executor("one", lease_seconds=1e6))
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=AT_ONCE, ahead_seconds=0.0)
    kept: list[UUID] = []
    sys.stdout.write(
        "runs | MB | CPU µs a run | µs by id | µs, 50 of a job | µs, 50 of all | µs, a job | µs, 50 jobs\n"
    )
    cpu, number = time.process_time(), 0
    while number < runs:
        now = await store.now()
        run_id, job_id = await hand_in(store, Factory(now, seed=f"{number}"), ids if jobs else None, number)
        claims = await store.attempts.claim(request)
        assert AT_ONCE == len(claims)
        assert [] == list(await store.attempts.finish(executor, factories.outcomes(claims, RunState.SUCCESS)))
        kept.append(run_id)
        if not jobs:
            ids.append(job_id)
        number += AT_ONCE
        if number % (runs // 10) == 0:
            spent = (time.process_time() - cpu) / (runs // 10) * 1e6
            said = f"{number:,} | {memory_mb():,.0f} | {spent:.0f} | {await reads(store, kept, ids)}\n"
            sys.stdout.write(said)
            sys.stdout.flush()
            cpu = time.process_time()
    await checkpoints(store, folder)
    await store.close()
    begun = time.process_time()
    again = store_in(folder, in_memory)
    await again.open()
    sys.stdout.write(f"the next start: {time.process_time() - begun:.1f} s of CPU\n")
    await again.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--in-memory", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="ended-"))
    try:
        asyncio.run(main(given.runs, given.in_memory, given.jobs, place))
    finally:
        shutil.rmtree(place)
