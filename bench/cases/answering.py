"""P2: trusted Python functions in warm worker processes, each with a payload of its own and a result that is stored.

A drain as T1 is one, at the shipped default of one worker process; beside it with two. Every result is read back.
"""

from __future__ import annotations

import json
from typing import Any

from bench import raw
from bench.harness import SQL, Case, Failed, Rig, Round
from bench.usage import read
from bench.work import jobs, store

COUNT = 100_000


def _definitions(begin: int, count: int) -> list[str]:
    """Jobs whose payloads are the numbers from `begin` on."""
    task = {"kind": "function", "name": "bench.twice"}
    made: list[dict[str, Any]] = [
        {"schedule_type": "IMMEDIATE", "task": task, "payload": {"number": begin + number}} for number in range(count)
    ]
    return [json.dumps(one, separators=(",", ":")) for one in made]


async def _drained(rig: Rig, **settings: object) -> Round:
    """Runs a second, from the first start to the last durable end. Raises Failed unless every result is right."""
    await rig.reset()
    async with store(rig) as opened:
        for begin in range(0, COUNT, 1000):
            batch = jobs(rig, 1000, definitions=_definitions(begin, 1000))
            await opened.jobs.add(batch)
    last = [job.run_id for job in batch[::20] if job.run_id is not None]
    connection = await rig.connect()
    async with rig.role("executor", **settings) as executor:
        await rig.until_executors(1)
        used = await read(connection, executor=executor.pid)
        durable = await rig.until_ended(COUNT, 120, last=last)
        spent = await read(connection, executor=executor.pid)
    outcome = await rig.outcome(COUNT)
    answers = await connection.fetchrow(SQL["answers"])
    await connection.close()
    if answers["right"] != COUNT:
        raise Failed(f"{COUNT} functions answered, and {answers['right']} of the stored results are right")
    cost = spent.cost(used, COUNT)
    del cost["cpu_us_a_run"]["client"]  # it only waits
    return Round(COUNT / (durable - outcome["first_start"]), {"runs": COUNT, "results_read_back": COUNT, **cost})


async def answering(rig: Rig) -> Round:
    """At defaults; with two workers beside it."""
    measured = await _drained(rig)
    measured.more["with_two_workers"] = round((await _drained(rig, function_workers=2)).value)
    return measured


CASE = Case("P2", "runs/s", 25_000, True, answering, raw.drain, "raw SQL: claim and finish with history")
