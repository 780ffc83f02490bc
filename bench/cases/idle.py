"""M1: what `tickwise up` costs while nothing is to be done: memory and CPU of all its processes, the database included.

Memory is the sum of proportional set sizes (PSS): a page that several processes have in memory, as PostgreSQL's shared
buffers or a library, counts once, divided between them. CPU is that of all processes, in per cent of one core, with
those that come and go (autovacuum's workers): who waits for them inherits their time. With 100,000 jobs asleep, and
after functions ran, so that their workers are warm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import httpx2
import psutil

from bench.harness import HERE, Case, Check, Failed, Rig, Round
from bench.ports import free_port
from bench.usage import cpu_seconds, family
from bench.work import jobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore

SLEEPING = 100_000
SETTLE_SECONDS = 15.0
"""After the last work: autovacuum has its round, and what is written lazily is written."""
DAY_SECONDS = 86_400.0


class Idle(NamedTuple):
    """What was measured over a window."""

    megabytes: float
    cpu_percent: float
    processes: int


class Up:
    """A running `tickwise up`, found by what it wrote down."""

    def __init__(self, pid: int, data_dir: Path) -> None:
        facts = json.loads((data_dir / "client.json").read_text())
        self.pid = pid
        self.database_url: str = facts["database_url"]
        self.client = httpx2.AsyncClient(
            base_url=f"{facts['url']}/api/v1", headers={"Authorization": f"Bearer {facts['key']}"}, trust_env=False
        )

    async def run_functions(self, count: int, clock: SystemClock) -> None:
        """So that worker processes are warm."""
        body = {"name": "bench", "schedule_type": "IMMEDIATE", "task": {"kind": "function", "name": "bench.noop"}}
        made = [(await self.client.post("/jobs", json=body)).json()["job_id"] for _ in range(count)]
        async with asyncio.timeout(60):
            for job in made:
                while (await self.client.get(f"/jobs/{job}/runs")).json()[0]["status"] != "SUCCESS":
                    await clock.sleep(0.05)

    async def idle(self, seconds: float) -> Idle:
        """What it uses from now on."""
        before, begun = cpu_seconds(self.pid), monotonic()
        await asyncio.sleep(seconds)
        used, took = cpu_seconds(self.pid) - before, monotonic() - begun
        there = family(self.pid)
        return Idle(sum(_pss_megabytes(each) for each in there), 100.0 * used / took, len(there))


def _pss_megabytes(process: psutil.Process) -> float:
    """Proportional set size, in megabytes of 10⁶ bytes; 0 for one that has just ended."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except (ProcessLookupError, FileNotFoundError):
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


@contextlib.asynccontextmanager
async def _up(rig: Rig) -> AsyncIterator[Up]:
    """`tickwise up` with a database of its own, at shipped defaults."""
    with tempfile.TemporaryDirectory(prefix="tickwise-idle-") as name:
        data_dir = Path(name)
        data_dir.chmod(0o711)
        kept = {name: value for name, value in rig.environment().items() if "_URL" not in name}
        log = (rig.folder / "up.log").open("ab")
        process = subprocess.Popen(  # noqa: ASYNC220  # quick, and nothing else is under way in the rig
            [sys.executable, "-m", "tickwise", "up", "--data-dir", name, "--port", str(free_port())],
            env=kept, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                while not (data_dir / "client.json").exists():
                    if process.poll() is not None:
                        raise Failed(f"it did not start: {(rig.folder / 'up.log').read_text()[-500:]}")
                    await rig.clock.sleep(0.1)
            up = Up(process.pid, data_dir)
            async with up.client:
                yield up
        finally:
            process.terminate()
            process.wait(60)
            log.close()


async def _asleep(rig: Rig, up: Up) -> None:
    """Jobs that are due from tomorrow on."""
    store = PostgresStore(up.database_url, clock=rig.clock)
    await store.open()
    now = rig.clock.now()
    for first in range(0, SLEEPING, 1000):
        due = [now + DAY_SECONDS + number for number in range(first, first + 1000)]
        await store.jobs.add(jobs(rig, 1000, due=due))
    await store.close()


async def idle(rig: Rig) -> Round:
    """Right after the start; then with sleeping jobs and warm workers."""
    seconds = 60.0 if rig.full else 20.0
    async with _up(rig) as up:
        await asyncio.sleep(SETTLE_SECONDS)
        fresh = await up.idle(seconds)
        await up.run_functions(20, rig.clock)
        await _asleep(rig, up)
        await asyncio.sleep(SETTLE_SECONDS)
        later = await up.idle(seconds)
    more: dict[str, Any] = {
        "cpu_percent": round(max(fresh.cpu_percent, later.cpu_percent), 2),
        "fresh": [round(fresh.megabytes, 1), round(fresh.cpu_percent, 2), fresh.processes],
        "asleep": [round(later.megabytes, 1), round(later.cpu_percent, 2), later.processes],
        "sleeping_jobs": SLEEPING,
    }
    return Round(max(fresh.megabytes, later.megabytes), more)


async def python(_rig: Rig) -> Round:
    """The least: a Python that has imported the product's API and roles, and sleeps."""
    program = "import tickwise.wiring.processes, time; print(flush=True); time.sleep(60)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=HERE.parent, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None, "asked for a pipe"
    await process.stdout.readline()
    megabytes = _pss_megabytes(psutil.Process(process.pid))
    process.kill()
    await process.wait()
    return Round(megabytes)


CASE = Case(
    "M1", "MB PSS", 350.0, False, idle, python, "a Python with the product imported",
    checks=(Check("CPU", "cpu_percent", 1.0),),
)  # fmt: skip
