"""ANALYTICS: group-by over ten million finished runs, or as many as are stored.

    RUNS=10000000 make bench-data DATA=W1 && make bench CASES=ANALYTICS ROUNDS=1

Each way to group, over all runs that are stored, over a day, and of failed runs alone. An answer may be exact, or
bounded: of a sample, or of the newest runs, and then it says so. A round is void if an answer that calls itself exact
or sampled is far from the number that was stored.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final

from bench.cases.stored import Filled
from bench.data import filled_for_pages
from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.work import store
from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.analytics import Coverage, GroupBy
from tickwise.ports.store import AnalyticsQuery, RunQuery

DAY_SECONDS: Final = 86_400.0
WARM: Final = 2
FAR: Final = 0.2
"""A sample of 400 pages is right to some percent, because the runs came evenly."""


def questions(now: float) -> Mapping[str, AnalyticsQuery]:
    """The questions by their names: all namespaces, because one namespace has but a share of the runs."""
    spans = {"all": 11 * DAY_SECONDS, "a day": DAY_SECONDS}
    asked = {
        f"{group.value}, {name}": AnalyticsQuery(
            runs=RunQuery(namespace="default", due_after=now - seconds, due_before=now),
            group_by=group,
            label="team" if group is GroupBy.LABEL else None,
            everywhere=True,
        )
        for group in GroupBy
        for name, seconds in spans.items()
    }
    failed = RunQuery(namespace="default", due_after=now - 11 * DAY_SECONDS, due_before=now, states=(RunState.FAILED,))
    return asked | {"job, failed": AnalyticsQuery(runs=failed, group_by=GroupBy.JOB, everywhere=True)}


async def grouped(rig: Rig) -> Round:
    """The median time of the slowest question, in seconds."""
    times = 10 if rig.full else 5
    found: dict[str, dict[str, Any]] = {}
    async with filled_for_pages() as dsn:
        stored = Filled(dsn, rig.folder, full=rig.full)
        await stored.reset()
        connection = await stored.connect()
        counts = dict(await connection.fetchrow(SQL["stored_counts"], timeout=300))
        await connection.close()
        async with store(stored) as opened:
            for name, query in questions(await opened.now()).items():
                took = []
                for turn in range(WARM + times):
                    begun = perf_counter()
                    answer = await opened.searches.analyse(query)
                    if turn >= WARM:
                        took.append(perf_counter() - begun)
                found[name] = {
                    "p50_s": round(statistics.median(took), 3),
                    "most_s": round(max(took), 3),
                    "coverage": answer.coverage.value,
                    "runs": answer.total.runs,
                    "read": answer.rows,
                }
                whole = name.endswith(", all") and answer.coverage is not Coverage.NEWEST
                if whole and abs(answer.total.runs / counts["runs"] - 1) > FAR:
                    raise Failed(f"{name}: {answer.total.runs:,} of {counts['runs']:,} runs, {answer.coverage.value}")
    slowest = max(found, key=lambda name: found[name]["p50_s"])
    more = {
        "slowest": slowest,
        "most_s": max(each["most_s"] for each in found.values()),
        "stored": counts,
        "load_average": round(os.getloadavg()[0], 1),
        "questions": found,
    }
    return Round(found[slowest]["p50_s"], more)


async def unbounded(rig: Rig) -> Round:
    """All runs grouped by their job, in seconds."""
    async with filled_for_pages() as dsn:
        connection = await Rig(dsn, rig.folder, full=rig.full).connect()
        begun = perf_counter()
        await connection.fetch(SQL["raw_grouped"], timeout=600)
        took = perf_counter() - begun
        await connection.close()
    return Round(took)


CASE = Case(
    "ANALYTICS",
    "s",
    1.0,
    False,
    grouped,
    unbounded,
    "raw SQL: every run, grouped by its job",
    checks=(Check("the longest answer in seconds", "most_s", 1.5),),
    rounds=1,
)
