"""Pause, resume and cancel, of jobs and of single runs; and the way of a stop request to the executor that holds a
run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import CancelKind, JobStatus, RunState
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import CancelRequest, JobAction, NewJob, NewRun, RunCancel, Store
from tickwise.testing.contracts.base import StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class MovesContract(StoreContract):
    """`jobs.move` (`JobMove`)."""

    async def test_a_paused_job_has_no_next_run(self, store: Store, make: Factory) -> None:
        """And says why."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        answer = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="holidays"))
        row = await self.job_row(store, job.job_id)
        assert row == answer
        assert (row.status, row.pause_reason, row.pause_until) == (JobStatus.PAUSED, "holidays", None)
        assert (row.next_run_at, row.version) == (None, 2)
        assert (await store.timers.fire(10 * HOUR, 10)).timers == 0

    async def test_a_resumed_job_goes_on_by_its_new_plan(self, store: Store, make: Factory) -> None:
        """And nothing tells of the pause any more."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="holidays"))
        plan = make.plan(make.now + 2 * HOUR)
        row = await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))
        assert (row.status, row.pause_reason, row.pause_until) == (JobStatus.SCHEDULED, None, None)
        assert microseconds(row.next_run_at) == microseconds(make.now + 2 * HOUR)

    async def test_a_pause_with_an_end_is_over_by_itself(self, store: Store, make: Factory) -> None:
        """From that instant on the job is scheduled, and its timer wakes up to be decided."""
        job = make.recurring(make.now + 10.0)
        await self.add(store, job)
        until = make.now + 60.000001
        row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="snooze", until=until))
        assert (row.status, microseconds(row.pause_until)) == (JobStatus.PAUSED, microseconds(until))
        assert microseconds(row.next_run_at) == microseconds(until)
        await self.shift(store, 61.0)
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.pause_reason, row.pause_until) == (JobStatus.SCHEDULED, None, None)

    async def test_pausing_again_replaces_reason_and_end(self, store: Store, make: Factory) -> None:
        """The last word holds; the same word twice is the same as once."""
        job = make.recurring(make.now + 10.0)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="one", until=make.now + 60.0))
        pause = make.move(job.job_id, JobAction.PAUSE, reason="two")
        row = await store.jobs.move(pause)
        assert (row.pause_reason, row.pause_until) == ("two", None)
        again = await store.jobs.move(pause)
        assert (again.status, again.pause_reason, again.next_run_at) == (JobStatus.PAUSED, "two", None)

    async def test_a_pause_tells_since_when(self, store: Store, make: Factory) -> None:
        """Neither an edit nor a further pause begins it anew; a resume ends it, and so does its own end."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        assert (await self.job_row(store, job.job_id)).paused_at is None
        first = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="one"))
        assert first.paused_at is not None
        assert abs(first.paused_at - await store.now()) < 60.0
        await self.shift(store, 100.0)
        second = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, until=make.now + 200.0))
        edited = await store.jobs.change(make.change(second, name="changed"))
        assert [first.paused_at] * 2 == [second.paused_at, edited.paused_at]
        await self.shift(store, 150.0)
        assert (await self.job_row(store, job.job_id)).paused_at is None
        third = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert third.paused_at is not None
        assert third.paused_at > first.paused_at + 200.0
        plan = make.plan(make.now + 2 * HOUR)
        assert (await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))).paused_at is None

    @pytest.mark.parametrize("action", list(JobAction))
    async def test_a_plan_made_from_another_version_is_refused(
        self, store: Store, make: Factory, action: JobAction
    ) -> None:
        """Somebody edited the schedule meanwhile: decide again from what it is now."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, expected_version=1))
        before = await store.jobs.change(make.change(await self.job_row(store, job.job_id), name="changed"))
        plan = make.plan(make.now + 2 * HOUR)
        for version in (1, 2, 4):
            move = make.move(job.job_id, action, plan, expected_version=version, reason="other")
            with pytest.raises(VersionConflict):
                await store.jobs.move(move)
        assert await self.job_row(store, job.job_id) == before

    @pytest.mark.parametrize("action", list(JobAction))
    async def test_a_move_is_another_version_and_its_repeat_is_none(
        self, store: Store, make: Factory, action: JobAction
    ) -> None:
        """A caller that read the version before notices the change; a move in doubt, repeated from the same version,
        gets the first answer."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        if action is JobAction.RESUME:
            await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        before = await self.job_row(store, job.job_id)
        plan = make.plan(make.now + 2 * HOUR)
        move = make.move(
            job.job_id, action, plan, expected_version=before.version, reason="why", until=make.now + 60.5, by="ada"
        )
        first = await store.jobs.move(move)
        assert (first.version, first.status) != (before.version, before.status)
        assert first.version == before.version + 1
        assert await store.jobs.move(move) == first
        assert await store.jobs.move(replace(move, expected_version=None)) == first

    async def test_of_many_moves_of_one_version_one_is_made(self, store: Store, other: Store, make: Factory) -> None:
        """And no change of that version beside it: the others hear of it."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        pauses = [
            client.jobs.move(make.move(job.job_id, JobAction.PAUSE, expected_version=1, reason=f"pause {number}"))
            for number, client in enumerate([store, other] * 3)
        ]
        changes = [
            client.jobs.change(make.change(row, name=f"change {number}"))
            for number, client in enumerate([other, store] * 3)
        ]
        answers = await asyncio.gather(*pauses, *changes, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, VersionConflict)]
        [made] = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert (len(refused), made.version) == (11, 2)
        assert await self.job_row(store, job.job_id) == made

    async def test_resuming_what_is_not_paused_changes_nothing(self, store: Store, make: Factory) -> None:
        """So that a resume in doubt can be repeated, with a plan that is old by then."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        before = await self.job_row(store, job.job_id)
        missed = [make.run(job.job_id, make.now, trigger=Trigger.MISSED)]
        plan = make.plan(make.now + 5.0, missed=missed)
        assert await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan)) == before
        assert (await store.upkeep.stats()).queued == 0

    async def test_a_pause_leaves_alone_what_is_due(self, store: Store, make: Factory) -> None:
        """Its run goes on."""
        job, executor = make.recurring(make.now), await self.register(store)
        await self.add(store, job)
        due = NewRun(run_id(job.job_id, make.now), make.now, Trigger.SCHEDULE)
        async with self.near(store, 1.0, 1) as batch:
            [timer] = batch.timers
            await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + 60.0, runs=[due])])
        row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert row.status is JobStatus.PAUSED
        [claimed] = await self.claim_freed(store, executor)
        assert claimed.run_id == due.run_id
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert (await self.job_row(store, job.job_id)).status is JobStatus.PAUSED

    async def test_a_paused_job_stays_paused_when_it_is_edited(self, store: Store, make: Factory) -> None:
        """An edit is no resume."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        row = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="why"))
        row = await store.jobs.change(make.change(row, name="changed", replan=make.plan()))
        assert (row.status, row.pause_reason, row.name) == (JobStatus.PAUSED, "why", "changed")

    async def test_a_paused_job_can_be_run_now(self, store: Store, make: Factory) -> None:
        """It stays paused."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert await store.runs.add("default", job.job_id, [make.run(job.job_id)]) is True
        assert (await self.job_row(store, job.job_id)).status is JobStatus.PAUSED
        assert len(await self.claim_freed(store, await self.register(store))) == 1

    async def test_a_cancelled_job_has_nothing_to_come(self, store: Store, make: Factory) -> None:
        """Its timer goes, its waiting runs end with a record, whatever asked for them."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        runs = [make.run(job.job_id), make.run(job.job_id, make.now + 60.0)]
        for run in runs:
            await store.runs.add("default", job.job_id, [run])
        row = await store.jobs.move(make.move(job.job_id, JobAction.CANCEL, reason="no longer needed"))
        assert (row.status, row.next_run_at) == (JobStatus.CANCELLED, None)
        for run in runs:
            ended = await self.run_row(store, run.run_id)
            assert (ended.state, ended.reason, ended.executor) == (RunState.CANCELLED, "cancelled", None)
            assert ended.ended_at is not None
            assert list(await store.runs.attempts(run.run_id)) == []
        assert (await store.timers.fire(10 * HOUR, 10)).timers == 0
        assert list(await self.claim_freed(store, await self.register(store))) == []

    async def test_a_cancelled_job_asks_the_holders_of_its_runs_to_stop(self, store: Store, make: Factory) -> None:
        """Begun or not."""
        executor = await self.register(store)
        job = make.job()
        begun = await self.held(store, executor, job)
        await self.begin(store, executor, begun)
        await store.runs.add("default", job.job_id, [make.run(job.job_id)])
        [waiting] = await self.claim_freed(store, executor)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        expected = {CancelRequest(claimed.run_id, CancelKind.CANCEL) for claimed in (begun, waiting)}
        assert set(await self.cancels(store, executor)) == expected
        assert (await self.job_row(store, job.job_id)).status is JobStatus.CANCELLED

    async def test_cancelling_twice_is_cancelling_once(self, store: Store, make: Factory) -> None:
        """The second answer is as the first."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        cancel = make.move(job.job_id, JobAction.CANCEL)
        assert await store.jobs.move(cancel) == await store.jobs.move(cancel)

    async def test_a_finished_job_can_be_cancelled(self, store: Store, make: Factory) -> None:
        """Its record stays."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed))
        row = await store.jobs.move(make.move(claimed.job_id, JobAction.CANCEL))
        assert row.status is JobStatus.CANCELLED
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS

    @pytest.mark.parametrize("action", [JobAction.PAUSE, JobAction.RESUME])
    async def test_a_cancelled_job_can_be_neither_paused_nor_resumed(
        self, store: Store, make: Factory, action: JobAction
    ) -> None:
        """Cancelled is cancelled."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        with pytest.raises(Conflict):
            await store.jobs.move(make.move(job.job_id, action, make.plan(make.now + HOUR)))
        assert (await store.upkeep.stats()).timers == 0

    @pytest.mark.parametrize("action", list(JobAction))
    async def test_what_is_not_there_cannot_be_moved(self, store: Store, make: Factory, action: JobAction) -> None:
        """Nor what is another's."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        with pytest.raises(NotFound):
            await store.jobs.move(make.move(make.identifier(), action))
        with pytest.raises(NotFound):
            await store.jobs.move(make.move(job.job_id, action, namespace="elsewhere"))
        assert (await self.job_row(store, job.job_id)).status is JobStatus.SCHEDULED


class CancelledKeysContract(StoreContract):
    """The key of a job that is cancelled."""

    async def test_a_cancelled_jobs_key_is_free_for_another(self, store: Store, make: Factory) -> None:
        """Else nobody could ever use it again."""
        first, second = make.job(key="nightly"), make.job(key="nightly")
        await self.add(store, first)
        await store.jobs.move(make.move(first.job_id, JobAction.CANCEL))
        assert await store.jobs.get("default", "nightly") is None
        await self.add(store, second)
        row = await store.jobs.get("default", "nightly")
        assert row is not None
        assert row.job_id == second.job_id


class CancelsContract(StoreContract):
    """`runs.move` (`RunCancel`), and the way of a request to stop through `executors.beat`."""

    async def test_a_waiting_run_ends_at_once(self, store: Store, make: Factory) -> None:
        """With a record of who wanted it."""
        job = make.job()
        await self.add(store, job)
        assert job.run_id is not None
        assert await store.runs.move(RunCancel("default", job.run_id, "grace")) is RunState.CANCELLED
        row = await self.run_row(store, job.run_id)
        assert (row.state, row.reason, row.error) == (RunState.CANCELLED, "cancelled", "cancelled by grace")
        assert (row.executor, row.started_at, row.attempt) == (None, None, 0)
        assert row.ended_at is not None
        assert list(await self.claim_freed(store, await self.register(store))) == []

    async def test_a_run_that_waits_for_its_backoff_ends_at_once(self, store: Store, make: Factory) -> None:
        """Its earlier attempts stay on record, and none is made up."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now + 60.0))
        assert await store.runs.move(RunCancel("default", claimed.run_id, "grace")) is RunState.CANCELLED
        assert await self.run_state(store, claimed.run_id) is RunState.CANCELLED
        [attempt] = await store.runs.attempts(claimed.run_id)
        assert (attempt.attempt, attempt.state) == (1, RunState.RETRYING)

    async def test_the_holder_is_asked_until_it_has_reported(self, store: Store, make: Factory) -> None:
        """The request is durable; the state is the executor's to change."""
        executor, bystander = await self.register(store, "one"), await self.register(store, "two")
        claimed = await self.held(store, executor, make.job())
        assert await store.runs.move(RunCancel("default", claimed.run_id, "grace")) is RunState.DISPATCHED
        for _ in range(2):
            assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.CANCEL)]
            assert await self.cancels(store, bystander) == []
        assert await self.finish(store, executor, outcome(claimed, RunState.CANCELLED, reason="cancelled")) == []
        assert await self.cancels(store, executor) == []
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor) == (RunState.CANCELLED, executor)

    async def test_a_running_run_stays_running_until_its_holder_stopped_it(self, store: Store, make: Factory) -> None:
        """Asking twice is asking once."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        for _ in range(2):
            assert await store.runs.move(RunCancel("default", claimed.run_id, "grace")) is RunState.RUNNING
        assert await self.cancels(store, executor) == [CancelRequest(claimed.run_id, CancelKind.CANCEL)]

    @pytest.mark.parametrize("state", [RunState.SUCCESS, RunState.FAILED])
    async def test_what_ended_before_the_request_was_heard_stays_as_it_ended(
        self, store: Store, make: Factory, state: RunState
    ) -> None:
        """The truth is what happened."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.runs.move(RunCancel("default", claimed.run_id, "grace"))
        assert await self.finish(store, executor, outcome(claimed, state)) == []
        assert await store.runs.move(RunCancel("default", claimed.run_id, "grace")) is state
        assert await self.run_state(store, claimed.run_id) is state
        assert await self.cancels(store, executor) == []

    @pytest.mark.parametrize(
        ("way", "begun"),
        [
            ("given back", False),
            ("to retry", False),
            ("to retry", True),
            ("left", False),
            ("left", True),
            ("lost", False),
            ("lost", True),
        ],
    )
    async def test_a_cancelled_run_is_never_run_again(self, store: Store, make: Factory, way: str, begun: bool) -> None:
        """However it comes back from its holder, the store itself ends it."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        if begun:
            await self.begin(store, executor, claimed)
        await store.runs.move(RunCancel("default", claimed.run_id, "grace"))
        if way == "given back":
            assert await self.finish(store, executor, outcome(claimed, RunState.QUEUED)) == []
        elif way == "to retry":
            retry = outcome(claimed, RunState.RETRYING, retry_at=claimed.now)
            assert await self.finish(store, executor, retry) == []
            assert await self.finish(store, executor, retry) == []
        elif way == "left":
            await store.executors.leave(executor)
        else:
            await self.expire(store, executor)
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason) == (RunState.CANCELLED, "cancelled")
        assert row.error == "cancelled by grace"
        assert list(await self.claim_freed(store, await self.register(store, "next"))) == []
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.held, stats.retrying) == (0, 0, 0)

    async def test_a_request_does_not_outlive_its_attempt(self, store: Store, make: Factory) -> None:
        """The next holder of a run that was asked back in vain hears nothing of it."""
        executor, job = await self.register(store), make.recurring(make.now + 60.0)
        await self.add(store, job)
        async with self.near(store, 61.0, 1) as batch:
            [timer] = batch.timers
            await batch.commit([make.fire(job.job_id, timer.pending.due, None)])
        [claimed] = await self.claim(store, executor, ahead_seconds=65.0)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        await self.shift(store, 61.0)
        await store.executors.beat(executor, 10.0)
        assert await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now)) == []
        [again] = await self.claim_freed(store, executor)
        assert again.attempt == 2
        assert await self.cancels(store, executor) == []

    async def test_a_run_that_is_not_there_cannot_be_cancelled(self, store: Store, make: Factory) -> None:
        """Nor another's, active or ended."""
        executor = await self.register(store)
        ended = await self.held(store, executor, make.job())
        await self.finish(store, executor, outcome(ended))
        active = make.job()
        await self.add(store, active)
        assert active.run_id is not None
        with pytest.raises(NotFound):
            await store.runs.move(RunCancel("default", make.identifier(), "grace"))
        for identifier in (ended.run_id, active.run_id):
            with pytest.raises(NotFound):
                await store.runs.move(RunCancel("elsewhere", identifier, "grace"))
        assert await self.run_state(store, active.run_id) is RunState.QUEUED

    async def test_a_cancel_and_a_claim_at_the_same_time_end_in_one_of_two_ways(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Ended and not claimed, or claimed and asked to stop."""
        executor = await self.register(store)
        jobs = [make.job() for _ in range(20)]
        await self.add(store, *jobs)

        async def cancel(job: NewJob) -> RunState:
            assert job.run_id is not None
            return await other.runs.move(RunCancel("default", job.run_id, "grace"))

        claiming = asyncio.create_task(self.claim(store, executor))
        states = await asyncio.gather(*(cancel(job) for job in jobs))
        claims = await claiming
        held = {claimed.run_id for claimed in claims}
        asked = {request.run_id for request in await self.cancels(store, executor)}
        for job, state in zip(jobs, states, strict=True):
            assert (job.run_id in held) == (state is RunState.DISPATCHED), job.run_id
        assert asked == held
