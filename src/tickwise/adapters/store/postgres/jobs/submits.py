"""Jobs come in: the common ones in one statement for hundreds, the others with a look at what is there already."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.connection.link import NamespaceShut, UniqueBroken
from tickwise.adapters.store.postgres.jobs.quotas import close_room, count_runs, open_room
from tickwise.adapters.store.postgres.openness import ALWAYS_OPEN, closed_among
from tickwise.adapters.store.postgres.queue.lanes import Numbers
from tickwise.adapters.store.postgres.queue.new_runs import make_runs
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.records.receipts import find_receipt, take_receipt
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import job_created, jobs_created, made_together
from tickwise.domain.model import Lane
from tickwise.domain.quotas import Quotas
from tickwise.ports.store import Added, NewJob, Receipt, Replay, check_one_namespace
from tickwise.ports.store.placement import is_lasting
from tickwise.ports.store.quotas import Cost, QuotaRoom, cost_of

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
        quotas = await self._quotas.of({job.namespace for job in jobs})
        if not quotas:
            return await self._add(jobs, receipt, whole=whole)
        namespaces = {job.namespace for job in jobs}
        if len(namespaces) == 1:
            return await self._add(jobs, receipt, whole=whole, quotas=quotas[jobs[0].namespace])
        answers: dict[int, Added] = {}
        for namespace in sorted(namespaces):
            places = [place for place, job in enumerate(jobs) if job.namespace == namespace]
            added = await self._add([jobs[place] for place in places], None, quotas=quotas.get(namespace))
            assert not isinstance(added, Replay)
            answers.update(zip(places, added, strict=True))
        return [answers[place] for place in range(len(jobs))]

    async def _add(
        self, jobs: Sequence[NewJob], receipt: Receipt | None, *, whole: bool = False, quotas: Quotas | None = None
    ) -> Sequence[Added] | Replay:
        """`quotas`: of the one namespace of these jobs; None: of no namespace of these."""
        numbers, refused = await self._lanes.find(set(map(_place, jobs)))
        if refused:
            if not whole:
                return await self._add_others(jobs, refused, receipt)
            return await self._replay(receipt) or await self._without(jobs, refused)
        if receipt is None and quotas is None and _is_plain(jobs):
            try:
                await self._add_plain(jobs, numbers)
            except UniqueBroken:
                whole = False  # a repeat after a commit in doubt: look which of them are there
            except NamespaceShut:
                pass  # those of other namespaces can be stored
            else:
                return [Added.CREATED] * len(jobs)
        try:
            return await self._add_checked(jobs, numbers, receipt, whole=whole, quotas=quotas)
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
        return [
            next(answers) if _place(job) not in refused else answer
            for job, answer in zip(jobs, await self._without(jobs, refused), strict=True)
        ]

    async def _without(self, jobs: Sequence[NewJob], refused: AbstractSet[tuple[str, Lane]]) -> list[Added]:
        """The answers for a batch of which these lanes are refused, were the others stored: a namespace that is gone
        gets no lane."""
        async with self._links.pooled(writes=False) as connection:
            gone = await closed_among(connection, {namespace for namespace, _ in refused})
        return [
            Added.CREATED if _place(job) not in refused else Added.CLOSING if job.namespace in gone else Added.NO_LANE
            for job in jobs
        ]

    async def _replay(self, receipt: Receipt | None) -> Replay | None:
        if receipt is None:
            return None
        async with self._links.pooled(writes=False) as connection:
            return await find_receipt(connection, receipt.principal, receipt.route, receipt.key)

    async def _add_plain(self, jobs: Sequence[NewJob], numbers: Numbers) -> None:
        groups = made_together(jobs)
        if len(groups) > 1:  # an entry names its jobs by their places, and all answers are the same
            jobs = [*chain.from_iterable(groups), *(job for job in jobs if job.source is None)]
        columns = self._job_columns(jobs, numbers)
        for place in _MOSTLY_ALIKE:
            columns[place] = _once_if_alike(columns[place])
        # Single submits come one batch after another: a connection of their own spares them the pool's rounds.
        line = self._links.line("submit")
        async with self._links.pooled(writes=True) if line.busy else line.use(writes=True) as connection:
            await connection.execute(
                statement("jobs_add"),
                self._shared.near_seconds,
                *columns,
                sorted(_guarded(jobs)),
                *_entries_of(groups),
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
        self, jobs: Sequence[NewJob], numbers: Numbers, receipt: Receipt | None, *, whole: bool, quotas: Quotas | None
    ) -> Sequence[Added] | Replay:
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            if receipt is not None and (replay := await take_receipt(connection, receipt)) is not None:
                return replay
            if not jobs:
                return []
            closed = await closed_among(connection, _guarded(jobs))
            answers = await self._insert(connection, jobs, numbers, closed, quotas)
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
            await write_audit(connection, *jobs_created(new))
            return answers

    async def _insert(
        self,
        connection: asyncpg.Connection,
        jobs: Sequence[NewJob],
        numbers: Numbers,
        closed: AbstractSet[str],
        quotas: Quotas | None,
    ) -> list[Added]:
        """Store those whose ids and keys are free, whose namespace is not `closed`, and for which its quotas have
        room."""
        if quotas is not None and not closed:
            return await self._insert_within(connection, jobs, numbers, quotas)
        created = await self._create(connection, [job for job in jobs if job.namespace not in closed], numbers)
        return await _answers(connection, jobs, created, closed)

    async def _create(self, connection: asyncpg.Connection, jobs: Sequence[NewJob], numbers: Numbers) -> set[UUID]:
        """Store those whose ids and keys are free; the ids that were stored."""
        if not jobs:
            return set()
        rows = await connection.fetch(
            statement("jobs_add_checked"),
            self._shared.near_seconds,
            *self._job_columns(jobs, numbers),
            [job.key for job in jobs],
            [job.digest if job.named else None for job in jobs],
            [json.dumps(dict(job.labels)) if job.labels else None for job in jobs],
            [job.owner for job in jobs],
            [json.dumps(sorted(job.calendars)) if job.calendars else None for job in jobs],
            [job.zone_data for job in jobs],
            [json.dumps(list(job.secrets)) if job.secrets and is_lasting(job) else None for job in jobs],
        )
        return {row[0] for row in rows}

    async def _insert_within(
        self, connection: asyncpg.Connection, jobs: Sequence[NewJob], numbers: Numbers, quotas: Quotas
    ) -> list[Added]:
        """Store those for which the quotas of their namespace have room, in their order. Only a job that is stored
        takes room: whether its id and key are free is looked up first."""
        namespace = jobs[0].namespace
        costs = [cost_of(job) for job in jobs]
        room = await open_room(connection, namespace, quotas, Cost.total(costs))
        rows = await connection.fetch(statement("jobs_digests"), [job.job_id for job in jobs])
        keys = [job.key for job in jobs if job.key is not None]
        keyed = await connection.fetch(statement("jobs_keys_taken"), namespace, keys) if keys else []
        await count_runs(connection, room)
        judged = list(_judge(jobs, costs, room, ids={row["job_id"] for row in rows}, keys={row[0] for row in keyed}))
        chosen = [job for job, (_, refused) in zip(jobs, judged, strict=True) if refused is None]
        created = await self._create(connection, chosen, numbers)
        inserted = iter(await _answers(connection, chosen, created, frozenset()) if chosen else [])
        answers = [next(inserted) if refused is None else refused for _, refused in judged]
        # An edit or another namespace may have taken a key or an id since they were looked up.
        stored = [answer is Added.CREATED for answer in answers]
        taken = Cost.total([cost for (cost, _), new in zip(judged, stored, strict=True) if new])
        room.give_back(Cost.total([cost for (cost, _), new in zip(judged, stored, strict=True) if not new]))
        await close_room(connection, room, taken)
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


def _judge(
    jobs: Sequence[NewJob], costs: Sequence[Cost], room: QuotaRoom, *, ids: set[UUID], keys: set[str]
) -> Iterator[tuple[Cost, Added | None]]:
    """Judge each job: its cost as taken from the room, and its refusal for its key or for the room; None: it is to be
    stored, or its id was. `ids`, `keys`: those that are stored; those of chosen jobs are added."""
    for job, cost in zip(jobs, costs, strict=True):
        if job.job_id in ids:
            yield Cost(), None
        elif job.key is not None and job.key in keys:
            yield Cost(), Added.KEY_TAKEN
        elif (lacking := room.take(cost)) is not None:
            yield Cost(), lacking
        else:
            ids.add(job.job_id)
            if job.key is not None:
                keys.add(job.key)
            yield cost, None


def _guarded(jobs: Sequence[NewJob]) -> set[str]:
    """The namespaces of these that could be closed."""
    return {job.namespace for job in jobs} - ALWAYS_OPEN


def _entries_of(groups: Sequence[Sequence[NewJob]]) -> Iterator[Sequence[Any]]:
    """One array for each of the parameters of `jobs_add` about the audit log."""
    entries = [job_created(group) for group in groups]
    sources = [entry.source for entry in entries]
    ends = list(accumulate(map(len, groups)))
    yield [entry.namespace for entry in entries]
    yield [source.kind.value for source in sources]
    yield [source.caller_id for source in sources]
    yield [source.name for source in sources]
    yield [source.address for source in sources]
    yield [source.request_id for source in sources]
    yield [entry.detail for entry in entries]
    yield [end - len(group) + 1 for end, group in zip(ends, groups, strict=True)]
    yield ends


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
        or (job.secrets and is_lasting(job))
        for job in jobs
    )


async def _answers(
    connection: asyncpg.Connection, jobs: Sequence[NewJob], created: set[UUID], closed: AbstractSet[str]
) -> list[Added]:
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
            answers.append(Added.CLOSING if job.namespace in closed else Added.KEY_TAKEN)
        elif stored[job.job_id] == (job.namespace, job.digest if job.named else None):
            answers.append(Added.REPEATED)
        else:
            answers.append(Added.ID_TAKEN)
    return answers
