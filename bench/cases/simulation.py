"""A year of a thousand jobs, simulated by the command that people use: the product's scheduler over a store in memory.

No server and no roles; the command shares the jobs out to as many processes as there are cores. The value is its wall
time; what its processes computed, the largest one's memory, and a job's day (the start of the command) stand beside it.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from zoneinfo import ZoneInfo

from bench.harness import Case, Failed, Rig, Round
from tickwise.domain.cron import expression as cron

JOBS = 1_000
BEGIN, END = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
STARTS = 5


def jobs() -> list[dict[str, str]]:
    """What people schedule, the same each time: most once a day, some once a week, some every few hours."""
    dice = random.Random(1)
    made = []
    for number in range(JOBS):
        kind, minute, hour = dice.random(), dice.randrange(60), dice.randrange(24)
        if kind < 0.70:
            line = f"{minute} {hour} * * *"
        elif kind < 0.85:
            line = f"{minute} {hour} * * {dice.randrange(7)}"
        elif kind < 0.97:
            line = f"{minute} */{dice.choice((2, 4, 6))} * * *"
        else:
            line = f"{minute} * * * *"
        made.append({"name": f"job {number}", "cron": line, "timezone": dice.choice(ZONES)})
    return made


def fires() -> int:
    """How often the jobs fire in that time: each fire is asked for by itself."""
    begin, end = int(BEGIN.timestamp()), int(END.timestamp())
    count = 0
    for job in jobs():
        line, zone = cron.parse(job["cron"]), ZoneInfo(job["timezone"])
        at = line.next_second(begin - 1, zone)
        while at is not None and at < end:
            count += 1
            at = line.next_second(at, zone)
    return count


def simulated(file: Path, end: datetime) -> tuple[float, str]:
    """Wall seconds of the command, and what it printed."""
    span = ("--from", BEGIN.isoformat(), "--to", end.isoformat())
    begin = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tickwise", "simulate", "--file", str(file), *span],
        capture_output=True,
        text=True,
        check=False,
    )
    taken = perf_counter() - begin
    if done.returncode:
        raise Failed(f"the command ended with {done.returncode}: {done.stderr[-500:]}")
    return taken, done.stdout


async def product(rig: Rig) -> Round:
    """The year, and beside it a single job's day."""
    many, one = rig.folder / "many.json", rig.folder / "one.json"
    many.write_text(json.dumps(jobs()))
    one.write_text(json.dumps(jobs()[:1]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken, said = simulated(many, END)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r": (\d+) runs", said)
    runs = int(found[1]) if found else 0
    if runs != fires():
        raise Failed(f"{runs} runs were simulated, and the lines name {fires()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    starts = [simulated(one, BEGIN.replace(day=2))[0] for _ in range(STARTS)]
    return Round(
        round(taken, 3),
        {
            "jobs": JOBS,
            "runs": runs,
            "cpu_seconds": round(cpu, 2),
            "cpu_us_a_run": round(cpu / runs * 1e6, 1),
            "largest_process_mb": round(after.ru_maxrss / 1024, 1),
            "one_job_one_day_s": round(median(starts), 3),
        },
    )


async def times_alone(_: Rig) -> Round:
    """The limit: only to name the fires, one after the other, in one process."""
    begin = process_time()
    fires()
    return Round(round(process_time() - begin, 3))


CASE = Case("SIM", "s", 60.0, False, product, times_alone, "to name the fires alone, in one process")
