"""Dead letters and operations over many things at once.

A letter is a FAILED row of history; only what was done about it is stored. Invariant: of two who settle one letter at
the same moment, the row of `letters` lets one through; the other sees what that one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.codes import JobStanding
from tickwise.adapters.store.postgres.openness import check_open
from tickwise.adapters.store.postgres.queue.new_runs import make_runs
from tickwise.adapters.store.postgres.records.audit import is_effective, write_audit
from tickwise.adapters.store.postgres.records.paging import bounded, own_columns, page_of
from tickwise.adapters.store.postgres.records.receipts import record_ended, take_receipt
from tickwise.adapters.store.postgres.records.records import run_row
from tickwise.adapters.store.postgres.records.run_walks import RunWalk, texts_of
from tickwise.adapters.store.postgres.records.searches import KEPT_PLAN, fetched, labelled_jobs, labels_asked
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import Asker
from tickwise.domain.errors import NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import (
    NO_TEXT,
    EndedOperation,
    LetterQuery,
    LetterResolution,
    LetterRow,
    LetterStatus,
    NewOperation,
    OperationRow,
    OperationStatus,
    OperationStep,
    Page,
    Receipt,
    Replay,
    RunQuery,
    SearchCount,
    Settled,
    Settlement,
)
from tickwise.ports.store.searches import COUNT_LOOKS

_KEPT: Final = frozenset({Settled.SETTLED, Settled.REPEATED})
_LETTER_COLUMNS: Final = frozenset(field.name for field in fields(LetterRow)) - {"run", "status", "resolution"}


class Letters(Part):
    """`LetterStore` of the port."""

    async def get(self, namespace: str, run_id: UUID, expire_seconds: float) -> LetterRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("letter_get"), namespace, expire_seconds, run_id)
        return None if row is None else _letter_row(row)

    async def settle(
        self,
        namespace: str,
        settlements: Sequence[Settlement],
        *,
        by: str,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> Sequence[Settled] | Replay:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                return replay
            await check_open(connection, namespace, or_closing=any(one.run is not None for one in settlements))
            answers = await _settle(connection, namespace, settlements, by) if settlements else []
            if receipt is not None and not _KEPT.issuperset(answers):
                await connection.execute(statement("receipt_drop"), receipt.principal, receipt.route, receipt.key)
            done = [one.run_id for one, answer in zip(settlements, answers, strict=True) if answer is Settled.SETTLED]
            if audit is not None and done:
                await write_audit(connection, audit._replace(targets=done))
            return answers


JOBS: Final = 10
"""The place of the named jobs among the parameters of `letters_list`: the letters of few jobs are put in order."""


LOOKED_LETTERS: Final = 1_000
"""Failed runs that one call looks at."""


class LetterSearches(Part):
    """The searches for dead letters and operations."""

    async def letters(self, query: LetterQuery) -> Page[LetterRow]:
        """See the port."""
        if query.may_pause and query.error_group is None:
            async with self._links.search_line().use(writes=False) as connection:
                return await self._letters_in_looks(connection, query)
        async with self._links.pooled(writes=False) as connection:
            asked = await self._letters_asked(connection, query)
            arguments = [*asked, *texts_of(query), query.error_group, query.bytes_most]
            async with connection.transaction(readonly=True):
                # The letters of a group are few beside all that failed: they are looked up by their ids.
                if query.job_id is None and asked[JOBS] is None and query.error_group is None:
                    await connection.fetchrow(statement("letters_in_order"))
                rows = await connection.fetch(bounded("letters_list"), *arguments)
        return page_of(rows, _letter_row)

    async def _letters_in_looks(self, connection: asyncpg.Connection, query: LetterQuery) -> Page[LetterRow]:
        """A page of a search that may pause: of failed runs, what was done about each is looked up."""
        failed = RunQuery(
            namespace=query.namespace,
            job_id=query.job_id,
            states=(RunState.FAILED,),
            reason=query.reason,
            within=query.within,
            before=query.before,
        )
        runs, goes_on = await RunWalk(connection, failed, self._clock, self._large_sets, looked=LOOKED_LETTERS).runs()
        page = Page[LetterRow]()
        if runs:
            asked = [runs, *_asked(replace(query, before=None)), *texts_of(query), query.bytes_most]
            rows = await fetched(connection, bounded("letters_picked"), asked, self._clock, KEPT_PLAN)
            page = page_of(rows, _letter_row)
        if not page.is_full(query.limit):
            page.paused_at = goes_on
        return page

    async def _count_letters(self, query: LetterQuery) -> SearchCount:
        if query.may_pause and query.error_group is None:
            async with self._links.search_line().use(writes=False) as connection:
                return await self._counted_in_looks(connection, query)
        async with self._links.pooled(writes=False) as connection:
            asked = await self._letters_asked(connection, query)
            count: int = await connection.fetchval(statement("letters_count"), *asked, query.error_group)
        return SearchCount(count, is_whole=count < query.limit)

    async def _counted_in_looks(self, connection: asyncpg.Connection, query: LetterQuery) -> SearchCount:
        number = 0
        for _ in range(COUNT_LOOKS):
            left = min(query.limit - number, LOOKED_LETTERS)
            page = await self._letters_in_looks(connection, replace(query, limit=left, bytes_most=None, texts=NO_TEXT))
            number += len(page)
            if number >= query.limit:
                break
            if page.is_full(left):
                query = replace(query, before=page[-1].run.run_id)
            elif page.paused_at is None:
                return SearchCount(number, is_whole=True)
            else:
                query = replace(query, before=page.paused_at.before)
        return SearchCount(number, is_whole=False)

    async def _letters_asked(self, connection: asyncpg.Connection, query: LetterQuery) -> list[Any]:
        """The parameters of the statements `letters_list` and `letters_count`. Few jobs are named one by one: then
        their runs have an index."""
        labels = labels_asked({}, query.within)
        if labels is None:
            return [*_asked(query), None, None]
        few = await labelled_jobs(connection, query.namespace, labels, self._clock, self._large_sets)
        return [*_asked(query), few, labels if few is None else None]

    async def operations(
        self,
        namespace: str,
        before: UUID | None,
        limit: int,
        *,
        kinds: Sequence[str] | None = None,
        bytes_most: int | None = None,
    ) -> Page[OperationRow]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(bounded("operations_list"), namespace, before, limit, kinds, bytes_most)
        return page_of(rows, _operation_row)


class Operations(Part):
    """`OperationStore` of the port."""

    async def add(
        self, operation: NewOperation, *, receipt: Receipt | None = None, audit: AuditEntry | None = None
    ) -> OperationRow | Replay:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                return replay
            await check_open(connection, operation.namespace, or_closing=False)
            added = await connection.execute(
                statement("operation_add"),
                operation.operation_id,
                operation.namespace,
                operation.kind,
                operation.request,
                operation.created_by,
                operation.matched,
                *(operation.asker or (None, None, None)),
            )
            if is_effective(added):
                await write_audit(connection, audit)
            row = await connection.fetchrow(statement("operation_get"), operation.namespace, operation.operation_id)
        return _operation_row(row)

    async def record(self, operations: Sequence[EndedOperation]) -> None:
        """See the port."""
        if not operations:
            return
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await record_ended(connection, operations)

    async def get(self, namespace: str, operation_id: UUID) -> OperationRow | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            row = await connection.fetchrow(statement("operation_get"), namespace, operation_id)
        return None if row is None else _operation_row(row)

    async def cancel(self, namespace: str, operation_id: UUID, *, audit: AuditEntry | None = None) -> OperationRow:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            running = await connection.fetchval(statement("operation_runs"), namespace, operation_id)
            row = await connection.fetchrow(statement("operation_cancel"), namespace, operation_id)
            if running:
                await write_audit(connection, audit)
        if row is None:
            raise NotFound(f"there is no operation {operation_id}")
        return _operation_row(row)

    async def take(self, hold_seconds: float) -> OperationRow | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            row = await connection.fetchrow(statement("operation_take"), hold_seconds)
        return None if row is None else _operation_row(row)

    async def step(self, step: OperationStep) -> bool:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            stepped = await connection.fetchval(
                statement("operation_step"),
                step.operation_id,
                step.expected_step,
                step.cursor,
                step.done,
                step.refused,
                step.problems,
                step.failed,
            )
        return stepped is not None


async def _settle(
    connection: asyncpg.Connection, namespace: str, settlements: Sequence[Settlement], by: str
) -> list[Settled]:
    """Each in turn, within the caller's transaction; of several for one run, the first that can be done counts."""
    failed = {
        row["run_id"]: row
        for row in await connection.fetch(
            statement("letters_failed"), namespace, [settlement.run_id for settlement in settlements]
        )
    }
    jobs = {failed[one.run_id]["job_id"] for one in settlements if one.run is not None and one.run_id in failed}
    standing = dict(await connection.fetch(statement("jobs_share"), namespace, list(jobs))) if jobs else {}
    # An earlier settlement is answered as such, also if the job was cancelled or deleted since.
    before = {row["run_id"] for row in await connection.fetch(statement("letters_settled"), list(failed))}
    refusals = [
        None if one.run_id in before else _refusal(one, failed.get(one.run_id), standing) for one in settlements
    ]
    wanted: dict[UUID, Settlement] = {}
    for settlement, refusal in zip(settlements, refusals, strict=True):
        if refusal is None:
            wanted.setdefault(settlement.run_id, settlement)
    taken = await _take(connection, list(wanted.values()), by)
    new = [settlement for run_id, settlement in wanted.items() if run_id in taken]
    runs = [(failed[one.run_id]["job_id"], one.run) for one in new if one.run is not None]
    await make_runs(connection, runs, not_before_now=True)
    ruled = [one for one in new if one.resolution is not None]
    if ruled:
        succeeded = [one.resolution is LetterResolution.SUCCEEDED for one in ruled]
        await connection.execute(statement("completions_add"), [one.run_id for one in ruled], succeeded)
    done = {row["run_id"]: row for row in await connection.fetch(statement("letters_settled"), list(wanted))}
    return [
        refusal or _answer(one, done[one.run_id], first=one.run_id in taken and wanted[one.run_id] is one)
        for one, refusal in zip(settlements, refusals, strict=True)
    ]


def _refusal(settlement: Settlement, failed: asyncpg.Record | None, standing: Mapping[UUID, int]) -> Settled | None:
    """The reason why a letter that is not settled cannot be settled so; None: it can."""
    if failed is None:
        return Settled.NOT_FAILED
    is_job_cancelled = standing.get(failed["job_id"], JobStanding.CANCELLED) == JobStanding.CANCELLED
    return settlement.refusal(is_held=failed["held"], is_job_cancelled=is_job_cancelled)


async def _take(connection: asyncpg.Connection, settlements: Sequence[Settlement], by: str) -> set[UUID]:
    """Settle the letters that were unsettled; which these were."""
    rows = await connection.fetch(
        statement("letters_settle"),
        by,
        [one.run_id for one in settlements],
        [one.status for one in settlements],
        [one.note for one in settlements],
        [None if one.run is None else one.run.run_id for one in settlements],
        [one.resolution for one in settlements],
    )
    return {row["run_id"] for row in rows}


def _answer(settlement: Settlement, stored: asyncpg.Record, *, first: bool) -> Settled:
    if first:
        return Settled.SETTLED
    return settlement.answer(stored["status"], stored["redriven_as"], stored["ruling"])


def _asked(query: LetterQuery) -> list[Any]:
    """The parameters that are not about labels."""
    return [
        query.namespace,
        query.expire_seconds,
        [status.value for status in query.statuses] or None,
        query.job_id,
        query.task_kind,
        query.reason,
        query.ended_after,
        query.ended_before,
        query.before,
        query.limit,
    ]


def _letter_row(row: Mapping[str, Any]) -> LetterRow:
    return LetterRow(
        run=run_row(row),
        status=LetterStatus(row["status"]),
        resolution=None if row["ruling"] is None else LetterResolution(row["ruling"]),
        **{name: value for name, value in row.items() if name in _LETTER_COLUMNS},
    )


def _operation_row(row: Mapping[str, Any]) -> OperationRow:
    fields = own_columns(row)
    asker = Asker(fields.pop("asker_key"), fields.pop("asker_user"), fields.pop("asker_owner"))
    found = None if asker == Asker() else asker
    return OperationRow(**{**fields, "status": OperationStatus(row["status"]), "asker": found})
