"""Past and present, for readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.paging import page_of
from tickwise.adapters.store.postgres.records.run_walks import RunWalk, asked_states, count_runs, ids_within, texts_of
from tickwise.adapters.store.postgres.records.searches import (
    LAST_ID,
    conditions_of,
    connected,
    labelled_jobs,
    labels_asked,
    like,
    searched,
    searched_page,
)
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import CODES, FINAL, HELD, STATES, RunState
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.store import (
    MAX_TALLIES,
    AttemptRow,
    BusyQueue,
    CancelRow,
    Incident,
    MarkedChannel,
    Page,
    RunQuery,
    RunRow,
    SearchCount,
    StoreStats,
    Tally,
)

MAX_PAGES_COUNTED: Final = 500
"""Pages of a table that a look at the figures reads: 4 MB with some 12,000 runs, and dead rows among them. A
share among so many is right to 1 %."""

MAX_INCIDENTS: Final = 100

FAILED_ALONE: Final = (RunState.FAILED,)
"""The states of a search for what failed, which people ask for first."""


class RunRecords(Part):
    """`RunStore.get` and `RunStore.attempts` of the port."""

    async def get(self, namespace: str, run_id: UUID) -> RunRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("run_get"), run_id, namespace)
            return next(iter(await _with_requests(connection, [run_row(row) for row in rows])), None)

    async def attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("run_attempts"), run_id)
        return [AttemptRow(**{**dict(row), "state": STATES[row["state"]]}) for row in rows]


class RunSearches(Part):
    """The searches for runs, and their tallies."""

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        """See the port."""
        if _is_within_job(query):
            async with self._links.search_line().use(writes=False) as connection:
                return await self._runs_of_job(connection, query)
        page = _page(query)
        may_pause = query.may_pause and page is None and not query.ids
        if may_pause:
            async with self._links.search_line().use(writes=False) as connection:
                return await self._runs_in_looks(connection, query)
        async with connected(self._links, LIST if page is None else page[0]) as connection:
            name, asked = page or (LIST, await self._searched_for(connection, query))
            return await self._runs_page(connection, name, asked, query)

    async def _runs_page(
        self, connection: asyncpg.Connection, name: str, asked: list[Any], query: RunQuery
    ) -> Page[RunRow]:  # fmt: skip
        rows = await searched_page(connection, name, [*asked, *texts_of(query)], query.bytes_most, self._clock)
        found = page_of(rows, run_row)
        return Page(await _with_requests(connection, found), cut=found.cut)

    async def _runs_in_looks(self, connection: asyncpg.Connection, query: RunQuery) -> Page[RunRow]:
        """A page of a search that may pause."""
        rows, goes_on, is_brief = await RunWalk(connection, query, self._clock, self._large_sets).page()
        if is_brief:
            page = Page(_brief_row(row, query.namespace) for row in rows)
        else:
            found = page_of(rows, run_row)
            page = Page(await _with_requests(connection, found), cut=found.cut)
        if not page.is_full(query.limit):
            page.paused_at = goes_on
        return page

    async def _runs_of_job(self, connection: asyncpg.Connection, query: RunQuery) -> Page[RunRow]:
        """A page of a search among the runs of one job, look by look until it is full or there are no more."""
        walk = RunWalk(connection, query, self._clock, self._large_sets)
        found = await walk.runs()
        runs = list(found.runs)
        while found.goes_on is not None and len(runs) < query.limit:
            rest = replace(query, before=found.goes_on.before, limit=query.limit - len(runs))
            found = await RunWalk(connection, rest, self._clock, self._large_sets).runs()
            runs += found.runs
        page = page_of(await walk.rows(runs[: query.limit]), run_row)
        return Page(await _with_requests(connection, page), cut=page.cut)

    async def _count_runs(self, query: RunQuery) -> SearchCount:
        if query.may_pause and not query.ids:
            async with self._links.search_line().use(writes=False) as connection:
                return await count_runs(connection, query, self._clock, self._large_sets)
        async with self._links.pooled(writes=False) as connection:
            asked = await self._searched_for(connection, query)
            [(count,)] = await searched(connection, "runs_count", asked, self._clock)
        return SearchCount(count, is_whole=count < query.limit)

    async def _searched_for(self, connection: asyncpg.Connection, query: RunQuery) -> list[Any]:
        """The parameters of the statements `runs_list` and `runs_count`. Few jobs that have the labels are named one by
        one: then their runs have an index. Among many, the newest runs are looked at in turn."""
        labels = labels_asked(query.labels, query.within)
        if labels is None:
            return _asked(query)
        few = await labelled_jobs(connection, query.namespace, labels, self._clock, self._large_sets)
        return _asked(query, few, labels if few is None else None)

    async def tally(self, namespace: str | None, since: float, until: float) -> Sequence[Tally]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("runs_tally"), namespace, since, until, MAX_TALLIES)
        return [Tally(hour=row["hour"], state=STATES[row["state"]], runs=row["runs"]) for row in rows]


class Incidents(Part):
    """`IncidentStore` of the port."""

    async def add(self, incident: Incident) -> None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(
                statement("incident_add"), incident.kind, incident.begin, incident.end, incident.who
            )

    async def between(self, since: float, until: float) -> Sequence[Incident]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("incidents_list"), since, until, MAX_INCIDENTS)
        return [Incident(**dict(row)) for row in rows]


class Marks(Part):
    """`MarkStore` of the port."""

    async def put(self, channel: MarkedChannel, marks: Mapping[int, float]) -> None:
        """See the port."""
        if not marks:
            return
        text = statement("results_mark") if channel is MarkedChannel.RESULTS else statement("requests_mark")
        async with self._links.pooled(writes=True) as connection:
            await connection.execute(text, list(marks.keys()), list(marks.values()))

    async def get(self, channel: MarkedChannel, sources: Sequence[int]) -> Mapping[int, float]:
        """See the port."""
        text = statement("results_marked") if channel is MarkedChannel.RESULTS else statement("requests_marked")
        async with self._links.pooled(writes=False) as connection:
            return dict(await connection.fetch(text, sources))


class Figures(Part):
    """The store's name and its counts."""

    @property
    def cluster_id(self) -> str:
        """See the port."""
        if self._shared.cluster_id is None:
            raise Bug("the store has not been opened, so its name is not known")
        return self._shared.cluster_id

    async def stats(self, queues: int = 0) -> StoreStats:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = dict(await connection.fetchrow(statement("stats"), MAX_PAGES_COUNTED, queues))
            if row["sees_timers"]:
                row |= dict(await connection.fetchrow(statement("stats_timers"), MAX_PAGES_COUNTED))
        return StoreStats(**row | {"queues": _busy_queues(row["queues"])})


_busy_queues: Final = msgspec.json.Decoder(tuple[BusyQueue, ...]).decode


LIST: Final = "runs_list"


_WITHIN_JOB: Final = frozenset({"job_id", "after", "states", "triggers", "keeps_order"})
"""Conditions of `RunQuery` on the runs of one job that a look answers by the plan that it keeps."""


def _is_within_job(query: RunQuery) -> bool:
    """Check whether the search is one among the runs of a job, to its end: explanations ask several of them each."""
    conditions = conditions_of(query)
    if query.may_pause or conditions == {"job_id"} or not {"job_id"} <= conditions <= _WITHIN_JOB:
        return False
    # Runs that did not succeed are few among those of a busy job: `runs_list` finds them by their index.
    states = asked_states(query)
    return not states or RunState.SUCCESS in states or FINAL.isdisjoint(states)


def _page(query: RunQuery) -> tuple[str, list[Any]] | None:
    """The statement of a page whose plan is kept, with its parameters; None: more is asked than it knows."""
    is_common = query.namespace == DEFAULT_NAMESPACE
    conditions = conditions_of(query)
    newest: list[Any] = [query.namespace, query.before or LAST_ID, query.limit]
    if conditions == {"states"} and is_common and tuple(query.states) == FAILED_ALONE:
        return "runs_newest_failed", newest
    if conditions == {"job_id"}:
        return "runs_newest_of_job", [*newest, query.job_id]
    if conditions:
        return None
    return "runs_newest" if is_common else "runs_newest_of", newest


def _asked(query: RunQuery, jobs: Sequence[UUID] | None = None, labels: Sequence[str] | None = None) -> list[Any]:
    """The parameters of the statements `runs_list` and `runs_count`, for these jobs or labels of jobs. A window
    of due times is one of ids too: no run is due before the time in its id, and what is due long after that is found
    by an index of its own."""
    before, from_id = ids_within(query)
    return [
        query.namespace,
        query.job_id,
        [CODES[state] for state in query.states] or None,
        query.due_after,
        query.due_before,
        None if before == LAST_ID else before,
        query.limit,
        query.after,
        list(query.triggers) or None,
        query.origin,
        query.reason,
        from_id,
        query.executor,
        jobs,
        None if query.job_name is None else like(query.job_name),
        labels,
        query.queue,
        list(query.ids) or None,
    ]


async def _with_requests(connection: asyncpg.Connection, shown: Sequence[RunRow]) -> Sequence[RunRow]:
    """These runs, those that are held with what is asked of their holders."""
    held = [run.run_id for run in shown if run.state in HELD]
    if not held:
        return shown
    asked = {
        row["run_id"]: CancelRow(asked_at=row["asked_at"], heard_at=row["heard_at"], error=row["error"])
        for row in await connection.fetch(statement("requests_of"), held)
    }
    return [run._replace(cancel=asked[run.run_id]) if run.run_id in asked else run for run in shown]


def _brief_row(row: Mapping[str, Any], namespace: str) -> RunRow:
    """A row of a brief search."""
    return RunRow(
        run_id=row["run_id"],
        job_id=row["job_id"],
        namespace=namespace,
        state=STATES[row["state"]],
        trigger=0,
        due_at=row["due_at"],
        queued_at=row["due_at"],
        dispatched_at=None,
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        ready_at=None,
        attempt=0,
        failures=0,
        crashes=0,
        executor=None,
        reason=row["reason"],
        error=None,
        result=None,
        origin=None,
        definition=None,
        nominal_at=row["nominal_at"],
    )


def run_row(row: Mapping[str, Any]) -> RunRow:
    """A row of the view of runs, as the port says it; other columns of it are passed over."""
    cancel = None
    if row["cancel_asked"] is not None:
        cancel = CancelRow(asked_at=row["cancel_asked"], heard_at=row["cancel_heard"], error=row["cancel_error"])
    return RunRow(
        run_id=row["run_id"],
        job_id=row["job_id"],
        namespace=row["namespace"],
        state=STATES[row["state"]],
        trigger=row["trigger"],
        due_at=row["due_at"],
        queued_at=row["queued_at"],
        dispatched_at=row["dispatched_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        ready_at=None if row["ready_at"] == math.inf else row["ready_at"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        executor=row["executor"],
        reason=row["reason"],
        error=row["error"],
        result=row["result"],
        origin=row["origin"],
        definition=row["definition"],
        nominal_at=row["nominal_at"],
        blocked=row["blocked"],
        limit_key=row["limit_key"],
        paced=row["paced"],
        cancel=cancel,
        occurrences=row["occurrences"],
        until=row["until"],
    )
