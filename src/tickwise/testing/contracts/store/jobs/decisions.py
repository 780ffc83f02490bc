"""Timers that a scheduler decides: what it is told of them, and all that a decision may bring."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from tickwise.domain.decision import Hold, Overlap, SkipReason, TimerState
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger, run_id
from tickwise.ports.store import JobAction, NewRun, Store
from tickwise.testing.contracts.base import StoreContract, instants, microseconds
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0
MINUTE = 60.0


class DecisionsContract(StoreContract):
    """`timers.take` and `timers.commit`: timers and what follows for them."""

    async def test_a_timer_is_handed_over_with_all_that_was_counted(self, store: Store, make: Factory) -> None:
        """Every part of it, to the microsecond, as the decision before left it."""
        job = make.recurring(make.now)
        await self.add(store, job)
        timers = [
            TimerState(make.now + 1.000001, fired=3, minute=make.now + 0.000001, in_minute=2),
            TimerState(make.now + 2.0, make.now + 1.000003, Hold.CALENDAR, fired=2**31 - 1),
            TimerState(make.now + 3.0, make.now + 1.5, Hold.MAINTENANCE),
            TimerState(make.now + 4.0, make.now + 1.5, Hold.PAUSED),
        ]
        for pending in timers:
            async with self.near(store, 10.0) as batch:
                [timer] = batch.timers
                await batch.commit([make.fire(job.job_id, timer.pending.due, pending, runs=())])
            assert instants((await self.job_row(store, job.job_id)).timer) == instants(pending)
            async with self.near(store, 10.0) as batch:
                [timer] = batch.timers
                assert instants(timer.pending) == instants(pending)

    async def test_a_new_timer_has_counted_nothing(self, store: Store, make: Factory) -> None:
        """It stands at its first fire."""
        job = make.recurring(make.now + 0.5)
        await self.add(store, job)
        async with self.near(store) as batch:
            assert [instants(timer.pending) for timer in batch.timers] == [instants(TimerState(make.now + 0.5))]

    async def test_a_timer_is_handed_over_with_its_jobs_labels(self, store: Store, make: Factory) -> None:
        """For windows that go by label; as they are now, and none if there are none."""
        labels = {"team": "däta", "": "empty"}
        labelled, plain = make.recurring(make.now, labels=labels), make.recurring(make.now)
        await self.add(store, labelled, plain)
        async with self.near(store) as batch:
            told = {timer.job_id: dict(timer.labels or {}) for timer in batch.timers}
        assert told == {labelled.job_id: labels, plain.job_id: {}}
        await store.jobs.change(make.change(await self.job_row(store, plain.job_id), labels={"team": "b"}))
        async with self.near(store) as batch:
            told = {timer.job_id: dict(timer.labels or {}) for timer in batch.timers}
        assert told[plain.job_id] == {"team": "b"}

    async def test_a_one_time_job_whose_fire_has_no_name_is_decided(self, store: Store, make: Factory) -> None:
        """However near it is: only a decision says what it comes to."""
        job = make.job(make.now, run_id=None)
        await self.add(store, job)
        assert (await store.upkeep.stats()).queued == 0
        assert (await store.timers.fire(10.0, 10)).timers == 0
        async with self.near(store) as batch:
            [timer] = batch.timers
            assert (timer.job_id, timer.run_id) == (job.job_id, None)
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, None)]) == 1
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.timer) == (JobStatus.SCHEDULED, None)
        [claimed] = await self.claim_freed(store, await self.register(store))
        assert claimed.run_id == run_id(job.job_id, make.now)

    async def test_one_time_jobs_that_need_no_decision_are_left_out(self, store: Store, make: Factory) -> None:
        """Unless they are asked for: while a window may concern them."""
        once, often = make.job(make.now + 100.0), make.recurring(make.now + 101.0)
        await self.add(store, once, often)
        async with self.near(store, 200.0) as batch:
            assert [timer.job_id for timer in batch.timers] == [often.job_id]
        async with self.near(store, 200.0, once=True) as batch:
            told = [(timer.job_id, timer.run_id) for timer in batch.timers]
        assert told == [(once.job_id, once.run_id), (often.job_id, None)]

    async def test_with_one_time_jobs_too_the_earliest_come_first(self, store: Store, make: Factory) -> None:
        """Of both kinds together, up to the limit."""
        jobs = [(make.job if ahead % 2 else make.recurring)(make.now + 10.0 + ahead) for ahead in range(6)]
        await self.add(store, *reversed(jobs))
        async with self.near(store, 20.0, 4, once=True) as batch:
            assert [timer.job_id for timer in batch.timers] == [job.job_id for job in jobs[:4]]

    async def test_a_one_time_job_that_is_held_back_is_decided_from_then_on(self, store: Store, make: Factory) -> None:
        """Its wake-up is no occurrence, so it does not become a run by itself."""
        job = make.job(make.now + 100.0)
        await self.add(store, job)
        async with self.near(store, 200.0, once=True) as batch:
            [timer] = batch.timers
            deferred = held(timer.pending.due, make.now + 150.0, Hold.MAINTENANCE)
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, deferred, runs=())]) == 0
        assert (await store.timers.fire(200.0, 10)).timers == 0
        async with self.near(store, 200.0) as batch:
            [timer] = batch.timers
            assert (timer.run_id, instants(timer.pending)) == (None, instants(deferred))

    async def test_a_one_time_job_that_is_taken_is_not_fired_meanwhile(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Its decision may be that it does not run."""
        job = make.job(make.now + 100.0)
        await self.add(store, job)
        assert job.run_id is not None
        skip = make.skip(job.job_id, make.now + 100.0, reason=SkipReason.MAINTENANCE)
        async with self.near(store, 200.0, once=True) as batch:
            [timer] = batch.timers
            firing = asyncio.create_task(other.timers.fire(200.0, 10))
            await asyncio.wait([firing], timeout=0.05)
            await batch.commit([make.fire(job.job_id, timer.pending.due, None, runs=(), skips=[skip])])
        assert (await firing).timers == 0
        assert await self.run_state(store, job.run_id) is RunState.SKIPPED

    async def test_timers_of_other_zone_data_are_found_beyond_the_horizon(self, store: Store, make: Factory) -> None:
        """Only those of another version, that are not held back, and that needed a zone's rules at all."""
        old = make.recurring(make.now + 100.0, zone_data="2026a")
        near = make.recurring(make.now + 5.0, zone_data="2026a")
        new = make.recurring(make.now + 100.0, zone_data="2026b")
        none = make.recurring(make.now + 100.0)
        paused = make.recurring(make.now + 100.0, zone_data="2026a")
        await self.add(store, old, near, new, none, paused)
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE, until=make.now + 200.0))
        async with self.near(store, 10.0, other_zone_data_than="2026b") as batch:
            [timer] = batch.timers
            assert timer.job_id == old.job_id
            moved = make.fire(old.job_id, timer.pending.due, make.now + 101.0, runs=(), zone_data="2026b")
            assert await batch.commit([moved]) == 0
        async with self.near(store, 10.0, other_zone_data_than="2026b") as batch:
            assert list(batch.timers) == []
        assert microseconds((await self.job_row(store, old.job_id)).next_run_at) == microseconds(make.now + 101.0)

    async def test_zone_data_is_kept_with_each_new_plan(self, store: Store, make: Factory) -> None:
        """Of an edit and of a moved occurrence; a plan without any has none."""
        jobs = [make.recurring(make.now + 100.0, zone_data="2026a") for _ in range(3)]
        edited, cleared, moved = jobs
        await self.add(store, *jobs)
        for job, zone_data in ((edited, "2026b"), (cleared, None)):
            plan = make.plan(make.now + 200.0, zone_data=zone_data)
            await store.jobs.change(make.change(await self.job_row(store, job.job_id), replan=plan))
        expected = (await self.job_row(store, moved.job_id)).timer
        assert expected is not None
        await store.jobs.move(make.occurrence(moved.job_id, expected, TimerState(make.now + 200.0), zone_data="2026b"))
        for version, found in (("2026b", set()), ("2026c", {edited.job_id, moved.job_id})):
            async with self.near(store, 10.0, other_zone_data_than=version) as batch:
                assert {timer.job_id for timer in batch.timers} == found

    async def test_schedulers_share_the_timers_of_other_zone_data(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """The earliest first, up to the limit; no two schedulers have the same."""
        await self.add(store, *(make.recurring(make.now + HOUR + ahead, zone_data="old") for ahead in range(5)))
        async with (
            self.near(store, 10.0, 3, other_zone_data_than="new") as mine,
            self.near(other, 10.0, 3, other_zone_data_than="new") as theirs,
        ):
            dues = [microseconds(timer.pending.due) for batch in (mine, theirs) for timer in batch.timers]
        assert dues == [microseconds(make.now + HOUR + ahead) for ahead in range(5)]

    async def test_one_time_jobs_of_other_zone_data_are_found_if_asked_for(self, store: Store, make: Factory) -> None:
        """A wall time of next year is another instant by new rules."""
        once = make.job(make.now + HOUR, zone_data="old")
        await self.add(store, once)
        async with self.near(store, 10.0, other_zone_data_than="new") as batch:
            assert list(batch.timers) == []
        async with self.near(store, 10.0, other_zone_data_than="new", once=True) as batch:
            assert [(timer.job_id, timer.run_id) for timer in batch.timers] == [(once.job_id, once.run_id)]

    async def test_a_run_keeps_the_time_that_the_schedule_named(self, store: Store, make: Factory) -> None:
        """Beside the time that it is due at: executors and people are told both."""
        job, executor = make.recurring(make.now), await self.register(store)
        await self.add(store, job)
        late = make.scheduled(job.job_id, make.now + 0.5, nominal=make.now + 0.000001)
        plain = make.scheduled(job.job_id, make.now + 0.25)
        async with self.near(store) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, None, runs=[late, plain])]) == 2
        claims = {claimed.run_id: claimed for claimed in await self.claim_freed(store, executor)}
        for run, nominal in ((late, make.now + 0.000001), (plain, make.now + 0.25)):
            row, claimed = await self.run_row(store, run.run_id), claims[run.run_id]
            assert microseconds(row.nominal_at) == microseconds(claimed.nominal) == microseconds(nominal)
            assert microseconds(row.due_at) == microseconds(claimed.due) == microseconds(run.due)
            await self.finish(store, executor, outcome(claimed))
            row = await self.run_row(store, run.run_id)
            assert (microseconds(row.nominal_at), row.state) == (microseconds(nominal), RunState.SUCCESS)

    async def test_what_a_pause_has_skipped_says_who_paused_and_why(self, store: Store, make: Factory) -> None:
        """Also of a pause that was over by itself: the job forgets both, the record keeps them. Of what was skipped for
        another reason nothing of it is said."""
        job = make.recurring(make.now + 1.0)
        await self.add(store, job)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="holidays", until=make.now + 2.0, by="ops"))
        await self.shift(store, 3.0)
        skip = make.skip(job.job_id, make.now + 1.0, reason=SkipReason.PAUSED)._replace(error="the job was paused")
        other = make.skip(job.job_id, make.now + 1.5, reason=SkipReason.MISFIRE)._replace(error="too late")
        async with self.near(store) as batch:
            [timer] = batch.timers
            fire = make.fire(job.job_id, timer.pending.due, held(make.now + HOUR), runs=(), skips=[skip, other])
            assert await batch.commit([fire]) == 0
        assert (await self.run_row(store, skip.run_id)).error == "the job was paused by ops: holidays"
        assert (await self.run_row(store, other.run_id)).error == "too late"

    async def test_a_parked_job_is_paused_by_the_fuse(self, store: Store, make: Factory) -> None:
        """In the same transaction as what it did before; its runs go on, its timer stands as was decided."""
        job, executor = make.recurring(make.now), await self.register(store)
        await self.add(store, job)
        run = make.scheduled(job.job_id)
        skip = make.skip(job.job_id, make.now + 0.5, reason=SkipReason.FUSE)
        stands = held(make.now + 0.75, fired=1)
        async with self.near(store) as batch:
            [timer] = batch.timers
            fire = make.fire(job.job_id, timer.pending.due, stands, runs=[run], skips=[skip], park="too many runs")
            assert await batch.commit([fire]) == 1
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.pause_reason, row.paused_by) == (JobStatus.PAUSED, "too many runs", "fuse")
        assert (row.pause_until, row.next_run_at is not None, row.version) == (None, True, 2)
        assert abs((row.paused_at or 0.0) - await store.now()) < 60.0
        assert instants(row.timer) == instants(stands)
        assert await self.run_state(store, skip.run_id) is RunState.SKIPPED
        [claimed] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(claimed)) == []
        assert (await self.job_row(store, job.job_id)).next_run_at is None

    async def test_a_timer_that_was_changed_parks_nothing(self, store: Store, make: Factory) -> None:
        """The decision was about a schedule that has changed since."""
        job = make.recurring(make.now)
        await self.add(store, job)
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due + 0.5
            stale = make.fire(job.job_id, due, held(make.now), runs=(), park="too many runs")
            assert await batch.commit([stale]) == 0
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.paused_by) == (JobStatus.SCHEDULED, None)

    async def test_fires_are_counted_by_namespace_and_minute(self, store: Store, other: Store) -> None:
        """All schedulers together; each minute of the store's clock begins with none."""
        await self.to_a_minutes_begin(store)
        assert dict(await store.timers.count({"a": 3, "b": 1})) == {"a": 3, "b": 1}
        assert dict(await other.timers.count({"a": 2})) == {"a": 5}
        assert dict(await store.timers.count({"a": 0, "c": 0})) == {"a": 5, "c": 0}
        assert dict(await store.timers.count({})) == {}
        await self.shift(store, MINUTE)
        assert dict(await store.timers.count({"a": 1, "b": 0})) == {"a": 1, "b": 0}

    async def test_fires_that_are_counted_together_are_all_counted(self, store: Store, other: Store) -> None:
        """Twelve at the same time, through two clients."""
        await self.to_a_minutes_begin(store)
        told = await asyncio.gather(*(client.timers.count({"a": 1, "b": 2}) for client in [store, other] * 6))
        assert sorted(counts["a"] for counts in told) == list(range(1, 13))
        assert dict(await store.timers.count({"a": 0, "b": 0})) == {"a": 12, "b": 24}

    async def to_a_minutes_begin(self, store: Store) -> None:
        """So that a slow test does not run into the next one."""
        await self.shift(store, MINUTE - await store.now() % MINUTE + 1.0)


class SkipsContract(StoreContract):
    """`NewSkip`: occurrences that do not run, on record."""

    async def recurring(self, store: Store, make: Factory) -> UUID:
        """A job whose timer is due."""
        job = make.recurring(make.now)
        await self.add(store, job)
        return job.job_id

    async def test_a_skipped_occurrence_is_on_record(self, store: Store, make: Factory) -> None:
        """As a run that never was: its time, its reason, a sentence for people."""
        job_id = await self.recurring(store, make)
        nominal = make.now + 0.000001
        skip = make.skip(job_id, nominal, reason=SkipReason.CALENDAR, error="excluded by the calendar 😀")
        async with self.near(store) as batch:
            [timer] = batch.timers
            fire = make.fire(job_id, timer.pending.due, make.now + HOUR, runs=(), skips=[skip])
            assert await batch.commit([fire]) == 0
        row = await self.run_row(store, skip.run_id)
        assert (row.state, row.reason, row.error) == (RunState.SKIPPED, "calendar", "excluded by the calendar 😀")
        assert (row.job_id, row.namespace, row.trigger) == (job_id, "default", Trigger.SCHEDULE)
        assert (row.occurrences, row.until, row.blocked) == (1, None, False)
        assert microseconds(row.due_at) == microseconds(row.nominal_at) == microseconds(nominal)
        assert (row.attempt, row.failures, row.crashes, row.executor) == (0, 0, 0, None)
        assert (row.dispatched_at, row.started_at, row.ready_at, row.result) == (None, None, None, None)
        assert row.ended_at is not None
        assert row.queued_at == row.ended_at
        assert abs(row.ended_at - await store.now()) < 60.0
        assert list(await store.runs.attempts(skip.run_id)) == []
        assert list(await self.claim_freed(store, await self.register(store))) == []

    async def test_one_record_may_stand_for_many_occurrences(self, store: Store, make: Factory) -> None:
        """With their count and the nominal time of the last, however many they are."""
        job_id = await self.recurring(store, make)
        since, until = make.now - 10 * 365 * 86_400.0, make.now - 0.999999
        skip = make.skip(job_id, since, until=until, occurrences=315_360_000, reason=SkipReason.MISFIRE)
        async with self.near(store) as batch:
            [timer] = batch.timers
            await batch.commit([make.fire(job_id, timer.pending.due, make.now + HOUR, runs=(), skips=[skip])])
        row = await self.run_row(store, skip.run_id)
        assert (row.occurrences, microseconds(row.until)) == (315_360_000, microseconds(until))
        assert microseconds(row.nominal_at) == microseconds(since)

    @pytest.mark.parametrize("reason", list(SkipReason))
    async def test_every_reason_can_be_kept(self, store: Store, make: Factory, reason: SkipReason) -> None:
        """Programs read it."""
        job_id = await self.recurring(store, make)
        skip = make.skip(job_id, reason=reason)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=(), skips=[skip])])
        assert (await self.run_row(store, skip.run_id)).reason == reason.value

    async def test_a_skip_that_is_recorded_again_is_recorded_once(self, store: Store, make: Factory) -> None:
        """The first record stays."""
        job_id = await self.recurring(store, make)
        for error in ("first", "second"):
            skip = make.skip(job_id, make.now - 1.0, error=error)
            async with self.near(store) as batch:
                [timer] = batch.timers
                again = make.fire(job_id, timer.pending.due, timer.pending, runs=(), skips=[skip])
                assert await batch.commit([again]) == 0
            assert (await self.run_row(store, skip.run_id)).error == "first"

    async def test_a_run_that_exists_is_not_skipped(self, store: Store, make: Factory) -> None:
        """Nor one that has ended: what happened, happened."""
        job_id, executor = await self.recurring(store, make), await self.register(store)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, make.now)])
        skip = make.skip(job_id)
        for state in (RunState.QUEUED, RunState.SUCCESS):
            async with self.near(store) as batch:
                due = batch.timers[0].pending.due
                await batch.commit([make.fire(job_id, due, make.now, runs=(), skips=[skip])])
            assert await self.run_state(store, skip.run_id) is state
            for claimed in await self.claim_freed(store, executor):
                await self.finish(store, executor, outcome(claimed))

    async def test_what_was_skipped_is_not_run(self, store: Store, make: Factory) -> None:
        """Its record is its end."""
        job_id = await self.recurring(store, make)
        skip = make.skip(job_id)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, make.now, runs=(), skips=[skip])])
        async with self.near(store) as batch:
            assert await batch.commit([make.fire(job_id, batch.timers[0].pending.due, make.now + HOUR)]) == 0
        assert await self.run_state(store, skip.run_id) is RunState.SKIPPED
        assert (await store.upkeep.stats()).queued == 0

    async def test_skips_of_a_timer_that_was_changed_are_not_recorded(self, store: Store, make: Factory) -> None:
        """As its runs are not made."""
        job_id = await self.recurring(store, make)
        skip = make.skip(job_id)
        async with self.near(store) as batch:
            stale = make.fire(job_id, batch.timers[0].pending.due + 0.5, None, runs=(), skips=[skip])
            assert await batch.commit([stale]) == 0
        assert await self.run_state(store, skip.run_id) is None
        assert (await self.job_row(store, job_id)).status is JobStatus.SCHEDULED

    async def test_schedulers_that_record_together_record_each_skip_once(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """A hundred jobs, four schedulers: each occurrence is a run or a record, and only one of both."""
        jobs = [make.recurring(make.now) for _ in range(100)]
        await self.add(store, *jobs)

        async def schedule(client: Store) -> int:
            made = 0
            for _ in range(8):
                async with self.near(client, 1.0, 20) as batch:
                    fires = [
                        make.fire(
                            timer.job_id,
                            timer.pending.due,
                            make.now + HOUR,
                            runs=[make.scheduled(timer.job_id, make.now)],
                            skips=[make.skip(timer.job_id, make.now - 1.0), make.skip(timer.job_id, make.now)],
                        )
                        for timer in batch.timers
                    ]
                    made += await batch.commit(fires)
            return made

        assert sum(await asyncio.gather(*(schedule(client) for client in [store, other] * 2))) == 100
        for job in jobs:
            before, now = (run_id(job.job_id, make.now - 1.0), run_id(job.job_id, make.now))
            assert await self.run_state(store, before) is RunState.SKIPPED
            assert await self.run_state(store, now) is RunState.QUEUED

    async def test_a_job_of_which_only_skips_are_on_record_is_completed(self, store: Store, make: Factory) -> None:
        """Nothing of it failed."""
        job_id = await self.recurring(store, make)
        async with self.near(store) as batch:
            due = batch.timers[0].pending.due
            await batch.commit([make.fire(job_id, due, None, runs=(), skips=[make.skip(job_id)])])
        assert (await self.job_row(store, job_id)).status is JobStatus.COMPLETED


class FirstInLineContract(StoreContract):
    """The runs that a fire settles at once, and those that begin only after a look at the others."""

    async def guards(self, store: Store, make: Factory, *runs: NewRun, goes_on: float | None) -> list[bool]:
        """For each run of one fire, in the order of their ids: True if its claim is guarded."""
        job = make.recurring(make.now)
        await self.add(store, job)
        mine = [run._replace(run_id=run_id(job.job_id, run.nominal or run.due)) for run in runs]
        async with self.near(store) as batch:
            [timer] = batch.timers
            assert await batch.commit([make.fire(job.job_id, timer.pending.due, goes_on, runs=mine)]) == len(mine)
        claims = await self.claim_freed(store, await self.register(store, lease_seconds=HOUR), ahead_seconds=MINUTE)
        guards = {claimed.run_id: claimed.guarded for claimed in claims}
        return [guards[run.run_id] for run in mine]

    @pytest.mark.parametrize("policy", [policy for policy in Overlap if policy is not Overlap.ALLOW])
    async def test_a_run_that_nothing_can_come_before_begins_without_asking(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """The usual case costs nothing: no other run, and the next one is later."""
        run = make.scheduled(make.identifier(), overlap=policy)
        assert await self.guards(store, make, run, goes_on=make.now + HOUR) == [False]

    async def test_of_several_only_the_first_begins_without_asking(self, store: Store, make: Factory) -> None:
        """In whatever order they are given: the earliest due."""
        runs = [make.scheduled(make.identifier(), make.now + ahead, overlap=Overlap.QUEUE_ALL) for ahead in (2, 0, 1)]
        assert await self.guards(store, make, *runs, goes_on=make.now + HOUR) == [True, False, True]

    async def test_a_run_that_a_later_decision_may_overtake_asks(self, store: Store, make: Factory) -> None:
        """Spread or deferred beyond the next nominal time."""
        late = make.scheduled(make.identifier(), make.now + 10.0, nominal=make.now, overlap=Overlap.SKIP)
        assert await self.guards(store, make, late, goes_on=make.now + 5.0) == [True]

    async def test_the_last_run_of_a_schedule_is_overtaken_by_none(self, store: Store, make: Factory) -> None:
        """However late it is due."""
        late = make.scheduled(make.identifier(), make.now + 10.0, nominal=make.now, overlap=Overlap.SKIP)
        assert await self.guards(store, make, late, goes_on=None) == [False]

    async def test_a_backfill_does_not_make_the_schedule_ask(self, store: Store, make: Factory) -> None:
        """It is a line of its own."""
        job = make.recurring(make.now)
        await self.add(store, job)
        filled = make.run(job.job_id, make.now, trigger=Trigger.BACKFILL, overlap=Overlap.QUEUE_ALL)
        await store.runs.add("default", job.job_id, [filled])
        run = make.scheduled(job.job_id, make.now, overlap=Overlap.SKIP)
        async with self.near(store) as batch:
            await batch.commit([make.fire(job.job_id, batch.timers[0].pending.due, make.now + HOUR, runs=[run])])
        claims = await self.claim_freed(store, await self.register(store))
        assert {claimed.run_id: claimed.guarded for claimed in claims} == {filled.run_id: True, run.run_id: False}

    async def test_with_allow_nothing_asks(self, store: Store, make: Factory) -> None:
        """However many they are."""
        runs = [make.scheduled(make.identifier(), make.now + ahead, overlap=Overlap.ALLOW) for ahead in range(3)]
        assert await self.guards(store, make, *runs, goes_on=make.now + HOUR) == [False] * 3
        assert Counter(await self.guards(store, make, *runs, goes_on=None)) == {False: 3}
