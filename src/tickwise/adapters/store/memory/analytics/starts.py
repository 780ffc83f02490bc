"""The runs of jobs with an objective, counted by whether they began in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from uuid import UUID

from tickwise.adapters.store.memory.records import EndedRun, JobRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.objectives import StartCount
from tickwise.ports.store import LATE_REASONS, JobStarts, StartsQuery


class StartSearches(Duty):
    """`Searches.starts` of the port."""

    async def starts(self, query: StartsQuery) -> Mapping[UUID, JobStarts]:
        now, found = self._state.now(), {}
        for job_id, within in query.jobs.items():
            job = self._state.jobs.get(job_id)
            dues = (
                []
                if job is None
                else [
                    *_ended_starts(self._state, job, within, query.each),
                    *begun_or_waiting(self._state, job, within, now),
                ]
            )
            counts = {}
            for seconds in query.windows:
                late = [is_late for due, is_late in dues if now - seconds < due <= now]
                counts[seconds] = StartCount(late.count(False), late.count(True))
            newest = () if job is None else self._state.ended.newest(job_id)
            read = [each.row.due_at for each in islice(newest, query.each + 1)]
            found[job_id] = JobStarts(counts, min(read[: query.each]) if len(read) > query.each else None)
        return found


def _ended_starts(state: State, job: JobRecord, within: float, most: int) -> Iterator[tuple[float, bool]]:
    """The due time of each ended run that counts, and whether it began late."""
    for ended in islice(state.ended.newest(job.job_id), most):
        yield from ended_start(ended, within)


def ended_start(ended: EndedRun, within: float) -> Iterator[tuple[float, bool]]:
    """The due time of an ended run, if it counts, and whether it began late."""
    starts = [each.started_at for each in ended.attempts if each.started_at]
    if ended.row.state is RunState.SKIPPED:
        if ended.row.reason in LATE_REASONS:
            yield ended.row.due_at, True
    elif starts:
        yield ended.row.due_at, min(starts) > ended.row.due_at + within


def begun_or_waiting(
    state: State, job: JobRecord, within: float, now: float, *, blocked: bool = True
) -> Iterator[tuple[float, bool]]:
    """The due time of each run that goes on for the first time or waits beyond its time, and whether it is late;
    without those that are blocked, unless they are asked for."""
    for run_id in job.runs:
        run = state.run_row(state.runs[run_id])
        if run.attempt > 1 or run.failures or run.crashes or (run.blocked and not blocked):
            continue
        if run.state is RunState.RUNNING and run.started_at is not None:
            yield run.due_at, run.started_at > run.due_at + within
        elif now > run.due_at + within:
            yield run.due_at, True
