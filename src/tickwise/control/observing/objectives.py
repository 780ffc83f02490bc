"""Objectives for the starts of recurring jobs: budgets, and how fast they burn (`domain.observing.objectives`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.domain.model import Principal
from tickwise.domain.observing.objectives import ObjectiveStanding, StartObjective
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, ObjectiveJob, ObjectiveJobsQuery
from tickwise.roles.shared.objective_standings import objective_of, standings

OF_LIST: Final = 500
"""Ended runs of each job of a list that are read."""
OF_ONE: Final = 50_000
"""Ended runs that are read of a job that is looked at alone: those of 30 days, one a minute."""


class JobObjective(NamedTuple):
    """A job's objective, and how it stands."""

    job: JobRow | ObjectiveJob
    objective: StartObjective
    standing: ObjectiveStanding
    since: float | None
    """Earlier runs are not counted, for there are too many. None: all that are on record of 30 days are."""


class ObjectivesPage(NamedTuple):
    """A page of objectives."""

    objectives: Sequence[JobObjective]
    next: UUID | None
    """The job after which the next page begins, which may be empty; None: there is none."""


class ObjectiveService:
    """Objectives of jobs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ, by_labels=True)
    async def page(self, who: Principal, *, after: UUID | None, limit: int) -> ObjectivesPage:
        """The objectives of the namespace, by the id of their job."""
        query = ObjectiveJobsQuery(namespace=who.namespace, after=after, within=who.within, limit=limit)
        found = await self._context.searches.objective_jobs(query)
        return ObjectivesPage(await self._standing(found.jobs, OF_LIST), found.beyond)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def of_job(self, who: Principal, job_id: UUID) -> JobObjective | None:
        """The objective of one job; None: it has none. Raises `NotFound`."""
        job = await self._context.job(who, job_id)
        found = await self._standing([job], OF_ONE)
        return found[0] if found else None

    async def _standing(self, jobs: Sequence[JobRow | ObjectiveJob], each: int) -> list[JobObjective]:
        found = await standings(self._context.searches, jobs, each=each)
        return [
            JobObjective(job, objective, found[job.job_id].standing, found[job.job_id].since)
            for job in jobs
            if (objective := objective_of(job)) is not None
        ]
