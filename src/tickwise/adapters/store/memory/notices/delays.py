"""The delays that no event tells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from uuid import UUID

from tickwise.adapters.store.memory.ended import Within
from tickwise.adapters.store.memory.records import EndedRun, RunRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import NoticeJob
from tickwise.domain.observing.anomalies import MeasuredEnd
from tickwise.ports.store.notices import (
    FROM_THE_FIRST,
    FROM_THE_FIRST_RUN,
    EndingKey,
    LostExecutor,
    NoticeJobPage,
    OverdueTimer,
    OverdueTimers,
    RunSample,
    SlowRun,
    SlowRuns,
    TimerPlace,
)


class Delays(Duty):
    """`DelayStore` of the port."""

    async def slow_runs(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: UUID = FROM_THE_FIRST_RUN
    ) -> SlowRuns:
        since = self._state.now() - seconds
        page = [self._state.runs[run_id] for run_id in sorted(self._state.runs) if run_id > after][:limit]
        found = [
            SlowRun(
                run.job.namespace, run.run_id, run.job.job_id, run.job.name, dict(run.job.labels), run.due,
                run.started if run.state is RunState.RUNNING else None,
            )
            for run in page
            if run.job.namespace in namespaces and run.due < since and self._is_slow(run)
        ]  # fmt: skip
        return SlowRuns(found, page[-1].run_id if len(page) >= limit else None)

    def _is_slow(self, run: RunRecord) -> bool:
        if run.state in (RunState.RUNNING, RunState.RETRYING):
            return run.state is RunState.RUNNING
        begun = run.attempt > (run.state is RunState.DISPATCHED)
        return not begun and not self._state.stands_still(run)

    async def durations(self, job_ids: Collection[UUID], most: int) -> Mapping[UUID, Sequence[float]]:
        found = {}
        for job_id in job_ids:
            job = self._state.jobs.get(job_id)
            rows = () if job is None else (each.row for each in self._state.ended.newest(job_id))
            seconds = (
                row.ended_at - row.started_at
                for row in rows
                if row.state is RunState.SUCCESS and row.ended_at is not None and row.started_at is not None
            )
            if newest := list(islice(seconds, most)):
                found[job_id] = newest
        return found

    async def samples(
        self, job_ids: Collection[UUID], most: int, *, since: float | None = None, before: UUID | None = None
    ) -> Mapping[UUID, Sequence[RunSample]]:
        found = {}
        for job_id in job_ids:
            job = self._state.jobs.get(job_id)
            ended = () if job is None else self._state.ended.newest(job_id, within=Within(before))
            newest = islice(ended, 4 * most)
            samples = [sample for each in newest if (sample := _sample(each)) is not None][:most]
            samples = [each for each in samples if since is None or each.ended_at >= since]
            if samples:
                found[job_id] = samples
        return found

    async def watched_jobs(
        self, namespaces: Collection[str], limit: int, *, after: UUID, ids: Collection[UUID] | None = None
    ) -> NoticeJobPage:
        jobs = self._state.jobs
        named = None if ids is None else sorted(each for each in set(ids) if each > after and each in jobs)[:limit]
        page = [jobs[each] for each in (jobs.ids_after(after, limit) if named is None else named)]
        found = [
            NoticeJob(each.namespace, each.job_id, each.name, dict(each.labels))
            for each in page
            if each.namespace in namespaces
        ]
        return NoticeJobPage(found, page[-1].job_id if len(page) >= limit else None)

    async def overdue_timers(
        self, namespaces: Collection[str], seconds: float, limit: int, *, after: TimerPlace = FROM_THE_FIRST
    ) -> OverdueTimers:
        since = self._state.now() - seconds
        due = [
            (timer.pending.due, timer.job.job_id, timer.job)
            for timer in self._state.timers()
            if timer.pending.hold is None
            and timer.pending.due < since
            and (timer.pending.due, timer.job.job_id) > after
        ]
        page = sorted(due, key=lambda each: each[:2])[:limit]
        mine = [
            OverdueTimer(job.namespace, job_id, job.name, due_at)
            for due_at, job_id, job in page
            if job.standing is None and job.namespace in namespaces
        ]
        return OverdueTimers(mine, page[-1][:2] if len(page) >= limit else None)

    async def keys_ending(
        self, seconds: float, *, after: tuple[float, UUID] | None = None, limit: int
    ) -> Sequence[EndingKey]:
        now = self._state.now()
        found = [
            EndingKey(
                record.key.key_id,
                principal.name,
                frozenset({principal.namespace, *(record.key.namespaces or ())}),
                ends_at,
                record.revoked_at is not None,
            )
            for record in self._state.api_keys.values()
            if (ends_at := (principal := record.key.principal).expires_at) is not None
            and now < ends_at <= now + seconds
        ]
        found.sort(key=lambda each: (each.ends_at, each.key_id))
        return [each for each in found if after is None or (each.ends_at, each.key_id) > after][:limit]

    async def lost_executors(self, seconds: float, limit: int) -> Sequence[LostExecutor]:
        since, executors = self._state.now() - seconds, self._state.executors.values()
        live = {executor.said.name for executor in executors if executor.gone_at is None}
        lost = [
            LostExecutor(each.number, each.said.name, each.gone_at, each.said.name in live)
            for each in executors
            if each.gone_at is not None and each.gone_at > since and each.gone_at >= each.lease_until
        ]
        return sorted(lost, key=lambda each: (each.gone_at, each.number), reverse=True)[:limit]


def _sample(run: EndedRun) -> RunSample | None:
    """A run as later ones are compared with it; None: it did not succeed."""
    row = run.row
    if row.state is not RunState.SUCCESS or row.started_at is None or row.ended_at is None:
        return None
    last = next((each for each in run.attempts if each.token == run.token), None)
    output = None if last is None else last.output_bytes
    return RunSample(
        row.run_id, row.namespace, row.ended_at, MeasuredEnd(max(0.0, row.ended_at - row.started_at), output)
    )
