"""Searches for runs that may pause: a call looks at a bounded number of rows, and says where it goes on.

    few jobs have the name, or the labels ──► the newest runs of each of them ─► with a name: the runs of the other jobs
    any other condition ──► a source: runs in the order of their ids, as many as one look may have
    a window of due times ──► the runs with ids of that time ──► those that were due long after the time in their id
                              └── a page, and a pause where the look ended ──┘

Invariant: a look reads at most `LOOKED_RUNS` candidates, or `LOOKED_JOBS`. Each look begins where the one before ended,
so a caller that follows the places sees each run once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.large_sets import LargeSets
from tickwise.adapters.store.postgres.records.job_walks import JobWalk
from tickwise.adapters.store.postgres.records.paging import bounded
from tickwise.adapters.store.postgres.records.searches import (
    ID_SLACK_SECONDS,
    KEPT_PLAN,
    LAST_ID,
    OF_A_SET,
    fetched,
    first_id,
    labels_asked,
    like,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.lifecycle import CODES, FINAL, RunState
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.clock import Clock
from tickwise.ports.paging import SearchPlace
from tickwise.ports.store import JobQuery, LetterQuery, RunQuery, RunText, SearchCount
from tickwise.ports.store.searches import COUNT_LOOKS

LOOKED_RUNS: Final = 40_000
"""Runs that are looked at by themselves. A window of due times is looked for among ids from ten minutes after it on."""
LOOKED_JOBS: Final = 2_000
"""Runs whose jobs are looked at; …"""
LOOKED_OF_PAGE: Final = 1_000
"""… by a page: each takes 5 to 10 us. A count looks at as many as it may."""
FEW_LATE: Final = 2_000
"""The most runs that were due long after the time in their id, in one window."""
FEW_JOBS: Final = 250
"""The most jobs whose runs are looked up job by job."""
NO_ID: Final = UUID(int=0)
BRIEF: Final = ("job_id", "state", "due_at", "started_at", "ended_at", "nominal_at", "reason")
"""The columns of a brief row beside its id. A look has them at hand: to pick a run by its id costs ten times as
much."""
BRIEF_SOURCES: Final = frozenset({"runs_every", "runs_of_namespace", "runs_of_job"})
"""The sources with these columns. Runs that another one finds are picked whole."""
_PART: Final = re.compile(r"\{(source|candidates|columns)\}")


class Source(NamedTuple):
    """Candidates of a search in the order of their ids, newest first."""

    name: str
    more: Sequence[Any] = ()
    """Parameters of its own."""


class Look(NamedTuple):
    """The runs that a look found, newest first."""

    runs: Sequence[UUID]
    floor: UUID | None
    """All candidates with this id or above were looked at. None: there are no others."""


class FoundIds(NamedTuple):
    """Runs that match, newest first, and where the search goes on behind them."""

    runs: Sequence[UUID]
    goes_on: SearchPlace | None


class FoundRuns(NamedTuple):
    """The rows of a page, and where the search goes on if they are all."""

    rows: Sequence[Mapping[str, Any]]
    goes_on: SearchPlace | None
    is_brief: bool = False
    """Rows have the columns `BRIEF` alone."""


@cache
def look_text(source: str, candidates: str, *, is_brief: bool = False) -> str:
    """The text of a look among the candidates of a source."""
    within = _PART.sub(lambda _: statement(source), candidates)
    columns = "".join(f", {name}" for name in BRIEF) if is_brief else ""
    return _PART.sub(lambda part: columns if part[1] == "columns" else within, statement("runs_looked"))


class RunWalk:
    """One call of a search that may pause."""

    def __init__(
        self,
        connection: asyncpg.Connection,
        query: RunQuery,
        clock: Clock,
        large_sets: LargeSets,
        *,
        looked: int | None = None,
    ) -> None:
        """`looked`: the candidates of a look that does not end where a page is full."""
        self._looked = looked
        self._large_sets = large_sets
        self._jobs_looked = LOOKED_JOBS
        self._brief: dict[UUID, Mapping[str, Any]] = {}
        """The rows that looks gave of a brief search."""
        self._connection = connection
        self._query = query
        self._clock = clock
        self._labels = labels_asked(query.labels, query.within)
        self._states = asked_states(query)
        self._before, self._due_from = ids_within(query)
        self._is_of_jobs = query.job_name is not None or self._labels is not None or query.queue is not None

    async def page(self) -> FoundRuns:
        """The rows of a page."""
        self._jobs_looked = min(LOOKED_JOBS, LOOKED_OF_PAGE)
        found = await self.runs()
        shown = found.runs[: self._query.limit]
        if self._query.brief and self._brief.keys() >= set(shown):
            return FoundRuns([self._brief[run] for run in shown], found.goes_on, is_brief=True)
        return FoundRuns(await self.rows(shown), found.goes_on)

    async def runs(self) -> FoundIds:
        """The ids of a page, or of more."""
        query = self._query
        if query.queue is not None and not await self._connection.fetchval(
            statement("queue_is_known"), query.namespace, query.queue
        ):
            return FoundIds((), None)
        few = await self._few_jobs()
        if query.keeps_order and few is not None and not few.is_all:
            few = None
        if few is None or query.is_rest:
            known = () if few is None else few.jobs
            found = await self._along(self._source(), known)
            return FoundIds(found.runs, _place(found.floor, is_rest=query.is_rest))
        found = await self._of_jobs(few.jobs) if few.jobs else Look((), None)
        is_over = found.floor is None and few.is_all
        rest = None if is_over else SearchPlace(LAST_ID, is_rest=True)
        return FoundIds(found.runs, rest if found.floor is None else _place(found.floor))

    # ------------------------------------------------------------------------------------------ candidates

    async def _few_jobs(self) -> FewJobs | None:
        """The jobs whose runs the search can be about, as far as indexes know them, if they are few."""
        query = self._query
        if query.job_id is not None or (query.job_name is None and self._labels is None):
            return None
        asked = JobQuery(
            namespace=query.namespace, name=query.job_name, labels=query.labels, within=query.within, limit=FEW_JOBS
        )
        found = await JobWalk(self._connection, asked, self._clock, self._large_sets).known(FEW_JOBS)
        return None if found is None else FewJobs(*found)

    def _source(self) -> Source:
        """The source that has all runs of the search, and the fewest others."""
        query, states = self._query, self._states
        if query.job_id is not None:
            if states and FINAL.isdisjoint(states):
                return Source("runs_active_of_job", (query.job_id,))
            is_failed = states == (RunState.FAILED,)
            return Source("runs_failed_of_job" if is_failed else "runs_of_job", (query.job_id,))
        if query.origin is not None:
            return Source("runs_of_origin")
        if query.reason is not None:
            return Source("runs_with_reason")
        if states and RunState.SUCCESS not in states:
            return Source("runs_in_states", ([state.value for state in states if state in FINAL],))
        if query.namespace != DEFAULT_NAMESPACE:
            return Source("runs_of_namespace")
        return Source("runs_ended" if states and FINAL.issuperset(states) else "runs_every")

    async def _along(self, source: Source, known: Sequence[UUID]) -> Look:
        """The runs of a source, without those of the jobs that are known."""
        after, from_id = self._query.after or NO_ID, self._due_from
        if from_id is None:
            return await self._look(source, self._before, after, known)
        if self._before <= from_id:
            return await self._late(source, self._before, after, known)
        found = await self._look(source, self._before, max(after, UUID(int=max(from_id.int - 1, 0))), known)
        if found.floor is not None:
            return found
        late = await self._late(source, from_id, after, known)
        return Look([*found.runs, *late.runs], late.floor)

    async def _late(self, source: Source, below: UUID, after: UUID, known: Sequence[UUID]) -> Look:
        """The runs that were due in the window long after the time in their id."""
        most = FEW_LATE + 1
        text = look_text("runs_late", statement("runs_in_no_order"))
        asked = [self._query.namespace, below, most, most, after, *self._conditions(known)]
        rows = await fetched(self._connection, text, asked, self._clock, OF_A_SET)
        if any(row["nth"] == most for row in rows):
            return await self._look(source, below, after, known)
        return Look(sorted((row["run_id"] for row in rows if row["wanted"]), reverse=True), None)

    async def _look(self, source: Source, below: UUID, after: UUID, known: Sequence[UUID]) -> Look:
        """Look among candidates below an id, until they fill a page or are as many as one look may have."""
        looked = self._looked or (self._jobs_looked if self._is_of_jobs else LOOKED_RUNS)
        most = self._looked or self._query.limit
        is_brief = self._query.brief and source.name in BRIEF_SOURCES
        text = look_text(source.name, statement("runs_in_order"), is_brief=is_brief)
        asked = [self._query.namespace, below, looked, most, after, *self._conditions(known), *source.more]
        rows = await fetched(self._connection, text, asked, self._clock, KEPT_PLAN)
        ended = len(rows) < most and not (rows and rows[-1]["nth"] == looked)
        if is_brief:
            self._brief.update((row["run_id"], row) for row in rows if row["wanted"])
        return Look([row["run_id"] for row in rows if row["wanted"]], None if ended else rows[-1]["run_id"])

    async def _of_jobs(self, jobs: Sequence[UUID]) -> Look:
        """The runs of few jobs, down to the id at which one of them has had its share of the look."""
        each = max(2, LOOKED_JOBS // len(jobs))
        text = look_text("runs_of_jobs", "{source}")
        below, after = self._before, self._query.after or NO_ID
        asked = [self._query.namespace, below, each, each * len(jobs), after, *self._conditions(()), jobs]
        rows = await fetched(self._connection, text, asked, self._clock, KEPT_PLAN)
        floor = max((row["run_id"] for row in rows if row["nth"] == each), default=None)
        runs = (row["run_id"] for row in rows if row["wanted"] and (floor is None or row["run_id"] >= floor))
        return Look(sorted(runs, reverse=True), floor)

    # ------------------------------------------------------------------------------------------ statements

    def _conditions(self, known: Sequence[UUID]) -> list[Any]:
        query = self._query
        return [
            [CODES[state] for state in self._states] or None,
            query.due_after,
            query.due_before,
            list(query.triggers) or None,
            query.origin,
            query.reason,
            query.executor,
            None if query.job_name is None else like(query.job_name),
            self._labels,
            query.queue,
            list(known) or None,
        ]

    async def rows(self, runs: Sequence[UUID]) -> Sequence[Mapping[str, Any]]:
        """The rows of these runs, in this order."""
        query = self._query
        if not runs:
            return ()
        states = [CODES[state] for state in self._states] or None
        asked = [query.namespace, runs, states, *texts_of(query), query.limit, query.bytes_most]
        return await fetched(self._connection, bounded("runs_picked"), asked, self._clock, KEPT_PLAN)


async def count_runs(
    connection: asyncpg.Connection, query: RunQuery, clock: Clock, large_sets: LargeSets
) -> SearchCount:
    """Count the runs of a search that may pause."""
    number = 0
    for _ in range(COUNT_LOOKS):
        left = query.limit - number
        found = await RunWalk(connection, replace(query, limit=left), clock, large_sets).runs()
        number += min(len(found.runs), left)
        if len(found.runs) >= left:
            break
        if found.goes_on is None:
            return SearchCount(number, is_whole=True)
        query = replace(query, before=found.goes_on.before, is_rest=found.goes_on.is_rest)
    return SearchCount(number, is_whole=False)


class FewJobs(NamedTuple):
    """Few jobs that a search for runs is about."""

    jobs: Sequence[UUID]
    is_all: bool
    """True: it is about no others. False: about one-time jobs too, which the index leaves out."""


def asked_states(query: RunQuery) -> tuple[RunState, ...]:
    """The states that narrow this search, each once; none if it asks for all of them."""
    asked = set(query.states)
    return () if len(asked) == len(RunState) else tuple(sorted(asked))


def texts_of(query: RunQuery | LetterQuery) -> list[bool]:
    """The parameters of a page that say which texts come with its runs."""
    return [RunText.RESULT in query.texts, RunText.DEFINITION in query.texts]


def ids_within(query: RunQuery) -> tuple[UUID, UUID | None]:
    """The ids of the search that runs are below, and the least of those that are not due long after it."""
    before = query.before or LAST_ID
    if query.due_before is not None:
        before = min(before, first_id(query.due_before + ID_SLACK_SECONDS))
    return before, None if query.due_after is None else first_id(query.due_after - ID_SLACK_SECONDS)


def _place(floor: UUID | None, *, is_rest: bool = False) -> SearchPlace | None:
    return None if floor is None else SearchPlace(floor, is_rest)
