"""Runs that wait for an earlier one of their job: held up by it alone, and by nothing for ever."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Trigger
from tickwise.ports.store import JobAction, RunCancel, RunPostpone, RunSkip, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, lane, microseconds
from tickwise.testing.contracts.store.dispatch.overlap import LineContract
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
QUEUES = [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL]


class WaitingContract(LineContract):
    """Runs that wait for an earlier one of their job."""

    async def waiting(
        self, store: Store, make: Factory, policy: Overlap = Overlap.QUEUE_ALL, **fields: Any
    ) -> tuple[int, Claimed, UUID]:
        """An executor that holds a run which has not begun, and the run that waits for it."""
        await self.job_with(store, make, policy, policy, **fields)
        one, two = await self.register(store, "one"), await self.register(store, "two", lease_seconds=100 * HOUR)
        first, second = await self.claims(store, one, two)
        assert await self.starts(store, two, second) == [False]
        assert await self.waits(store, second.run_id)
        return one, first, second.run_id

    async def test_nobody_gets_a_run_that_waits(self, store: Store, make: Factory) -> None:
        """However long: neither now nor ahead; it is no older than its turn."""
        executor, first, waiter = await self.waiting(store, make)
        await self.begin(store, executor, first)
        for _ in range(3):
            assert list(await self.claim_freed(store, executor, ahead_seconds=HOUR)) == []
            assert await store.runs.unblock() == 0
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.held, stats.oldest_ready_seconds) == (1, 1, 0.0)
        assert await self.waits(store, waiter)

    @pytest.mark.parametrize("policy", [*QUEUES, Overlap.CANCEL_RUNNING])
    @pytest.mark.parametrize("end", [RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED])
    async def test_it_is_claimable_when_the_earlier_one_ends(
        self, store: Store, make: Factory, policy: Overlap, end: RunState
    ) -> None:
        """By the report itself, whatever it says; then it asks once more, and starts."""
        executor, first, waiter = await self.waiting(store, make, policy)
        await self.begin(store, executor, first)
        before = await store.now()
        assert await self.finish(store, executor, outcome(first, end)) == []
        row = await self.run_row(store, waiter)
        assert (row.state, row.blocked) == (RunState.QUEUED, False)
        assert row.ready_at is not None
        assert row.ready_at >= before - 0.001
        [claimed] = await self.claim_freed(store, executor)
        assert (claimed.run_id, claimed.attempt, claimed.guarded) == (waiter, 1, True)
        assert await self.starts(store, executor, claimed) == [True]
        assert await self.finish(store, executor, outcome(claimed)) == []

    @pytest.mark.parametrize(
        "way", ["cancelled", "skipped", "job cancelled", "given back and cancelled", "retrying and cancelled", "poison"]
    )
    async def test_it_goes_on_however_the_earlier_one_ends(self, store: Store, make: Factory, way: str) -> None:
        """By people, by its last executor's death, by a request that was heard late."""
        executor, first, waiter = await self.waiting(store, make)
        run = first.run_id
        if way == "cancelled":
            await self.finish(store, executor, outcome(first, RunState.QUEUED, retry_at=make.now + HOUR))
            assert await store.runs.move(RunCancel("default", run, "grace")) is RunState.CANCELLED
        elif way == "skipped":
            await self.finish(store, executor, outcome(first, RunState.QUEUED, retry_at=make.now + HOUR))
            assert await store.runs.move(RunSkip("default", run, "not this one")) is RunState.SKIPPED
        elif way == "given back and cancelled":
            await store.runs.move(RunCancel("default", run, "grace"))
            await store.executors.leave(executor)
        elif way == "retrying and cancelled":
            await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=make.now + HOUR))
            await store.runs.move(RunCancel("default", run, "grace"))
        elif way == "poison":
            await self.begin(store, executor, first)
            await self.shift(store, LEASE_SECONDS + 1.0)
            assert list((await store.executors.expire(crashes_max=1)).quarantined) == [run]
        else:
            await store.jobs.move(make.move(first.job_id, JobAction.CANCEL))
            assert await self.run_state(store, waiter) is RunState.CANCELLED
            return
        assert await self.goes_on(store, waiter)
        [claimed] = await self.claim_freed(store, await self.register(store, "next"))
        assert claimed.run_id == waiter

    async def test_it_goes_on_when_the_earlier_one_is_forgotten(self, store: Store, make: Factory) -> None:
        """A new plan does not have it; nothing of it is left to wait for."""
        job = make.recurring(make.now)
        await self.add(store, job)
        early = make.scheduled(job.job_id, make.now + 30.0, overlap=Overlap.QUEUE_ALL)
        late = make.scheduled(job.job_id, make.now + 31.0, overlap=Overlap.QUEUE_ALL)
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due
            await batch.commit([make.fire(job.job_id, due, make.now + HOUR, runs=[early, late])])
        one, two = await self.register(store, "one", lease_seconds=HOUR), await self.register(store, "two")
        first, second = [
            claimed
            for executor in (one, two)
            for claimed in await self.claim(store, executor, limit=1, ahead_seconds=60.0)
        ]
        assert await self.starts(store, two, second) == [False]
        keep = make.plan(make.now + HOUR, keep_dues=[late.due])
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), replan=keep))
        assert await self.waits(store, late.run_id)
        assert await self.finish(store, one, outcome(first, RunState.SKIPPED, reason="revoked")) == []
        assert await self.run_state(store, early.run_id) is None
        assert await self.goes_on(store, late.run_id)
        ready = (await self.run_row(store, late.run_id)).ready_at
        assert microseconds(ready) == microseconds(late.due)

    async def test_it_goes_on_when_the_earlier_one_comes_later_now(self, store: Store, make: Factory) -> None:
        """A postponed run is behind it."""
        executor, first, waiter = await self.waiting(store, make)
        await self.finish(store, executor, outcome(first, RunState.QUEUED, retry_at=make.now + HOUR))
        assert await store.runs.move(RunPostpone("default", first.run_id, make.now + HOUR)) is RunState.QUEUED
        assert await self.goes_on(store, waiter)

    async def test_a_backoff_is_no_end(self, store: Store, make: Factory) -> None:
        """Nor is being given back, or lost: the earlier run goes on."""
        executor, first, waiter = await self.waiting(store, make)
        await self.finish(store, executor, outcome(first, RunState.RETRYING, retry_at=first.now))
        assert await store.runs.unblock() == 0
        [again] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(again, RunState.QUEUED))
        assert await store.runs.unblock() == 0
        [again] = await self.claim_freed(store, executor)
        await self.begin(store, executor, again)
        await self.expire(store, executor)
        assert await store.runs.unblock() == 0
        assert await self.waits(store, waiter)

    async def test_they_go_one_after_the_other(self, store: Store, make: Factory) -> None:
        """In the order of their time; the end of one frees the next and no other."""
        await self.job_with(store, make, *[Overlap.QUEUE_ALL] * 4)
        executor = await self.register(store)
        first, *others = await self.claims(store, *[executor] * 4)
        assert await self.starts(store, executor, first, *others) == [True, False, False, False]
        current = first
        for number, following in enumerate(others):
            assert await self.finish(store, executor, outcome(current)) == []
            assert await self.goes_on(store, following.run_id)
            assert [await self.waits(store, later.run_id) for later in others[number + 1 :]] == [True] * (2 - number)
            [current] = await self.claim_freed(store, executor)
            assert current.run_id == following.run_id
            assert await self.starts(store, executor, current) == [True]

    async def test_one_that_waits_may_be_ended_before_its_turn(self, store: Store, make: Factory) -> None:
        """Cancelled or skipped at once: nobody holds it. Those behind it go on waiting."""
        await self.job_with(store, make, *[Overlap.QUEUE_ALL] * 4)
        executor = await self.register(store)
        first, second, third, fourth = await self.claims(store, *[executor] * 4)
        await self.starts(store, executor, first, second, third, fourth)
        with pytest.raises(Conflict):
            await store.runs.move(RunPostpone("default", second.run_id, make.now + HOUR))
        assert await store.runs.move(RunCancel("default", second.run_id, "grace")) is RunState.CANCELLED
        assert await store.runs.move(RunSkip("default", third.run_id, "not this one")) is RunState.SKIPPED
        assert [(await self.run_row(store, ended.run_id)).blocked for ended in (second, third)] == [False, False]
        assert await self.waits(store, fourth.run_id)
        await self.finish(store, executor, outcome(first))
        assert await self.goes_on(store, fourth.run_id)

    async def test_an_edit_reaches_what_waits(self, store: Store, make: Factory) -> None:
        """It keeps waiting, and runs by the new definition in the new lane."""
        executor, first, waiter = await self.waiting(store, make)
        row = await self.job_row(store, first.job_id)
        await store.jobs.change(make.change(row, definition='{"n":2}', lane=lane(queue="heavy")))
        assert list(await self.claim_freed(store, executor, queues=("heavy", "default"))) == []
        await self.finish(store, executor, outcome(first))
        assert await self.goes_on(store, waiter)
        assert list(await self.claim_freed(store, executor)) == []
        [claimed] = await self.claim(store, executor, queues=("heavy",))
        assert (claimed.run_id, claimed.spec) == (waiter, '{"n":2}')

    async def test_a_pause_leaves_alone_what_waits(self, store: Store, make: Factory) -> None:
        """It is due; its turn will come."""
        executor, first, waiter = await self.waiting(store, make)
        await store.jobs.move(make.move(first.job_id, JobAction.PAUSE))
        assert await self.waits(store, waiter)
        await self.finish(store, executor, outcome(first))
        assert await self.goes_on(store, waiter)

    async def test_cancelling_all_of_a_backfill_ends_what_waits(self, store: Store, make: Factory) -> None:
        """The one that is held is asked to stop, and none of the others has its turn first."""
        job, origin = make.recurring(make.now + HOUR), make.identifier()
        await self.add(store, job)
        runs = [
            make.run(
                job.job_id,
                make.now - ago,
                trigger=Trigger.BACKFILL,
                nominal=make.now - ago,
                origin=origin,
                overlap=Overlap.QUEUE_ALL,
            )
            for ago in (300.0, 200.0, 100.0)
        ]
        await store.runs.add("default", job.job_id, runs)
        executor = await self.register(store)
        first, second, _ = await self.claims(store, executor, executor, executor)
        assert await self.starts(store, executor, first, second) == [True, False]
        assert await store.runs.cancel_all("default", job.job_id, origin, principal="grace") == 3
        assert await self.run_state(store, first.run_id) is RunState.RUNNING
        assert await self.run_state(store, second.run_id) is RunState.CANCELLED
        asked = {request.run_id for request in await self.cancels(store, executor)}
        assert asked == {runs[0].run_id, runs[2].run_id}

    async def test_a_postponed_run_asks_again(self, store: Store, make: Factory) -> None:
        """It was settled when it was made; at its new time others may go on."""
        job_id = await self.job_with(store, make, Overlap.SKIP)
        row = make.scheduled(job_id, make.now).run_id
        assert await store.runs.move(RunPostpone("default", row, make.now + 20.0)) is RunState.QUEUED
        async with self.near(store, HOUR) as batch:
            run = make.scheduled(job_id, make.now + 10.0, overlap=Overlap.SKIP)
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=[run])])
        await self.shift(store, 20.0)
        one, two = [await self.register(store, name, lease_seconds=HOUR) for name in ("one", "two")]
        await self.shift(store, 2.0)
        [first], [postponed] = await self.claim(store, one, limit=1), await self.claim(store, two, limit=1)
        assert (first.run_id, postponed.run_id, postponed.guarded) == (run.run_id, row, True)
        assert await self.starts(store, one, first) == [True]
        assert await self.starts(store, two, postponed) == [False]
        assert await self.reason(store, row) == (RunState.SKIPPED, "overlap")
