"""T1: how fast a queue that is full already is emptied, each end durable and in the history."""

from __future__ import annotations

from bench import raw
from bench.harness import Case, Rig, Round
from bench.work import jobs, store


async def drain(rig: Rig) -> Round:
    """100k queued no-op runs; the clock runs from the first start to the last durable end."""
    count = 100_000
    await rig.reset()
    async with store(rig) as opened:
        for _ in range(0, count, 1000):
            await opened.jobs_add(jobs(rig, 1000))
    async with rig.role("executor"):
        last = await rig.until_ended(count, 120)
    outcome = await rig.outcome(count)
    return Round(count / (last - outcome["first_start"]), {"runs": count})


CASE = Case("T1", "jobs/s", 40_000, True, drain, raw.drain, "raw SQL: claim and finish with history")
