"""P1: real tasks, each in a process of its own: shell commands, Python scripts cold and warm, and with an environment.

Unless a value says sandboxed, tasks are plain processes (`isolation: process`). Sandboxes are measured where bubblewrap
is installed and this machine can build one (`tickwise doctor`). Plain commands and warm scripts run in prepared ones; a
task with a folder of its own has a bubblewrap of its own, and so has a cold script.

One executor at its defaults, which says as whom tasks run (`run_tasks_as`, by `TICKWISE_BENCH_RUN_TASKS_AS`; unset:
where the executor is root, a user for each namespace). Every task is a row of history, as in all cases. Beside it, on
the same cores and without any record: `xargs -P`, GNU parallel where it is installed, a loop over `subprocess.run`, and
the least that the machine can do: for each core a process that spawns and waits, and does nothing else.

The scripts import nothing. `TICKWISE_BENCH_SCRIPT=FILE` measures another one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from bench.figures import percentile
from bench.harness import SQL, Case, Check, Rig, Round
from bench.usage import read
from bench.work import jobs, store
from tests.support.packages import add_wheel
from tickwise.adapters.runner.process.sandbox.levels import sandbox_level
from tickwise.domain.model import Lane
from tickwise.domain.rules.confinement import Confinement, Isolation, needed_labels

WARM_UP: Final = 40
"""Tasks before the clock runs: zygotes and environments are made by then."""
PACED: Final = 200
"""Scripts of which the start overhead is taken, 20 a second."""
PACE_SECONDS: Final = 0.05
SHELL: Final = {"kind": "shell", "command": ":"}
SCRIPT: Final = "pass\n"
TELLS: Final = """\
import os, time
with open(os.environ["TICKWISE_RESULT_FILE"], "w") as file:
    file.write(str(time.time()))
"""
"""A script whose result is the time at which it began."""


async def product(rig: Rig) -> Round:
    """Shell commands a second; the other kinds, and the overhead of a start, beside."""
    count = 8_000 if rig.full else 2_000
    as_user = os.environ.get("TICKWISE_BENCH_RUN_TASKS_AS")
    file = os.environ.get("TICKWISE_BENCH_SCRIPT")
    source = Path(file).read_text(encoding="utf-8") if file else SCRIPT
    more: dict[str, Any] = {"tasks": count, "run_tasks_as": as_user}
    with tempfile.TemporaryDirectory() as folder:
        links = Path(folder)
        links.chmod(0o755)
        add_wheel(links, "tickle").chmod(0o644)
        settings = {"environment_find_links": folder, "environment_network": "off", "data_dir": f"{rig.folder}/tasks"}
        if as_user is not None:
            settings["run_tasks_as"] = as_user
        tasks = {
            "shell": (SHELL, count),
            "cold": ({"kind": "python", "source": source, "start": "cold"}, count // 8),
            "warm": ({"kind": "python", "source": source}, count),
            "environment": ({"kind": "python", "source": f"import tickle\n{source}", "requirements": "tickle"}, count),
        }
        sandboxed = {
            "sandboxed shell": (SHELL, count // 2),
            "sandboxed warm": ({"kind": "python", "source": source}, count // 4),
            "one bubblewrap each": ({**SHELL, "directory": folder}, count // 4),
            "sandboxed cold": ({"kind": "python", "source": source, "start": "cold"}, count // 8),
        }
        rates = {}
        for name, (task, number) in tasks.items():
            rates[name], more[f"cpu_us of {name}"] = await _rate(rig, task, number, settings)
        for name, (task, number) in sandboxed.items() if sandbox_level(None).is_there else ():
            rates[name], more[f"cpu_us of {name}"] = await _rate(rig, task, number, settings, Isolation.SANDBOX)
        more |= {f"{name}/s": round(rate, 1) for name, rate in rates.items()}
        more |= await _overhead(rig, settings)
        if sandbox_level(None).is_there:
            found = await _overhead(rig, settings, Isolation.SANDBOX)
            more |= {f"sandboxed {name}": value for name, value in found.items()}
    return Round(rates["shell"], more)


async def _rate(
    rig: Rig,
    task: Mapping[str, Any],
    count: int,
    settings: Mapping[str, str],
    isolation: Isolation = Isolation.PROCESS,
) -> tuple[float, Any]:
    """Tasks a second, from the first start to the last durable end, and microseconds of CPU a task."""
    await rig.reset()
    connection = await rig.connect()
    async with rig.role("executor", **settings) as executor, store(rig) as opened:
        await rig.until_executors(1)
        await opened.jobs.add(_jobs(rig, task, WARM_UP, isolation=isolation))
        await rig.until_ended(WARM_UP, 120)
        await rig.outcome(WARM_UP)
        await rig.reset()
        used = await read(connection, executor=executor.pid)
        batch = _jobs(rig, task, count, isolation=isolation)
        await opened.jobs.add(batch)
        durable = await rig.until_ended(count, 300, last=[job.run_id for job in batch[-20:] if job.run_id])
        spent = await read(connection, executor=executor.pid)
    await connection.close()
    outcome = await rig.outcome(count)
    return count / (durable - outcome["first_start"]), spent.cost(used, count)["cpu_us_a_run"]


async def _overhead(
    rig: Rig, settings: Mapping[str, str], isolation: Isolation = Isolation.PROCESS
) -> dict[str, float]:
    """Milliseconds from the due time of a script to its first statement, on a system that is not loaded."""
    await rig.reset()
    begin = rig.clock.now() + 5.0
    due = [begin + PACE_SECONDS * number for number in range(WARM_UP + PACED)]
    async with rig.role("scheduler", **settings), rig.role("executor", **settings), store(rig) as opened:
        await rig.until_executors(1)
        await opened.jobs.add(_jobs(rig, {"kind": "python", "source": TELLS}, len(due), due, isolation=isolation))
        await rig.until_ended(len(due), 120)
    await rig.outcome(len(due))
    connection = await rig.connect()
    rows = await connection.fetch(SQL["results"])
    await connection.close()
    taken = sorted(1_000 * (float(row["result"]) - row["due"]) for row in rows[WARM_UP:])
    return {
        "overhead p50 in ms": round(percentile(taken, 0.5), 3),
        "overhead p99 in ms": round(percentile(taken, 0.99), 3),
    }


def _jobs(
    rig: Rig,
    task: Mapping[str, Any],
    count: int,
    due: list[float] | None = None,
    *,
    isolation: Isolation = Isolation.PROCESS,
) -> list[Any]:
    kind, when = task["kind"], "IMMEDIATE" if due is None else "FUTURE"
    definition = json.dumps({"schedule_type": when, "task": task, "payload": {}, "isolation": isolation})
    lane = Lane(requires=tuple(sorted((f"task:{kind}", *needed_labels(Confinement(isolation))))))
    made = jobs(rig, count, due=due, definitions=[definition] * count)
    return [job._replace(task_kind=kind, lane=lane) for job in made]


async def others(rig: Rig) -> Round:
    """Shell commands a second by `xargs -P`, one process for each core; other programs and Python beside."""
    count = 8_000 if rig.full else 2_000
    cores = str(os.cpu_count() or 1)
    shell, python = ["sh", "-c", ":"], [sys.executable, "-u", "-s", "-B", "-c", "pass"]
    more = {
        "xargs, Python scripts/s": _xargs(cores, python, count // 8),
        "loop over subprocess.run/s": _loop(shell, count // 2),
        "posix_spawn on each core/s": _spawning(count),
    }
    if shutil.which("parallel"):
        more["GNU parallel/s"] = _seconds(["parallel", f"-j{cores}", "-N0", *shell], count)
    return Round(median([_xargs(cores, shell, count) for _ in range(3)]), more)


def _xargs(cores: str, command: list[str], count: int) -> float:
    return _seconds(["xargs", "-P", cores, "-I", "{}", *command], count)


def _seconds(command: list[str], count: int) -> float:
    """Lines a second by a program that starts a process for each."""
    begin = perf_counter()
    subprocess.run(command, input="x\n" * count, text=True, check=True, stdout=subprocess.DEVNULL)
    return round(count / (perf_counter() - begin), 1)


SPAWNING: Final = """\
import os, sys
for _ in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", ":"], os.environ), 0)
"""


def _spawning(count: int) -> float:
    """Shell commands a second by one process for each core that only starts them and waits for them."""
    cores = os.cpu_count() or 1
    begin = perf_counter()
    started = [subprocess.Popen([sys.executable, "-S", "-c", SPAWNING, str(count // cores)]) for _ in range(cores)]
    for each in started:
        each.wait()
    return round(count // cores * cores / (perf_counter() - begin), 1)


def _loop(command: list[str], count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        subprocess.run(command, check=True)
    return round(count / (perf_counter() - begin), 1)


CASE = Case(
    "P1",
    "shell commands/s",
    800,
    True,
    product,
    others,
    "xargs -P: the same commands, without a record",
    checks=(
        Check("Python scripts a second, warm", "warm/s", 400, higher=True),
        Check("Python scripts a second, with an environment", "environment/s", 400, higher=True),
        Check("sandboxed shell commands a second", "sandboxed shell/s", 300, higher=True),
        Check("sandboxed shell commands a second, one bubblewrap each", "one bubblewrap each/s", 100, higher=True),
        Check("sandboxed Python scripts a second, warm", "sandboxed warm/s", 150, higher=True),
        Check("start overhead of a script, p50 in ms", "overhead p50 in ms", 10.0),
        Check("start overhead of a script in a sandbox, p50 in ms", "sandboxed overhead p50 in ms", 25.0),
    ),
)
