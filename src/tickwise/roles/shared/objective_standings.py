"""The standings of objectives, by the definitions of jobs or as they are kept, and the counts of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tickwise.documents.definition import decode_definition
from tickwise.domain.observing.objectives import WINDOWS, GroupObjective, ObjectiveStanding, StartObjective, standing_of
from tickwise.ports.store import JobRow, ObjectiveJob, ObjectiveStore, Searches, StartsQuery


class CountedObjective(NamedTuple):
    """The standing of the objective of a job."""

    standing: ObjectiveStanding
    since: float | None
    """See `JobStarts`."""


def objective_of(job: JobRow | ObjectiveJob) -> StartObjective | None:
    """The objective of a job; None: it has none."""
    said = decode_definition(job.definition)
    if said.objective_start_seconds is None:
        return None
    return StartObjective(within_seconds=said.objective_start_seconds, ratio=said.objective_ratio)


async def standings(
    searches: Searches, jobs: Sequence[JobRow | ObjectiveJob], *, each: int
) -> Mapping[UUID, CountedObjective]:
    """The standings of the objectives of these jobs, of those that have one. Of each job `each` ended runs are read at
    most."""
    objectives = {job.job_id: found for job in jobs if (found := objective_of(job)) is not None}
    if not objectives:
        return {}
    wanted = {job_id: objective.within_seconds for job_id, objective in objectives.items()}
    counted = await searches.starts(StartsQuery(jobs=wanted, windows=WINDOWS, each=each))
    return {
        job_id: CountedObjective(standing_of(objectives[job_id], starts.counts), starts.since)
        for job_id, starts in counted.items()
    }


async def group_standings(
    objectives: ObjectiveStore, groups: Sequence[GroupObjective]
) -> Mapping[UUID, ObjectiveStanding]:
    """The standings of objectives by priority or labels; those that were removed meanwhile are left out."""
    if not groups:
        return {}
    counted = await objectives.counts([each.objective_id for each in groups], WINDOWS)
    return {
        each.objective_id: standing_of(each, counted[each.objective_id])
        for each in groups
        if each.objective_id in counted
    }
