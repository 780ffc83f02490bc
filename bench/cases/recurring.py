"""R1: 50,000 jobs that fire every ten seconds, 5,000 fires a second: is each occurrence run once, and how late.

R1 spreads them evenly over time: intervals whose anchors lie 200 us apart. R1-CRON gives them cron lines with seconds,
which name whole seconds only: 5,000 are due at one instant, once a second, and the last is late by what it takes to
start 5,000 tasks. Both run with default policies (overlap skip, misfire latest), one scheduler, one executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from bench import raw_recurring
from bench.harness import SQL, Case, Failed, Rig, Round
from bench.work import LANE, store
from tickwise.documents.definition import Definition, encode_definition
from tickwise.domain.model import time_id
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import NewJob

JOBS = 50_000
PERIOD_SECONDS = 10
TASK = msgspec.Raw(b'{"kind":"function","name":"bench.noop"}')


@dataclass(frozen=True)
class Plan:
    """The jobs of one round, and when each fires first."""

    jobs: list[NewJob]
    firsts: list[float]

    @property
    def ids(self) -> list[UUID]:
        """The ids of the jobs."""
        return [job.job_id for job in self.jobs]


def _plan(rig: Rig, begin: float, *, form: ScheduleType) -> Plan:
    """Their first occurrences lie in the period that begins at `begin`, a multiple of ten seconds."""
    now = rig.clock.now()
    jobs: list[NewJob] = []
    firsts: list[float] = []
    for number in range(JOBS):
        if form is ScheduleType.CRON:
            offset = float(number % PERIOD_SECONDS)
            said: dict[str, Any] = {"cron_expression": f"{number % PERIOD_SECONDS}/{PERIOD_SECONDS} * * * * *"}
        else:
            offset = number * PERIOD_SECONDS * 1_000_000 // JOBS / 1e6
            said = {"interval_seconds": float(PERIOD_SECONDS), "anchor": begin + offset}
        definition = Definition(schedule_type=form, planned_at=now, task=TASK, **said)
        firsts.append(begin + offset)
        jobs.append(
            NewJob(
                job_id=time_id(int(now * 1000), rig.clock.random_bytes(10)),
                namespace="default",
                name="bench",
                schedule_type=form.value,
                task_kind="function",
                definition=encode_definition(definition),
                lane=LANE,
                created_by="bench",
                recurring=True,
                run_id=None,
                due=firsts[-1],
            )
        )
    return Plan(jobs, firsts)


def cpu_seconds(pid: int) -> float:
    """What a process and its active children have used so far."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return (int(fields[11]) + int(fields[12])) / 100 + sum(cpu_seconds(int(child)) for child in children)
    return 0.0


def memory_megabytes(pid: int) -> float:
    """The resident memory of a process, without its children."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1_000_000


class Costs:
    """What the two processes took from one moment to another."""

    def __init__(self, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        self._processes = processes
        self._before = {name: cpu_seconds(process.pid) for name, process in processes.items()}

    def told(self, fires: int) -> Iterator[tuple[str, float]]:
        """Microseconds of CPU a fire, and memory at the end."""
        for name, process in self._processes.items():
            yield f"{name}_us", round((cpu_seconds(process.pid) - self._before[name]) / fires * 1e6, 1)
            yield f"{name}_mb", round(memory_megabytes(process.pid), 1)


@contextlib.asynccontextmanager
async def _at_work(rig: Rig, plan: Plan) -> AsyncIterator[dict[str, subprocess.Popen[bytes]]]:
    """The jobs stored and both roles at work."""
    async with store(rig) as opened, rig.role("scheduler") as scheduler, rig.role("executor") as executor:
        await rig.until_executors(1)
        for at in range(0, JOBS, 1000):
            await opened.jobs.add(plan.jobs[at : at + 1000])
        yield {"scheduler": scheduler, "executor": executor}


async def recurring(rig: Rig, *, form: ScheduleType) -> Round:
    """p99 of lateness in ms, over five minutes with FULL, else 40 s, after one period of warming up."""
    seconds = 300 if rig.full else 40
    await rig.reset()
    begin = math.ceil((rig.clock.now() + 12) / PERIOD_SECONDS) * float(PERIOD_SECONDS)
    measured, end = begin + PERIOD_SECONDS, begin + PERIOD_SECONDS + seconds
    plan = _plan(rig, begin, form=form)
    async with _at_work(rig, plan) as processes:
        if rig.clock.now() > begin - 2:
            raise Failed("the machine was too slow to store 50,000 jobs in 10 s")
        await rig.clock.sleep(measured - rig.clock.now())
        costs = Costs(processes)
        await rig.clock.sleep(end - rig.clock.now())
        more = dict(costs.told(JOBS * seconds // PERIOD_SECONDS))
        await _until_over(rig, end)
        more |= await _tables(rig)
    return Round(*await _judged(rig, plan, [begin, measured, end], more))


async def _until_over(rig: Rig, end: float) -> None:
    """Wait until all that was due before `end` has ended."""
    connection = await rig.connect()
    async with asyncio.timeout(120):
        while await connection.fetchval(SQL["behind"], end):
            await rig.clock.sleep(0.1)
    await connection.close()


async def _tables(rig: Rig) -> dict[str, float]:
    """How the table of timers stands after all that."""
    connection = await rig.connect()
    rows = {row["relname"]: row for row in await connection.fetch(SQL["timers_stand"])}
    await connection.close()
    timers = rows["timers"]
    return {
        "timers_dead": timers["dead"],
        "timers_mb": round(float(timers["megabytes"]), 1),
        "timers_hot": round(timers["hot"] / max(timers["updates"], 1), 3),
    }


async def _judged(
    rig: Rig, plan: Plan, instants: Sequence[float], more: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """p99 and the rest. Raises `Failed` if any occurrence is missing, double, early, or did not go well."""
    connection = await rig.connect()
    row = dict(await connection.fetchrow(SQL["occurrences"], plan.ids, plan.firsts, *instants))
    await connection.close()
    wrong = {name: row[name] for name in ("missed", "unexpected", "twice", "not_success", "early") if row[name]}
    if wrong or row["ran"] != row["expected"]:
        raise Failed(f"a void measurement: {wrong} of {row['expected']}, {row['ran']} ran")
    p50, p99, most = (round(value, 3) for value in row["late"])
    more |= {"runs": row["ran"], "p50_ms": p50, "max_ms": most}
    more |= {"p99_first_period_ms": round(row["p99_first"], 3), "p99_last_period_ms": round(row["p99_last"], 3)}
    return p99, more


RAW = "raw SQL: due schedules to runs in one statement, claim, held until due, finish with history; at the same rate"
CASES = (
    Case("R1", "ms p99", 50.0, False, partial(recurring, form=ScheduleType.INTERVAL), raw_recurring.evenly, RAW),
    Case("R1-CRON", "ms p99", 50.0, False, partial(recurring, form=ScheduleType.CRON), raw_recurring.by_seconds, RAW),
)
