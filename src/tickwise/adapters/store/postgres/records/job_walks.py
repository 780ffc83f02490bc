"""Searches for jobs that may pause: a call looks at a bounded number of rows, and says where it goes on.

    a source ──► jobs in the order of their places, as many as one look may have ──► a full page
             └─► a set: few jobs have the label, the name, the owner, … ───────────► all of them
                 └─► a pause where the look ended

    all jobs are the source: the newest ──► of the others those that recur or run on demand ──► the one-time jobs

One-time jobs come by the thousand a second, so the indexes of owners, names and kinds leave them out. When people look
for one it is among the newest; the older ones are looked at last.

Invariant: a look reads as many candidates as its source allows, and a set has few. Each look begins where the one
before ended, so a caller that follows the places sees each job once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.large_sets import LargeSets
from tickwise.adapters.store.postgres.records.job_rows import job_row
from tickwise.adapters.store.postgres.records.paging import bounded, page_of
from tickwise.adapters.store.postgres.records.searches import (
    KEPT_PLAN,
    LAST_ID,
    OF_A_SET,
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
from tickwise.ports.store import JobQuery, JobRow, SearchCount
from tickwise.ports.store.placement import LASTING_TYPES
from tickwise.ports.store.searches import COUNT_LOOKS

LOOKED_JOBS: Final = 5_000
"""Jobs of all kinds."""
LOOKED_NEWEST: Final = 2_000
"""Jobs of all kinds that a page looks at before those that an index knows: beside thousands of new one-time jobs a
second, each look at the newest is one at jobs of the last second."""
LOOKED_REPEATING: Final = 10_000
"""Jobs that recur or run on demand. They lie close together: a look at so many takes no longer."""
LOOKED_MARKED: Final = 2_000
"""Candidates that are looked up one by one; and jobs whose status is asked for, which follows from other tables."""
FIRST_LOOKED: Final = 4
"""Times the rows of a page: so many candidates are looked at first where a status is asked for. Of jobs with the mark
of a status nearly all have it, and the look that fills the page is a tenth of the whole one."""
FEW_JOBS: Final = 1_000
"""The most jobs of a set."""
NO_SETS: Final[Mapping[str, Sequence[Any]]] = MappingProxyType({})
_COUNTED: Final[Any] = None
"""In the place of a row, in a page that is only counted."""
_TRIGRAM: Final = re.compile(r"[A-Za-z0-9]{3}")
_PART: Final = re.compile(r"\{(source|candidates)\}")
MARKS: Final = {
    JobStatus.SCHEDULED: "planned",
    JobStatus.FAILED: "failed",
    JobStatus.PAUSED: "paused",
    JobStatus.CANCELLED: "cancelled",
}
"""The marks by which `jobs_marked` and `jobs_found` find the jobs of a status. COMPLETED says what a job has not, so
none marks it."""
_RARE: Final = frozenset({"failed", "paused", "cancelled"})


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

    def __init__(
        self,
        connection: asyncpg.Connection,
        query: JobQuery,
        clock: Clock,
        large_sets: LargeSets,
        *,
        counts: bool = False,
    ) -> None:
        """`counts`: the pages have the number of their jobs, and none of these."""
        self._counts = counts
        self._large_sets = large_sets
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
        if query.keeps_order:
            return await self._along(self._source() or self._newest(), is_one_time=None, sets=self._sets())
        if query.is_rest:
            return await self._along(self._newest(), is_one_time=True)
        if query.rest_from is not None:
            return await self._newest_first()
        if query.namespace != DEFAULT_NAMESPACE:
            newest = await self._look(self._newest(), self._before)
            if newest.floor is None:
                return await self._picked(newest.jobs, None)
        if (source := self._source()) is not None:
            is_one_time = True if self._statuses == (JobStatus.FAILED,) else None
            return await self._along(source, is_one_time=is_one_time, sets=self._sets())
        if query.schedule_type in LASTING_TYPES:
            return await self._along(self._repeating(), is_one_time=False, sets=self._sets_of_repeating())
        return await self._newest_first()

    async def known(self, most: int) -> tuple[Sequence[UUID], bool] | None:
        """The jobs of the search that an index of labels or of names knows, and whether they are all of its jobs. None:
        those that have one of these are more than `most`, or there is no such index."""
        for name, is_all in (("jobs_with_labels", True), ("jobs_with_name", False)):
            more = self._sets_of_repeating().get(name)
            if more is not None and (few := await self._few({name: more}, LAST_ID, most=most)) is not None:
                return [job.job_id for job in few], is_all
        return None

    async def _along(
        self, source: Source, *, is_one_time: bool | None, sets: Mapping[str, Sequence[Any]] = NO_SETS
    ) -> Page[JobRow]:  # fmt: skip
        """The jobs of a source; or those of a set that has all of them, if one look does not fill the page."""
        first = source._replace(looked=FIRST_LOOKED * self._query.limit)
        if self._is_derived and not self._counts and first.looked < source.looked:
            found = await self._look(first, self._before, is_one_time)
            page = await self._picked(found.jobs, _place(found.floor, is_rest=self._query.is_rest))
            if page.paused_at is None:
                return page
        found = await self._look(source, self._before, is_one_time)
        page = await self._picked(found.jobs, _place(found.floor, is_rest=self._query.is_rest))
        if page.paused_at is not None and (few := await self._few(sets, self._before)) is not None:
            return await self._picked(few, None)
        return page

    async def _newest_first(self) -> Page[JobRow]:
        """The newest jobs; behind them those that recur or run on demand, and a pause before the rest."""
        newest, below = Look((), self._query.rest_from), self._before
        if newest.floor is None:
            if self._is_named and (named := await self._named(below)) is not None:
                return named
            newest = await self._look(self._newest_few(), below)
            page = await self._picked(newest.jobs, _place(newest.floor))
            if newest.floor is None or page.paused_at is None:
                return page
            if (few := await self._few(self._sets(), below)) is not None:
                return await self._picked(few, None)
            below = newest.floor
        found = await self._look(self._repeating(), below, is_one_time=False)
        rest = SearchPlace(newest.floor, is_rest=True)
        goes_on = rest if found.floor is None else SearchPlace(found.floor, rest_from=newest.floor)
        page = await self._picked([*newest.jobs, *found.jobs], goes_on)
        if page.paused_at is not None and found.floor is not None:
            few = await self._few(self._sets_of_repeating(), below, is_one_time=False)
            page = page if few is None else await self._picked([*newest.jobs, *few], rest)
        page.rest_from = newest.floor
        return page

    @property
    def _is_named(self) -> bool:
        """True if the index of names can tell all jobs of the search but for one-time ones."""
        return not self._counts and "jobs_with_name" in self._sets_of_repeating()

    async def _named(self, below: UUID) -> Page[JobRow] | None:
        """The page of `_newest_first`, where an index knows the few jobs that recur or run on demand. Then only the
        names of one-time jobs are compared, each of which takes 2 us. None: they may be many."""
        few = await self._few(self._sets_of_repeating(), below, is_one_time=False)
        if few is None:
            return None
        newest = await self._look(self._newest_few(), below, is_one_time=True)
        found = sorted({*newest.jobs, *few}, key=lambda job: job.place, reverse=True)
        page = await self._picked(found, _place(newest.floor, is_rest=True))
        page.rest_from = newest.floor
        return page

    # ------------------------------------------------------------------------------------------ candidates

    def _sets(self) -> Mapping[str, Sequence[Any]]:
        """The sets that have all jobs of the search, with parameters of their own."""
        query, found = self._query, dict[str, Sequence[Any]]()
        if self._labels is not None:
            found["jobs_with_labels"] = ()
        if query.next_run_after is not None and query.next_run_before is not None:
            found["jobs_due"] = (query.next_run_after, query.next_run_before)
        return found

    def _sets_of_repeating(self) -> Mapping[str, Sequence[Any]]:
        """Those that have all of them that recur or run on demand."""
        query = self._query
        asked = {
            "jobs_with_name": query.name is not None and _TRIGRAM.search(query.name) is not None,
            "jobs_of_owner": query.owner is not None,
            "jobs_of_task_kind": query.task_kind is not None,
            "jobs_of_type": query.schedule_type is not None,
        }
        return {**self._sets(), **{name: () for name, is_asked in asked.items() if is_asked}}

    async def _few(
        self,
        sets: Mapping[str, Sequence[Any]],
        below: UUID,
        *,
        is_one_time: bool | None = None,
        most: int | None = None,
    ) -> Sequence[Job] | None:
        """The jobs of the search below a place, if one of these sets has at most so many. None: they may be more."""
        for name, more in sets.items():
            if name == "jobs_with_name" and not await self._connection.fetchval(statement("names_indexed")):
                continue
            found = await self._set(name, more, below, is_one_time, FEW_JOBS if most is None else most)
            if found is not None:
                return found
        return None

    def _source(self) -> Source | None:
        """The source that has all jobs of the search, unless an index finds some of them before it does."""
        query = self._query
        marks = self._marks()
        has_index = query.name is not None or query.owner is not None or query.task_kind is not None
        if marks and (_RARE.issuperset(marks) or not (has_index or query.schedule_type in LASTING_TYPES)):
            return Source("jobs_marked", LOOKED_MARKED, (marks,))
        if query.schedule_type == ScheduleType.FUTURE:
            return Source("jobs_later", self._looked)
        return self._newest() if query.schedule_type == ScheduleType.IMMEDIATE else None

    def _marks(self) -> list[str]:
        """Each job of this search has one of these marks of `jobs_marked`. None: it has no such mark."""
        statuses = set(self._statuses)
        marks = [MARKS[status] for status in sorted(statuses)] if statuses <= MARKS.keys() else []
        is_window = self._query.next_run_after is not None or self._query.next_run_before is not None
        return ["planned"] if is_window and not (marks and _RARE.issuperset(marks)) else marks

    def _newest(self) -> Source:
        is_common = self._query.namespace == DEFAULT_NAMESPACE
        return Source("jobs_every" if is_common else "jobs_of_namespace", self._looked)

    def _newest_few(self) -> Source:
        """All jobs, of which a page looks at fewer. A count looks at as many as it may."""
        newest = self._newest()
        return newest if self._counts else newest._replace(looked=min(newest.looked, LOOKED_NEWEST))

    @property
    def _looked(self) -> int:
        return LOOKED_MARKED if self._is_derived else LOOKED_JOBS

    def _repeating(self) -> Source:
        return Source("jobs_repeating", LOOKED_MARKED if self._is_derived else LOOKED_REPEATING)

    # ------------------------------------------------------------------------------------------ statements

    async def _look(self, source: Source, below: UUID, is_one_time: bool | None = None) -> Look:
        """Look among candidates below a place, until they fill a page or are as many as one look may have."""
        most = source.looked if self._is_derived else self._query.limit
        asked = [self._query.namespace, below, source.looked, most, *self._conditions(), is_one_time, *source.more]
        rows = await fetched(self._connection, look_text(source.name, is_ordered=True), asked, self._clock, KEPT_PLAN)
        ended = len(rows) < most and not (rows and rows[-1]["nth"] == source.looked)
        return Look(_wanted(rows), None if ended else rows[-1]["listed"])

    async def _set(
        self, name: str, more: Sequence[Any], below: UUID, is_one_time: bool | None, most: int
    ) -> Sequence[Job] | None:  # fmt: skip
        """The jobs of a set below a place. None: those of all namespaces together are more than `most`."""
        of = self._set_of(name, more)
        if self._large_sets.has_more_than(most, of):
            return None
        asked = [self._query.namespace, below, most + 1, most + 1, *self._conditions(), is_one_time, *more]
        rows = await fetched(self._connection, look_text(name, is_ordered=False), asked, self._clock, OF_A_SET)
        if any(row["nth"] > most for row in rows):
            self._large_sets.note(most, of)
            return None
        return sorted(_wanted(rows), key=lambda job: job.place, reverse=True)

    def _set_of(self, name: str, more: Sequence[Any]) -> tuple[Any, ...]:
        """A name for a set: its statement with the values that it reads the index by."""
        query = self._query
        values = {
            "jobs_with_labels": self._labels or (),
            "jobs_with_name": (query.name,),
            "jobs_of_owner": (query.namespace, query.owner),
            "jobs_of_task_kind": (query.namespace, query.task_kind),
            "jobs_of_type": (query.schedule_type,),
        }
        return (name, *values.get(name, ()), *more)

    def _conditions(self) -> list[Any]:
        query = self._query
        name = None if query.name is None else like(query.name)
        return [name, self._labels, query.schedule_type, query.task_kind, query.owner]

    async def _picked(self, jobs: Sequence[Job], goes_on: SearchPlace | None) -> Page[JobRow]:
        """The page of those of the jobs that match. It pauses at `goes_on` if it is not full."""
        query = self._query
        some = jobs if self._is_derived else jobs[: query.limit]
        if self._counts:
            page = Page[JobRow]([_COUNTED] * await self._number(some))
            page.paused_at = None if page.is_full(query.limit) else goes_on
            return page
        ids, places = [job.job_id for job in some], [job.place for job in some]
        window = [query.next_run_after, query.next_run_before]
        asked = [query.namespace, ids, places, self._statuses or None, *window, query.limit, query.bytes_most]
        rows = await fetched(self._connection, bounded("jobs_picked"), asked, self._clock, KEPT_PLAN) if some else []
        page = page_of(rows, job_row)
        if not page.is_full(query.limit):
            page.paused_at = goes_on
        return page

    async def whole(self, most: int) -> int | None:
        """The number of the jobs of the search, if an index knows all of them, and they are at most so many."""
        few = await self._few(self._sets(), self._before, most=most)
        return None if few is None else await self._number(few)

    async def _number(self, jobs: Sequence[Job]) -> int:
        """The number of those of the jobs that match, up to the limit."""
        if not jobs or not self._is_derived:
            return len(jobs)
        query = self._query
        window = [query.next_run_after, query.next_run_before]
        asked = [query.namespace, [job.job_id for job in jobs], self._statuses or None, *window, query.limit]
        [row] = await fetched(self._connection, statement("jobs_picked_count"), asked, self._clock, KEPT_PLAN)
        number: int = row["number"]
        return number


async def count_jobs(
    connection: asyncpg.Connection, query: JobQuery, clock: Clock, large_sets: LargeSets
) -> SearchCount:
    """Count the jobs of a search that may pause."""
    whole = await JobWalk(connection, query, clock, large_sets, counts=True).whole(query.limit - 1)
    if whole is not None:
        return SearchCount(whole, is_whole=True)
    number = 0
    for _ in range(COUNT_LOOKS):
        left = query.limit - number
        page = await JobWalk(connection, replace(query, limit=left), clock, large_sets, counts=True).page()
        number += len(page)
        if page.is_full(left):
            break
        if page.paused_at is None:
            return SearchCount(number, is_whole=True)
        before, is_rest, rest_from = page.paused_at
        query = replace(query, before=before, is_rest=is_rest, rest_from=rest_from)
    return SearchCount(number, is_whole=False)


def asked_statuses(query: JobQuery) -> tuple[JobStatus, ...]:
    """The statuses that narrow this search, each once; none if it asks for all of them."""
    asked = set(query.statuses)
    return () if len(asked) == len(JobStatus) else tuple(sorted(asked))


def _wanted(rows: Sequence[asyncpg.Record]) -> list[Job]:
    """The jobs of the rows that match, each once."""
    return list(dict.fromkeys(Job(row["job_id"], row["listed"]) for row in rows if row["wanted"]))


def _place(floor: UUID | None, *, is_rest: bool = False) -> SearchPlace | None:
    return None if floor is None else SearchPlace(floor, is_rest)
