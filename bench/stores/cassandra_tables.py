"""Runs through a keeper with readable tables behind it: rows a second, and CPU for each run.

    python -m bench.stores.cassandra_tables [--runs N] [--batch N]

Starts its own node from Maven's jars; client and node share this machine's cores, so trust the ratios. Each run is a
job of its own that is submitted, claimed and ended in batches: with the log alone, and with readable rows. Then reads:
the listing of a job with many runs, before and after most of them are past their retention.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.services.cassandra import Cassandra
from tests.support.cassandras import CLOCK, keyspace, linked, next_shard
from tests.support.table_rows import end_claimed
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable.listings import TableListings
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome, executor_number
from tickwise.ports.store import ClaimRequest, Retention, RunQuery
from tickwise.testing import factories
from tickwise.testing.factories import Factory

READS = 50
HOURS = 24
TICKS: float = os.sysconf("SC_CLK_TCK")


@dataclass
class Spent:
    """Seconds of wall and of CPU, here and in the node."""

    node: int
    wall: float = 0.0
    here: float = 0.0
    there: float = 0.0

    def read(self) -> Spent:
        """The counters now."""
        fields = Path(f"/proc/{self.node}/stat").read_text().rpartition(")")[2].split()
        return Spent(self.node, time.perf_counter(), time.process_time(), (int(fields[11]) + int(fields[12])) / TICKS)

    def since(self, before: Spent) -> Spent:
        """What was spent since then."""
        now = self.read()
        return Spent(self.node, now.wall - before.wall, now.here - before.here, now.there - before.there)


async def work(store: Any, runs: int, batch: int, seed: str) -> None:
    """Submit, claim and end so many runs."""
    number = executor_number(round(1_000 * await store.now()), os.urandom(2))
    executor = await store.executors.join(replace(factories.executor(seed), number=number))
    make = Factory(await store.now(), seed=seed)
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=batch, ahead_seconds=1.0)

    async def submit() -> None:
        for _ in range(0, runs, batch):
            await store.jobs.add([make.job() for _ in range(batch)])

    async def execute() -> None:
        done = 0
        await store.executors.beat(executor, 60.0)
        while done < runs:
            claims = await store.attempts.claim(request)
            if not claims:
                await store.executors.beat(executor, 60.0)
                await CLOCK.sleep(0.002)
                continue
            now = await store.now()
            outcomes = [
                Outcome(run_id=each.run_id, token=each.token, started=now, ended=now, state=CODES[RunState.SUCCESS])
                for each in claims
            ]
            await store.attempts.finish(executor, outcomes)
            done += len(claims)

    await asyncio.gather(submit(), execute())


async def throughput(link: CassandraLink, node: int, runs: int, batch: int, *, readable: bool) -> str:
    """Runs through one shard, until the last row is there."""
    shard = next_shard()
    projector = TableProjector(CassandraTables(link, shard), CLOCK, shard=shard) if readable else None
    store = KeeperStore(CassandraLog(link, shard, lease_seconds=30.0), CLOCK, projection=projector)
    await store.open()
    await work(store, 4 * batch, batch, f"warm {shard}")
    before, rows = Spent(node).read(), projector.rows if projector else 0
    await work(store, runs, batch, f"work {shard}")
    answered = Spent(node).since(before)
    if projector is not None:
        await projector.reached(store.position)
    spent = Spent(node).since(before)
    rows = (projector.rows if projector else 0) - rows
    await store.close()
    return (
        f"{'readable rows' if readable else 'log alone    '} batch {batch}: {runs / answered.wall:6.0f} runs/s, "
        f"{rows / spent.wall:6.0f} rows/s ({rows / runs:.1f} a run, the last one {spent.wall - answered.wall:.2f} s "
        f"behind), CPU a run: keeper {1e6 * spent.here / runs:.0f} µs, node {1e6 * spent.there / runs:.0f} µs"
    )


async def reads(link: CassandraLink, runs: int) -> str:
    """The newest page of a job that has runs of a day, before and after all but the newest hour went."""
    shard = next_shard()
    projector = TableProjector(CassandraTables(link, shard), CLOCK, shard=shard)
    store = KeeperStore(CassandraLog(link, shard, lease_seconds=30.0), CLOCK, projection=projector)
    await store.open()
    make = Factory(await store.now(), seed="reads")
    job = make.recurring(make.now + 86_400)
    await store.jobs.add([job])
    for hour in reversed(range(HOURS)):
        due = make.now - 3_600 * hour
        made = [make.run(job.job_id, due - place / 1_000) for place in range(runs // HOURS)]
        await store.runs.add("default", job.job_id, made)
        while store.memory.state.runs:
            await end_claimed(store)
    await projector.reached(store.position)
    full = await page_milliseconds(link, job.job_id)
    await store.upkeep.maintain(Retention(runs_seconds=-10.0, failed_seconds=-10.0))
    await store.runs.add("default", job.job_id, [make.run(job.job_id, make.now) for _ in range(100)])
    await end_claimed(store)
    await projector.reached(store.position)
    emptied = await page_milliseconds(link, job.job_id)
    await store.close()
    return (
        f"newest page of a job: {full:.1f} ms with {runs} runs, {emptied:.1f} ms after these are past retention (p50)"
    )


async def page_milliseconds(link: CassandraLink, job_id: Any) -> float:
    """The middle of some reads."""
    listings, taken = TableListings(link), list[float]()
    for _ in range(READS):
        begun = time.perf_counter()
        assert 50 == len(await listings.runs(RunQuery(namespace="default", job_id=job_id)))
        taken.append(1e3 * (time.perf_counter() - begun))
    return sorted(taken)[READS // 2]


async def measure(runs: int, batch: int) -> None:
    """All cases on one node."""
    async with Cassandra() as node:
        assert node.pid is not None
        async with keyspace(node.url) as url, linked(url) as link:
            print(f"one node, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
            await throughput(link, node.pid, runs // 2, batch, readable=True)  # the node compiles its code
            for readable in (False, True, False, True):
                print(await throughput(link, node.pid, runs, batch, readable=readable), flush=True)
            print(await reads(link, runs), flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores.cassandra_tables", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=200)
    asked = parser.parse_args()
    asyncio.run(measure(asked.runs, asked.batch))


if __name__ == "__main__":
    main()
