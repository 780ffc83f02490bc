"""Requests about single occurrences and runs: skip one, move one, make some, end some."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap, SkipReason, TimerState
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import CancelKind, JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import CancelRequest, JobAction, NewJob, RunPostpone, RunSkip, Store
from tickwise.testing.contracts.base import StoreContract, instants, microseconds
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0


class OccurrenceMovesContract(StoreContract):
    """`jobs.move` (`OccurrenceMove`)."""

    async def recurring(self, store: Store, make: Factory) -> tuple[NewJob, TimerState]:
        """A job that fires next in an hour, and its timer."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        timer = (await self.job_row(store, job.job_id)).timer
        assert timer is not None
        return job, timer

    async def test_the_next_occurrence_can_be_skipped(self, store: Store, make: Factory) -> None:
        """It goes on record, and the timer goes to the one after it."""
        job, stands = await self.recurring(store, make)
        skip = make.skip(job.job_id, make.now + HOUR, reason=SkipReason.REQUESTED, error="skipped by ada")
        following = TimerState(make.now + 2 * HOUR, fired=3)
        await store.jobs.move(make.occurrence(job.job_id, stands, following, skip=skip))
        row = await self.run_row(store, skip.run_id)
        assert (row.state, row.reason, row.error) == (RunState.SKIPPED, "requested", "skipped by ada")
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(following)

    async def test_the_next_occurrence_can_be_put_off(self, store: Store, make: Factory) -> None:
        """It keeps its name and its nominal time; the schedule goes on as it is."""
        job, stands = await self.recurring(store, make)
        run = make.scheduled(job.job_id, make.now + 90 * 60.0, nominal=make.now + HOUR, overlap=Overlap.QUEUE_ALL)
        following = TimerState(make.now + 2 * HOUR)
        await store.jobs.move(make.occurrence(job.job_id, stands, following, run=run))
        row = await self.run_row(store, run.run_id)
        assert (row.state, row.trigger) == (RunState.QUEUED, Trigger.SCHEDULE)
        assert microseconds(row.nominal_at) == microseconds(make.now + HOUR)
        assert microseconds(row.due_at) == microseconds(make.now + 90 * 60.0)
        told = await self.job_row(store, job.job_id)
        assert (microseconds(told.next_run_at), told.version) == (microseconds(row.due_at), 2)

    async def test_of_several_one_is_put_off_and_the_others_go_on_record(self, store: Store, make: Factory) -> None:
        """In one step, and once though it is repeated: the job's version counts it once."""
        job, stands = await self.recurring(store, make)
        run = make.scheduled(job.job_id, make.now + 5 * HOUR, nominal=make.now + HOUR)
        skip = make.skip(job.job_id, make.now + 2 * HOUR, reason=SkipReason.CALENDAR)
        move = make.occurrence(job.job_id, stands, TimerState(make.now + 4 * HOUR), run=run, skip=skip)
        for _ in range(2):
            await store.jobs.move(move)
        assert await self.run_state(store, run.run_id) is RunState.QUEUED
        assert await self.run_state(store, skip.run_id) is RunState.SKIPPED
        told = await self.job_row(store, job.job_id)
        assert (instants(told.timer), told.version) == (instants(TimerState(make.now + 4 * HOUR)), 2)

    async def test_what_is_passed_over_goes_on_record_with_the_move(self, store: Store, make: Factory) -> None:
        """Each record once, though the move is repeated; and with none of the move if another one came first."""
        job, stands = await self.recurring(store, make)
        passed = [make.skip(job.job_id, make.now + hours * HOUR, reason=SkipReason.CALENDAR) for hours in (1, 2)]
        skip = make.skip(job.job_id, make.now + 3 * HOUR)
        move = replace(make.occurrence(job.job_id, stands, TimerState(make.now + 4 * HOUR), skip=skip), passed=passed)
        for _ in range(2):
            await store.jobs.move(move)
        records = [(await self.run_row(store, each.run_id)).reason for each in (*passed, skip)]
        assert records == [SkipReason.CALENDAR, SkipReason.CALENDAR, skip.reason]
        late = make.skip(job.job_id, make.now + 5 * HOUR)
        with pytest.raises(VersionConflict):
            await store.jobs.move(replace(move, skip=None, passed=[late], timer=TimerState(make.now + 6 * HOUR)))
        assert await self.run_state(store, late.run_id) is None
        assert (await self.job_row(store, job.job_id)).version == 2

    async def test_the_last_occurrence_leaves_no_timer(self, store: Store, make: Factory) -> None:
        """Skipped, there is nothing to come."""
        job, stands = await self.recurring(store, make)
        await store.jobs.move(make.occurrence(job.job_id, stands, None, skip=make.skip(job.job_id, make.now + HOUR)))
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.timer, row.next_run_at) == (JobStatus.COMPLETED, None, None)

    async def test_the_fire_of_a_one_time_job_can_be_put_off(self, store: Store, make: Factory) -> None:
        """It becomes a run, and its timer is gone."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        stands = (await self.job_row(store, job.job_id)).timer
        assert stands is not None
        run = make.scheduled(job.job_id, make.now + 2 * HOUR, nominal=make.now + HOUR)
        await store.jobs.move(make.occurrence(job.job_id, stands, None, run=run))
        assert run.run_id == job.run_id
        assert await self.run_state(store, run.run_id) is RunState.QUEUED
        await self.shift(store, HOUR)
        assert (await store.timers.fire(10.0, 10)).timers == 0

    async def test_a_timer_that_moved_on_is_not_moved(self, store: Store, make: Factory) -> None:
        """In any part: decided since, edited, paused. Nothing of the move is made."""
        job, stands = await self.recurring(store, make)
        skip = make.skip(job.job_id, make.now + HOUR)
        others = [
            stands._replace(due=stands.due + 0.000001),
            stands._replace(fired=1),
            held(stands.due),
            held(stands.due, stands.due),
        ]
        for expected in others:
            with pytest.raises(VersionConflict):
                await store.jobs.move(make.occurrence(job.job_id, expected, TimerState(make.now + 9 * HOUR), skip=skip))
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(stands)
        assert await self.run_state(store, skip.run_id) is None

    async def test_a_job_without_a_timer_has_no_occurrence_to_move(self, store: Store, make: Factory) -> None:
        """It is another timer than the one that was seen: none."""
        job, stands = await self.recurring(store, make)
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), replan=make.plan()))
        with pytest.raises(VersionConflict):
            await store.jobs.move(make.occurrence(job.job_id, stands, TimerState(make.now + 2 * HOUR)))
        assert (await self.job_row(store, job.job_id)).timer is None

    async def test_a_move_in_doubt_may_be_repeated(self, store: Store, make: Factory) -> None:
        """It is done, so it is answered as done; nothing is moved twice."""
        job, stands = await self.recurring(store, make)
        skip = make.skip(job.job_id, make.now + HOUR)
        move = make.occurrence(job.job_id, stands, TimerState(make.now + 2 * HOUR), skip=skip)
        for _ in range(2):
            await store.jobs.move(move)
        timer = (await self.job_row(store, job.job_id)).timer
        assert instants(timer) == instants(TimerState(make.now + 2 * HOUR))

    async def test_of_many_who_move_one_occurrence_one_does(self, store: Store, other: Store, make: Factory) -> None:
        """The others hear that it is another by now."""
        job, stands = await self.recurring(store, make)
        moves = [
            make.occurrence(
                job.job_id,
                stands,
                TimerState(make.now + (2 + number) * HOUR),
                run=make.scheduled(job.job_id, make.now + HOUR + number),
            )
            for number in range(6)
        ]
        answers = await asyncio.gather(
            *(client.jobs.move(move) for client, move in zip([store, other] * 3, moves, strict=True)),
            return_exceptions=True,
        )
        assert sorted(isinstance(answer, VersionConflict) for answer in answers) == [False] + [True] * 5
        made = [move for move, answer in zip(moves, answers, strict=True) if not isinstance(answer, BaseException)]
        assert (await store.upkeep.stats()).queued == 1
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(made[0].timer)

    async def test_a_move_during_a_decision_is_made_once(self, store: Store, other: Store, make: Factory) -> None:
        """In either order: the occurrence is skipped, or it was fired and the move is refused."""
        job, stands = await self.recurring(store, make)
        skip = make.skip(job.job_id, make.now + HOUR)
        move = make.occurrence(job.job_id, stands, TimerState(make.now + 2 * HOUR), skip=skip)
        async with self.near(store, 2 * HOUR) as batch:
            moving = asyncio.create_task(other.jobs.move(move))
            await asyncio.wait([moving], timeout=0.05)
            made = await batch.commit([make.fire(job.job_id, stands.due, make.now + 3 * HOUR)])
        [answer] = await asyncio.gather(moving, return_exceptions=True)
        assert isinstance(answer, VersionConflict) == bool(made)
        state = await self.run_state(store, skip.run_id)
        assert state is (RunState.QUEUED if made else RunState.SKIPPED)

    async def test_what_is_not_there_cannot_be_moved(self, store: Store, make: Factory) -> None:
        """Nor what is another's; a cancelled job is a conflict."""
        job, stands = await self.recurring(store, make)
        for elsewhere in (
            make.occurrence(make.identifier(), stands, None),
            make.occurrence(job.job_id, stands, None, namespace="elsewhere"),
        ):
            with pytest.raises(NotFound):
                await store.jobs.move(elsewhere)
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(stands)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        with pytest.raises(Conflict):
            await store.jobs.move(make.occurrence(job.job_id, stands, None))


class RunRequestsContract(StoreContract):
    """`runs.move` (`RunSkip`, `RunPostpone`), `runs.cancel_all`, and `runs.add` with many."""

    async def made(self, store: Store, make: Factory, ahead: float = 60.0) -> tuple[UUID, UUID]:
        """A recurring job and the run that its schedule made: free, and not yet due."""
        job = make.recurring(make.now)
        await self.add(store, job)
        run = make.scheduled(job.job_id, make.now + ahead)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + HOUR, runs=[run])])
        return job.job_id, run.run_id

    # ------------------------------------------------------------------------------------------- skipping

    async def test_a_free_run_is_skipped_at_once(self, store: Store, make: Factory) -> None:
        """With what was said of it; due or not."""
        for ahead in (60.0, -60.0):
            _, run = await self.made(store, make, ahead)
            assert await store.runs.move(RunSkip("default", run, "skipped by ada")) is RunState.SKIPPED
            row = await self.run_row(store, run)
            assert (row.state, row.reason, row.error) == (RunState.SKIPPED, "requested", "skipped by ada")
            assert (row.attempt, row.executor, row.started_at) == (0, None, None)
            assert list(await store.runs.attempts(run)) == []
        assert list(await self.claim_freed(store, await self.register(store), ahead_seconds=HOUR)) == []

    @pytest.mark.parametrize("way", ["revoked", "given back", "left", "lost"])
    async def test_a_held_run_is_skipped_when_it_comes_back(self, store: Store, make: Factory, way: str) -> None:
        """Its holder is asked for it as for any other that is not wanted now."""
        _, run = await self.made(store, make)
        executor = await self.register(store)
        [claimed] = await self.claim(store, executor, ahead_seconds=120.0)
        assert await store.runs.move(RunSkip("default", run, "skipped by ada")) is RunState.DISPATCHED
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.REVOKE)]
        if way == "left":
            await store.executors.leave(executor)
        elif way == "lost":
            await self.expire(store, executor)
        else:
            state = RunState.SKIPPED if way == "revoked" else RunState.QUEUED
            reason = "revoked" if way == "revoked" else None
            assert await self.finish(store, executor, outcome(claimed, state, reason=reason)) == []
        row = await self.run_row(store, run)
        assert (row.state, row.reason, row.error) == (RunState.SKIPPED, "requested", "skipped by ada")
        assert list(await store.runs.attempts(run)) == []

    async def test_what_has_begun_is_not_skipped(self, store: Store, make: Factory) -> None:
        """Now, or in an attempt before, or without anybody having heard of it yet."""
        executor = await self.register(store, lease_seconds=HOUR)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        assert await store.runs.move(RunSkip("default", claimed.run_id, "too late")) is RunState.RUNNING
        assert await self.cancels(store, executor) == []
        await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=make.now + HOUR))
        assert await store.runs.move(RunSkip("default", claimed.run_id, "too late")) is RunState.RETRYING
        quick = await self.held(store, executor, make.job())
        await store.runs.move(RunSkip("default", quick.run_id, "too late"))
        assert await self.finish(store, executor, outcome(quick)) == []
        assert await store.runs.move(RunSkip("default", quick.run_id, "too late")) is RunState.SUCCESS
        assert await self.run_state(store, quick.run_id) is RunState.SUCCESS

    async def test_what_was_lost_after_its_start_is_not_skipped(self, store: Store, make: Factory) -> None:
        """It waits to run again, and a person can cancel it."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await self.expire(store, executor)
        assert await store.runs.move(RunSkip("default", claimed.run_id, "too late")) is RunState.QUEUED
        [again] = await self.claim_freed(store, await self.register(store, "next"))
        assert again.run_id == claimed.run_id

    async def test_a_skip_outlives_a_new_plan_that_has_the_run(self, store: Store, make: Factory) -> None:
        """An edit does not bring back what a person did not want."""
        job_id, run = await self.made(store, make)
        executor = await self.register(store)
        [claimed] = await self.claim(store, executor, ahead_seconds=120.0)
        await store.runs.move(RunSkip("default", run, "skipped by ada"))
        plan = make.plan(make.now + HOUR, keep_dues=[claimed.nominal])
        await store.jobs.change(make.change(await self.job_row(store, job_id), replan=plan))
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.REVOKE)]

    async def test_skipping_twice_is_skipping_once(self, store: Store, make: Factory) -> None:
        """The first word stays."""
        _, run = await self.made(store, make)
        for error in ("first", "second"):
            assert await store.runs.move(RunSkip("default", run, error)) is RunState.SKIPPED
            assert (await self.run_row(store, run)).error == "first"

    # ------------------------------------------------------------------------------------------- putting off

    async def test_a_free_run_can_be_put_off(self, store: Store, make: Factory) -> None:
        """It is claimable at its new time and keeps its nominal one; twice is once."""
        _, run = await self.made(store, make, 1.0)
        for _ in range(2):
            assert await store.runs.move(RunPostpone("default", run, make.now + 90.000001)) is RunState.QUEUED
            row = await self.run_row(store, run)
            assert microseconds(row.due_at) == microseconds(row.ready_at) == microseconds(make.now + 90.000001)
            assert microseconds(row.nominal_at) == microseconds(make.now + 1.0)
        executor = await self.register(store, lease_seconds=HOUR)
        await self.shift(store, 30.0)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 61.0)
        [claimed] = await self.claim_freed(store, executor)
        assert microseconds(claimed.due) == microseconds(make.now + 90.000001)
        assert microseconds(claimed.nominal) == microseconds(make.now + 1.0)

    async def postponed(self, store: Store, make: Factory) -> tuple[UUID, UUID]:
        """A job, and a run of its schedule that was put off from 1 s ahead to an hour ahead."""
        job_id, run = await self.made(store, make, 1.0)
        assert await store.runs.move(RunPostpone("default", run, make.now + HOUR)) is RunState.QUEUED
        return job_id, run

    @pytest.mark.parametrize("seconds", [60.0, 2 * HOUR], ids=["before its time", "after its time"])
    async def test_a_pause_holds_back_a_postponed_run(self, store: Store, make: Factory, seconds: float) -> None:
        """A person gave it its time. It cannot be claimed while the job is paused, and a resume loses nothing: it runs
        at its time, or at once if that has passed."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        paused = await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        row = await self.run_row(store, run)
        assert (paused.next_run_at, row.state, row.blocked, row.ready_at) == (None, RunState.QUEUED, False, None)
        await self.shift(store, seconds)
        assert list(await self.claim(store, executor, ahead_seconds=9 * HOUR)) == []
        plan = make.plan(make.now + 5 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.RESUME, plan, postponed_after_seconds=0.0))
        due = microseconds((await self.run_row(store, run)).due_at)
        assert due == microseconds(make.now + HOUR)
        await self.shift(store, max(seconds, HOUR + 1.0))
        assert [each.run_id for each in await self.claim_freed(store, executor)] == [run]

    async def test_a_pause_that_ends_by_itself_lets_a_postponed_run_go(self, store: Store, make: Factory) -> None:
        """At the end of the pause. A pause that is set again has the last word."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        until = make.now + 2 * HOUR
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, until=until, postponed_after_seconds=0.0))
        assert microseconds((await self.run_row(store, run)).ready_at) == microseconds(until)
        await self.shift(store, 2 * HOUR - 60.0)
        assert list(await self.claim(store, executor)) == []
        await self.shift(store, 2 * HOUR + 1.0)
        assert [each.run_id for each in await self.claim_freed(store, executor)] == [run]

    async def test_a_held_postponed_run_comes_back_and_waits(self, store: Store, make: Factory) -> None:
        """Its holder gives it back, and nobody has it before the pause is over."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        [claimed] = await self.claim(store, executor, ahead_seconds=2 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.RETURN)]
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        assert (await self.run_row(store, run)).ready_at is None
        assert list(await self.claim(store, executor, ahead_seconds=9 * HOUR)) == []
        plan = make.plan(make.now + 5 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.RESUME, plan, postponed_after_seconds=0.0))
        await self.shift(store, HOUR + 1.0)
        assert [each.run_id for each in await self.claim_freed(store, executor)] == [run]

    async def test_a_run_that_is_postponed_in_a_pause_waits_for_its_end(self, store: Store, make: Factory) -> None:
        """The pause came between the look of the caller and the request: it holds, and its end lets the run go."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        assert await store.runs.move(RunPostpone("default", run, make.now + 2 * HOUR)) is RunState.QUEUED
        row = await self.run_row(store, run)
        assert (row.ready_at, microseconds(row.due_at)) == (None, microseconds(make.now + 2 * HOUR))
        assert list(await self.claim(store, executor, ahead_seconds=9 * HOUR)) == []
        until = make.now + 3 * HOUR
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, until=until, postponed_after_seconds=0.0))
        assert await store.runs.move(RunPostpone("default", run, make.now + HOUR)) is RunState.QUEUED
        assert microseconds((await self.run_row(store, run)).ready_at) == microseconds(until)
        plan = make.plan(make.now + 5 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.RESUME, plan, postponed_after_seconds=0.0))
        assert [each.run_id for each in await self.claim(store, executor, ahead_seconds=2 * HOUR)] == [run]

    async def test_a_pause_that_is_prolonged_asks_back_what_was_claimed_for_its_end(
        self, store: Store, make: Factory
    ) -> None:
        """The time of the run itself has passed. It would begin with the end that the pause had."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        until = make.now + 2 * HOUR
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, until=until, postponed_after_seconds=0.0))
        await self.shift(store, 2 * HOUR - 60.0)
        [claimed] = await self.claim(store, executor, ahead_seconds=60.0)
        assert microseconds(claimed.ready) == microseconds(until)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.RETURN)]
        assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED, started=0.0)) == []
        assert (await self.run_row(store, run)).ready_at is None

    async def test_a_pause_does_not_bring_back_what_somebody_skipped(self, store: Store, make: Factory) -> None:
        """The holder of a postponed run was asked to give it up for good, and has not heard it yet."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        [claimed] = await self.claim(store, executor, ahead_seconds=2 * HOUR)
        assert await store.runs.move(RunSkip("default", run, "skipped by ada")) is RunState.DISPATCHED
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.REVOKE)]
        assert await self.finish(store, executor, outcome(claimed, RunState.SKIPPED, reason="revoked")) == []
        row = await self.run_row(store, run)
        assert (row.state, row.reason, row.error) == (RunState.SKIPPED, "requested", "skipped by ada")

    async def test_a_queue_that_goes_on_ends_no_pause(self, store: Store, make: Factory) -> None:
        """A postponed run that was asked back for a pause still is when its queue is resumed."""
        job_id, run = await self.postponed(store, make)
        executor = await self.register(store, lease_seconds=9 * HOUR)
        await self.claim(store, executor, ahead_seconds=2 * HOUR)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE, postponed_after_seconds=0.0))
        await store.queues.hold(make.hold())
        await store.queues.resume("default", "default")
        assert await self.cancels(store, executor) == [CancelRequest(run, CancelKind.RETURN)]

    async def test_what_is_no_longer_free_is_not_put_off(self, store: Store, make: Factory) -> None:
        """Held, begun, retrying, ended."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for begins in (False, True):
            if begins:
                await self.begin(store, executor, claimed)
            with pytest.raises(Conflict):
                await store.runs.move(RunPostpone("default", claimed.run_id, make.now + HOUR))
        await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now))
        with pytest.raises(Conflict):
            await store.runs.move(RunPostpone("default", claimed.run_id, make.now + HOUR))
        [again] = await self.claim_freed(store, executor)
        await self.finish(store, executor, outcome(again))
        with pytest.raises(Conflict):
            await store.runs.move(RunPostpone("default", claimed.run_id, make.now + HOUR))
        assert microseconds((await self.run_row(store, claimed.run_id)).due_at) == microseconds(claimed.due)

    async def test_what_was_lost_after_its_start_is_not_put_off(self, store: Store, make: Factory) -> None:
        """It has begun."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await self.expire(store, executor)
        with pytest.raises(Conflict):
            await store.runs.move(RunPostpone("default", claimed.run_id, make.now + HOUR))

    async def test_a_run_that_is_not_there_is_neither_skipped_nor_put_off(self, store: Store, make: Factory) -> None:
        """Nor another's, active or ended."""
        executor = await self.register(store)
        ended = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(ended))
        _, active = await self.made(store, make)
        nothing = make.identifier()
        for namespace, run in (("default", nothing), ("elsewhere", ended.run_id), ("elsewhere", active)):
            with pytest.raises(NotFound):
                await store.runs.move(RunSkip(namespace, run, "why"))
            with pytest.raises(NotFound):
                await store.runs.move(RunPostpone(namespace, run, make.now + HOUR))
        assert await self.run_state(store, active) is RunState.QUEUED

    @pytest.mark.parametrize("ask", ["skip", "postpone"])
    async def test_a_request_and_a_claim_at_the_same_time_end_in_one_of_two_ways(
        self, store: Store, other: Store, make: Factory, ask: str
    ) -> None:
        """It was in time and the run is not claimed; or it was not, and the holder goes on, or hears of it."""
        executor = await self.register(store)
        jobs = [make.job() for _ in range(20)]
        await self.add(store, *jobs)
        runs = [job.run_id for job in jobs if job.run_id is not None]

        async def in_time(run: UUID) -> bool:
            if ask == "skip":
                return await other.runs.move(RunSkip("default", run, "not this one")) is RunState.SKIPPED
            try:
                return await other.runs.move(RunPostpone("default", run, make.now + HOUR)) is RunState.QUEUED
            except Conflict:
                return False

        claiming = asyncio.create_task(self.claim(store, executor))
        answers = await asyncio.gather(*(in_time(run) for run in runs))
        claimed = {claimed.run_id for claimed in await claiming}
        assert {run for run, answer in zip(runs, answers, strict=True) if not answer} == claimed
        asked = {request.run_id for request in await self.cancels(store, executor)}
        assert asked == (claimed if ask == "skip" else set())

    # ------------------------------------------------------------------------------------------- many at once

    async def test_many_runs_are_made_at_once(self, store: Store, make: Factory) -> None:
        """A backfill: in order, each with its nominal time and the id that they share, once."""
        job, origin, executor = make.recurring(make.now + HOUR), make.identifier(), await self.register(store)
        await self.add(store, job)
        runs = [
            make.run(job.job_id, make.now - ago, trigger=Trigger.BACKFILL, nominal=make.now - ago, origin=origin)
            for ago in (300.0, 200.0, 100.0)
        ]
        for _ in range(2):
            assert await store.runs.add("default", job.job_id, runs) is True
        assert (await store.upkeep.stats()).queued == 3
        claims = await self.claim_freed(store, executor)
        assert {claimed.run_id for claimed in claims} == {run.run_id for run in runs}
        for run in runs:
            row = await self.run_row(store, run.run_id)
            assert (row.trigger, row.origin) == (Trigger.BACKFILL, origin)
            assert microseconds(row.nominal_at) == microseconds(run.nominal)
            assert make.now - 0.001 <= row.due_at <= await store.now()

    async def test_many_runs_of_a_cancelled_job_are_none(self, store: Store, make: Factory) -> None:
        """All or nothing."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        assert await store.runs.add("default", job.job_id, [make.run(job.job_id) for _ in range(3)]) is False
        assert (await store.upkeep.stats()).queued == 0

    async def test_no_runs_are_no_request(self, store: Store, make: Factory) -> None:
        """And no error."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        assert await store.runs.add("default", job.job_id, []) is True

    async def test_all_runs_of_one_origin_are_cancelled_together(self, store: Store, make: Factory) -> None:
        """Free ones at once, held ones by their holder; ended ones and others are left alone."""
        job, origin, executor = (
            make.recurring(make.now + HOUR),
            make.identifier(),
            await self.register(store, lease_seconds=HOUR),
        )
        await self.add(store, job)
        kinds = {"trigger": Trigger.BACKFILL, "origin": origin}
        runs = [
            make.run(job.job_id, make.now + ahead, nominal=make.now + ahead, **kinds) for ahead in (0, 60, 120, 180)
        ]
        others = [make.run(job.job_id), make.run(job.job_id, trigger=Trigger.BACKFILL, origin=make.identifier())]
        await store.runs.add("default", job.job_id, [*runs, *others])
        await self.shift(store, 150.0)
        claims = {claimed.run_id: claimed for claimed in await self.claim(store, executor)}
        await self.finish(store, executor, outcome(claims[runs[0].run_id]))
        await self.finish(store, executor, outcome(claims[runs[1].run_id], RunState.RETRYING, retry_at=make.now + HOUR))
        assert await store.runs.cancel_all("default", job.job_id, origin, principal="grace") == 3
        assert await self.cancels(store, executor) == [CancelRequest(runs[2].run_id, CancelKind.CANCEL)]
        states = [await self.run_state(store, run.run_id) for run in runs]
        assert states == [RunState.SUCCESS, RunState.CANCELLED, RunState.DISPATCHED, RunState.CANCELLED]
        row = await self.run_row(store, runs[3].run_id)
        assert (row.reason, row.error) == ("cancelled", "cancelled by grace")
        assert [await self.run_state(store, run.run_id) for run in others] == [RunState.DISPATCHED] * 2
        await self.finish(store, executor, outcome(claims[runs[2].run_id], RunState.CANCELLED, reason="cancelled"))
        assert await store.runs.cancel_all("default", job.job_id, origin, principal="grace") == 0

    async def test_runs_of_another_namespace_or_job_are_not_cancelled(self, store: Store, make: Factory) -> None:
        """There are none of that origin."""
        job, origin = make.recurring(make.now + HOUR), make.identifier()
        await self.add(store, job, stranger := make.recurring(make.now + HOUR))
        run = make.run(job.job_id, make.now, trigger=Trigger.BACKFILL, origin=origin)
        await store.runs.add("default", job.job_id, [run])
        for namespace, job_id in (
            ("elsewhere", job.job_id),
            ("default", stranger.job_id),
            ("default", make.identifier()),
        ):
            assert await store.runs.cancel_all(namespace, job_id, origin, principal="eve") == 0
        assert await self.run_state(store, run.run_id) is RunState.QUEUED
