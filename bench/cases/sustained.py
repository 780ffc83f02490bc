"""T2: how much can be submitted and run at the same time, for as long as one likes."""

from __future__ import annotations

from time import perf_counter

from bench import raw
from bench.harness import SQL, Case, Rig, Round
from bench.work import jobs, store


async def sustained(rig: Rig) -> Round:
    """Batches of 500 submitted while they run, the backlog bounded at 20k."""
    seconds = 60.0 if rig.full else 15.0
    await rig.reset()
    sent = 0
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        connection = await rig.connect()
        # The worker's start is not what is measured: one batch goes ahead.
        await opened.jobs_add(jobs(rig, 500))
        await rig.until_ended(500, 30)
        begun, ended = perf_counter(), []
        while perf_counter() - begun < seconds:
            await opened.jobs_add(jobs(rig, 500))
            sent += 500
            if sent % 5000 == 0:
                while await connection.fetchval(SQL["waiting"]) > 20_000:
                    await rig.clock.sleep(0.01)
                ended.append((perf_counter() - begun, (await connection.fetchrow(SQL["progress"]))["ended"] - 500))
        await connection.close()
        at, done = ended[-1]
        await rig.until_ended(sent + 500, 60)
    await rig.outcome(sent + 500)
    return Round(done / at, {"seconds": round(at, 1), "runs": sent})


CASE = Case("T2", "jobs/s", 25_000, True, sustained, raw.sustained, "raw SQL: submit, claim and finish with history")
