"""L2: how long after its time a future job starts."""

from __future__ import annotations

from typing import Any

from bench import raw
from bench.harness import Case, Rig, Round
from bench.work import jobs, store


async def _late(rig: Rig, rate: int, seconds: float) -> dict[str, Any]:
    """Future jobs at `rate` a second, from 5 s ahead."""
    count = int(rate * seconds)
    await rig.reset()
    async with store(rig) as opened, rig.role("scheduler"), rig.role("executor"):
        await rig.until_executors(1)
        await opened.jobs_add(jobs(rig, 10))
        await rig.until_ended(10, 30)
        first = rig.clock.now() + 5.0
        due = [first + number / rate for number in range(count)]
        for at in range(0, count, 1000):
            await opened.jobs_add(jobs(rig, len(due[at : at + 1000]), due=due[at : at + 1000]))
        await rig.until_ended(count + 10, seconds + 60)
    return await rig.outcome(count + 10)


async def lateness(rig: Rig) -> Round:
    """Lateness of future jobs at 500/s, 2k/s and 10k/s; the value is p99 at 10k/s."""
    seconds = 60.0 if rig.full else 8.0
    more: dict[str, Any] = {}
    for rate in (500, 2000, 5000, 10_000):
        outcome = await _late(rig, rate, seconds)
        for name in ("p50_ms", "p99_ms", "max_ms"):
            more[f"{name}_at_{rate}"] = round(outcome[name], 3)
    return Round(more["p99_ms_at_10000"], more)


CASE = Case("L2", "ms p99", 10.0, False, lateness, raw.timers, "a heap of due times on an event loop")
