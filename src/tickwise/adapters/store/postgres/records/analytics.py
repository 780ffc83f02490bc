"""Analytics: ended runs grouped in the database, in a time that does not grow with the store (docs/decisions/0066).

    a random share of the table's pages, PAGES_MOST at most, within SAMPLE_SECONDS; else PAGES_FEW
          │                                       (tables of few pages are not sampled)
          ├── it stands for many more than ROWS_MOST ──► sampled
          └──► the newest ROWS_MOST + 1 that match, within EXACT_SECONDS
                    ├── not more ──► exact        (tables of few pages are read whole: exact)
                    ├── more, or late, and the sample has enough rows ──► sampled
                    └── else the newest, if they are known; else an error that says what narrows it

Invariant: one question reads `ROWS_MOST` runs and `PAGES_MOST` pages at most, or ends by its time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.searches import (
    ID_SLACK_SECONDS,
    NEARLY,
    first_id,
    labelled_jobs,
    labels_asked,
    like,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug, Invalid
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.observing.analytics import Analysis, Coverage, GroupBy, GroupKind, RunGroup, Spread
from tickwise.ports.store import AnalyticsQuery

ROWS_MOST: Final = 20_000
"""Runs that are read one by one. The error of a share among so many is 0.7 % at most, in 95 of 100 cases."""
PAGES_MOST: Final = 128
"""Pages of a sample, 1 MB: about 6,500 runs. The error of a share among so many is 1.2 % at most, in 95 of 100 cases;
twice as many pages take twice the time."""
SIZES: Final = 8
"""Sizes of a table for each doubling that samples are made for: the share that is asked for stays the same while a
table grows a little, and so do the pages that are read."""
SHARE_SECONDS: Final = 60.0
"""A share is counted again after so long."""
SHARES_MAX: Final = 100
MANY: Final = 1.5
"""If a sample stands for so many times `ROWS_MOST`, there are more than that, for chance explains less."""
PAGES_FEW: Final = 50
"""Pages of a sample that is taken if the larger one is late: each run may cost a look for its job."""
ROWS_OF_PAGE: Final = 150
"""More than fit into one: a table of few pages is read whole."""
CHANCE: Final = 2.5
"""Standard deviations. The database picks each page by itself: the number of pages read varies by its square root."""
SAMPLE_LEAST: Final = 500
"""A sample with fewer runs says less than the newest of them."""
EXACT_SECONDS: Final = 0.3
SAMPLE_SECONDS: Final = 0.4
FEW_SECONDS: Final = 0.25
DAY_SECONDS: Final = 86_400.0
HOURS_MOST: Final = 1_000_000
"""By hour, each has a row: the window bounds their number."""

_PARAMETER: Final = re.compile(r"\$(\d+)")
_PLACE: Final = re.compile(r"\{(picked|by|label|sort|top)\}")
_STATES: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
_KINDS: Final = (GroupKind.GROUP, GroupKind.NONE, GroupKind.REST)


class Days(NamedTuple):
    """Whole days of ended runs."""

    first: UUID
    """Below their ids, …"""
    last: UUID
    """… and above them."""
    pages: int
    """Of their tables."""


class AnalyticsSearches(Part):
    """`Searches.analyse` of the port."""

    async def analyse(self, query: AnalyticsQuery) -> Analysis:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            asked = await self._asked(connection, query)
            days = await self._days(connection, query)
            sampled = await self._sampled(connection, asked, query, days) if days.pages > PAGES_MOST else None
            if sampled is not None and sampled.rows >= SAMPLE_LEAST and sampled.total.runs > MANY * ROWS_MOST:
                return sampled
            newest = await self._newest(connection, asked, query, ROWS_MOST, EXACT_SECONDS)
            if newest is not None and newest.coverage is Coverage.EXACT:
                return newest
            if days.pages <= PAGES_MOST:
                sampled = await self._few_pages(connection, asked, query, days)
        if sampled is None or (sampled.coverage is Coverage.SAMPLED and sampled.rows < SAMPLE_LEAST):
            sampled = newest or sampled
        if sampled is None:
            raise Invalid(
                "nothing was counted within a second: narrow the question by a shorter time, a job, a label or a status"
            )
        return sampled

    async def _few_pages(
        self, connection: asyncpg.Connection, asked: Sequence[Any], query: AnalyticsQuery, days: Days
    ) -> Analysis | None:
        """The analysis of all of a small table; of a share of it, if that takes too long."""
        whole = await self._newest(connection, asked, query, days.pages * ROWS_OF_PAGE, SAMPLE_SECONDS)
        if whole is not None and whole.coverage is Coverage.EXACT:
            return whole
        return await self._sampled(connection, asked, query, days)

    async def _sampled(
        self, connection: asyncpg.Connection, asked: Sequence[Any], query: AnalyticsQuery, days: Days
    ) -> Analysis | None:
        """An estimate from a share of the table; None: it took too long."""
        for pages, seconds in ((PAGES_MOST, SAMPLE_SECONDS), (PAGES_FEW, FEW_SECONDS)):
            percent = 100.0 * min(1.0, pages / _about(days.pages))
            found = await self._look(connection, "analytics_sampled", [*asked, percent], query, seconds)
            if found is not None:
                return _of_sample(found, await self._share(connection, days, percent))
        return None

    async def _share(self, connection: asyncpg.Connection, days: Days, percent: float) -> float:
        """The share of the pages that a sample reads: the pages are the same each time, so it is counted once a
        minute. To count them takes half as long as the sample."""
        shares, now = self._shared.sample_shares, self._clock.monotonic()
        asked = (days.first, days.last, percent)
        share, until = shares.get(asked, (0.0, now))
        if until <= now:
            read = await connection.fetchval(statement("analytics_pages_read"), percent, days.first, days.last)
            share = _share(read, days.pages, percent / 100.0)
            if len(shares) >= SHARES_MAX:
                shares.clear()
            shares[asked] = (share, now + SHARE_SECONDS)
        return share

    async def _newest(
        self, connection: asyncpg.Connection, asked: Sequence[Any], query: AnalyticsQuery, most: int, seconds: float
    ) -> Analysis | None:
        """EXACT if no more runs match than `most`, else NEWEST; None: it took too long."""
        found = await self._look(connection, "analytics_newest", [*asked, most + 1], query, seconds)
        if found is None or found.rows <= most:
            return found
        return replace(found, coverage=Coverage.NEWEST)

    async def _asked(self, connection: asyncpg.Connection, query: AnalyticsQuery) -> list[Any]:
        """The parameters of `analytics_newest` but for the last."""
        runs = query.runs
        if runs.due_after is None or runs.due_before is None:
            raise Bug("an analysis needs a window of due times")
        labels = labels_asked(runs.labels, runs.within)
        few = None
        if labels is not None and not query.everywhere:
            few = await labelled_jobs(connection, runs.namespace, labels, self._clock, self._large_sets)
        return [
            None if query.everywhere else runs.namespace,
            runs.job_id,
            [CODES[state] for state in runs.states] or None,
            runs.due_after,
            runs.due_before,
            first_id(runs.due_after - ID_SLACK_SECONDS),
            first_id(runs.due_before + ID_SLACK_SECONDS),
            list(runs.triggers) or None,
            runs.reason,
            runs.executor,
            few,
            None if runs.job_name is None else like(runs.job_name),
            labels if few is None else None,
            runs.queue,
        ]

    async def _days(self, connection: asyncpg.Connection, query: AnalyticsQuery) -> Days:
        """The days whose tables have the runs of the window."""
        begin, end = query.runs.due_after or 0.0, query.runs.due_before or 0.0
        first = (begin - ID_SLACK_SECONDS) // DAY_SECONDS * DAY_SECONDS
        last = (end + ID_SLACK_SECONDS) // DAY_SECONDS * DAY_SECONDS
        names = [f"{datetime.fromtimestamp(max(day, 0.0), UTC):%Y%m%d}" for day in (first, last)]
        pages: int = await connection.fetchval(statement("analytics_pages"), *names)
        return Days(first_id(first), first_id(last + DAY_SECONDS), pages)

    async def _look(
        self, connection: asyncpg.Connection, picked: str, asked: Sequence[Any], query: AnalyticsQuery, seconds: float
    ) -> Analysis | None:
        """The analysis of these runs; None: it took too long."""
        by_hour = query.group_by is GroupBy.HOUR
        top = HOURS_MOST if by_hour else query.top
        grouping = [query.group_by.value, query.label, query.sort.value, top]
        begun = self._clock.monotonic()
        try:
            async with connection.transaction(readonly=True):
                await connection.fetchrow(statement("analytics_terms"), str(int(seconds * 1000)))
                rows = await connection.fetch(_grouped(picked), *asked, *grouping)
        except asyncpg.QueryCanceledError:
            if self._clock.monotonic() - begun < NEARLY * seconds:
                raise
            return None
        [total, *groups] = rows
        found = [_group(row) for row in groups]
        if by_hour:
            found.sort(key=lambda row: float(row.key or 0.0))
        return Analysis(
            groups=found,
            total=_group(total),
            distinct=total["distinct_keys"],
            coverage=Coverage.EXACT,
            rows=total["runs"],
            since=total["since"],
        )


@cache
def _grouped(picked: str) -> str:
    """The text that groups the runs of another statement; its four parameters follow those of that one."""
    within = statement(picked)
    last = max(int(number) for number in _PARAMETER.findall(within))
    parts = {
        "picked": within,
        "by": f"${last + 1}",
        "label": f"${last + 2}",
        "sort": f"${last + 3}",
        "top": f"${last + 4}",
    }
    return _PLACE.sub(lambda place: parts[place[1]], statement("analytics_grouped"))


def _about(pages: int) -> float:
    """The size of a table, rounded up to one of `SIZES` for each doubling."""
    return math.exp2(math.ceil(math.log2(max(pages, 1)) * SIZES) / SIZES)


def _share(read: int, pages: int, asked: float) -> float:
    """The part of `pages` that a sample of a share of them read.

    `read` has the pages with a row, so it is the part unless pages are empty: after a large removal they were read
    too, and nothing shows which. If fewer were read than chance explains, the share that was asked for counts.
    """
    expected = pages * asked
    if not pages or read < expected - CHANCE * math.sqrt(expected):
        return asked
    return min(1.0, read / pages)


def _of_sample(found: Analysis, share: float) -> Analysis:
    """The estimates that a sample gives."""
    return replace(
        found,
        groups=[_scaled(row, share) for row in found.groups],
        total=_scaled(found.total, share),
        coverage=Coverage.SAMPLED,
        share=share,
    )


def _scaled(row: RunGroup, share: float) -> RunGroup:
    return replace(
        row,
        runs=round(row.runs / share),
        states={state: round(count / share) for state, count in row.states.items()},
        retries=round(row.retries / share),
        seconds=row.seconds / share,
        cpu_seconds=row.cpu_seconds / share,
    )


def _group(row: asyncpg.Record) -> RunGroup:
    counts = {state: row[state.value.lower()] for state in _STATES}
    return RunGroup(
        kind=GroupKind.GROUP if row["total"] else _KINDS[row["kind"]],
        key=row["key"],
        name=row["name"],
        runs=row["runs"],
        states={state: count for state, count in counts.items() if count},
        retries=row["retries"],
        seconds=row["seconds"],
        duration=_spread(row, "duration"),
        lateness=_spread(row, "lateness"),
        cpu_seconds=row["cpu_seconds"],
        cpu=_spread(row, "cpu"),
        memory=_spread(row, "memory"),
    )


def _spread(row: asyncpg.Record, name: str) -> Spread | None:
    if row[name] is None:
        return None
    p50, p95, p99 = row[name]
    return Spread(row[f"{name}_count"], p50, p95, p99, row[f"{name}_mean"], row[f"{name}_most"])
