"""T1: how fast a queue that is full already is emptied, each end durable and in the history."""

from __future__ import annotations

from uuid import UUID

from bench import raw
from bench.harness import Case, Rig, Round
from bench.usage import read
from bench.work import jobs, store

COUNT = 100_000


async def filled(rig: Rig, count: int) -> list[UUID]:
    """A queue of so many no-op runs in an empty store; the runs that will end last."""
    await rig.reset()
    async with store(rig) as opened:
        for _ in range(0, count, 1000):
            batch = jobs(rig, 1000)
            await opened.jobs.add(batch)
    return [job.run_id for job in batch[::20] if job.run_id is not None]


async def drain(rig: Rig, count: int = COUNT) -> Round:
    """Queued no-op runs; the clock runs from the first start to the last durable end."""
    last = await filled(rig, count)
    connection = await rig.connect()
    async with rig.role("executor") as executor:
        await rig.until_executors(1)
        used = await read(connection, executor=executor.pid)
        durable = await rig.until_ended(count, 120, last=last)
        spent = await read(connection, executor=executor.pid)
    await connection.close()
    outcome = await rig.outcome(count)
    cost = spent.cost(used, count)
    del cost["cpu_us_a_run"]["client"]  # it only waits
    return Round(count / (durable - outcome["first_start"]), {"runs": count, **cost})


CASE = Case(
    "T1",
    "jobs/s",
    40_000,
    True,
    drain,
    raw.drain,
    "raw SQL: claim and finish with history",
    times_peers={"": 1.2},
)
