"""K2: T2 on Cassandra, one node and one keeper, with each run in the readable tables; and the same without these.

    client ──► keeper ──► log ──────────────► node
                 ▲         └──► readable rows ──┘
       scheduler and executor

Batches of 500 immediate jobs, at most 10,000 runs under way, then single jobs through the API. All of it shares the
cores of this machine: trust the ratio and the processor time. Afterwards each run must be a row that says SUCCESS.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from bench.figures import percentile
from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.stores.keepers import CLOCK, installation, starts, stream
from tests.support.cassandras import linked
from tickwise.adapters.store.keeper.readable.tables import RUN_PARTS

ROWS_SECONDS: Final = 30.0
"""So long after the end of the last run all rows are there."""


async def flow(rig: Rig, *, tables: str) -> Round:
    """The stream, and the starts. `tables`: the setting `keeper_tables`."""
    begun = datetime.fromtimestamp(CLOCK.now(), UTC)
    async with installation(1, keeper_tables=tables, log_level="warning") as here:
        done = await stream(here.rig, here.store, here.pids, 60.0 if rig.full else 20.0)
        taken = await starts(here.rig, here.store)
        if tables != "off":
            await rows_are_there(here.url, begun, done.sent + len(taken))
    return Round(
        done.rate,
        {
            "cpu_us_a_run": {name: round(each, 1) for name, each in done.cost.items()},
            "keeper_us": round(done.cost["keeper"], 1),
            "node_us": round(done.cost["node"], 1),
            "p50_ms": round(percentile(taken, 0.5), 2),
            "p99_ms": round(percentile(taken, 0.99), 2),
            "runs": done.sent,
        },
    )


async def rows_are_there(url: str, begun: datetime, runs: int) -> None:
    """Wait until so many rows of `runs` say SUCCESS. Raises `Failed` if they never do, or if there are others."""
    end = CLOCK.monotonic() + ROWS_SECONDS
    async with linked(url, answer_seconds=20.0) as link:
        while (found := await ended_rows(link.run, begun)) != runs:
            if CLOCK.monotonic() > end:
                raise Failed(f"{runs} runs have ended, and {found} rows of the readable tables say so")
            await CLOCK.sleep(1.0)


async def ended_rows(run: Callable[[str], Coroutine[Any, Any, Any]], begun: datetime) -> int:
    """Count the rows of runs that succeeded since then, by their partitions."""
    hour, count = begun.replace(minute=0, second=0, microsecond=0), 0
    while hour.timestamp() <= CLOCK.now():
        for part in range(RUN_PARTS):
            rows = await run(SQL["readable_ended"].format(hour=hour.isoformat(), part=part))
            count += sum(state == "SUCCESS" for (state,) in rows)
        hour += timedelta(hours=1)
    return count


CASE = Case(
    "K2",
    "runs/s",
    5_000,
    True,
    partial(flow, tables="written"),
    partial(flow, tables="off"),
    "the same without the readable tables",
    checks=(
        Check("CPU of the keeper in us a run", "keeper_us", 75.0),
        Check("CPU of the node in us a run", "node_us", 90.0),
        Check("p50 in ms from request to start, 50 a second", "p50_ms", 25.0),
    ),
)
