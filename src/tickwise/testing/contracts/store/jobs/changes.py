"""People change their minds: edits, pauses, resumes, cancels, each with the plan that follows from it."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tickwise.domain.decision import Hold, Overlap, SkipReason, TimerState
from tickwise.domain.errors import Conflict, NotFound, VersionConflict
from tickwise.domain.lifecycle import CancelKind, JobStatus, RunState
from tickwise.domain.model import Claimed, Trigger, run_id
from tickwise.ports.store import Added, CancelRequest, JobAction, NewRun, Replan, RunQuery, Store
from tickwise.testing.contracts.base import StoreContract, added, instants, lane, microseconds
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0


class EditsContract(StoreContract):
    """`jobs.change`."""

    async def test_a_change_replaces_what_was_said(self, store: Store, make: Factory) -> None:
        """All of it, with a version one higher; who made it and when stays."""
        job = make.recurring(make.now + HOUR, labels={"team": "a"})
        await self.add(store, job)
        before = await self.job_row(store, job.job_id)
        await self.shift(store, 5.0)
        answer = await store.jobs.change(
            make.change(
                before,
                name="changed",
                key="k",
                schedule_type="INTERVAL",
                task_kind="http",
                definition='{ "changed": true }',
                lane=lane(9, queue="heavy"),
                labels={"team": "b"},
                owner="grace",
            )
        )
        row = await self.job_row(store, job.job_id)
        assert row == answer
        assert (row.name, row.key, row.schedule_type, row.task_kind) == ("changed", "k", "INTERVAL", "http")
        assert (row.definition, row.lane) == ('{ "changed": true }', lane(9, queue="heavy"))
        assert (row.labels, row.owner, row.version) == ({"team": "b"}, "grace", 2)
        assert (row.created_by, row.created_at) == (before.created_by, before.created_at)
        assert row.updated_at > before.updated_at

    async def test_a_change_of_the_task_is_told_from_any_other(self, store: Store, make: Factory) -> None:
        """The time of the newest one is kept through changes, pauses and moves; at first it is that of the job."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        before = await self.job_row(store, job.job_id)
        assert before.task_changed_at == before.created_at
        await self.shift(store, 10.0)
        renamed = await store.jobs.change(make.change(before, name="changed"))
        assert (renamed.task_changed_at, renamed.updated_at > before.updated_at) == (before.created_at, True)
        await self.shift(store, 10.0)
        made = await store.jobs.change(make.change(renamed, task_changed=True))
        assert (made.task_changed_at, made.updated_at > renamed.updated_at) == (made.updated_at, True)
        await self.shift(store, 10.0)
        paused = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        assert (paused.task_changed_at, paused.updated_at > made.updated_at) == (made.updated_at, True)
        renamed = await store.jobs.change(make.change(paused, name="again"))
        assert renamed.task_changed_at == made.updated_at

    async def test_without_a_new_plan_the_schedule_stays(self, store: Store, make: Factory) -> None:
        """And with it every timer and every run."""
        later, soon = make.recurring(make.now + HOUR), make.job(make.now + 1.5)
        await self.add(store, later, soon)
        for job in (later, soon):
            before = await self.job_row(store, job.job_id)
            after = await store.jobs.change(make.change(before, name="changed"))
            assert (after.next_run_at, after.status) == (before.next_run_at, JobStatus.SCHEDULED)
        stats = await store.upkeep.stats()
        assert (stats.timers, stats.queued) == (1, 1)

    async def test_a_change_of_an_older_version_is_refused(self, store: Store, make: Factory) -> None:
        """Somebody else changed it first: read again, then decide."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        first = await self.job_row(store, job.job_id)
        await store.jobs.change(make.change(first, name="one"))
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), name="two"))
        for version in (1, 2, 4):
            with pytest.raises(VersionConflict):
                await store.jobs.change(make.change(first, name="late", expected_version=version))
        assert (await self.job_row(store, job.job_id)).name == "two"

    async def test_a_plan_made_before_a_pause_or_its_end_is_refused(self, store: Store, make: Factory) -> None:
        """With it a paused job would fire, or one would be held back that nobody resumes. A pause that is over by
        itself changes no version, so whether the job was paused is compared too."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        plan = make.plan(make.now + HOUR)
        paused = await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, until=make.now + 60.0))
        with pytest.raises(VersionConflict):
            await store.jobs.change(make.change(row, name="late", replan=plan, expected_paused=False))
        assert await self.job_row(store, job.job_id) == paused
        await self.shift(store, 61.0)
        with pytest.raises(VersionConflict):
            await store.jobs.change(make.change(paused, name="late", replan=plan, expected_paused=True))
        change = make.change(paused, name="changed", replan=plan, expected_paused=False)
        changed = await store.jobs.change(change)
        assert (changed.status, changed.name) == (JobStatus.SCHEDULED, "changed")

    async def test_of_many_changes_of_one_version_one_is_made(self, store: Store, other: Store, make: Factory) -> None:
        """The others hear of it."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        answers = await asyncio.gather(
            *(
                client.jobs.change(make.change(row, name=f"change {number}"))
                for number, client in enumerate([store, other] * 3)
            ),
            return_exceptions=True,
        )
        refused = [answer for answer in answers if isinstance(answer, VersionConflict)]
        made = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert (len(made), len(refused)) == (1, 5)
        assert (await self.job_row(store, job.job_id)).name == made[0].name

    async def test_a_change_in_doubt_may_be_repeated(self, store: Store, make: Factory) -> None:
        """A repeated change is answered as the first time, and changes nothing."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        replan = make.plan(make.now + 2 * HOUR)
        change = make.change(await self.job_row(store, job.job_id), name="changed", replan=replan)
        first = await store.jobs.change(change)
        assert await store.jobs.change(change) == first
        assert first.version == 2

    async def test_what_is_not_there_cannot_be_changed(self, store: Store, make: Factory) -> None:
        """Nor what is another's."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        with pytest.raises(NotFound):
            await store.jobs.change(make.change(row, job_id=make.identifier()))
        with pytest.raises(NotFound):
            await store.jobs.change(make.change(row, namespace="elsewhere"))

    async def test_a_cancelled_job_cannot_be_changed(self, store: Store, make: Factory) -> None:
        """Cancelled is cancelled."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        row = await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        with pytest.raises(Conflict):
            await store.jobs.change(make.change(row, name="changed"))

    async def test_a_key_that_another_job_has_is_a_conflict(self, store: Store, make: Factory) -> None:
        """And nothing of the change is made; its own key is no conflict."""
        await self.add(store, make.job(key="taken"))
        job = make.job(make.now + HOUR, key="own")
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        with pytest.raises(Conflict):
            await store.jobs.change(make.change(row, key="taken", name="changed"))
        assert await self.job_row(store, job.job_id) == row
        assert (await store.jobs.change(make.change(row, name="changed"))).key == "own"

    async def test_a_key_that_was_given_up_is_free(self, store: Store, make: Factory) -> None:
        """And the new one finds the job."""
        job = make.job(make.now + HOUR, key="old")
        await self.add(store, job)
        await store.jobs.change(make.change(await self.job_row(store, job.job_id), key="new"))
        assert await store.jobs.get("default", "old") is None
        found = await store.jobs.get("default", "new")
        assert found is not None
        assert found.job_id == job.job_id
        assert list(added(await store.jobs.add([make.job(key="old")]))) == [Added.CREATED]

    async def test_free_runs_get_the_new_definition_and_lane(self, store: Store, make: Factory) -> None:
        """Due or not; but a run that has its own definition keeps it."""
        executor = await self.register(store)
        job = make.recurring(make.now + HOUR, definition='{"n":1}')
        await self.add(store, job)
        plain, own = make.run(job.job_id), make.run(job.job_id, definition='{"own":1}')
        for run in (plain, own):
            await store.runs.add("default", job.job_id, [run])
        await store.jobs.change(
            make.change(await self.job_row(store, job.job_id), definition='{"n":2}', lane=lane(queue="heavy"))
        )
        assert list(await self.claim_freed(store, executor)) == []
        claims = await self.claim(store, executor, queues=("heavy",))
        assert {claimed.run_id: claimed.spec for claimed in claims} == {
            plain.run_id: '{"n":2}',
            own.run_id: '{"own":1}',
        }

    async def test_a_retrying_run_gets_the_new_definition(self, store: Store, make: Factory) -> None:
        """The edit is the repair."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job(definition='{"n":1}'))
        await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now))
        row = await self.job_row(store, claimed.job_id)
        await store.jobs.change(make.change(row, definition='{"n":2}'))
        [again] = await self.claim_freed(store, executor)
        assert again.spec == '{"n":2}'

    async def test_a_held_run_is_tried_again_in_the_new_lane(self, store: Store, make: Factory) -> None:
        """The attempt that runs stays where it is."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        row = await self.job_row(store, claimed.job_id)
        await store.jobs.change(make.change(row, lane=lane(queue="heavy")))
        await self.finish(store, executor, outcome(claimed, RunState.RETRYING, retry_at=claimed.now))
        assert list(await self.claim_freed(store, executor)) == []
        [again] = await self.claim(store, executor, queues=("heavy",))
        assert again.run_id == claimed.run_id

    async def test_a_timer_fires_with_the_new_definition(self, store: Store, make: Factory) -> None:
        """Of a one-time job and of a recurring one."""
        once, often = make.job(make.now + 60.0), make.recurring(make.now + 60.0)
        await self.add(store, once, often)
        for job in (once, often):
            await store.jobs.change(make.change(await self.job_row(store, job.job_id), definition='{"n":2}'))
        await self.shift(store, 61.0)
        await store.timers.fire(0.0, 10)
        async with self.near(store, 0.0, 10) as batch:
            assert [timer.definition for timer in batch.timers] == ['{"n":2}']
        [claimed] = await self.claim_freed(store, await self.register(store))
        assert (claimed.job_id, claimed.spec) == (once.job_id, '{"n":2}')

    async def test_a_held_run_goes_on_as_it_was_claimed(self, store: Store, make: Factory) -> None:
        """An edit is for what comes."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await store.jobs.change(make.change(await self.job_row(store, claimed.job_id), definition='{"n":2}'))
        assert await self.cancels(store, executor) == []
        assert await self.finish(store, executor, outcome(claimed)) == []


class PlansContract(StoreContract):
    """`Replan`, by `jobs.change` and `jobs.move`."""

    async def planned(self, store: Store, make: Factory) -> tuple[UUID, list[NewRun]]:
        """A recurring job with two runs of the schedule that are made already: due in 60 s and in 120 s."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        runs = [
            NewRun(run_id(job.job_id, make.now + ahead), make.now + ahead, Trigger.SCHEDULE) for ahead in (60.0, 120.0)
        ]
        async with self.near(store, 60.5, 1) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, make.now + 180.0, runs=runs)]) == 2
        return job.job_id, runs

    async def replan(self, store: Store, make: Factory, job_id: UUID, plan: Replan) -> None:
        """An edit that brings a new schedule."""
        await store.jobs.change(make.change(await self.job_row(store, job_id), replan=plan))

    async def claimed_ahead(self, store: Store, executor: int) -> list[Claimed]:
        """Both of the planned runs, held for their due time."""
        claims = list(await self.claim(store, executor, ahead_seconds=125.0))
        assert len(claims) == 2
        return sorted(claims, key=lambda claimed: claimed.due)

    async def test_a_new_plan_replaces_the_timer(self, store: Store, make: Factory) -> None:
        """The old time is forgotten."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        await self.replan(store, make, job.job_id, make.plan(make.now + HOUR))
        assert microseconds((await self.job_row(store, job.job_id)).next_run_at) == microseconds(make.now + HOUR)
        assert (await store.upkeep.stats()).timers == 1

    async def test_a_new_plan_replaces_free_runs_that_are_not_due(self, store: Store, make: Factory) -> None:
        """They leave nothing behind: they were never to be."""
        job_id, runs = await self.planned(store, make)
        await self.replan(store, make, job_id, make.plan(make.now + HOUR))
        assert [await self.run_state(store, run.run_id) for run in runs] == [None, None]
        assert microseconds((await self.job_row(store, job_id)).next_run_at) == microseconds(make.now + HOUR)

    async def test_held_runs_that_are_not_due_are_asked_back(self, store: Store, make: Factory) -> None:
        """By every heartbeat until they are reported, and then they leave nothing."""
        job_id, runs = await self.planned(store, make)
        executor = await self.register(store)
        claims = await self.claimed_ahead(store, executor)
        await self.replan(store, make, job_id, make.plan())
        asked = {CancelRequest(run.run_id, CancelKind.REVOKE) for run in runs}
        assert set(await self.cancels(store, executor)) == asked
        assert set(await self.cancels(store, executor)) == asked
        reports = [outcome(claimed, RunState.SKIPPED, reason="revoked") for claimed in claims]
        assert await self.finish(store, executor, *reports) == []
        assert [await self.run_state(store, run.run_id) for run in runs] == [None, None]
        assert await self.cancels(store, executor) == []
        await self.finish(store, executor, *reports)
        assert (await self.job_row(store, job_id)).status is JobStatus.COMPLETED

    async def test_fires_that_the_new_plan_has_too_stay(self, store: Store, make: Factory) -> None:
        """`keep_dues`, free ones."""
        job_id, runs = await self.planned(store, make)
        keep = make.plan(make.now + HOUR, keep_dues=[runs[1].due])
        await self.replan(store, make, job_id, keep)
        assert [await self.run_state(store, run.run_id) for run in runs] == [None, RunState.QUEUED]

    async def test_held_fires_that_the_new_plan_has_too_are_not_asked_back(self, store: Store, make: Factory) -> None:
        """`keep_dues`, held ones."""
        job_id, runs = await self.planned(store, make)
        executor = await self.register(store)
        await self.claimed_ahead(store, executor)
        keep = make.plan(make.now + HOUR, keep_dues=[runs[0].due])
        await self.replan(store, make, job_id, keep)
        assert await self.cancels(store, executor) == [CancelRequest(runs[1].run_id, CancelKind.REVOKE)]

    async def test_a_run_that_was_asked_back_may_be_wanted_again(self, store: Store, make: Factory) -> None:
        """A pause and a resume before the due time: the request is withdrawn, and the fire is not lost."""
        job_id, runs = await self.planned(store, make)
        executor = await self.register(store)
        await self.claimed_ahead(store, executor)
        await store.jobs.move(make.move(job_id, JobAction.PAUSE))
        assert len(await self.cancels(store, executor)) == 2
        resume = make.plan(runs[0].due, keep_dues=[run.due for run in runs])
        await store.jobs.move(make.move(job_id, JobAction.RESUME, resume))
        assert await self.cancels(store, executor) == []

    async def test_a_revoke_that_comes_back_after_it_was_withdrawn_is_a_give_back(
        self, store: Store, make: Factory
    ) -> None:
        """The executor heard the request before it was withdrawn: the fire waits for another one."""
        job_id, runs = await self.planned(store, make)
        executor = await self.register(store)
        first, _ = await self.claimed_ahead(store, executor)
        await self.replan(store, make, job_id, make.plan())
        resume = make.plan(make.now + HOUR, keep_dues=[run.due for run in runs])
        await self.replan(store, make, job_id, resume)
        revoked = outcome(first, RunState.SKIPPED, reason="revoked")
        assert await self.finish(store, executor, revoked) == []
        row = await self.run_row(store, first.run_id)
        assert (row.state, row.attempt, microseconds(row.due_at)) == (
            RunState.QUEUED,
            0,
            microseconds(make.now + 60.0),
        )

    @pytest.mark.parametrize("way", ["given back", "left", "lost"])
    async def test_a_revoked_run_that_comes_back_otherwise_is_forgotten_too(
        self, store: Store, make: Factory, way: str
    ) -> None:
        """Its holder never heard of it, or had no time to answer."""
        job_id, _ = await self.planned(store, make)
        executor = await self.register(store)
        claims = await self.claimed_ahead(store, executor)
        await self.replan(store, make, job_id, make.plan())
        if way == "given back":
            assert await self.finish(store, executor, *(outcome(claim, RunState.QUEUED) for claim in claims)) == []
        elif way == "left":
            await store.executors.leave(executor)
        else:
            await self.expire(store, executor)
        assert [await self.run_state(store, claimed.run_id) for claimed in claims] == [None, None]
        assert (await self.job_row(store, job_id)).status is JobStatus.COMPLETED

    async def test_what_is_due_already_is_left_alone(self, store: Store, make: Factory) -> None:
        """Free or held: its time has come, the new plan is for what comes."""
        job_id, runs = await self.planned(store, make)
        await self.shift(store, 61.0)
        executor = await self.register(store)
        await self.replan(store, make, job_id, make.plan())
        assert [await self.run_state(store, run.run_id) for run in runs] == [RunState.QUEUED, None]
        assert len(await self.claim_freed(store, executor)) == 1
        await self.replan(store, make, job_id, make.plan())
        assert await self.cancels(store, executor) == []

    async def test_a_plan_goes_by_the_times_that_the_schedule_named(self, store: Store, make: Factory) -> None:
        """Of spread runs: one whose nominal time is over stays, though it is due later; so do those to keep."""
        job = make.recurring(make.now)
        await self.add(store, job)
        spread = [
            make.scheduled(job.job_id, make.now + due, nominal=make.now + nominal)
            for nominal, due in ((0.0, 90.0), (60.0, 95.000001), (61.0, 99.0))
        ]
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + HOUR, runs=spread)])
        keep = make.plan(make.now + HOUR, keep_dues=[make.now + 60.0, make.now + 99.0])
        await self.replan(store, make, job.job_id, keep)
        assert [await self.run_state(store, run.run_id) for run in spread] == [RunState.QUEUED, RunState.QUEUED, None]

    async def test_a_run_that_a_new_plan_keeps_looks_at_the_others_again(self, store: Store, make: Factory) -> None:
        """The new plan may have put others before it."""
        job = make.recurring(make.now)
        await self.add(store, job)
        kept = make.scheduled(job.job_id, make.now + 60.0, overlap=Overlap.SKIP)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + HOUR, runs=[kept])])
        await self.replan(store, make, job.job_id, make.plan(make.now + 30.0, keep_dues=[kept.due]))
        [claimed] = await self.claim(store, await self.register(store), ahead_seconds=65.0)
        assert (claimed.run_id, claimed.guarded) == (kept.run_id, True)

    async def test_occurrences_of_the_plan_before_go_on_record_with_the_new_one(
        self, store: Store, make: Factory
    ) -> None:
        """`skips`, in the same transaction; a change in doubt that is repeated records them once."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        skip = make.skip(job.job_id, make.now + 60.0, until=make.now + 180.0, occurrences=3, reason=SkipReason.PAUSED)
        change = make.change(
            await self.job_row(store, job.job_id), name="changed", replan=make.plan(make.now + HOUR, skips=[skip])
        )
        for _ in range(2):
            await store.jobs.change(change)
            row = await self.run_row(store, skip.run_id)
            assert (row.state, row.reason, row.occurrences) == (RunState.SKIPPED, "paused", 3)
        assert len(await store.searches.runs(RunQuery(namespace="default"))) == 1

    async def test_a_plan_says_where_the_timer_stands(self, store: Store, make: Factory) -> None:
        """With all that it has counted; held back too."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        for timer in (
            TimerState(make.now + HOUR, fired=4, minute=make.now + 0.000001, in_minute=2),
            held(make.now + 60.0, make.now + HOUR, Hold.CALENDAR, fired=9),
        ):
            await self.replan(store, make, job.job_id, make.plan(timer))
            assert instants((await self.job_row(store, job.job_id)).timer) == instants(timer)

    async def test_a_one_time_plan_without_a_name_is_decided(self, store: Store, make: Factory) -> None:
        """However near: it becomes no run by itself."""
        job = make.job(make.now + HOUR)
        await self.add(store, job)
        await self.replan(store, make, job.job_id, make.plan(make.now + 1.0, recurring=False))
        assert (await store.timers.fire(10.0, 10)).timers == 0
        assert (await store.upkeep.stats()).queued == 0
        async with self.near(store, 10.0) as batch:
            assert [(timer.job_id, timer.run_id) for timer in batch.timers] == [(job.job_id, None)]

    async def test_what_people_asked_for_is_left_alone(self, store: Store, make: Factory) -> None:
        """A run-now for later is no fire of the schedule."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        run = make.run(job.job_id, make.now + 60.0)
        await store.runs.add("default", job.job_id, [run])
        await self.replan(store, make, job.job_id, make.plan())
        assert await self.run_state(store, run.run_id) is RunState.QUEUED

    async def test_occurrences_of_a_pause_are_made_up_for_at_once(self, store: Store, make: Factory) -> None:
        """`missed`."""
        job = make.recurring(make.now + 60.0)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE))
        await self.shift(store, 300.0)
        missed = [make.run(job.job_id, make.now + ahead, trigger=Trigger.MISSED) for ahead in (60.0, 120.0)]
        plan = make.plan(make.now + HOUR, missed=missed)
        await store.jobs.move(make.move(job.job_id, JobAction.RESUME, plan))
        for run in missed:
            row = await self.run_row(store, run.run_id)
            assert (row.state, row.trigger) == (RunState.QUEUED, Trigger.MISSED)

    async def test_a_one_time_plan_that_is_near_is_a_run_at_once(self, store: Store, make: Factory) -> None:
        """A later one is a timer; a recurring one is a timer in any case."""
        near, far, often = (make.job(make.now + HOUR), make.job(make.now + HOUR), make.job(make.now + HOUR))
        await self.add(store, near, far, often)
        soon, later = make.now + 1.0, make.now + 2 * HOUR
        near_id, far_id = run_id(near.job_id, soon), run_id(far.job_id, later)
        await self.replan(store, make, near.job_id, make.plan(soon, recurring=False, run_id=near_id))
        await self.replan(store, make, far.job_id, make.plan(later, recurring=False, run_id=far_id))
        await self.replan(store, make, often.job_id, make.plan(soon))
        assert await self.run_state(store, near_id) is RunState.QUEUED
        assert await self.run_state(store, far_id) is None
        stats = await store.upkeep.stats()
        assert (stats.queued, stats.timers) == (1, 2)
        async with self.near(store, 2.0, 10) as batch:
            assert [timer.job_id for timer in batch.timers] == [often.job_id]

    async def test_a_recurring_job_may_become_a_one_time_job(self, store: Store, make: Factory) -> None:
        """Its timer then fires by itself, under the name that the plan gave."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        name = run_id(job.job_id, make.now + 60.0)
        await self.replan(store, make, job.job_id, make.plan(make.now + 60.0, recurring=False, run_id=name))
        await self.shift(store, 61.0)
        assert (await store.timers.fire(0.0, 10)).timers == 1
        assert await self.run_state(store, name) is RunState.QUEUED

    async def test_a_finished_job_comes_to_life_by_a_new_plan(self, store: Store, make: Factory) -> None:
        """COMPLETED and FAILED become SCHEDULED again."""
        executor = await self.register(store)
        for state in (RunState.SUCCESS, RunState.FAILED):
            claimed = await self.held(store, executor, make.job())
            await self.finish(store, executor, outcome(claimed, state))
            due = make.now + HOUR
            plan = make.plan(due, recurring=False, run_id=run_id(claimed.job_id, due))
            await self.replan(store, make, claimed.job_id, plan)
            assert (await self.job_row(store, claimed.job_id)).status is JobStatus.SCHEDULED
