"""Searches for jobs that may pause: a call looks at so many rows and no more, whatever is stored.

    conditions ──► a set: few jobs, by an index (labels, a window of next fires) ──► all of them
              └──► a source: jobs in the order of their places ──► some of them, and a pause where the look ended

    no source has all jobs of the search and few others:
        the newest jobs ──► those that recur or run on demand, by their indexes ──► the older one-time jobs

One-time jobs come by the thousand a second, so the indexes of owners, of names and of kinds leave them out. They are
among the newest when people look for them, and are looked for one by one in the end.

Invariant: a look reads at most `LOOKED_JOBS` candidates, or `LOOKED_MARKED` of those that cost more than a row each. Each
look begins where the one before ended, so a caller that follows the places sees each job once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.jobs.rows import job_row
from tickwise.adapters.store.postgres.records.paging import bounded, page_of
from tickwise.adapters.store.postgres.records.searches import (
    INDEXED,
    KEPT_PLAN,
    LAST_ID,
    fetched,
    labels_asked,
    like,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.clock import Clock
from tickwise.ports.paging import Page, SearchPlace
from tickwise.ports.store import JobQuery, JobRow
from tickwise.ports.store.placement import LASTING_TYPES

LOOKED_JOBS: Final = 10_000
"""Rows of jobs."""
LOOKED_MARKED: Final = 2_000
"""Candidates that are looked up one by one; and jobs whose status is asked for, which follows from other tables."""
FEW_JOBS: Final = 2_000
"""The most jobs of a set."""
_TRIGRAM: Final = re.compile(r"[A-Za-z0-9]{3}")
_PART: Final = re.compile(r"\{(source|candidates)\}")
MARKS: Final = {
    JobStatus.SCHEDULED: "planned",
    JobStatus.FAILED: "failed",
    JobStatus.PAUSED: "paused",
    JobStatus.CANCELLED: "cancelled",
}
"""The marks by which `jobs_marked` and `jobs_found` find the jobs of a status. COMPLETED says what a job has not, so none marks it."""
_RARE: Final = frozenset({"failed", "paused", "cancelled"})
_ONE_TIME: Final[Mapping[str, str]] = {ScheduleType.FUTURE: "jobs_later", ScheduleType.IMMEDIATE: "jobs_at_once"}
"""The sources of one-time jobs of one type."""


class Source(NamedTuple):
    """Candidates of a search in the order of their places, newest first."""

    name: str
    looked: int
    """The most that are looked at in one call."""
    more: Sequence[Any] = ()
    """Parameters of its own."""


class Job(NamedTuple):
    """A job that a look found."""

    job_id: UUID
    place: UUID


class Look(NamedTuple):
    """The jobs that a look found, in the order of their places."""

    jobs: Sequence[Job]
    floor: UUID | None
    """All candidates at this place or above were looked at. None: there are no others."""


@cache
def look_text(source: str, *, is_ordered: bool) -> str:
    """The text of a look among the candidates of a source, or among those of a set."""
    candidates = statement("jobs_in_order" if is_ordered else "jobs_in_no_order")
    within = _PART.sub(lambda _: statement(source), candidates)
    return _PART.sub(lambda _: within, statement("jobs_looked"))


class JobWalk:
    """One call of a search that may pause."""

    def __init__(self, connection: asyncpg.Connection, query: JobQuery, clock: Clock) -> None:
        self._connection = connection
        self._query = query
        self._clock = clock
        self._labels = labels_asked(query.labels, query.within)
        self._statuses = asked_statuses(query)
        self._before = query.before or LAST_ID
        is_window = query.next_run_after is not None or query.next_run_before is not None
        self._is_derived = bool(self._statuses) or is_window
        """Timers and runs say which jobs match, and not the jobs alone."""

    async def page(self) -> Page[JobRow]:
        """A page that tells its caller where the search goes on."""
        query = self._query
        if query.is_rest:
            return await self._walked(self._newest(), is_one_time=True)
        if query.rest_from is None and (few := await self._few()) is not None:
            return await self._picked(few, None)
        if (source := self._source()) is not None:
            return await self._walked(source, is_one_time=True if self._statuses == (JobStatus.FAILED,) else None)
        if query.schedule_type in LASTING_TYPES:
            found = await self._repeating(self._before)
            return await self._picked(found.jobs, _place(found.floor))
        return await self._newest_first()

    async def _newest_first(self) -> Page[JobRow]:
        """The newest jobs; behind them those that have indexes, and a pause before the rest."""
        query, newest = self._query, Look((), self._query.rest_from)
        below = self._before
        if newest.floor is None:
            newest = await self._look(self._newest(), below)
            if newest.floor is None or self._fills(newest):
                return await self._picked(newest.jobs, _place(newest.floor))
            below = newest.floor
        found = await self._repeating(below)
        floor = newest.floor
        goes_on = SearchPlace(floor, is_rest=True) if found.floor is None else SearchPlace(found.floor, rest_from=floor)
        page = await self._picked([*newest.jobs, *found.jobs], goes_on)
        page.rest_from = floor
        return page

    async def _walked(self, source: Source, *, is_one_time: bool | None) -> Page[JobRow]:
        found = await self._look(source, self._before, is_one_time)
        return await self._picked(found.jobs, _place(found.floor, is_rest=self._query.is_rest))

    # ------------------------------------------------------------------------------------------ candidates

    async def _few(self) -> Sequence[Job] | None:
        """All jobs of the search, if an index shows that they are few. None: they may be many."""
        query = self._query
        if self._labels is not None and (found := await self._set("jobs_with_labels", self._before)) is not None:
            return found
        if query.next_run_after is not None and query.next_run_before is not None:
            found = await self._set("jobs_due", self._before, query.next_run_after, query.next_run_before)
            if found is not None:
                return found
        if query.namespace != DEFAULT_NAMESPACE:
            newest = await self._look(self._newest(), self._before)
            return newest.jobs if newest.floor is None else None
        return None

    def _source(self) -> Source | None:
        """The source that has all jobs of the search, and no better way leads to some of them first."""
        query = self._query
        marks = self._marks()
        has_index = query.name is not None or query.owner is not None or query.task_kind is not None
        if marks and (_RARE.issuperset(marks) or not (has_index or query.schedule_type in LASTING_TYPES)):
            return Source("jobs_marked", LOOKED_MARKED, (marks,))
        one_time = _ONE_TIME.get(query.schedule_type or "")
        return None if one_time is None else Source(one_time, self._looked)

    def _marks(self) -> list[str]:
        """Each job of this search has one of these marks of `jobs_marked`. None: it has no such mark."""
        statuses = set(self._statuses)
        marks = [MARKS[status] for status in sorted(statuses)] if statuses <= MARKS.keys() else []
        is_window = self._query.next_run_after is not None or self._query.next_run_before is not None
        return ["planned"] if is_window and not (marks and _RARE.issuperset(marks)) else marks

    def _newest(self) -> Source:
        is_common = self._query.namespace == DEFAULT_NAMESPACE
        return Source("jobs_every" if is_common else "jobs_of_namespace", self._looked)

    @property
    def _looked(self) -> int:
        return LOOKED_MARKED if self._is_derived else LOOKED_JOBS

    async def _repeating(self, below: UUID) -> Look:
        """The jobs of the search that recur or run on demand."""
        query = self._query
        if await self._is_name_indexed() and (few := await self._set("jobs_with_name", below)) is not None:
            return Look(few, None)
        if query.owner is not None:
            name = "jobs_of_owner"
        elif query.task_kind is not None:
            name = "jobs_of_task_kind"
        else:
            name = "jobs_repeating" if query.schedule_type is None else "jobs_of_type"
        return await self._look(Source(name, self._looked), below, is_one_time=False)

    async def _is_name_indexed(self) -> bool:
        if self._query.name is None or _TRIGRAM.search(self._query.name) is None:
            return False
        return bool(await self._connection.fetchval(statement("names_indexed")))

    def _fills(self, look: Look) -> bool:
        """Check whether these jobs fill a page."""
        return not self._is_derived and len(look.jobs) >= self._query.limit

    # ------------------------------------------------------------------------------------------ statements

    async def _look(self, source: Source, below: UUID, is_one_time: bool | None = None) -> Look:
        """Look among candidates below a place, until they fill a page or are as many as one look may have."""
        most = source.looked if self._is_derived else self._query.limit
        asked = [self._query.namespace, below, source.looked, most, *self._conditions(), is_one_time, *source.more]
        rows = await fetched(self._connection, look_text(source.name, is_ordered=True), asked, self._clock, KEPT_PLAN)
        ended = len(rows) < most and not (rows and rows[-1]["nth"] == source.looked)
        return Look(_wanted(rows), None if ended else rows[-1]["listed"])

    async def _set(self, name: str, below: UUID, *more: Any) -> Sequence[Job] | None:
        """The jobs of a set below a place. None: its candidates are more than a few, those of all namespaces together."""
        most = FEW_JOBS + 1
        asked = [self._query.namespace, below, most, most, *self._conditions(), None, *more]
        rows = await fetched(self._connection, look_text(name, is_ordered=False), asked, self._clock, INDEXED)
        if any(row["nth"] == most for row in rows):
            return None
        return sorted(_wanted(rows), key=lambda job: job.place, reverse=True)

    def _conditions(self) -> list[Any]:
        query = self._query
        name = None if query.name is None else like(query.name)
        return [name, self._labels, query.schedule_type, query.task_kind, query.owner]

    async def _picked(self, jobs: Sequence[Job], goes_on: SearchPlace | None) -> Page[JobRow]:
        """The page of those of the jobs that match; `goes_on` if it is not full."""
        query = self._query
        some = jobs if self._is_derived else jobs[: query.limit]
        ids, places = [job.job_id for job in some], [job.place for job in some]
        window = [query.next_run_after, query.next_run_before]
        asked = [query.namespace, ids, places, self._statuses or None, *window, query.limit, query.bytes_most]
        rows = await fetched(self._connection, bounded("jobs_picked"), asked, self._clock, KEPT_PLAN) if some else []
        page = page_of(rows, job_row)
        if not page.is_full(query.limit):
            page.paused_at = goes_on
        return page


def asked_statuses(query: JobQuery) -> tuple[JobStatus, ...]:
    """The statuses that narrow this search, each once; none if it asks for all of them."""
    asked = set(query.statuses)
    return () if len(asked) == len(JobStatus) else tuple(sorted(asked))


def _wanted(rows: Sequence[asyncpg.Record]) -> list[Job]:
    """The jobs of the rows that match, each once."""
    return list(dict.fromkeys(Job(row["job_id"], row["listed"]) for row in rows if row["wanted"]))


def _place(floor: UUID | None, *, is_rest: bool = False) -> SearchPlace | None:
    return None if floor is None else SearchPlace(floor, is_rest)
