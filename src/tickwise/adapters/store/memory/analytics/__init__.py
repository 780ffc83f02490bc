"""Analytics of a memory store: it reads each ended run, so its answers are exact."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tickwise.adapters.store.memory.ended import Within
from tickwise.adapters.store.memory.history import is_of
from tickwise.adapters.store.memory.records import EndedRun, JobRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.observing.analytics import HOUR_SECONDS, Analysis, GroupBy, MeasuredRun, RunGroup, analysed
from tickwise.ports.store import AnalyticsQuery, RunRow


class AnalyticsSearches(Duty):
    """`Searches.analyse` of the port."""

    async def analyse(self, query: AnalyticsQuery) -> Analysis:
        found = []
        namespace = None if query.everywhere else query.runs.namespace
        within = Within.of(replace(query.runs, before=None, after=None))
        for ended in self._state.ended.newest(query.runs.job_id, namespace=namespace, within=within, is_search=True):
            row, job = ended.row, self._state.jobs.get(ended.row.job_id)
            asked = replace(query.runs, namespace=row.namespace) if query.everywhere else query.runs
            asked = replace(asked, ids=(), before=None, after=None)
            if asked.is_met_by(row) and is_of(job, asked):
                found.append(_measured(ended, job, query))
        answer = analysed(found, group_by=query.group_by, sort=query.sort, top=query.top)
        return replace(
            answer, groups=[replace(row, name=self._name_of_group(query.group_by, row)) for row in answer.groups]
        )

    def _name_of_group(self, group_by: GroupBy, row: RunGroup) -> str | None:
        """The name of a row's job or executor."""
        if row.key is None:
            return None
        if group_by is GroupBy.JOB:
            job = self._state.jobs.get(UUID(row.key))
            return None if job is None else str(job.name)
        if group_by is GroupBy.EXECUTOR:
            executor = self._state.executors.get(int(row.key))
            return None if executor is None else executor.said.name
        return None


def _measured(run: EndedRun, job: JobRecord | None, query: AnalyticsQuery) -> MeasuredRun:
    row = run.row
    began, ended = row.started_at, row.ended_at
    last = next((each for each in run.attempts if each.token == run.token), None)
    return MeasuredRun(
        key=_key(row, job, query),
        state=row.state,
        due_at=row.due_at,
        retries=max(row.attempt - 1, 0),
        seconds=None if began is None or ended is None else max(0.0, ended - began),
        lateness=None if began is None or row.attempt != 1 else max(0.0, began - row.due_at),
        cpu_seconds=None if last is None else last.cpu_seconds,
        memory_bytes=None if last is None else last.memory_bytes,
    )


def _key(row: RunRow, job: JobRecord | None, query: AnalyticsQuery) -> str | None:
    match query.group_by:
        case GroupBy.JOB:
            return str(row.job_id)
        case GroupBy.LABEL:
            return None if job is None or query.label is None else job.labels.get(query.label)
        case GroupBy.NAMESPACE:
            return row.namespace
        case GroupBy.EXECUTOR:
            return None if row.executor is None else str(row.executor)
        case GroupBy.REASON:
            return row.reason
        case GroupBy.HOUR:
            return str(int(row.due_at // HOUR_SECONDS * HOUR_SECONDS))
