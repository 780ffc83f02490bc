"""Failures, grouped by cause: counted once each, by whichever scheduler takes them.

Invariant: a failure goes from `failures_new` in the transaction that counts it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open, closed_among
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.paging import bounded, own_columns, page_of
from tickwise.adapters.store.postgres.records.searches import like
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.error_groups import (
    HOURS_SECONDS,
    MAX_GROUPS,
    MAX_GROUPS_OF_JOB,
    MAX_JOBS,
    MAX_SAMPLE,
    READ_CHARACTERS,
    ErrorDecision,
    ErrorStatus,
)
from tickwise.ports.store import (
    ErrorGroupQuery,
    ErrorGroupRow,
    ErrorHour,
    ErrorJob,
    FailedJob,
    FailureId,
    GroupedFailure,
    NewErrorDecision,
    Page,
    PendingFailure,
    PendingFailures,
    within_shares,
)

DEFINITION_BYTES: Final = 65_536
HOUR_SECONDS: Final = 3_600.0


class ErrorGroups(Part):
    """`ErrorGroupStore` of the port."""

    async def pending(self, limit: int) -> PendingFailures:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("failures_pending"), limit, READ_CHARACTERS)
            failures = [_failure(row) for row in rows]
            jobs = {each.job_id for each in failures if each.job_id is not None}
            known = await connection.fetch(statement("failures_jobs"), list(jobs), DEFINITION_BYTES) if jobs else []
        found = {row["job_id"]: FailedJob(row["name"], row["task_kind"], row["definition"]) for row in known}
        return PendingFailures(failures, found)

    async def fold(self, failures: Sequence[GroupedFailure]) -> int:
        """See the port."""
        by_namespace: dict[str | None, list[GroupedFailure]] = defaultdict(list)
        for each in failures:
            by_namespace[each.failure.namespace].append(each)
        taken = 0
        for namespace, some in by_namespace.items():
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                mine = await _take(connection, some)
                taken += len(mine)
                counted = [each for each in mine if each.group_id is not None]
                if namespace is None or not counted or await closed_among(connection, {namespace}, or_closing=False):
                    continue
                await _count(connection, namespace, await _shared_out(connection, counted))
        return taken

    async def get(self, namespace: str, group_id: UUID) -> ErrorGroupRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("error_group_get"), namespace, group_id)
        return None if row is None else _group_row(row)

    async def search(self, query: ErrorGroupQuery) -> Page[ErrorGroupRow]:
        """See the port."""
        beyond = (None, None) if query.beyond is None else query.beyond
        asked = [
            query.namespace,
            [status.value for status in query.statuses] or None,
            query.reason,
            query.task_kind,
            None if query.text is None else like(query.text),
            query.job_id,
            query.seen_after,
            query.first_seen_after,
            *beyond,
            query.limit,
        ]
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(bounded("error_groups_list"), *asked, query.bytes_most)
        return page_of(rows, _group_row)

    async def decide(
        self, namespace: str, group_id: UUID, decision: NewErrorDecision, *, audit: AuditEntry | None = None
    ) -> ErrorGroupRow | None:
        """See the port."""
        kept = None if decision.decision is None else decision.decision.value
        said = (kept, decision.by, decision.note, decision.until, decision.more)
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, namespace, or_closing=False)
            if await connection.fetchval(statement("error_group_decide"), namespace, group_id, *said) is None:
                return None
            await write_audit(connection, audit)
            row = await connection.fetchrow(statement("error_group_get"), namespace, group_id)
        return None if row is None else _group_row(row)

    async def jobs(self, namespace: str, group_id: UUID, limit: int) -> Sequence[ErrorJob]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("error_jobs_list"), namespace, group_id, limit)
        return [ErrorJob(*row) for row in rows]

    async def hours(self, namespace: str, group_ids: Sequence[UUID], since: float) -> Sequence[ErrorHour]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("error_hours_list"), namespace, list(group_ids), since)
        return [ErrorHour(*row) for row in rows]

    async def of_runs(self, namespace: str, run_ids: Sequence[UUID]) -> Mapping[UUID, UUID]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return dict(await connection.fetch(statement("error_groups_of_runs"), namespace, list(run_ids)))


async def _take(connection: asyncpg.Connection, failures: Sequence[GroupedFailure]) -> list[GroupedFailure]:
    """Those that were pending, and are not any more when the caller's transaction ends."""
    wanted = {each.failure.failure_id: each for each in failures}
    runs, tokens = [name.run_id for name in wanted], [name.token for name in wanted]
    rows = await connection.fetch(statement("failures_take"), runs, tokens)
    return [wanted[FailureId(*row)] for row in rows]


async def _shared_out(connection: asyncpg.Connection, failures: Sequence[GroupedFailure]) -> list[GroupedFailure]:
    """The failures in the groups that the shares of their jobs leave them."""
    wanted = {each.group_id for each in failures}
    known = {row["group_id"] for row in await connection.fetch(statement("error_groups_known"), list(wanted))}
    jobs = {each.failure.job_id for each in failures if each.group_id not in known and each.failure.job_id is not None}
    shares = dict(await connection.fetch(statement("error_jobs_shares"), list(jobs))) if jobs else {}
    return within_shares(failures, known, shares, MAX_GROUPS_OF_JOB)


async def _count(connection: asyncpg.Connection, namespace: str, failures: Sequence[GroupedFailure]) -> None:
    groups: dict[UUID, list[GroupedFailure]] = defaultdict(list)
    for each in failures:
        if each.group_id is not None:
            groups[each.group_id].append(each)
    columns = zip(*(_group_columns(group_id, some) for group_id, some in groups.items()), strict=True)
    new = await connection.fetchval(statement("error_groups_fold"), namespace, *map(list, columns))
    jobs = Counter[tuple[UUID, UUID]]()
    last: dict[tuple[UUID, UUID], float] = {}
    hours = Counter[tuple[UUID, float]]()
    for group_id, failure in ((group_id, each.failure) for group_id, some in groups.items() for each in some):
        ended_at = failure.ended_at
        hours[group_id, ended_at // HOUR_SECONDS * HOUR_SECONDS] += 1
        if failure.job_id is not None:
            pair = (group_id, failure.job_id)
            jobs[pair] += 1
            last[pair] = max(last.get(pair, ended_at), ended_at)
    of_jobs = [*_pairs(jobs), list(jobs.values()), [last[pair] for pair in jobs]]
    await connection.execute(statement("error_jobs_fold"), *of_jobs, MAX_JOBS)
    await connection.execute(statement("error_hours_fold"), *_pairs(hours), list(hours.values()), HOURS_SECONDS)
    letters = {each.failure.failure_id.run_id: each.group_id for each in failures if each.failure.is_last}
    if letters:
        await connection.execute(statement("error_letters_fold"), list(letters), list(letters.values()))
    if new:
        await connection.execute(statement("error_groups_bound"), namespace, MAX_GROUPS)


def _pairs(counted: Mapping[tuple[Any, Any], int]) -> Iterator[list[Any]]:
    yield [one for one, _ in counted]
    yield [other for _, other in counted]


def _group_columns(group_id: UUID, failures: Sequence[GroupedFailure]) -> tuple[Any, ...]:
    """The parameters of `error_groups_fold` for one group."""
    newest = max(failures, key=lambda each: (each.failure.ended_at, each.failure.failure_id))
    sample = newest.failure
    return (
        group_id,
        len(failures),
        min(each.failure.ended_at for each in failures),
        sample.ended_at,
        sample.failure_id.run_id,
        sample.attempt,
        None if sample.error is None else sample.error[:MAX_SAMPLE],
        sample.reason or "",
        newest.kind,
        newest.message,
        newest.task_kind,
        newest.task,
    )


def _failure(row: Mapping[str, Any]) -> PendingFailure:
    is_known = row["namespace"] is not None and row["ended_at"] is not None
    return PendingFailure(
        failure_id=FailureId(row["run_id"], row["token"]),
        namespace=row["namespace"] if is_known else None,
        job_id=row["job_id"] if is_known else None,
        attempt=row["attempt"] or 0,
        is_last=row["last"],
        ended_at=row["ended_at"] or 0.0,
        reason=row["reason"],
        error=row["error"],
    )


def _group_row(row: Mapping[str, Any]) -> ErrorGroupRow:
    fields = {name: value for name, value in own_columns(row).items() if name != "seen"}
    fields["status"] = ErrorStatus(fields["status"])
    fields["decision"] = None if fields["decision"] is None else ErrorDecision(fields["decision"])
    return ErrorGroupRow(**fields)
