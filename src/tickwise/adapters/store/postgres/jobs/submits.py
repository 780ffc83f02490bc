"""Jobs come in: the common ones in one statement for hundreds, the others with a look at what is there already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import UniqueBroken
from tickwise.adapters.store.postgres.jobs.placement import is_lasting
from tickwise.adapters.store.postgres.queue.lanes import Numbers
from tickwise.adapters.store.postgres.queue.new_runs import make_runs
from tickwise.adapters.store.postgres.records.audit import audit_columns, write_audit
from tickwise.adapters.store.postgres.records.receipts import find_receipt, take_receipt
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import AuditEntry, jobs_created
from tickwise.domain.model import Lane
from tickwise.ports.store import Added, NewJob, Receipt, Replay, check_one_namespace

NEVER: Final = float("inf")

_MOSTLY_ALIKE: Final = (1, 3, 4, 6, 7, 8, 11)
"""Namespace, types, lane, creator, kinds: columns of `jobs_add` that most batches have one value for, and no NULL."""

_place: Final = attrgetter("namespace", "lane")
"""The namespace and the lane of a job."""
_STORED: Final = frozenset({Added.CREATED, Added.REPEATED})


class _Taken(Exception):
    """Ends a transaction that must not be committed, with the answers that say why."""

    def __init__(self, answers: list[Added]) -> None:
        super().__init__()
        self.answers = answers


class Submits(Part):
    """`JobStore.add` of the port."""

    async def add(
        self, jobs: Sequence[NewJob], receipt: Receipt | None = None, *, whole: bool = False
    ) -> Sequence[Added] | Replay:
        """See the port."""
        check_one_namespace(jobs, receipt, whole=whole)
        if not jobs and receipt is None:
            return []
        numbers, refused = await self._lanes.find(set(map(_place, jobs)))
        if refused:
            if not whole:
                return await self._add_others(jobs, refused, receipt)
            replay = await self._replay(receipt)
            return replay or [Added.NO_LANE if _place(job) in refused else Added.CREATED for job in jobs]
        if receipt is None and _is_plain(jobs):
            try:
                await self._add_plain(jobs, numbers)
            except UniqueBroken:
                whole = False  # a repeat after a commit in doubt: look which of them are there
            else:
                return [Added.CREATED] * len(jobs)
        try:
            return await self._add_checked(jobs, numbers, receipt, whole=whole)
        except _Taken as taken:
            return taken.answers

    async def _add_others(
        self, jobs: Sequence[NewJob], refused: AbstractSet[tuple[str, Lane]], receipt: Receipt | None
    ) -> Sequence[Added] | Replay:
        """Store those that have a lane. A batch of which something is refused leaves no receipt."""
        if (replay := await self._replay(receipt)) is not None:
            return replay
        stored = await self.add([job for job in jobs if _place(job) not in refused])
        assert not isinstance(stored, Replay)
        answers = iter(stored)
        return [Added.NO_LANE if _place(job) in refused else next(answers) for job in jobs]

    async def _replay(self, receipt: Receipt | None) -> Replay | None:
        if receipt is None:
            return None
        async with self._links.pooled(writes=False) as connection:
            return await find_receipt(connection, receipt.principal, receipt.route, receipt.key)

    async def _add_plain(self, jobs: Sequence[NewJob], numbers: Numbers) -> None:
        columns = self._job_columns(jobs, numbers)
        for place in _MOSTLY_ALIKE:
            columns[place] = _once_if_alike(columns[place])
        # Single submits come one batch after another: a connection of their own spares them the pool's rounds.
        line = self._links.line("submit")
        async with self._links.pooled(writes=True) if line.busy else line.use(writes=True) as connection:
            await connection.execute(
                statement("jobs_add"), self._shared.near_seconds, *columns, *audit_columns(_audited(jobs))
            )

    def _job_columns(self, jobs: Sequence[NewJob], numbers: Numbers) -> list[Sequence[Any]]:
        """One array for each parameter that both statements have."""
        (ids, namespaces, names, types, kinds, definitions, lanes, creators, recurring, run_ids, dues, never, *_) = zip(
            *jobs, strict=True
        )
        if any(never):
            dues = tuple(NEVER if nothing else due for due, nothing in zip(dues, never, strict=True))
        return [
            ids,
            namespaces,
            names,
            types,
            kinds,
            definitions,
            [numbers[place] for place in zip(namespaces, lanes, strict=True)],
            creators,
            recurring,
            run_ids,
            dues,
            [is_lasting(job) for job in jobs],
        ]

    async def _add_checked(
        self, jobs: Sequence[NewJob], numbers: Numbers, receipt: Receipt | None, *, whole: bool
    ) -> Sequence[Added] | Replay:
        columns = self._job_columns(jobs, numbers) if jobs else []
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                return replay
            if not jobs:
                return []
            rows = await connection.fetch(
                statement("jobs_add_checked"),
                self._shared.near_seconds,
                *columns,
                [job.key for job in jobs],
                [job.digest if job.named else None for job in jobs],
                [json.dumps(dict(job.labels)) if job.labels else None for job in jobs],
                [job.owner for job in jobs],
                [json.dumps(sorted(job.calendars)) if job.calendars else None for job in jobs],
                [job.zone_data for job in jobs],
            )
            created = {row[0] for row in rows}
            answers = await _answers(connection, jobs, created)
            if not _STORED.issuperset(answers):
                if whole:
                    raise _Taken(answers)
                if receipt is not None:
                    await connection.execute(statement("receipt_drop"), receipt.principal, receipt.route, receipt.key)
            missed = [
                (job.job_id, run)
                for job, answer in zip(jobs, answers, strict=True)
                if answer is Added.CREATED
                for run in job.missed
            ]
            await make_runs(connection, missed)
            new = [job for job, answer in zip(jobs, answers, strict=True) if answer is Added.CREATED]
            await write_audit(connection, *_audited(new))
            return answers


class Receipts(Part):
    """`ReceiptStore` of the port."""

    async def find(self, principal: str, route: str, key: str) -> Replay | None:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return await find_receipt(connection, principal, route, key)

    async def keep(self, receipt: Receipt) -> Replay | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            return await take_receipt(connection, receipt)


def _audited(jobs: Sequence[NewJob]) -> list[AuditEntry]:
    """The entries of these jobs in the audit log."""
    return jobs_created([(job.namespace, job.source, job.job_id, job.definition) for job in jobs if job.source])


def _once_if_alike(column: Sequence[Any]) -> Sequence[Any]:
    """The value that all rows share, once; or the column as it is."""
    return column[:1] if len(set(column)) == 1 else column


def _is_plain(jobs: Sequence[NewJob]) -> bool:
    """Check that no job of these can clash with another, or needs rows beyond its own."""
    return not any(
        job.named
        or job.key is not None
        or job.labels
        or job.owner is not None
        or job.missed
        or job.calendars
        or job.zone_data is not None
        for job in jobs
    )


async def _answers(connection: asyncpg.Connection, jobs: Sequence[NewJob], created: set[UUID]) -> list[Added]:
    """The result of each, in the order of the batch: of two with one id, the first was stored."""
    if len(created) == len(jobs):
        return [Added.CREATED] * len(jobs)
    ids = [job.job_id for job in jobs]
    stored = {
        row["job_id"]: (row["namespace"], row["digest"])
        for row in await connection.fetch(statement("jobs_digests"), ids)
    }
    answers = []
    left = set(created)
    for job in jobs:
        if job.job_id in left:
            left.remove(job.job_id)
            answers.append(Added.CREATED)
        elif job.job_id not in stored:
            answers.append(Added.KEY_TAKEN)
        elif stored[job.job_id] == (job.namespace, job.digest if job.named else None):
            answers.append(Added.REPEATED)
        else:
            answers.append(Added.ID_TAKEN)
    return answers
