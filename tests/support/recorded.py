"""Records as a store keeps them after a short time of everything: ended, retried, lost, cancelled, still alive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.ports.store import Began, ClaimRequest, NewJob, RunCancel, Store
from tickwise.testing.factories import Factory, executor, outcome, outcomes

LEASE_SECONDS = 10.0
UNSEEN_SECONDS = 2.5
"""A freed run may stay unseen for two seconds."""
PLAIN = 6


class Recorded(NamedTuple):
    """The jobs and runs that the test asks about afterwards."""

    plain: list[UUID]
    """Jobs that succeeded at once."""
    retried: UUID
    lost: UUID
    """Its first executor was expired while it ran."""
    alive: UUID


class Scene:
    """A store, with hands to claim and to move its clock."""

    def __init__(self, store: Store, shift: Callable[[float], Awaitable[None]]) -> None:
        self.store = store
        self.shift = shift

    async def claim(self, number: int) -> dict[UUID, Claimed]:
        """All that is ready, by job."""
        request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=100, ahead_seconds=0.5)
        return {claimed.job_id: claimed for claimed in await self.store.attempts.claim(request)}

    async def play(self) -> Recorded:
        """All of it."""
        store = self.store
        make = Factory(await store.now(), seed="records")
        plain = [make.job() for _ in range(PLAIN)]
        retried, lost, cancelled, alive = (make.job() for _ in range(4))
        later = make.job(due=make.now + 40_000.0)
        await store.jobs.add([*plain, retried, lost, cancelled, alive, later])
        assert cancelled.run_id is not None
        await store.runs.move(RunCancel("default", cancelled.run_id, "ada"))
        first = await store.executors.join(executor("first", lease_seconds=LEASE_SECONDS))
        claims = await self.claim(first)
        await store.attempts.finish(first, outcomes([claims[job.job_id] for job in plain]))
        again = outcome(claims[retried.job_id], RunState.RETRYING, reason="exit_code", retry_at=await store.now())
        await store.attempts.finish(first, [again])
        await self._begin(first, claims, lost, alive)
        await self.shift(LEASE_SECONDS + 1.0)
        await store.executors.expire(3)
        await self.shift(UNSEEN_SECONDS)
        second = await store.executors.join(executor("second", lease_seconds=LEASE_SECONDS))
        claims = await self.claim(second)
        await self._begin(second, claims, lost, alive)
        await store.attempts.finish(second, outcomes([claims[retried.job_id], claims[lost.job_id]]))
        return Recorded([job.job_id for job in plain], retried.job_id, lost.job_id, alive.job_id)

    async def _begin(self, number: int, claims: dict[UUID, Claimed], *jobs: NewJob) -> None:
        begun = [Began(claims[job.job_id].run_id, claims[job.job_id].token, await self.store.now()) for job in jobs]
        assert [] == list(await self.store.attempts.start(number, begun))
