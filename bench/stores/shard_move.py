"""A move of a namespace between two databases of one server: `python -m bench.stores.shard_move [JOBS]`.

Prints the pause of the namespace, and how long writes of another one took before the move and during it.
The server is that of TICKWISE_TEST_DATABASE_URL, or an embedded one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from time import monotonic

from tests.support import databases
from tests.support.two_databases import two_databases, upgraded
from tickwise.adapters.store.postgres.shards.mover import MoveProgress, MoveStep
from tickwise.ports.store import Store
from tickwise.testing.factories import Factory

JOBS = 100_000
BATCH = 1_000
QUIET_WRITES = 200


class SteadyWriter:
    """Submits jobs of a namespace that stays, one after the other, and notes how long each took."""

    def __init__(self, store: Store, make: Factory) -> None:
        self._store = store
        self._make = make
        self.seconds: list[tuple[float, float]] = []

    async def write(self) -> None:
        """One job."""
        begun = monotonic()
        await self._store.jobs.add([self._make.job(self._make.now + 3_600.0)])
        self.seconds.append((begun, monotonic() - begun))

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.write()


def milliseconds(seconds: list[float]) -> str:
    """The median, the 99th of a hundred, and the greatest."""
    found = sorted(seconds)
    return " / ".join(
        f"{1_000 * found[min(len(found) - 1, int(share * len(found)))]:.1f}" for share in (0.5, 0.99, 1.0)
    )


async def main(jobs: int) -> None:
    """Make the jobs, move them, print."""
    async with databases.server() as url, upgraded(url) as template, two_databases(url, template) as two:
        now = await two.first.now()
        team, others = (Factory(now, namespace=name, seed=name) for name in ("team", "others"))
        for name in ("team", "others"):
            await two.first.shard_map.place(name, 1)
        for begin in range(0, jobs, BATCH):
            await two.first.jobs.add([team.recurring(now + 3_600.0 + number) for number in range(begin, begin + BATCH)])
        await two.execute(1, "ANALYZE")
        writer = SteadyWriter(two.first, others)
        for _ in range(QUIET_WRITES):
            await writer.write()
        before = [seconds for _, seconds in writer.seconds]
        writer.seconds.clear()
        fenced: list[float] = []

        async def tell(progress: MoveProgress) -> None:
            if progress.step in (MoveStep.FENCED, MoveStep.SWITCHED):
                fenced.append(monotonic())

        writing = asyncio.create_task(writer.run())
        begun = monotonic()
        pause = await two.mover("team", 1, 2, tell).run()
        took = monotonic() - begun
        writing.cancel()
    during = [seconds for _, seconds in writer.seconds]
    inside = [seconds for at, seconds in writer.seconds if fenced[0] <= at <= fenced[-1]]
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, {jobs:,} jobs, "
        f"{pause.bytes_copied / 1e6:.0f} MB"
    )
    print(f"pause of the namespace {pause.seconds or 0:.2f} s, the whole move {took:.1f} s")
    print(f"writes of another namespace, ms (median / p99 / most): before {milliseconds(before)}")
    print(f"  during the move {milliseconds(during)}; while the fence stood {milliseconds(inside)}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS))
