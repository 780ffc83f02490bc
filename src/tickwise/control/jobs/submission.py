"""Taking jobs in: one at a time through the group commit, or many in one transaction.

With a receipt (an Idempotency-Key), the answer is stored with the effect. So it is foretold: the jobs are written
only if every one of them will be taken; where one is not, the answer is made anew without it and the write repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, assert_never
from uuid import UUID

import msgspec

from tickwise.control.bodies import JobBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.turns import Turns
from tickwise.control.wakeups import wake_for
from tickwise.domain.errors import Busy, Conflict, Refused
from tickwise.domain.model import Principal
from tickwise.domain.trace_context import TraceContext
from tickwise.observability.buffers import Buffer
from tickwise.ports.identity.namespaces import namespace_closing
from tickwise.ports.store import Added, NewJob, Replay, no_lane
from tickwise.ports.store.quotas import quota_refusal
from tickwise.roles.shared.group_commit import Gatherer, Room

_THERE: Final = frozenset({Added.CREATED, Added.REPEATED})
FORETELLINGS_MAX: Final = 5


class Counters(Protocol):
    """The reports of control to the metrics."""

    def submitted(self, count: int) -> None:
        """Jobs that were stored."""
        ...


class Submitted(NamedTuple):
    """A job that is stored."""

    job_id: UUID
    warnings: tuple[str, ...] = ()


Verdict = Submitted | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """The terms on which concurrent submits share one write."""

    seconds: float = 0.003
    """The longest time that a submit may wait for others under load."""
    limit: int = 500
    """Jobs of one write."""
    waiting_max: int = 20_000
    """Jobs that may wait; more are refused as `Busy`."""


class Submissions:
    """Stores new jobs. Start it before the first submit, stop it after the last."""

    def __init__(
        self,
        context: ControlContext,
        composer: JobComposer,
        *,
        counters: Counters | None = None,
        group_commit: GroupCommit | None = None,
    ) -> None:
        """`counters` is told of what was stored."""
        self._context = context
        self._composer = composer
        self.declarations = EnvironmentDeclarations(context, composer.check.kinds)
        """Told of what was stored."""
        self._counters = counters
        self._recorded: dict[UUID, TraceContext] = {}
        """Of the jobs that wait for the group commit: those whose requests are recorded."""
        group = group_commit or GroupCommit()
        self._gatherer = Gatherer(
            self._write,
            context.clock,
            wait_seconds=group.seconds,
            limit=group.limit,
            waiting_max=group.waiting_max,
            wrote=self._stored,
        )

    @property
    def room(self) -> Room:
        """The limits of what may wait in memory."""
        return self._gatherer.room

    async def start(self) -> None:
        """Begin to take jobs."""
        await self._gatherer.start()

    async def stop(self) -> None:
        """Write the waiting jobs, and take no more."""
        await self._gatherer.stop()
        await self.declarations.stop()

    def buffers(self) -> Mapping[str, Buffer]:
        """The jobs that wait to be written."""
        return self._gatherer.buffers()

    async def submit(
        self, who: Principal, body: JobBody, receipt_for: ReceiptFor[Submitted] | None = None
    ) -> Submitted | Replay:
        """Store one job; returns when it is durable. Raises `Refused` kinds, `Busy`, `StoreUnavailable`, `InDoubt`."""
        await self._context.namespaces.check_open(who.namespace)
        composed = await self._composer.compose(who, body)
        job = composed.job
        submitted = Submitted(job.job_id, composed.warnings)
        if receipt_for is None:
            added = await self._put(who, job)
        else:
            receipt = receipt_for(submitted)
            with self._gatherer.room.taken((job,)):
                results = await self._context.surely(lambda: self._context.store.jobs.add((job,), receipt, whole=True))
            if isinstance(results, Replay):
                return results
            added = results[0]
            self._stored((job,), results)
        refused = refusal_of(added, job)
        if refused is not None:
            raise refused
        return submitted

    async def _put(self, who: Principal, job: NewJob) -> Added:
        """The result for a job that shares one write with others."""
        trace = who.origin.trace
        if self._context.tracer is None or trace is None or not trace.sampled:
            return await self._gatherer.put(job)
        self._recorded[job.job_id] = trace
        try:
            return await self._gatherer.put(job)
        finally:
            self._recorded.pop(job.job_id, None)

    async def submit_many(
        self,
        who: Principal,
        bodies: Sequence[JobBody | Refused],
        *,
        atomic: bool = False,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None = None,
    ) -> Sequence[Verdict] | Replay:
        """Store all that can be stored in one transaction, for they are of one namespace; with `atomic`, all or none.

        Bodies that could not even be read are handed in as their refusals, so that the answer keeps their places.
        An atomic batch with a refusal in it stores nothing; its answer tells what is wrong with which.
        """
        await self._context.namespaces.check_open(who.namespace)
        verdicts, jobs = await self._composed(who, bodies)
        if atomic and len(jobs) < len(verdicts):
            return verdicts
        if atomic or receipt_for is not None:
            return await self._store_and_answer(verdicts, jobs, atomic=atomic, receipt_for=receipt_for)
        places = list(jobs)
        if places:
            chosen = [jobs[place] for place in places]
            with self._gatherer.room.taken(chosen):
                results = await self._context.surely(lambda: self._context.store.jobs.add(chosen))
            if not isinstance(results, Replay):
                _enter_refusals(verdicts, jobs, zip(places, results, strict=True))
                self._stored(chosen, results)
        return verdicts

    async def _composed(
        self, who: Principal, bodies: Sequence[JobBody | Refused]
    ) -> tuple[list[Verdict], dict[int, NewJob]]:
        """A verdict for each body, and the jobs to store by their place."""
        readable = [body for body in bodies if isinstance(body, JobBody)]
        scene = await self._composer.look_up(who, readable)
        verdicts: list[Verdict] = []
        jobs: dict[int, NewJob] = {}
        turns = Turns(self._context.clock)
        for place, body in enumerate(bodies):
            if turns.is_over(size_of(body)):
                await turns.give()
            if isinstance(body, Refused):
                verdicts.append(body)
                continue
            try:
                composed = await self._composer.compose(who, body, scene)
            except Refused as refusal:
                verdicts.append(refusal)
                continue
            jobs[place] = composed.job
            verdicts.append(Submitted(composed.job.job_id, composed.warnings))
        return verdicts, jobs

    async def _store_and_answer(
        self,
        verdicts: list[Verdict],
        jobs: dict[int, NewJob],
        *,
        atomic: bool,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None,
    ) -> Sequence[Verdict] | Replay:
        for _ in range(FORETELLINGS_MAX):
            chosen = list(jobs.values())
            receipt = receipt_for(verdicts) if receipt_for is not None else None
            with self._gatherer.room.taken(chosen):
                results = await self._context.surely(lambda: self._context.store.jobs.add(chosen, receipt, whole=True))  # noqa: B023 - awaited within the turn
            if isinstance(results, Replay):
                return results
            taken = {place for place, result in zip(jobs, results, strict=True) if refusal_of(result, jobs[place])}
            if not taken:
                self._stored(chosen, results)
                return verdicts
            _enter_refusals(verdicts, jobs, zip(list(jobs), results, strict=True))
            if atomic:
                return verdicts
            jobs = {place: job for place, job in jobs.items() if place not in taken}
        raise Busy("others took the keys or ids of this batch while it was written; send it again")

    async def store_accepted(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        """Store jobs that were composed and accepted before, as far as possible. Raises `Unavailable` kinds; `Conflict`
        if one of them cannot be stored in any way, and then no job of its namespace is stored."""
        await self._context.time.now()  # the steps after the commit use this time, and send no query
        added = await self._context.surely(lambda: self._context.store.jobs.add(jobs))
        if isinstance(added, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        self._stored(jobs, added)
        return added

    def _stored(self, jobs: Sequence[NewJob], added: Sequence[Added]) -> None:
        """Announce stored jobs. Calls no service and cannot fail, because an error here would turn a success into a
        failure."""
        # One that is repeated may be new, too: the first answer may have been lost.
        there = [job for job, result in zip(jobs, added, strict=True) if result in _THERE]
        wake_for(self._context, there)
        self.declarations.note_jobs(there)
        if self._counters is not None:
            self._counters.submitted(sum(result is Added.CREATED for result in added))

    async def _write(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        tracer, recorded = self._context.tracer, self._recorded
        works_for = [recorded[job.job_id] for job in jobs if job.job_id in recorded] if recorded else []
        if tracer is None or not works_for:
            return await self._write_all(jobs)
        span = tracer.shared("group commit", works_for)
        span.attributes["tickwise.jobs"] = len(jobs)
        with tracer.within(span):
            return await self._write_all(jobs)

    async def _write_all(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        added = await self._context.store.jobs.add(jobs)
        if isinstance(added, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        return added


def size_of(body: JobBody | Refused) -> int:
    """The bytes in a body that take time: what its author may make long."""
    if isinstance(body, Refused):
        return 0
    return sum(len(bytes(part)) for part in (body.task, body.payload, body.params) if isinstance(part, msgspec.Raw))


def _enter_refusals(verdicts: list[Verdict], jobs: dict[int, NewJob], results: Iterable[tuple[int, Added]]) -> None:
    """Write the store's refusals into the answer."""
    for place, added in results:
        refused = refusal_of(added, jobs[place])
        if refused is not None:
            verdicts[place] = refused


def refusal_of(added: Added, job: NewJob) -> Conflict | None:
    """The reason why the store did not take a job; None: it did."""
    if added is Added.CREATED or added is Added.REPEATED:
        return None
    if added is Added.ID_TAKEN:
        return id_taken(job.job_id)
    if added is Added.NO_LANE:
        return no_lane(job.namespace)
    if added is Added.CLOSING:
        return namespace_closing(job.namespace)
    if added is Added.KEY_TAKEN:
        return key_taken(str(job.key))
    if added in (Added.NO_QUOTA_JOBS, Added.NO_QUOTA_RUNS, Added.NO_QUOTA_BYTES):
        return quota_refusal(added, job.namespace)
    assert_never(added)


def id_taken(job_id: UUID) -> Conflict:
    """The refusal of an id that stands for another body."""
    return Conflict(
        f"job_id {job_id} was used for another job before; choose another",
        pointer="/job_id",
        code=Added.ID_TAKEN.value,
    )


def key_taken(key: str) -> Conflict:
    """The refusal of a key that another job has."""
    return Conflict(
        f"the key {key!r} belongs to another job; change that one with PUT /api/v1/jobs/by-key/…",
        pointer="/key",
        code=Added.KEY_TAKEN.value,
    )
