"""Objectives for starts: jobs that have one, and those of many jobs, counted from what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.analytics.starts import begun_or_waiting, ended_start
from tickwise.adapters.store.memory.ended import Within
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain import selectors
from tickwise.domain.audit import AuditEntry
from tickwise.domain.observing.objectives import GroupObjective, StartCount
from tickwise.ports.store import (
    MAX_OBJECTIVES,
    MAX_OBJECTIVES_LOOKED,
    ObjectiveJob,
    ObjectiveJobs,
    ObjectiveJobsQuery,
    check_objective_room,
    objective_name_taken,
)

OBJECTIVE: Final = '"objective_start_seconds":'
"""In the definition of a job that has an objective. A payload may look alike; a reader looks again."""


class Objectives(Duty):
    """`ObjectiveStore` of the port."""

    async def jobs(self, query: ObjectiveJobsQuery) -> ObjectiveJobs:
        rows = [
            job
            for job in sorted(self._state.jobs.awake, key=lambda job: job.job_id)
            if job.recurring
            and OBJECTIVE in job.definition
            and query.namespace in (None, job.namespace)
            and (query.after is None or job.job_id > query.after)
        ]
        most = query.limit + 1
        read = most if query.within is None else max(MAX_OBJECTIVES_LOOKED, most)
        found = [
            ObjectiveJob(job.namespace, job.job_id, job.name, job.definition)
            for job in rows[:read]
            if selectors.matches(job.labels, query.within)
        ]
        page = found[: query.limit]
        last_read = rows[read - 1].job_id if len(rows) >= read else None
        return ObjectiveJobs(page, page[-1].job_id if len(found) > len(page) else last_read)

    async def add(self, objective: GroupObjective, *, audit: AuditEntry | None = None) -> GroupObjective:
        state = self._state
        state.check_open(objective.namespace)
        if objective.objective_id in state.objectives:
            return state.objectives[objective.objective_id]
        mine = [each for each in state.objectives.values() if each.namespace == objective.namespace]
        check_objective_room(len(mine))
        if any(each.name == objective.name for each in mine):
            raise objective_name_taken(objective.name)
        state.objectives[objective.objective_id] = stored = replace(objective, created_at=state.now())
        state.ended_before[objective.objective_id] = frozenset(state.ended)
        state.audit.write(audit)
        return stored

    async def remove(self, namespace: str, objective_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        stored = self._state.objectives.get(objective_id)
        if stored is None or stored.namespace != namespace:
            return False
        del self._state.objectives[objective_id], self._state.ended_before[objective_id]
        self._state.audit.write(audit)
        return True

    async def find(
        self, namespace: str | None, *, after: UUID | None = None, limit: int = MAX_OBJECTIVES
    ) -> Sequence[GroupObjective]:
        found = [
            each
            for each in self._state.objectives.values()
            if namespace in (None, each.namespace) and (after is None or each.objective_id > after)
        ]
        return sorted(found, key=lambda each: each.objective_id)[:limit]

    async def counts(
        self, objectives: Sequence[UUID], windows: Sequence[float]
    ) -> Mapping[UUID, Mapping[float, StartCount]]:
        now, found = self._state.now(), {}
        for objective_id in objectives:
            objective = self._state.objectives.get(objective_id)
            if objective is None:
                continue
            starts = list(self._starts(objective, now, now - max(windows, default=0.0)))
            found[objective_id] = {
                seconds: StartCount(
                    sum(not late for due, late in starts if due > now - seconds),
                    sum(late for due, late in starts if due > now - seconds),
                )
                for seconds in windows
            }
        return found

    def _starts(self, objective: GroupObjective, now: float, since: float) -> Iterator[tuple[float, bool]]:
        """The due time of each run that counts and was due since then, and whether it began late."""
        for job in self._state.jobs.values():
            if job.namespace != objective.namespace or not objective.concerns(job.lane.priority, job.labels):
                continue
            before = self._state.ended_before[objective.objective_id]
            for ended in self._state.ended.newest(job.job_id, within=Within(due_after=since)):
                if ended.row.run_id not in before:
                    yield from ended_start(ended, objective.within_seconds)
            for due, late in begun_or_waiting(self._state, job, objective.within_seconds, now, blocked=False):
                if late:
                    yield due, True

    async def fold(self) -> int:
        return 0
