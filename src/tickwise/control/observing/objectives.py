"""Objectives for the starts of runs: budgets, and how fast they burn (`domain.observing.objectives`).

of a recurring job: two fields of the job ──► counted from its runs when somebody asks
by priority or labels: made here ──────────► counted with the ends of runs, from then on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import Labels
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.job_fields import OBJECTIVE_RATIO
from tickwise.domain.model import Principal, time_id
from tickwise.domain.observing.objectives import WINDOW_SECONDS, GroupObjective, ObjectiveStanding, StartObjective
from tickwise.domain.permissions import Permission
from tickwise.ports.store import JobRow, ObjectiveJob, ObjectiveJobsQuery
from tickwise.roles.shared.objective_standings import group_standings, objective_of, standings

OF_LIST: Final = 500
"""Ended runs of each job of a list that are read."""
OF_ONE: Final = 50_000
"""Ended runs that are read of a job that is looked at alone: those of 30 days, one a minute."""


class ObjectiveBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An objective for the starts of all runs of the namespace, of one priority, of jobs with certain labels, or of
    both."""

    name: Annotated[str, Meta(min_length=1, max_length=100, description="One line, which no other one has.")]
    start_within_seconds: Annotated[
        float, Meta(gt=0, le=31_622_400, description="The runs begin within this time of their due time: ...")
    ]
    ratio: Annotated[float, Meta(gt=0, le=0.99999, description="... this share of them.")] = OBJECTIVE_RATIO
    priority: Annotated[int, Meta(ge=0, le=9, description="Of jobs with this priority; null: any.")] | None = None
    labels: Annotated[Labels, Meta(description="Of jobs that have all of these labels; empty: any.")] = {}


class StandingObjective(NamedTuple):
    """An objective, and how it stands."""

    job: JobRow | ObjectiveJob | None
    """The job that has it; None: it is a `GroupObjective`."""
    objective: StartObjective
    standing: ObjectiveStanding
    since: float | None
    """Earlier runs are not counted, for there are too many, or the objective was made then. None: all that are on
    record of 30 days are."""

    @property
    def group(self) -> GroupObjective | None:
        """The objective by priority or labels; None: it is that of a job."""
        return self.objective if isinstance(self.objective, GroupObjective) else None

    @property
    def name(self) -> str:
        """Its own, or that of the job."""
        return self.group.name if self.group is not None else self.job.name if self.job is not None else ""


class ObjectivesPage(NamedTuple):
    """A page of objectives."""

    objectives: Sequence[StandingObjective]
    next: UUID | None
    """The job or objective after which the next page begins, which may be empty; None: there is none."""


class ObjectiveService:
    """Everything about objectives."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ, by_labels=True)
    async def page(self, who: Principal, *, after: UUID | None, limit: int) -> ObjectivesPage:
        """The objectives of the namespace, by their id or that of their job. A caller with labels is shown those of
        jobs alone: the others count runs that the caller may not see."""
        query = ObjectiveJobsQuery(namespace=who.namespace, after=after, within=who.within, limit=limit)
        found = await self._context.store.objectives.jobs(query)
        groups: Sequence[GroupObjective] = ()
        if who.within is None:
            groups = await self._context.store.objectives.find(who.namespace, after=after, limit=limit + 1)
        known = {each.job_id: each for each in found.jobs} | {
            each.objective_id: each for each in groups if found.beyond is None or each.objective_id <= found.beyond
        }
        ids = sorted(known)
        shown = [known[each] for each in ids[:limit]]
        jobs = await self._of_jobs([each for each in shown if isinstance(each, ObjectiveJob)], OF_LIST)
        counted = await self._of_groups([each for each in shown if isinstance(each, GroupObjective)])
        return ObjectivesPage(
            [(jobs | counted)[each] for each in ids[:limit] if each in jobs or each in counted],
            ids[limit - 1] if len(ids) > limit else found.beyond,
        )

    @requires(Permission.RUNS_READ, by_labels=True)
    async def of_job(self, who: Principal, job_id: UUID) -> StandingObjective | None:
        """The objective of one job; None: it has none. Raises `NotFound`."""
        job = await self._context.job(who, job_id)
        return (await self._of_jobs([job], OF_ONE)).get(job_id)

    @requires(Permission.RUNS_READ)
    async def get(self, who: Principal, objective_id: UUID) -> StandingObjective:
        """One by priority or labels. Raises `NotFound`."""
        return await self._counted(await self._find(who, objective_id))

    @requires(Permission.JOBS_WRITE)
    async def add(self, who: Principal, body: ObjectiveBody) -> StandingObjective:
        """Make one by priority or labels, which counts the runs that end from now on. Raises `Invalid`; `Conflict`,
        code `name_taken` or `objectives_exhausted`."""
        for name, value in body.labels.items():
            clean_text(name, "/labels")
            clean_text(value, "/labels")
        now = await self._context.time.now()
        objective = GroupObjective(
            objective_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=who.namespace,
            name=_name(body.name),
            within_seconds=body.start_within_seconds,
            ratio=body.ratio,
            priority=body.priority,
            labels=body.labels,
            created_at=now,
            created_by=who.name,
        )
        audit = entry(
            who, AuditAction.OBJECTIVE_ADDED, "objective", objective.objective_id, after=_fields(objective)
        )  # fmt: skip
        stored = await self._context.surely(lambda: self._context.store.objectives.add(objective, audit=audit))
        return await self._counted(stored)

    @requires(Permission.JOBS_WRITE)
    async def remove(self, who: Principal, objective_id: UUID) -> StandingObjective:
        """Remove one by priority or labels with its counts, and answer it as it was. Raises `NotFound`."""
        old = await self._find(who, objective_id)
        standing = await self._counted(old)
        audit = entry(who, AuditAction.OBJECTIVE_REMOVED, "objective", objective_id, before=_fields(old))
        removed = await self._context.surely(
            lambda: self._context.store.objectives.remove(who.namespace, objective_id, audit=audit)
        )
        if not removed:
            raise _no_objective(objective_id)
        return standing

    async def _find(self, who: Principal, objective_id: UUID) -> GroupObjective:
        for each in await self._context.store.objectives.find(who.namespace):
            if each.objective_id == objective_id:
                return each
        raise _no_objective(objective_id)

    async def _counted(self, objective: GroupObjective) -> StandingObjective:
        found = await self._of_groups([objective])
        if objective.objective_id not in found:
            raise _no_objective(objective.objective_id)
        return found[objective.objective_id]

    async def _of_jobs(self, jobs: Sequence[JobRow | ObjectiveJob], each: int) -> dict[UUID, StandingObjective]:
        found = await standings(self._context.searches, jobs, each=each)
        return {
            job.job_id: StandingObjective(job, objective, found[job.job_id].standing, found[job.job_id].since)
            for job in jobs
            if (objective := objective_of(job)) is not None
        }

    async def _of_groups(self, groups: Sequence[GroupObjective]) -> dict[UUID, StandingObjective]:
        if not groups:
            return {}
        oldest = await self._context.time.now() - WINDOW_SECONDS
        found = await group_standings(self._context.store.objectives, groups)
        return {
            each.objective_id: StandingObjective(
                None, each, found[each.objective_id], each.created_at if each.created_at > oldest else None
            )
            for each in groups
            if each.objective_id in found
        }


def _name(text: str) -> str:
    """A name of one line. Raises `Invalid`."""
    name = " ".join(clean_text(text, "/name").split())
    if not name or not name.isprintable():
        raise Invalid("a name has characters that can be seen", pointer="/name")
    return name


def _fields(objective: GroupObjective) -> Mapping[str, Any]:
    return {
        "name": objective.name,
        "start_within_seconds": objective.within_seconds,
        "ratio": objective.ratio,
        "priority": objective.priority,
        "labels": dict(objective.labels),
    }


def _no_objective(objective_id: UUID) -> NotFound:
    return NotFound(f"there is no objective {objective_id} in this namespace")
