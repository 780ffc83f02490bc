"""Failures, grouped by cause. What a failed attempt said is on record with it; which ones are to be counted is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.records import ErrorGroupRecord
from tickwise.adapters.store.memory.state import HOUR_SECONDS, Duty, State
from tickwise.domain.audit import AuditEntry
from tickwise.domain.error_groups import (
    HOURS_SECONDS,
    MAX_GROUPS,
    MAX_GROUPS_OF_JOB,
    MAX_JOBS,
    MAX_SAMPLE,
    READ_CHARACTERS,
    ErrorStatus,
)
from tickwise.ports.store import (
    AttemptRow,
    ErrorGroupQuery,
    ErrorGroupRow,
    ErrorHour,
    ErrorJob,
    ErrorPlace,
    FailedJob,
    FailureId,
    GroupedFailure,
    NewErrorDecision,
    Page,
    PendingFailure,
    PendingFailures,
    RunRow,
    page_within,
    within_shares,
)

DEFINITION_BYTES: Final = 65_536


class ErrorGroups(Duty):
    """`ErrorGroupStore` of the port."""

    async def pending(self, limit: int) -> PendingFailures:
        failures = [self._failure(failure_id) for failure_id in sorted(self._state.failures)[:limit]]
        found = {}
        for job_id in {each.job_id for each in failures if each.job_id is not None}:
            if (job := self._state.jobs.get(job_id)) is not None:
                is_small = len(job.definition.encode()) <= DEFINITION_BYTES
                found[job_id] = FailedJob(job.name, job.task_kind, job.definition if is_small else None)
        return PendingFailures(failures, found)

    def _failure(self, failure_id: FailureId) -> PendingFailure:
        run, attempts = _run_of(self._state, failure_id.run_id)
        attempt = next((each for each in attempts if each.token == failure_id.token), None)
        is_last = self._state.failures[failure_id]
        if run is None or (attempt is None and not is_last):
            return PendingFailure(failure_id, None, None, 0, is_last, 0.0, None, None)
        ended_at = run.ended_at if is_last or attempt is None else attempt.ended_at
        reason = run.reason if is_last or attempt is None else attempt.reason
        error = run.error if is_last or attempt is None else attempt.error
        return PendingFailure(
            failure_id,
            run.namespace,
            run.job_id,
            run.attempt if is_last or attempt is None else attempt.attempt,
            is_last,
            ended_at or 0.0,
            reason,
            None if error is None else error[:READ_CHARACTERS],
        )

    async def fold(self, failures: Sequence[GroupedFailure]) -> int:
        pending, groups = self._state.failures, self._state.error_groups
        taken = [each for each in failures if pending.pop(each.failure.failure_id, None) is not None]
        shares = Counter(job_id for group in groups.values() for job_id in group.jobs)
        new = set()
        for each in within_shares(taken, groups.keys(), shares, MAX_GROUPS_OF_JOB):
            namespace = each.failure.namespace
            if namespace is None or each.group_id is None or self._state.is_closed(namespace, or_closing=False):
                continue
            if each.group_id not in groups:
                new.add(namespace)
            self._count(namespace, each.group_id, each)
        for namespace in new:
            self._bound(namespace)
        return len(taken)

    def _count(self, namespace: str, group_id: UUID, grouped: GroupedFailure) -> None:
        failure = grouped.failure
        group = self._state.error_groups.get(group_id)
        if group is None:
            row = _first_row(namespace, group_id, grouped)
            group = self._state.error_groups[group_id] = ErrorGroupRecord(row=row)
        else:
            row = replace(group.row, failures=group.row.failures + 1)
            row = replace(row, first_seen=min(row.first_seen, failure.ended_at), task=grouped.task)
            if failure.ended_at >= row.last_seen:
                row = replace(
                    row,
                    last_seen=failure.ended_at,
                    sample_run=failure.failure_id.run_id,
                    sample_attempt=failure.attempt,
                    sample_error=_sample(failure),
                )
            group.row = row
        if failure.job_id is not None and (failure.job_id in group.jobs or len(group.jobs) < MAX_JOBS):
            before = group.jobs.get(failure.job_id, ErrorJob(failure.job_id, 0, failure.ended_at))
            last_seen = max(before.last_seen, failure.ended_at)
            group.jobs[failure.job_id] = ErrorJob(failure.job_id, before.failures + 1, last_seen)
        group.row = replace(group.row, jobs=len(group.jobs))
        hour = failure.ended_at // HOUR_SECONDS * HOUR_SECONDS
        if hour > self._state.now() - HOURS_SECONDS:
            group.hours[hour] += 1
        if failure.is_last:
            self._state.error_letters.setdefault(failure.failure_id.run_id, group_id)

    def _bound(self, namespace: str) -> None:
        """Drop the groups beyond the newest: the resolved ones first, then those that were seen least recently."""
        mine = [self._row(each) for each in self._state.error_groups.values() if each.row.namespace == namespace]
        mine.sort(key=lambda row: (row.status is ErrorStatus.RESOLVED, -row.last_seen, row.group_id))
        for row in mine[MAX_GROUPS:]:
            del self._state.error_groups[row.group_id]

    def _row(self, group: ErrorGroupRecord) -> ErrorGroupRow:
        return replace(group.row, status=group.row.state.status(self._state.now()))

    def _group(self, namespace: str, group_id: UUID) -> ErrorGroupRecord | None:
        group = self._state.error_groups.get(group_id)
        return group if group is not None and group.row.namespace == namespace else None

    async def get(self, namespace: str, group_id: UUID) -> ErrorGroupRow | None:
        group = self._group(namespace, group_id)
        return None if group is None else self._row(group)

    async def search(self, query: ErrorGroupQuery) -> Page[ErrorGroupRow]:
        found = [
            row
            for group in self._state.error_groups.values()
            if matches(row := self._row(group), query) and (query.job_id is None or query.job_id in group.jobs)
        ]
        found.sort(key=lambda row: (row.last_seen, row.group_id), reverse=True)
        return page_within(found[: query.limit], query.bytes_most)

    async def decide(
        self, namespace: str, group_id: UUID, decision: NewErrorDecision, *, audit: AuditEntry | None = None
    ) -> ErrorGroupRow | None:
        self._state.check_open(namespace, or_closing=False)
        group = self._group(namespace, group_id)
        if group is None:
            return None
        group.row = replace(
            group.row,
            decision=decision.decision,
            decided_at=None if decision.decision is None else self._state.now(),
            decided_by=decision.by,
            note=decision.note,
            ignored_until=decision.until,
            ignored_count=None if decision.more is None else group.row.failures + decision.more,
        )
        self._state.audit.write(audit)
        return self._row(group)

    async def jobs(self, namespace: str, group_id: UUID, limit: int) -> Sequence[ErrorJob]:
        group = self._group(namespace, group_id)
        found = [] if group is None else [*group.jobs.values()]
        return sorted(found, key=lambda job: (-job.failures, job.job_id))[:limit]

    async def hours(self, namespace: str, group_ids: Sequence[UUID], since: float) -> Sequence[ErrorHour]:
        return [
            ErrorHour(group_id, hour, group.hours[hour])
            for group_id in sorted(set(group_ids))
            if (group := self._group(namespace, group_id)) is not None
            for hour in sorted(group.hours)
            if hour >= since
        ]

    async def of_runs(self, namespace: str, run_ids: Sequence[UUID]) -> Mapping[UUID, UUID]:
        letters = self._state.error_letters
        return {
            run_id: letters[run_id]
            for run_id in run_ids
            if run_id in letters and self._group(namespace, letters[run_id]) is not None
        }


def matches(row: ErrorGroupRow, query: ErrorGroupQuery) -> bool:
    """Check whether the group matches every condition of the search but that on its jobs."""
    text = None if query.text is None else query.text.casefold()
    return (
        row.namespace == query.namespace
        and (not query.statuses or row.status in query.statuses)
        and (query.reason is None or row.reason == query.reason)
        and (query.task_kind is None or row.task_kind == query.task_kind)
        and (text is None or any(text in each.casefold() for each in (row.kind, row.message, row.task)))
        and (query.seen_after is None or row.last_seen >= query.seen_after)
        and (query.first_seen_after is None or row.first_seen >= query.first_seen_after)
        and (query.beyond is None or ErrorPlace(row.last_seen, row.group_id) < query.beyond)
    )


def forget(state: State, since: float) -> None:
    """Drop groups that have not failed since, hours that are over their time, and what is told of runs that are not on
    record any more."""
    for group_id, group in [*state.error_groups.items()]:
        if group.row.last_seen < since:
            del state.error_groups[group_id]
        for hour in [hour for hour in group.hours if hour < state.now() - HOURS_SECONDS]:
            del group.hours[hour]
    for run_id in [run_id for run_id in state.error_letters if run_id not in state.ended]:
        del state.error_letters[run_id]


def _run_of(state: State, run_id: UUID) -> tuple[RunRow | None, Sequence[AttemptRow]]:
    """A run and its attempts that are over."""
    ended = state.ended.get(run_id)
    if ended is not None:
        return ended.row, ended.attempts
    run = state.runs.get(run_id)
    return (None, ()) if run is None else (state.run_row(run), run.attempts)


def _first_row(namespace: str, group_id: UUID, grouped: GroupedFailure) -> ErrorGroupRow:
    failure = grouped.failure
    return ErrorGroupRow(
        group_id=group_id,
        namespace=namespace,
        status=ErrorStatus.OPEN,
        reason=failure.reason or "",
        kind=grouped.kind,
        message=grouped.message,
        task_kind=grouped.task_kind,
        task=grouped.task,
        failures=1,
        jobs=0,
        first_seen=failure.ended_at,
        last_seen=failure.ended_at,
        sample_run=failure.failure_id.run_id,
        sample_attempt=failure.attempt,
        sample_error=_sample(failure),
    )


def _sample(failure: PendingFailure) -> str | None:
    return None if failure.error is None else failure.error[:MAX_SAMPLE]
