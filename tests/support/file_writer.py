"""A process that writes to a file store and says what was acknowledged, until it is killed (`test_file_store_crash`).

python -m tests.support.file_writer FOLDER      prints `job ID`, `ended RUN` and `checkpoint` as they are answered
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper import store as keeper
from tickwise.adapters.store.keeper.block_places import BlockPlaces
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.factories import Factory

SUBMITTERS = 4
ENDED_IN_MEMORY = 20
BLOCK_RUNS = 30
CHECKPOINT_BYTES = 100_000
"""Low, so that many kills fall into a checkpoint."""


def say(text: str) -> None:
    """Tell the parent, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def submit(store: KeeperStore, number: int) -> None:
    """Store jobs that run at once, for ever."""
    make = Factory(await store.now(), seed=f"{number} {await store.now()}")
    while True:
        jobs = [make.job() for _ in range(3)]
        await store.jobs.add(jobs)
        for job in jobs:
            say(f"job {job.job_id}")


async def work(store: KeeperStore) -> None:
    """Claim and end runs, for ever."""
    executor = await store.executors.join(factories.executor("one", lease_seconds=3_600))
    while True:
        claims = await store.attempts.claim(
            ClaimRequest(executor=executor, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)
        )
        now = await store.now()
        done = [
            Outcome(run_id=each.run_id, token=each.token, state=CODES[RunState.SUCCESS], started=now, ended=now)
            for each in claims
        ]
        assert [] == list(await store.attempts.finish(executor, done))
        for each in claims:
            say(f"ended {each.run_id} {each.token}")
        await SystemClock().sleep(0.0)


async def main(folder: Path) -> None:
    """Write until the end."""
    keeper.CHECKPOINT_BYTES = CHECKPOINT_BYTES  # type: ignore[misc]  # of this process
    store = KeeperStore(
        FileLog(folder), SystemClock(), make_ended=lambda: SpilledRuns(folder, ENDED_IN_MEMORY, BlockPlaces(BLOCK_RUNS))
    )
    await store.open()
    await asyncio.gather(*(submit(store, number) for number in range(SUBMITTERS)), work(store))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
