"""L3: how long it takes when 60k jobs are due at the same instant."""

from __future__ import annotations

from bench import raw
from bench.harness import Case, Check, Failed, Rig, Round
from bench.work import jobs, store


async def burst(rig: Rig) -> Round:
    """60k jobs due at one instant; the value is seconds to the last start."""
    count = 60_000
    await rig.reset()
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        await opened.jobs.add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        instant = rig.clock.now() + 15.0
        for _ in range(0, count, 1000):
            batch = jobs(rig, 1000, due=[instant] * 1000)
            await opened.jobs.add(batch)
        if rig.clock.now() > instant - 3:
            raise Failed("the machine was too slow to submit 60k jobs in 12 s")
        durable = await rig.until_ended(count + 10, 60)
    outcome = await rig.outcome(count + 10)
    return Round(outcome["last_start"] - instant, {"durable_s": round(durable - instant, 3), "runs": count})


CASE = Case(
    "L3",
    "s",
    0.8,
    False,
    burst,
    raw.burst,
    "raw SQL: claim 60k rows",
    checks=(Check("seconds until all had ended durably", "durable_s", 2.0),),
)
