"""L2: how long after its time a future job starts, at three rates; also in a database that was never analysed.

The jobs are handed in beforehand, so what is measured is firing and starting, and not handing in at the same time.
"""

from __future__ import annotations

from typing import Any

from bench import raw
from bench.harness import Case, Check, Failed, Rig, Round
from bench.work import jobs, store

HANDED_IN_A_SECOND = 10_000.0
"""What we count on when the first time is chosen; slower, and the measurement is void."""
WARM = 10
"""Runs that go ahead, so that the start of the worker process is not what is measured."""


async def late(rig: Rig, rate: int, seconds: float) -> dict[str, Any]:
    """The outcome of future jobs at `rate` a second in the store as it is, which must be empty."""
    count = int(rate * seconds)
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        await opened.jobs.add(jobs(rig, WARM))
        await rig.until_ended(WARM, 30)
        first = rig.clock.now() + 3.0 + count / HANDED_IN_A_SECOND
        due = [first + number / rate for number in range(count)]
        last = []
        for at in range(0, count, 1000):
            batch = jobs(rig, len(due[at : at + 1000]), due=due[at : at + 1000])
            last = [job.run_id for job in batch[-50:] if job.run_id is not None]
            await opened.jobs.add(batch)
        if rig.clock.now() > first - 1.0:
            raise Failed(f"the machine was too slow to hand in {count} jobs at {HANDED_IN_A_SECOND:.0f}/s")
        await rig.clock.sleep(first + seconds - rig.clock.now())
        await rig.until_ended(count + WARM, 60, last=last)
    return await rig.outcome(count + WARM)


async def lateness(rig: Rig) -> Round:
    """The value is p99 at 10k/s. None may be early, or the measurement is void."""
    more: dict[str, Any] = {}
    for rate, seconds in ((500, 5.0), (2000, 5.0), (10_000, 8.0)):
        await rig.reset()
        outcome = await late(rig, rate, 60.0 if rig.full else seconds)
        for name in ("p50_ms", "p99_ms", "max_ms"):
            more[f"{name}_at_{rate}"] = round(outcome[name], 3)
    await rig.fresh()
    outcome = await late(rig, 10_000, 60.0 if rig.full else 8.0)
    more["p99_ms_never_analysed"] = round(outcome["p99_ms"], 3)
    more["early"] = outcome["early"]
    return Round(more["p99_ms_at_10000"], more)


CASE = Case(
    "L2",
    "ms p99",
    10.0,
    False,
    lateness,
    raw.timers,
    "a heap of due times on an event loop",
    checks=(
        Check("p99 in ms at 10k/s in a database that was never analysed", "p99_ms_never_analysed", 10.0),
        Check("started early", "early", 0),
    ),
    peers_compare="p99_ms_at_500",
)
