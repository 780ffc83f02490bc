"""Pauses: paused timers, the runs of a paused job, and the way in which it goes on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.decision import NEVER, Hold, SkipReason, TimerState
from tickwise.domain.lifecycle import CancelKind, JobStatus, RunState
from tickwise.domain.model import Claimed, Trigger, run_id
from tickwise.ports.store import CancelRequest, JobAction, NewRun, RunCancel, Store
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract, instants, microseconds
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0
YEARS_SECONDS = 10 * 365 * DAY_SECONDS


class HoldsContract(StoreContract):
    """Timers of paused jobs."""

    async def paused(self, store: Store, make: Factory, **fields: Any) -> UUID:
        """A paused job whose first occurrence would have been in an hour."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, **fields))
        return job.job_id

    async def stands(self, store: Store, job_id: UUID) -> tuple[object, ...] | None:
        """The position of a job's timer."""
        return instants((await self.job_row(store, job_id)).timer)

    async def test_a_pause_holds_the_timer_back_from_where_it_stands(self, store: Store, make: Factory) -> None:
        """Its next occurrence is the first that is not on record; there is no time at which it goes on."""
        job_id = await self.paused(store, make)
        assert await self.stands(store, job_id) == instants(held(make.now + HOUR))

    async def test_a_pause_with_an_end_wakes_the_timer_then(self, store: Store, make: Factory) -> None:
        """To be decided: what fell into the pause goes on record."""
        until = make.now + 2 * HOUR + 0.000001
        job_id = await self.paused(store, make, until=until)
        assert await self.stands(store, job_id) == instants(held(make.now + HOUR, until))
        async with self.near(store, HOUR + 10.0) as batch:
            assert list(batch.timers) == []
        async with self.near(store, 3 * HOUR) as batch:
            [timer] = batch.timers
            assert instants(timer.pending) == instants(held(make.now + HOUR, until))

    async def test_what_a_timer_has_counted_outlives_a_pause(self, store: Store, make: Factory) -> None:
        """Runs that were made are made."""
        job = make.recurring(make.now)
        await self.add(store, job)
        counted = TimerState(make.now + HOUR, fired=7, minute=make.now, in_minute=3)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, counted)])
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        row = await self.job_row(store, job.job_id)
        assert row.timer is not None
        assert (row.timer.fired, row.timer.hold) == (7, Hold.PAUSED)

    async def test_what_a_calendar_holds_back_is_held_back_from_there(self, store: Store, make: Factory) -> None:
        """Nothing between is forgotten: the occurrences that waited for the opening wait for the resume."""
        job = make.recurring(make.now)
        await self.add(store, job)
        deferred = held(make.now + 1.0, make.now + HOUR, Hold.CALENDAR)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, deferred, runs=())])
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, until=make.now + 2 * HOUR))
        assert await self.stands(store, job.job_id) == instants(held(make.now + 1.0, make.now + 2 * HOUR))

    async def test_pausing_again_moves_the_end_and_never_the_beginning(self, store: Store, make: Factory) -> None:
        """A longer pause, one without an end, a shorter one: the same first occurrence."""
        job_id = await self.paused(store, make, until=make.now + 100.0)
        for until in (make.now + 2 * HOUR, None, make.now + 10.0):
            await store.jobs.move(make.move(job_id, JobAction.PAUSE, until=until))
            wakes = NEVER if until is None else until
            assert await self.stands(store, job_id) == instants(held(make.now + HOUR, wakes))

    async def test_a_timer_that_is_held_back_for_good_is_never_due(self, store: Store, make: Factory) -> None:
        """Not in ten years: nobody decides it, nothing is late, no next run is told."""
        job_id = await self.paused(store, make)
        await self.shift(store, YEARS_SECONDS)
        assert (await store.timers.fire(YEARS_SECONDS, 10)).timers == 0
        async with self.near(store, YEARS_SECONDS, once=True) as batch:
            assert list(batch.timers) == []
        row = await self.job_row(store, job_id)
        assert (row.status, row.next_run_at) == (JobStatus.PAUSED, None)
        stats = await store.upkeep.stats()
        assert (stats.timers, stats.timers_late_seconds) == (1, 0.0)

    async def test_one_that_is_held_back_for_good_hides_no_other(self, store: Store, make: Factory) -> None:
        """Neither from a decision nor from the figures."""
        await self.paused(store, make)
        due = make.recurring(make.now + 1.0)
        await self.add(store, due)
        await self.shift(store, 61.0)
        assert 59.0 < (await store.upkeep.stats()).timers_late_seconds < 160.0
        async with self.near(store) as batch:
            assert [timer.job_id for timer in batch.timers] == [due.job_id]

    async def test_without_a_pause_such_a_timer_is_none(self, store: Store, make: Factory) -> None:
        """A job that nothing will ever wake has nothing to come."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        plan = make.plan(held(make.now + HOUR))
        row = await store.jobs.change(make.change(await self.job_row(store, job.job_id), replan=plan))
        assert (row.status, row.next_run_at) == (JobStatus.COMPLETED, None)

    async def test_an_edit_of_a_paused_job_leaves_it_held_back(self, store: Store, make: Factory) -> None:
        """With a new plan, or with none."""
        job_id = await self.paused(store, make)
        row = await store.jobs.change(make.change(await self.job_row(store, job_id), name="changed"))
        assert instants(row.timer) == instants(held(make.now + HOUR))
        plan = make.plan(held(make.now + 2 * HOUR, fired=1))
        row = await store.jobs.change(make.change(row, replan=plan))
        assert (row.status, row.next_run_at) == (JobStatus.PAUSED, None)
        assert instants(row.timer) == instants(held(make.now + 2 * HOUR, fired=1))

    async def test_a_one_time_job_is_held_back_too(self, store: Store, make: Factory) -> None:
        """Its time comes and it does not run; when it wakes, it is decided."""
        job = make.job(make.now + 100.0)
        await self.add(store, job)
        assert job.run_id is not None
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, until=make.now + 600.0))
        await self.shift(store, 200.0)
        assert (await store.timers.fire(HOUR, 10)).timers == 0
        assert await self.run_state(store, job.run_id) is None
        async with self.near(store, 1_000.0) as batch:
            [timer] = batch.timers
            assert timer.run_id is None
            assert instants(timer.pending) == instants(held(make.now + 100.0, make.now + 600.0))

    async def test_a_one_time_job_that_is_resumed_fires_by_itself_again(self, store: Store, make: Factory) -> None:
        """Under the name that its plan gives, at once if it is near."""
        for ahead in (1.0, HOUR):
            job = make.job(make.now + 10.0)
            await self.add(store, job)
            await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
            name = run_id(job.job_id, make.now + ahead)
            plan = make.plan(make.now + ahead, recurring=False, run_id=name)
            row = await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))
            assert (row.status, microseconds(row.next_run_at)) == (
                JobStatus.SCHEDULED,
                microseconds(make.now + ahead),
            )
            assert (await self.run_state(store, name) is not None) == (ahead == 1.0)
        await self.shift(store, HOUR)
        assert (await store.timers.fire(1.0, 10)).timers == 1

    async def test_a_plan_that_is_held_back_has_no_name_for_its_fire(self, store: Store, make: Factory) -> None:
        """An edit of a paused one-time job: nothing fires by itself, however near."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        plan = make.plan(
            held(make.now + 1.0, make.now + 1.5), recurring=False, run_id=run_id(job.job_id, make.now + 1.0)
        )
        await store.jobs.change(make.change(row, replan=plan))
        assert (await store.timers.fire(10.0, 10)).timers == 0
        assert (await store.upkeep.stats()).queued == 0
        async with self.near(store, 10.0) as batch:
            assert [(timer.job_id, timer.run_id) for timer in batch.timers] == [(job.job_id, None)]

    async def test_a_job_without_a_timer_can_be_paused(self, store: Store, make: Factory) -> None:
        """There is nothing to hold back, and nothing comes of it."""
        job = make.recurring(make.now, never=True)._replace(due=None)
        await self.add(store, job)
        row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert (row.status, row.timer, row.next_run_at) == (JobStatus.PAUSED, None, None)
        row = await store.jobs.move(make.move(job.job_id, JobAction.RESUME, make.plan()))
        assert (row.status, row.timer) == (JobStatus.COMPLETED, None)

    async def test_a_pause_tells_who_wanted_it(self, store: Store, make: Factory) -> None:
        """The last who said so, for as long as it holds."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        assert (await self.job_row(store, job.job_id)).paused_by is None
        for who in ("ada", "grace"):
            row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, by=who, until=make.now + 60.0))
            assert row.paused_by == who
        assert (await store.jobs.change(make.change(row, name="changed"))).paused_by == "grace"
        await self.shift(store, 61.0)
        assert (await self.job_row(store, job.job_id)).paused_by is None
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, by="ada"))
        row = await store.jobs.move(make.move(job.job_id, JobAction.RESUME, make.plan(make.now + HOUR), by="eve"))
        assert row.paused_by is None

    # ------------------------------------------------------------------------------------------- resuming

    async def test_a_resumed_job_has_made_as_many_runs_as_before(self, store: Store, make: Factory) -> None:
        """The given plan may be older and does not count; the fuse's minute begins anew."""
        job = make.recurring(make.now)
        await self.add(store, job)
        counted = TimerState(make.now + HOUR, fired=7, minute=make.now, in_minute=3)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, counted)])
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        plan = make.plan(TimerState(make.now + 2 * HOUR, fired=2, minute=make.now, in_minute=9))
        row = await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))
        assert instants(row.timer) == instants(TimerState(make.now + 2 * HOUR, fired=7))

    async def test_what_fell_into_a_pause_goes_on_record_with_the_resume(self, store: Store, make: Factory) -> None:
        """One record with count and range, in the same transaction; twice is once."""
        job_id = await self.paused(store, make)
        await self.shift(store, 5 * HOUR)
        skip = make.skip(
            job_id, make.now + HOUR, until=make.now + 4 * HOUR, occurrences=4, reason=SkipReason.PAUSED, error="paused"
        )
        missed = make.run(job_id, make.now + 5 * HOUR, trigger=Trigger.MISSED)
        plan = make.plan(make.now + 6 * HOUR, skips=[skip], missed=[missed])
        for _ in range(2):
            await store.jobs.move(make.move(job_id, JobAction.RESUME, plan))
            row = await self.run_row(store, skip.run_id)
            assert (row.state, row.reason, row.occurrences) == (RunState.SKIPPED, "paused", 4)
            assert microseconds(row.until) == microseconds(make.now + 4 * HOUR)
            assert await self.run_state(store, missed.run_id) is RunState.QUEUED

    async def test_resuming_after_the_end_of_a_pause_changes_nothing(self, store: Store, make: Factory) -> None:
        """It was over by itself: the timer goes on as the scheduler decides."""
        job_id = await self.paused(store, make, until=make.now + 60.0)
        await self.shift(store, 61.0)
        before = await self.job_row(store, job_id)
        skip = make.skip(job_id, make.now + HOUR)
        late = make.move(job_id, JobAction.RESUME, make.plan(make.now + 9 * HOUR, skips=[skip]))
        assert await store.jobs.move(late) == before
        assert await self.run_state(store, skip.run_id) is None

    async def test_cancelling_a_paused_job_ends_the_hold(self, store: Store, make: Factory) -> None:
        """Nothing is left to wake."""
        job_id = await self.paused(store, make, until=make.now + 60.0)
        row = await store.jobs.move(make.move(job_id, JobAction.CANCEL))
        assert (row.status, row.timer, row.next_run_at) == (JobStatus.CANCELLED, None, None)
        assert (await store.upkeep.stats()).timers == 0


class PausedRunsContract(StoreContract):
    """Runs of a job that is paused before they are due."""

    async def planned(self, store: Store, make: Factory, *runs: NewRun) -> UUID:
        """A job whose schedule made a run for in a minute, or these of the same times."""
        job = make.recurring(make.now)
        await self.add(store, job)
        mine = [run._replace(run_id=run_id(job.job_id, run.nominal or run.due)) for run in runs]
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due
            made = mine or [make.scheduled(job.job_id, make.now + 60.0)]
            await batch.commit([make.fire(job.job_id, due, make.now + HOUR, runs=made)])
        return job.job_id

    async def claimed_ahead(self, store: Store, executor: int) -> Claimed:
        """The one run that is there, held for its due time."""
        [claimed] = await self.claim(store, executor, ahead_seconds=120.0)
        return claimed

    async def assert_skipped(self, store: Store, run: UUID) -> None:
        """It ended by the pause, and nothing of an attempt is told."""
        row = await self.run_row(store, run)
        assert (row.state, row.reason, row.executor) == (RunState.SKIPPED, "paused", None)
        assert (row.attempt, row.started_at, row.occurrences) == (0, None, 1)
        assert row.error
        assert row.ended_at is not None
        assert list(await store.runs.attempts(run)) == []

    async def test_a_free_run_that_is_not_due_ends_at_once(self, store: Store, make: Factory) -> None:
        """It is on record as paused, and stays so."""
        job_id = await self.planned(store, make)
        run = run_id(job_id, make.now + 60.0)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        await self.assert_skipped(store, run)
        plan = make.plan(make.now + 60.0, keep_dues=[make.now + 60.0])
        await store.jobs.move(make.move(job_id, JobAction.RESUME, plan))
        async with self.near(store, 61.0) as batch:
            assert await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None)]) == 0
        await self.assert_skipped(store, run)

    @pytest.mark.parametrize("way", ["revoked", "given back", "not known", "left", "lost"])
    async def test_a_held_run_that_is_not_due_ends_when_it_comes_back(
        self, store: Store, make: Factory, way: str
    ) -> None:
        """However it does; its holder is asked until then."""
        job_id, executor = await self.planned(store, make), await self.register(store)
        claimed = await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        for _ in range(2):
            assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.REVOKE)]
        assert await self.run_state(store, claimed.run_id) is RunState.DISPATCHED
        if way == "revoked":
            revoked = outcome(claimed, RunState.SKIPPED, reason="revoked")
            for _ in range(2):
                await self.finish(store, executor, revoked)
        elif way == "given back":
            assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        elif way == "not known":
            await store.executors.release_unknown(executor, [], await store.now())
        elif way == "left":
            await store.executors.leave(executor)
        else:
            await self.expire(store, executor)
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason, row.executor) == (RunState.SKIPPED, "paused", None)
        assert list(await store.runs.attempts(claimed.run_id)) == []
        assert list(await self.claim_freed(store, await self.register(store, "next"), ahead_seconds=120.0)) == []

    @pytest.mark.parametrize("recorded", [False, True])
    async def test_a_run_that_began_before_it_heard_goes_on(self, store: Store, make: Factory, recorded: bool) -> None:
        """The start may be on record or not: the run's own outcome stands."""
        job_id, executor = await self.planned(store, make), await self.register(store, lease_seconds=HOUR)
        claimed = await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        await self.shift(store, 61.0)
        if recorded:
            await self.begin(store, executor, claimed)
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    async def test_a_run_that_began_and_is_lost_runs_again(self, store: Store, make: Factory) -> None:
        """A pause stops what has not begun, nothing else."""
        job_id, executor = await self.planned(store, make), await self.register(store)
        claimed = await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        await self.begin(store, executor, claimed)
        await self.expire(store, executor)
        [again] = await self.claim_freed(store, await self.register(store, "next"), ahead_seconds=120.0)
        assert (again.run_id, again.attempt, again.crashes) == (claimed.run_id, 2, 1)

    async def test_what_waits_for_its_spread_time_ends_too(self, store: Store, make: Factory) -> None:
        """Its nominal time is over, its due time is not."""
        spread = make.scheduled(make.identifier(), make.now + 60.0, nominal=make.now)
        job_id = await self.planned(store, make, spread)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        await self.assert_skipped(store, run_id(job_id, make.now))

    async def test_what_is_due_goes_on(self, store: Store, make: Factory) -> None:
        """Free or held, it is none of the pause's business."""
        job_id, executor = await self.planned(store, make), await self.register(store, lease_seconds=HOUR)
        run = run_id(job_id, make.now + 60.0)
        await self.shift(store, 61.0)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        assert await self.run_state(store, run) is RunState.QUEUED
        claimed = await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        assert await self.cancels(store, executor) == []
        assert await self.finish(store, executor, outcome(claimed)) == []

    @pytest.mark.parametrize("trigger", [Trigger.RUN_NOW, Trigger.RETRY, Trigger.MISSED, Trigger.BACKFILL])
    async def test_what_people_asked_for_goes_on(self, store: Store, make: Factory, trigger: Trigger) -> None:
        """Though it is not yet due."""
        job_id = await self.planned(store, make)
        asked = make.run(job_id, make.now + 60.0, trigger=trigger)
        await store.runs.add("default", job_id, [asked])
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        assert await self.run_state(store, asked.run_id) is RunState.QUEUED

    async def test_a_resume_before_its_time_withdraws_the_request(self, store: Store, make: Factory) -> None:
        """A held run whose nominal time the plan keeps is wanted again, and runs."""
        job_id, executor = await self.planned(store, make), await self.register(store, lease_seconds=HOUR)
        claimed = await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        plan = make.plan(make.now + HOUR, keep_dues=[make.now + 60.0])
        await store.jobs.move(make.move(job_id, JobAction.RESUME, plan))
        assert await self.cancels(store, executor) == []
        assert await self.finish(store, executor, outcome(claimed, RunState.SKIPPED, reason="revoked")) == []
        assert await self.run_state(store, claimed.run_id) is RunState.QUEUED

    async def test_a_cancel_is_heard_before_a_pause(self, store: Store, make: Factory) -> None:
        """A cancel wins, whether the run has begun or not."""
        job_id, executor = await self.planned(store, make), await self.register(store)
        claimed = await self.claimed_ahead(store, executor)
        await store.runs.move(RunCancel("default", claimed.run_id, "grace"))
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.CANCEL)]
        await store.executors.leave(executor)
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.error) == (RunState.CANCELLED, "cancelled by grace")
