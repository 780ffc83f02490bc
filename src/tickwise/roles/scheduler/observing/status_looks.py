"""Looks at the jobs of status pages. The pages show what was found, and read no job and no run.

    public pages whose last look is a minute old ──► jobs ──► newest ends, waits, objectives ──► states, recorded once

Each scheduler does it. Of two looks at once the store counts one; a crash loses a look. Invariants: a look is bounded,
however many jobs and runs there are: `MAX_JOBS` for a component, the newest `ENDS_READ` runs of each. A page of which
the search is refused holds up no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from tickwise.domain.errors import Refused
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.observing.objectives import ObjectiveState
from tickwise.domain.observing.status_pages import (
    LOOK_SECONDS,
    MAX_JOBS,
    ComponentState,
    JobLook,
    StatusComponent,
    StatusPage,
    is_judged,
    state_of_component,
)
from tickwise.ports.store import LATE_REASONS, JobQuery, JobRow, LatestRunsQuery, RunRow, StatusPageQuery, Store
from tickwise.roles.shared.objective_standings import standings

PAGES: Final = 10
"""Pages of one step."""
IDLE_SECONDS: Final = 10.0
"""Between two looks for pages that are due."""
ENDS_READ: Final = 10
"""The newest runs of a job among which the newest end that says something is sought."""
STARTS_READ: Final = 2_000
"""Ended runs of a job with an objective that are read: see `objective_watch`."""


class StatusLooks:
    """The looks of one scheduler."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def step(self) -> float:
        """Look at the pages that are due. Returns the seconds until the next step: 0 while more are due."""
        query = StatusPageQuery(namespace=None, unseen_seconds=LOOK_SECONDS, limit=PAGES)
        pages = await self._store.status_pages.find(query)
        for page in pages:
            try:
                states = await self._states(page)
            except Refused:  # a search that would take too long; the page says that nothing is known
                states = {each.name: ComponentState.UNKNOWN for each in page.components}
            await self._store.status_pages.look(page.page_id, page.looks, states)
        return 0.0 if len(pages) >= PAGES else IDLE_SECONDS

    async def _states(self, page: StatusPage) -> Mapping[str, ComponentState]:
        jobs = {each.name: await self._jobs(page.namespace, each) for each in page.components}
        rows = {row.job_id: row for found in jobs.values() for row in found}
        looks = await self._looks(page.namespace, rows)
        return {name: state_of_component([looks[row.job_id] for row in found]) for name, found in jobs.items()}

    async def _jobs(self, namespace: str, component: StatusComponent) -> Sequence[JobRow]:
        """The jobs of a component: those that it names, then the newest that have its labels."""
        searches, found = self._store.searches, dict[UUID, JobRow]()
        if component.jobs:
            query = JobQuery(namespace=namespace, ids=component.jobs, limit=MAX_JOBS)
            found |= {row.job_id: row for row in await searches.jobs(query)}
        if component.labels:
            query = JobQuery(namespace=namespace, labels=component.labels, limit=MAX_JOBS)
            found |= {row.job_id: row for row in await searches.jobs(query)}
        return [row for row in found.values() if row.status is not JobStatus.CANCELLED]

    async def _looks(self, namespace: str, rows: Mapping[UUID, JobRow]) -> Mapping[UUID, JobLook]:
        if not rows:
            return {}
        now = await self._store.now()
        query = LatestRunsQuery(namespace=namespace, jobs=list(rows), each=ENDS_READ, until=now)
        ends = dict[UUID, RunRow]()
        for run in await self._store.searches.runs(query):
            if run.job_id not in ends and is_judged(run.state, run.reason, LATE_REASONS):
                ends[run.job_id] = run
        counted = await standings(self._store.searches, list(rows.values()), each=STARTS_READ)
        burning = {
            job_id
            for job_id, each in counted.items()
            if each.standing.state in (ObjectiveState.BURNING, ObjectiveState.EXHAUSTED)
        }
        return {job_id: _look(row, ends.get(job_id), now, burns=job_id in burning) for job_id, row in rows.items()}


def _look(row: JobRow, ended: RunRow | None, now: float, *, burns: bool) -> JobLook:
    overdue = 0.0 if row.next_run_at is None else max(now - row.next_run_at, 0.0)
    return JobLook(
        ended=None if ended is None else ended.state,
        reason=None if ended is None else ended.reason,
        overdue_seconds=overdue,
        burns=burns,
        is_paused=row.status is JobStatus.PAUSED,
    )
