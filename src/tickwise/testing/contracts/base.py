"""The base of the suites over a store: the store, a second client of it, its clock in hand, and shortcuts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar
from uuid import UUID

import pytest

from tickwise.domain.decision import NEVER, TimerState
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Lane, Outcome, Principal
from tickwise.ports.store import (
    Added,
    Began,
    CancelRequest,
    Check,
    ClaimRequest,
    Fire,
    FireBatch,
    FireRequest,
    JobRow,
    NewJob,
    Replay,
    RunRow,
    Store,
)
from tickwise.testing import factories
from tickwise.testing.factories import Factory

UNSEEN_SECONDS = 2.0
"""A claim may overlook for so long what became claimable in the past, as the port says."""

LEASE_SECONDS = 10.0
DAY_SECONDS = 86_400.0


class Contract:
    """Declares an adapter's gaps: by test name, with the reason. Each must really fail."""

    lacks: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _declare_lacks(self, request: pytest.FixtureRequest) -> None:
        reason = self.lacks.get(request.node.originalname)
        if reason:
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


class TakenBatch:
    """A batch of timers, with the store that it was taken from."""

    def __init__(self, store: Store, batch: FireBatch) -> None:
        self._store = store
        self.batch_id = batch.batch_id
        self.now = batch.now
        self.rules_version = batch.rules_version
        self.timers = batch.timers

    async def commit(self, fires: Sequence[Fire]) -> int:
        """Commit the batch; the number of runs made."""
        return await self._store.timers.commit(self.batch_id, fires)


@asynccontextmanager
async def taken(store: Store, request: FireRequest) -> AsyncIterator[TakenBatch]:
    """Timers taken for a decision. Those that the block does not commit are released when it is left."""
    batch = await store.timers.take(request)
    try:
        yield TakenBatch(store, batch)
    finally:
        await store.timers.release(batch.batch_id)


class StoreContract(Contract):
    """The fixtures and shortcuts of a test class over a store.

    The adapter's backend class provides the fixtures `store` (an open, empty store whose `near_seconds` is 2) and
    `other` (a second client of the same truth, as another process would have it; the same object where only one can
    be), and the method `shift`.
    """

    databases = 1
    """In how many the store keeps an executor. Each finds by itself that it is dead."""

    async def shift(self, store: Store, seconds: float) -> None:
        """Put the store's clock forward for all of its clients. Never sleeps."""
        raise NotImplementedError

    async def restart(self, store: Store) -> None:
        """The store goes away for a moment and comes back with all that it held."""
        raise NotImplementedError

    async def damage(self, store: Store, check: Check, subject: UUID) -> None:
        """Break an invariant, as no call of the port could. Only for those that no passing of time breaks.

        ENDED_ONCE: this active run is also on record. HELD_BY_ACTIVE: the executor that holds this run is gone, and
        the run is held still. PLANNED: this job has no timer. WAITS_FOR_SOMETHING: this free run is blocked.
        HEARD_IN_TIME: a run of this id, which is no run, is asked to stop. HAS_A_JOB: the job of this run is not there.
        """
        raise NotImplementedError

    @pytest.fixture
    async def make(self, store: Store, request: pytest.FixtureRequest) -> Factory:
        """Values around the store's own clock."""
        return Factory(await store.now(), seed=request.node.name)

    async def add(self, store: Store, *jobs: NewJob) -> None:
        """Store jobs that must all be new."""
        assert await store.jobs.add(jobs) == [Added.CREATED] * len(jobs)

    async def made_ahead(self, store: Store, make: Factory, seconds: float) -> NewJob:
        """A one-time job that is due in so many seconds, whose run is made: a store makes it by itself only if it is
        near, and then its time may come while a slow machine is still busy with the test."""
        job = make.job(make.now + seconds)
        await self.add(store, job)
        assert (await store.timers.fire(seconds, 100)).timers == 1
        return job

    async def register(self, store: Store, name: str = "one", **fields: Any) -> int:
        """An executor with a lease of `LEASE_SECONDS`."""
        return await store.executors.join(factories.executor(name, **fields))

    async def claim(self, store: Store, executor: int, **fields: Any) -> Sequence[Claimed]:
        """Claim from the default queue."""
        given: dict[str, Any] = {"queues": ("default",), "labels": (), "limit": 100, "ahead_seconds": 0.0}
        return await store.attempts.claim(ClaimRequest(**{**given, **fields, "executor": executor}))

    async def claim_freed(self, store: Store, executor: int, **fields: Any) -> Sequence[Claimed]:
        """As `claim`, after the time for which a freed run may stay unseen; the lease is renewed first."""
        await self.shift(store, UNSEEN_SECONDS)
        await store.executors.beat(executor, LEASE_SECONDS)
        return await self.claim(store, executor, **fields)

    async def held(self, store: Store, executor: int, job: NewJob, **fields: Any) -> Claimed:
        """A new job's run, claimed by `executor`."""
        await self.add(store, job)
        [claimed] = await self.claim(store, executor, **fields)
        assert claimed.job_id == job.job_id
        return claimed

    async def begin(self, store: Store, executor: int, claimed: Claimed, **fields: Any) -> None:
        """Record the start of an attempt."""
        assert await self.starts(store, executor, claimed, **fields) == [True]

    async def starts(self, store: Store, executor: int, *claims: Claimed, **fields: Any) -> list[bool]:
        """Record starts; which of them were accepted."""
        refused = set(await store.attempts.start(executor, [began(claimed, **fields) for claimed in claims]))
        return [claimed.run_id not in refused for claimed in claims]

    async def starts_in_turn(self, store: Store, executor: int, *claims: Claimed, **fields: Any) -> list[bool]:
        """As `starts`, each in a call of its own: the earlier ones are on record before the next one asks."""
        return [began for claimed in claims for began in await self.starts(store, executor, claimed, **fields)]

    async def waits(self, store: Store, run_id: UUID) -> bool:
        """Check whether a run waits for an earlier one or for a slot, and that all answers about it agree."""
        row = await self.run_row(store, run_id)
        if row.blocked:
            assert (row.state, row.executor, row.ready_at, row.dispatched_at) == (RunState.QUEUED, None, None, None)
        return row.blocked

    async def finish(self, store: Store, executor: int, *outcomes: Outcome) -> list[UUID]:
        """Report; the refused."""
        return list(await store.attempts.finish(executor, outcomes))

    async def cancels(self, store: Store, executor: int) -> list[CancelRequest]:
        """The cancel requests that an active executor gets with a heartbeat."""
        beat = await store.executors.beat(executor, LEASE_SECONDS)
        assert beat.alive
        return list(beat.cancels)

    async def expire(self, store: Store, *executors: int) -> None:
        """Let the leases of these run out, and nobody else's who beats: their death is found."""
        await self.shift(store, LEASE_SECONDS + 1.0)
        expired = await store.executors.expire(crashes_max=3)
        assert set(executors) <= set(expired.executors)

    def near(
        self, store: Store, horizon_seconds: float = 1.0, limit: int = 100, **fields: Any
    ) -> AbstractAsyncContextManager[TakenBatch]:
        """The timers that are due within the horizon, taken for a decision."""
        return taken(store, FireRequest(**{"horizon_seconds": horizon_seconds, "limit": limit, **fields}))

    async def run_row(self, store: Store, run_id: UUID, namespace: str = "default") -> RunRow:
        """A run that must be there."""
        row = await store.runs.get(namespace, run_id)
        assert row is not None, f"no run {run_id}"
        return row

    async def run_state(self, store: Store, run_id: UUID) -> RunState | None:
        """The state of a run, None if the store knows nothing of it."""
        row = await store.runs.get("default", run_id)
        return None if row is None else row.state

    async def job_row(self, store: Store, job_id: UUID, namespace: str = "default") -> JobRow:
        """A job that must be there."""
        row = await store.jobs.get(namespace, job_id)
        assert row is not None, f"no job {job_id}"
        return row


def began(claimed: Claimed, **fields: Any) -> Began:
    """That an attempt began, when it was claimed or due."""
    return Began(claimed.run_id, claimed.token, max(claimed.now, claimed.due), **fields)


def microseconds(instant: float | None) -> int | None:
    """An instant as stores keep it, for comparison."""
    return None if instant is None else round(instant * 1_000_000)


def instants(pending: TimerState | None) -> tuple[object, ...] | None:
    """A timer with its instants as stores keep them, for comparison."""
    if pending is None:
        return None
    due = NEVER if pending.due == NEVER else microseconds(pending.due)
    counted = (pending.fired, microseconds(pending.minute), pending.in_minute)
    return due, microseconds(pending.since), pending.hold, *counted


def added(answer: Sequence[Added] | Replay) -> list[Added]:
    """The answer of a batch that was no replay."""
    assert not isinstance(answer, Replay)
    return list(answer)


def lane(priority: int = 5, *, queue: str = "default", requires: tuple[str, ...] = ()) -> Lane:
    """A lane by what a test is about."""
    return Lane(queue, priority, requires)


def principal(name: str = "ada", namespace: str = "default") -> Principal:
    """Somebody who may do everything."""
    return Principal(name, namespace, frozenset({"*"}))
