"""Fires: each once, by one scheduler, in time, and never against a newer word."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from tickwise.domain.decision import NEVER, Hold, TimerState
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import Fire, FireRequest, JobAction, NewRun, Store
from tickwise.testing.contracts.base import StoreContract, TakenBatch, lane, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class TimersContract(StoreContract):
    """`timers.fire`, `timers.take`, `timers.commit` and `timers.release`."""

    # ------------------------------------------------------------------------------------------- one-time jobs

    async def test_a_timer_within_the_horizon_becomes_a_run(self, store: Store, make: Factory) -> None:
        """With its due time and its name; one beyond it stays."""
        soon, later = make.job(make.now + 100.000001), make.job(make.now + HOUR)
        await self.add(store, soon, later)
        await self.shift(store, 99.0)
        assert (await store.timers.fire(5.0, 100)).timers == 1
        assert soon.run_id is not None
        row = await self.run_row(store, soon.run_id)
        assert (row.state, row.job_id, row.trigger) == (RunState.QUEUED, soon.job_id, Trigger.SCHEDULE)
        assert microseconds(row.due_at) == microseconds(make.now + 100.000001)
        assert (await store.upkeep.stats()).timers == 1

    async def test_a_fired_run_is_claimable_at_its_due_time(self, store: Store, make: Factory) -> None:
        """And not before."""
        job = make.job(make.now + 100.0, definition='{"n":1}')
        await self.add(store, job)
        executor = await self.register(store, lease_seconds=HOUR)
        await self.shift(store, 40.0)
        await store.timers.fire(100.0, 100)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 61.0)
        [claimed] = await self.claim(store, executor)
        assert (claimed.run_id, claimed.spec) == (job.run_id, '{"n":1}')

    async def test_recurring_jobs_are_left_to_those_who_decide(self, store: Store, make: Factory) -> None:
        """However late they are."""
        await self.add(store, make.recurring(make.now - 60.0))
        assert (await store.timers.fire(10.0, 100)).timers == 0
        assert (await store.upkeep.stats()).timers == 1

    async def test_the_earliest_are_fired_first_up_to_the_limit(self, store: Store, make: Factory) -> None:
        """The rest waits for the next call."""
        jobs = [make.job(make.now + 100.0 + number) for number in (4, 1, 3, 0, 2)]
        await self.add(store, *jobs)
        await self.shift(store, 200.0)
        assert (await store.timers.fire(0.0, 2)).timers == 2
        made = [bool(job.run_id and await self.run_state(store, job.run_id)) for job in jobs]
        assert made == [False, True, False, True, False]
        assert (await store.timers.fire(0.0, 100)).timers == 3
        assert (await store.upkeep.stats()).queued == 5

    async def test_schedulers_that_fire_together_fire_each_timer_once(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Six calls at a time, through two clients."""
        jobs = [make.job(make.now + 100.0) for _ in range(200)]
        await self.add(store, *jobs)
        await self.shift(store, 200.0)
        fired = 0
        for _ in range(10):
            answers = await asyncio.gather(*(client.timers.fire(0.0, 11) for client in [store, other] * 3))
            fired += sum(answer.timers for answer in answers)
        assert fired == 200
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.timers) == (200, 0)

    # ------------------------------------------------------------------------------------------- recurring jobs

    async def test_a_recurring_timer_is_handed_over_for_a_decision(self, store: Store, make: Factory) -> None:
        """With the definition, from which the next fire follows."""
        due = make.now + 10.000001
        job = make.recurring(due, definition='{"cron_expression": "* * * * *"}')
        await self.add(store, job, make.recurring(make.now + HOUR))
        await self.shift(store, 9.0)
        async with self.near(store, 5.0, 100) as batch:
            [timer] = batch.timers
            assert (timer.job_id, timer.namespace) == (job.job_id, "default")
            assert (microseconds(timer.pending.due), timer.definition) == (microseconds(due), job.definition)
            assert abs(batch.now - await store.now()) < 60.0

    async def test_the_earliest_come_first_up_to_the_limit(self, store: Store, make: Factory) -> None:
        """A backlog is worked off in order."""
        await self.add(store, *(make.recurring(make.now + number) for number in (4, 1, 3, 0, 2)))
        async with self.near(store, 10.0, 3) as batch:
            dues = [microseconds(timer.pending.due) for timer in batch.timers]
        assert dues == [microseconds(make.now + number) for number in (0, 1, 2)]

    @pytest.mark.parametrize("once", [False, True])
    async def test_timers_of_jobs_that_wait_take_no_place(self, store: Store, make: Factory, once: bool) -> None:
        """However many are left out, the next ones are taken, and those that were left out stand as they did."""
        jobs = [make.recurring(make.now + number) for number in range(5)]
        await self.add(store, *jobs)
        await self.shift(store, 10.0)
        waiting = [job.job_id for job in jobs[:3]]
        async with self.near(store, limit=1, without=waiting, once=once) as batch:
            assert [timer.job_id for timer in batch.timers] == [jobs[3].job_id]
        async with self.near(store, once=once) as batch:
            assert [timer.pending for timer in batch.timers] == [TimerState(make.now + number) for number in range(5)]

    async def test_what_comes_after_looks_that_found_nothing_is_found_by_the_next(
        self, store: Store, make: Factory
    ) -> None:
        """A scheduler with nothing to do may look in another way; it misses nothing, and says the time all the same."""
        await self.add(store, make.recurring(make.now + HOUR))
        for _ in range(3):
            async with self.near(store, 10.0, 100) as batch:
                assert list(batch.timers) == []
                assert abs(batch.now - await store.now()) < 60.0
                assert await batch.commit([]) == 0
        job = make.recurring(make.now + 1.0)
        await self.add(store, job)
        assert await self.fire_all(store, make.now + HOUR) == 1
        assert (await self.run_row(store, run_id(job.job_id, make.now + 1.0))).state is RunState.QUEUED

    async def test_a_committed_fire_makes_its_run_and_moves_its_timer(self, store: Store, make: Factory) -> None:
        """In one transaction."""
        job = make.recurring(make.now + 1.0)
        await self.add(store, job)
        assert await self.fire_all(store, make.now + HOUR) == 1
        row = await self.run_row(store, run_id(job.job_id, make.now + 1.0))
        assert (row.state, row.trigger, microseconds(row.due_at)) == (
            RunState.QUEUED,
            Trigger.SCHEDULE,
            microseconds(make.now + 1.0),
        )
        assert (await self.due_timers(store, 10.0), await self.due_timers(store, 2 * HOUR)) == (0, 1)

    async def test_a_timer_without_a_fire_stays_as_it_was(self, store: Store, make: Factory) -> None:
        """A batch may be committed in part."""
        one, two = make.recurring(make.now), make.recurring(make.now)
        await self.add(store, one, two)
        async with self.near(store, 1.0, 100) as batch:
            assert len(batch.timers) == 2
            assert await batch.commit([self.decide(batch, one.job_id, make.now + HOUR)]) == 1
        assert await self.due_timers(store, 1.0) == 1

    async def test_a_batch_that_is_left_without_a_commit_changes_nothing(self, store: Store, make: Factory) -> None:
        """The scheduler failed in between; the next one sees the same."""
        await self.add(store, make.recurring(make.now))

        async def fail() -> None:
            async with self.near(store, 1.0, 100) as batch:
                assert len(batch.timers) == 1
                raise LookupError("the decision failed")

        with pytest.raises(LookupError):
            await fail()
        assert await self.due_timers(store, 1.0) == 1
        assert (await store.upkeep.stats()).queued == 0

    async def test_a_batch_is_over_after_its_commit_or_its_release(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """A commit that comes after it fires nothing and says so; other schedulers have the timers. A second release
        changes nothing."""
        job = make.recurring(make.now)
        await self.add(store, job)
        request = FireRequest(horizon_seconds=1.0, limit=10)
        released = await store.timers.take(request)
        fire = make.fire(job.job_id, released.timers[0].pending.due, make.now + HOUR)
        await store.timers.release(released.batch_id)
        await store.timers.release(released.batch_id)
        with pytest.raises(StoreUnavailable):
            await store.timers.commit(released.batch_id, [fire])
        assert (await store.upkeep.stats()).queued == 0
        committed = await other.timers.take(request)
        assert [timer.job_id for timer in committed.timers] == [job.job_id]
        assert await other.timers.commit(committed.batch_id, [fire]) == 1
        await other.timers.release(committed.batch_id)
        with pytest.raises(StoreUnavailable):
            await other.timers.commit(committed.batch_id, [fire])
        assert (await store.upkeep.stats()).queued == 1

    async def test_a_client_may_have_several_batches(self, store: Store, make: Factory) -> None:
        """Each has timers of its own, and ends by itself."""
        one, two = make.recurring(make.now), make.recurring(make.now + 0.1)
        await self.add(store, one, two)
        request = FireRequest(horizon_seconds=1.0, limit=1)
        first, second = await store.timers.take(request), await store.timers.take(request)
        assert [[timer.job_id for timer in batch.timers] for batch in (first, second)] == [[one.job_id], [two.job_id]]
        await store.timers.release(first.batch_id)
        fire = make.fire(two.job_id, second.timers[0].pending.due, make.now + HOUR)
        assert await store.timers.commit(second.batch_id, [fire]) == 1
        assert await self.due_timers(store, 1.0) == 1

    async def test_no_two_schedulers_have_the_same_timer(self, store: Store, other: Store, make: Factory) -> None:
        """A taken timer is hidden from others until it is released."""
        await self.add(store, *(make.recurring(make.now) for _ in range(10)))
        async with self.near(store, 1.0, 6) as mine, self.near(other, 1.0, 100) as theirs:
            taken = [timer.job_id for timer in mine.timers]
            left = [timer.job_id for timer in theirs.timers]
            assert (len(taken), len(left)) == (6, 4)
            assert set(taken).isdisjoint(left)
        assert await self.due_timers(other, 1.0) == 10

    async def test_schedulers_that_work_together_make_each_run_once(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Two hundred jobs, four schedulers, each as often as there is something."""
        jobs = [make.recurring(make.now) for _ in range(200)]
        await self.add(store, *jobs)

        async def schedule(client: Store) -> int:
            made = 0
            for _ in range(12):
                async with self.near(client, 1.0, 20) as batch:
                    decisions = [self.decide(batch, timer.job_id, make.now + HOUR) for timer in batch.timers]
                    made += await batch.commit(decisions)
            return made

        made = await asyncio.gather(*(schedule(client) for client in [store, other] * 2))
        assert sum(made) == 200
        claims = await self.claim_freed(store, await self.register(store), limit=1000)
        assert Counter(claimed.job_id for claimed in claims) == Counter(job.job_id for job in jobs)

    async def test_one_decision_may_make_several_runs_or_none(self, store: Store, make: Factory) -> None:
        """Catch-up and skips are the scheduler's business."""
        several, none = make.recurring(make.now), make.recurring(make.now)
        await self.add(store, several, none)
        async with self.near(store, 1.0, 100) as batch:
            due = {timer.job_id: timer.pending.due for timer in batch.timers}
            runs = [
                NewRun(run_id(several.job_id, make.now - ago), make.now - ago, Trigger.SCHEDULE) for ago in (0, 60, 120)
            ]
            fires = [
                make.fire(several.job_id, due[several.job_id], make.now + HOUR, runs=runs),
                make.fire(none.job_id, due[none.job_id], make.now + HOUR, runs=()),
            ]
            assert await batch.commit(fires) == 3
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.timers) == (3, 2)

    async def test_a_schedule_that_ends_has_no_timer_any_more(self, store: Store, make: Factory) -> None:
        """`Fire.timer` None: it never fires again."""
        job = make.recurring(make.now)
        await self.add(store, job)
        assert await self.fire_all(store, None) == 1
        assert (await store.upkeep.stats()).timers == 0
        assert (await self.job_row(store, job.job_id)).status is JobStatus.SCHEDULED
        executor = await self.register(store)
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        assert (await self.job_row(store, job.job_id)).status is JobStatus.COMPLETED

    async def test_a_run_that_exists_already_is_not_made_twice(self, store: Store, make: Factory) -> None:
        """Its name follows from its time: two schedules that meet there mean the same run."""
        job = make.recurring(make.now)
        await self.add(store, job)
        run = NewRun(run_id(job.job_id, make.now + 1.0), make.now + 1.0, Trigger.SCHEDULE)
        async with self.near(store, 1.0, 1) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + 1.0, runs=[run])]) == 1
        async with self.near(store, 2.0, 1) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + HOUR, runs=[run])]) == 0
        assert (await store.upkeep.stats()).queued == 1
        assert await self.due_timers(store, 2.0) == 0

    async def test_a_run_that_has_ended_already_is_not_made_again(self, store: Store, make: Factory) -> None:
        """Neither by a late scheduler nor by a repeated plan."""
        job, executor = make.recurring(make.now), await self.register(store)
        await self.add(store, job)
        run = NewRun(run_id(job.job_id, make.now), make.now, Trigger.SCHEDULE)
        async with self.near(store, 1.0, 1) as batch:
            [timer] = batch.timers
            await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + 1.0, runs=[run])])
        [claimed] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(claimed))
        async with self.near(store, 2.0, 1) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + HOUR, runs=[run])]) == 0
        assert await self.run_state(store, run.run_id) is RunState.SUCCESS
        assert list(await self.claim_freed(store, executor)) == []

    async def test_a_commit_that_was_in_doubt_and_is_decided_again_makes_nothing_twice(
        self, store: Store, make: Factory
    ) -> None:
        """A second scheduler decides from what it saw before the first one's commit: the timer has moved on."""
        job = make.recurring(make.now)
        await self.add(store, job, make.recurring(make.now))
        async with self.near(store, 1.0, 1) as batch:
            seen = {timer.job_id: timer for timer in batch.timers}
        assert await self.fire_all(store, make.now + 1.5) == 2
        async with self.near(store, 2.0, 100) as batch:
            stale = [make.fire(job_id, timer.pending.due, make.now + HOUR) for job_id, timer in seen.items()]
            assert await batch.commit(stale) == 0
        assert (await store.upkeep.stats()).queued == 2
        assert await self.due_timers(store, 2.0) == 2

    async def test_a_fire_for_another_time_than_the_timers_is_left_alone(self, store: Store, make: Factory) -> None:
        """The timer was changed meanwhile: none of the runs are made, and the new plan stands."""
        job = make.recurring(make.now + 1.0)
        await self.add(store, job)
        async with self.near(store, 2.0, 1) as batch:
            assert await batch.commit([make.fire(job.job_id, make.now + 0.5, make.now + HOUR)]) == 0
        assert (await store.upkeep.stats()).queued == 0
        assert await self.due_timers(store, 2.0) == 1

    async def test_a_pause_during_a_decision_leaves_nothing_to_run(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """In either order: afterwards the timer is held back and the job has no run to come."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        async with self.near(store, 61.0, 1) as batch:
            [timer] = batch.timers
            pause = asyncio.create_task(other.jobs.move(make.move(job.job_id, JobAction.PAUSE)))
            await asyncio.wait([pause], timeout=0.05)
            await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + HOUR)])
        row = await pause
        assert row.status is JobStatus.PAUSED
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.next_run_at) == (JobStatus.PAUSED, None)
        assert row.timer is not None
        assert (row.timer.hold, row.timer.due) == (Hold.PAUSED, NEVER)
        # Made before the pause, it is on record as skipped; not made, it is the first that is held back.
        assert await self.run_state(store, run_id(job.job_id, timer.pending.due)) in (RunState.SKIPPED, None)
        assert (await store.upkeep.stats()).queued == 0
        assert await self.due_timers(store, 10 * HOUR) == 0

    async def test_an_edit_during_a_decision_reaches_the_run_that_is_just_being_made(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """In either order: no run executes a definition that was replaced before its claim."""
        job = make.recurring(make.now + 1.0, definition='{"n":1}')
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        async with self.near(store, 2.0, 1) as batch:
            edit = asyncio.create_task(other.jobs.change(make.change(row, definition='{"n":2}', lane=lane(9))))
            await asyncio.wait([edit], timeout=0.05)
            assert await batch.commit([self.decide(batch, job.job_id, make.now + HOUR)]) == 1
        assert (await edit).version == 2
        [claimed] = await self.claim_freed(store, await self.register(store))
        assert claimed.spec == '{"n":2}'
        assert (await store.upkeep.stats()).timers == 1

    # ------------------------------------------------------------------------------------------- shortcuts

    def decide(self, batch: TakenBatch, job_id: UUID, timer: float | None) -> Fire:
        """One run at the timer's due time, and when again."""
        [due] = [taken.pending.due for taken in batch.timers if taken.job_id == job_id]
        goes = None if timer is None else TimerState(timer)
        return Fire(job_id, due, goes, [NewRun(run_id(job_id, due), due, Trigger.SCHEDULE)])

    async def fire_all(self, store: Store, timer: float | None) -> int:
        """Decide on all that is due within a second."""
        async with self.near(store, 1.0, 100) as batch:
            return await batch.commit([self.decide(batch, taken.job_id, timer) for taken in batch.timers])

    async def due_timers(self, store: Store, horizon_seconds: float) -> int:
        """The number of recurring jobs that wait for a decision."""
        async with self.near(store, horizon_seconds, 100) as batch:
            return len(batch.timers)
