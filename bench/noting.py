"""The price of notification rules where it is paid: in the session that writes the ends of runs.

The processor time of that session (Linux counts it in nanoseconds) says it on a machine that others use, too, where the
rate of a whole flow moves by a tenth from window to window. Ends of runs that succeed are written in batches, with no
rule, with rules, and with rules while an alert of another job stands, in turn.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.harness import SQL, Failed, Rig
from bench.work import LANE, jobs, store
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome, executor_number
from tickwise.ports.store import ClaimRequest, NewExecutor

RUNS: Final = 2_000
"""Of one statement: as many as an executor writes at once."""
WAYS: Final = ("without", "with_rules", "with_an_alert")
SUCCESS: Final = CODES[RunState.SUCCESS]
FOREVER: Final = 1e6


async def noting_us(rig: Rig, connection: asyncpg.Connection[Any], *, turns: int) -> Mapping[str, float]:
    """Microseconds of the server for the end of a run, in each of the ways: medians. The rules are stored."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    async with store(rig) as opened:
        number = executor_number(int(rig.clock.now() * 1000), rig.clock.random_bytes(2))
        asked = NewExecutor(
            number=number, name="bench", queues=("default",), labels=LANE.requires, functions=(), slots=RUNS,
            lease_seconds=FOREVER,
        )  # fmt: skip
        holder = await opened.executors.join(asked)
        request = ClaimRequest(
            executor=holder, queues=("default",), labels=LANE.requires, limit=RUNS, ahead_seconds=0.0
        )  # fmt: skip
        for turn in range(turns + 1):
            for way in WAYS:
                await connection.execute(SQL["noting_begin"], way != "without", way == "with_an_alert")
                await opened.jobs.add(jobs(rig, RUNS))
                claims = await opened.attempts.claim(request)
                if len(claims) != RUNS:
                    raise Failed(f"{len(claims)} of {RUNS} runs were claimed")
                before = await used(connection)
                if await opened.attempts.finish(holder, [ended(each) for each in claims]):
                    raise Failed("an end was refused")
                if turn:  # the first one warms the sessions
                    found[way].append((await used(connection) - before) / RUNS)
    return {way: round(statistics.median(each), 2) for way, each in found.items()}


def ended(claimed: Claimed) -> Outcome:
    """It succeeded."""
    return Outcome(claimed.run_id, claimed.token, SUCCESS, claimed.now, claimed.now)


async def used(connection: asyncpg.Connection[Any]) -> float:
    """Microseconds of processor time of the sessions that write ends."""
    pids = [row["pid"] for row in await connection.fetch(SQL["noting_sessions"])]
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e3


def percent(noting: Mapping[str, float], way: str, whole: float) -> float:
    """What a way costs more than none, of `whole` microseconds that a run takes of all processes."""
    return round(100 * (noting[way] - noting["without"]) / whole, 1)
