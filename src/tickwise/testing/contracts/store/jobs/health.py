"""Invariants: what is not as it must be is found, page by page, and what the store can put right it does."""

from __future__ import annotations

from uuid import UUID

import pytest

from tickwise.domain.decision import TimerState
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import Check, Gate, JobAction, OperationRow, OperationStep, RunCancel, Store, Violation
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, instants
from tickwise.testing.factories import Factory, held, outcome

HOUR = 3600.0
LATE_SECONDS = 61.0
"""More than the minute that things may take."""

HEALED = {
    Check.ENDED_ONCE,
    Check.HELD_BY_ACTIVE,
    Check.WAITS_FOR_SOMETHING,
    Check.HEARD_IN_TIME,
    Check.HELD_AS_TOLD,
}


def wrong(subject: UUID) -> Violation:
    """A violation as a check finds it."""
    return Violation(subject, "it is wrong", "default")


class HealthContract(StoreContract):
    """Shortcuts for looking at invariants."""

    async def found(self, store: Store, check: Check, *, limit: int = 100) -> list[UUID]:
        """Every subject that is not as it must be, page by page."""
        subjects: list[UUID] = []
        after: UUID | None = None
        while True:
            page = await store.checks.violations(check, after=after, limit=limit)
            subjects += [violation.subject for violation in page.found]
            assert all(violation.detail for violation in page.found)
            if page.last is None:
                return subjects
            assert after is None or page.last > after
            after = page.last

    async def late(self, store: Store, seconds: float = LATE_SECONDS) -> None:
        """Time passes, and nobody does anything."""
        await self.shift(store, seconds)

    async def lively(self, store: Store, make: Factory) -> int:
        """A store in which there is something of everything, all of it as it must be. Its executor."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, *(make.job(make.now - number) for number in range(6)))
        running, waiting, asked, ended, failed, follows = await self.claim(store, executor)
        gate = Gate("job:x", 1)
        assert await self.starts_in_turn(store, executor, running, waiting, gate=gate) == [True, False]
        await self.begin(store, executor, asked)
        await store.runs.move(RunCancel("default", asked.run_id, "ada"))
        assert await self.finish(store, executor, outcome(ended)) == []
        assert await self.finish(store, executor, outcome(failed, RunState.FAILED)) == []
        assert await self.finish(store, executor, outcome(follows, follow=True)) == []
        await self.add(store, make.recurring(make.now + HOUR), make.job(make.now + HOUR))
        await self.add(store, make.recurring(make.now, never=True, schedule_type="ON_DEMAND"))
        await store.operations.add(make.operation())
        return executor


class ChecksContract(HealthContract):
    """`violations`."""

    async def test_where_all_is_well_nothing_is_found(self, store: Store, make: Factory) -> None:
        """By each check, however small the pages."""
        await self.lively(store, make)
        for check in Check:
            assert await self.found(store, check) == [], check
            assert await self.found(store, check, limit=1) == [], check

    async def test_an_empty_store_is_healthy(self, store: Store) -> None:
        """There is nothing to look at, and that is all."""
        for check in Check:
            page = await store.checks.violations(check, after=None, limit=10)
            assert (page.last, list(page.found)) == (None, []), check

    async def test_what_nobody_claims_is_found(self, store: Store, make: Factory) -> None:
        """After a minute; what is not yet ready, what is held and what waits are left out."""
        late, coming, held_one = make.job(), make.job(make.now + HOUR), make.job(make.now - 5.0)
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, held_one)
        assert len(await self.claim(store, executor)) == 1
        await self.add(store, late, coming)
        await self.shift(store, 30.0)
        assert await self.found(store, Check.CLAIMED_IN_TIME) == []
        await self.shift(store, 40.0)
        assert await self.found(store, Check.CLAIMED_IN_TIME) == [late.run_id]
        [violation] = (await store.checks.violations(Check.CLAIMED_IN_TIME, after=None, limit=10)).found
        assert violation.lane == late.lane

    async def test_what_a_held_queue_keeps_is_as_it_must_be(self, store: Store, make: Factory) -> None:
        """Somebody wanted that."""
        job = make.job()
        await self.add(store, job)
        await store.queues.hold(make.hold())
        await self.late(store)
        assert await self.found(store, Check.CLAIMED_IN_TIME) == []
        await store.queues.resume("default", "default")
        assert await self.found(store, Check.CLAIMED_IN_TIME) == [job.run_id]

    async def test_a_timer_that_nobody_fires_is_found(self, store: Store, make: Factory) -> None:
        """After a minute, by its job; what is held back for good is not due."""
        late, paused = make.recurring(make.now), make.recurring(make.now)
        await self.add(store, late, paused, make.recurring(make.now + HOUR))
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE, reason="no"))
        await self.shift(store, 30.0)
        assert await self.found(store, Check.FIRED_IN_TIME) == []
        await self.shift(store, 40.0)
        assert await self.found(store, Check.FIRED_IN_TIME) == [late.job_id]

    async def test_a_sequence_that_nobody_follows_is_found(self, store: Store, make: Factory) -> None:
        """After a minute."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed, follow=True)) == []
        await self.shift(store, 30.0)
        assert await self.found(store, Check.FOLLOWED_IN_TIME) == []
        await self.shift(store, 40.0)
        assert await self.found(store, Check.FOLLOWED_IN_TIME) == [claimed.run_id]
        await store.completions.commit("default", {claimed.run_id: []})
        assert await self.found(store, Check.FOLLOWED_IN_TIME) == []

    async def test_a_request_that_nobody_hears_is_found(self, store: Store, make: Factory) -> None:
        """After a minute without the holder's heartbeat; one that was heard may take its time."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, make.job(), make.job())
        one, two = await self.claim(store, executor)
        await store.runs.move(RunCancel("default", one.run_id, "ada"))
        await self.cancels(store, executor)
        await store.executors.beat(executor, HOUR)
        await store.runs.move(RunCancel("default", two.run_id, "ada"))
        await self.shift(store, 30.0)
        assert await self.found(store, Check.HEARD_IN_TIME) == []
        await self.shift(store, 40.0)
        assert await self.found(store, Check.HEARD_IN_TIME) == [two.run_id]
        await store.executors.beat(executor, HOUR)
        assert await self.found(store, Check.HEARD_IN_TIME) == []

    async def test_a_lease_that_nobody_ends_is_found(self, store: Store, make: Factory) -> None:
        """By the executor's number; what is expired is as it must be."""
        lost = await self.register(store, "lost")
        await self.held(store, lost, make.job())
        await self.register(store, "active", lease_seconds=HOUR)
        await self.shift(store, LEASE_SECONDS + 30.0)
        assert await self.found(store, Check.EXPIRED_IN_TIME) == []
        await self.shift(store, 40.0)
        assert await self.found(store, Check.EXPIRED_IN_TIME) == [UUID(int=lost)]
        await store.executors.expire(crashes_max=3)
        assert await self.found(store, Check.EXPIRED_IN_TIME) == []

    async def test_an_operation_that_stands_still_is_found(self, store: Store, make: Factory) -> None:
        """After five minutes without a page, taken or not."""
        row = await store.operations.add(make.operation())
        assert isinstance(row, OperationRow)
        await self.shift(store, 240.0)
        assert await self.found(store, Check.STEPPED_IN_TIME) == []
        taken = await store.operations.take(10.0)
        await self.shift(store, 70.0)
        assert await self.found(store, Check.STEPPED_IN_TIME) == [row.operation_id]
        assert taken is not None
        page = OperationStep(
            operation_id=row.operation_id, expected_step=0, cursor="c", done=1, refused=0, problems="[]"
        )
        assert await store.operations.step(page)
        assert await self.found(store, Check.STEPPED_IN_TIME) == []

    async def test_an_operation_that_is_over_may_stand_still(self, store: Store, make: Factory) -> None:
        """For ever."""
        row = await store.operations.add(make.operation())
        assert isinstance(row, OperationRow)
        await store.operations.cancel("default", row.operation_id)
        await self.shift(store, HOUR)
        assert await self.found(store, Check.STEPPED_IN_TIME) == []

    async def test_a_recurring_job_without_a_timer_is_found(self, store: Store, make: Factory) -> None:
        """Unless it is paused, cancelled, or runs only when it is asked to."""
        lost, paused, gone, well = (make.recurring(make.now + HOUR) for _ in range(4))
        await self.add(store, lost, paused, gone, well, make.job(make.now + HOUR))
        await self.add(store, make.recurring(make.now, never=True, schedule_type="ON_DEMAND"))
        await store.jobs.move(make.move(gone.job_id, JobAction.CANCEL))
        await store.jobs.move(make.move(paused.job_id, JobAction.PAUSE, reason="no"))
        await self.damage(store, Check.PLANNED, lost.job_id)
        await self.damage(store, Check.PLANNED, paused.job_id)
        assert await self.found(store, Check.PLANNED) == [lost.job_id]

    async def test_what_is_found_says_whose_it_is(self, store: Store, make: Factory) -> None:
        """By its namespace, whether the subject is a run, a job, a sequence or an operation."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, make.job(namespace="elsewhere"))
        [claimed] = await self.claim(store, executor)
        assert await self.finish(store, executor, outcome(claimed, follow=True)) == []
        await self.add(store, make.job(namespace="elsewhere"), make.recurring(make.now, namespace="elsewhere"))
        await store.operations.add(make.operation(namespace="elsewhere"))
        await self.late(store, HOUR / 2)
        checks = (Check.CLAIMED_IN_TIME, Check.FIRED_IN_TIME, Check.FOLLOWED_IN_TIME, Check.STEPPED_IN_TIME)
        for check in checks:
            [violation] = (await store.checks.violations(check, after=None, limit=10)).found
            assert violation.namespace == "elsewhere", check

    async def test_pages_join(self, store: Store, make: Factory) -> None:
        """No subject twice, none left out, in the order of their ids; a page with nothing in it is not the end."""
        jobs = [make.job(make.now - number) for number in range(5)]
        await self.add(store, *jobs)
        executor = await self.register(store, lease_seconds=HOUR)
        held_ids = {claimed.run_id for claimed in await self.claim(store, executor, limit=2)}
        await self.late(store)
        expected = sorted(job.run_id for job in jobs if job.run_id is not None and job.run_id not in held_ids)
        for limit in (1, 2, 3, 100):
            assert await self.found(store, Check.CLAIMED_IN_TIME, limit=limit) == expected

    async def test_a_page_looks_at_no_more_than_it_is_asked_to(self, store: Store, make: Factory) -> None:
        """Good ones count: a healthy store is walked in small steps, too."""
        await self.add(store, *(make.job(make.now - number) for number in range(5)))
        page = await store.checks.violations(Check.ENDED_ONCE, after=None, limit=2)
        assert page.last is not None
        assert list(page.found) == []


class HealsContract(HealthContract):
    """`heal`, `timers.restore`."""

    async def free_run(self, store: Store, make: Factory) -> UUID:
        """One that waits to be claimed."""
        job = make.job()
        await self.add(store, job)
        assert job.run_id is not None
        return job.run_id

    async def orphan(
        self, store: Store, make: Factory, *, begun: bool, on_unknown: OnUnknown = OnUnknown.RERUN
    ) -> Claimed:
        """A run that is held by an executor which is gone."""
        executor = await self.register(store, lease_seconds=HOUR)
        claimed = await self.held(store, executor, make.job())
        if begun:
            await self.begin(store, executor, claimed, on_unknown=on_unknown)
        await self.damage(store, Check.HELD_BY_ACTIVE, claimed.run_id)
        return claimed

    async def test_of_a_run_that_is_both_the_active_one_goes(self, store: Store, make: Factory) -> None:
        """The record of the end is the truth."""
        run_id = await self.free_run(store, make)
        await self.damage(store, Check.ENDED_ONCE, run_id)
        assert await self.found(store, Check.ENDED_ONCE) == [run_id]
        assert await store.checks.heal(Check.ENDED_ONCE, [wrong(run_id)]) == 1
        assert await self.found(store, Check.ENDED_ONCE) == []
        assert (await self.run_row(store, run_id)).ended_at is not None
        assert list(await self.claim_freed(store, await self.register(store))) == []

    async def test_what_nobody_active_holds_is_freed(self, store: Store, make: Factory) -> None:
        """As if its holder's lease had been lost: guarded, its number used up."""
        claimed = await self.orphan(store, make, begun=False)
        assert await self.found(store, Check.HELD_BY_ACTIVE) == [claimed.run_id]
        assert await store.checks.heal(Check.HELD_BY_ACTIVE, [wrong(claimed.run_id)]) == 1
        assert await self.found(store, Check.HELD_BY_ACTIVE) == []
        [again] = await self.claim_freed(store, await self.register(store, "two"))
        assert (again.run_id, again.attempt, again.crashes, again.guarded) == (claimed.run_id, 2, 0, True)

    async def test_what_had_begun_counts_a_crash(self, store: Store, make: Factory) -> None:
        """And keeps its lost attempt on record."""
        claimed = await self.orphan(store, make, begun=True)
        assert await store.checks.heal(Check.HELD_BY_ACTIVE, [wrong(claimed.run_id)]) == 1
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.crashes, row.executor) == (RunState.QUEUED, 1, None)
        [attempt] = await store.runs.attempts(claimed.run_id)
        assert (attempt.state, attempt.reason) == (RunState.QUEUED, "lease_lost")

    async def test_what_must_not_run_twice_fails(self, store: Store, make: Factory) -> None:
        """As its recorded start says."""
        claimed = await self.orphan(store, make, begun=True, on_unknown=OnUnknown.HOLD)
        assert await store.checks.heal(Check.HELD_BY_ACTIVE, [wrong(claimed.run_id)]) == 1
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.reason) == (RunState.FAILED, "unknown_outcome")

    async def test_what_waits_for_nothing_is_claimable(self, store: Store, make: Factory) -> None:
        """After each kind of wait."""
        run_id = await self.free_run(store, make)
        await self.damage(store, Check.WAITS_FOR_SOMETHING, run_id)
        assert await self.found(store, Check.WAITS_FOR_SOMETHING) == [run_id]
        assert await store.checks.heal(Check.WAITS_FOR_SOMETHING, [wrong(run_id)]) == 1
        assert await self.found(store, Check.WAITS_FOR_SOMETHING) == []
        [claimed] = await self.claim_freed(store, await self.register(store))
        assert claimed.run_id == run_id

    async def test_what_waits_for_something_goes_on_waiting(self, store: Store, make: Factory) -> None:
        """It is as it must be: nothing is put right that is right."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.add(store, make.job(make.now - 1.0), make.job())
        one, two = await self.claim(store, executor)
        assert await self.starts_in_turn(store, executor, one, two, gate=Gate("job:x", 1)) == [True, False]
        assert await self.found(store, Check.WAITS_FOR_SOMETHING) == []
        assert await store.checks.heal(Check.WAITS_FOR_SOMETHING, [wrong(two.run_id)]) == 1
        assert await self.waits(store, two.run_id)

    async def test_what_is_right_by_now_stays_as_it_is(self, store: Store, make: Factory) -> None:
        """It was claimed by an active one meanwhile."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        for check in (Check.HELD_BY_ACTIVE, Check.ENDED_ONCE, Check.WAITS_FOR_SOMETHING):
            assert await store.checks.heal(check, [wrong(claimed.run_id)]) == 1
        row = await self.run_row(store, claimed.run_id)
        assert (row.state, row.executor, row.crashes) == (RunState.DISPATCHED, executor, 0)
        assert await self.finish(store, executor, outcome(claimed)) == []

    async def test_a_request_to_stop_what_is_gone_goes(self, store: Store, make: Factory) -> None:
        """Nobody will ever hear it."""
        gone = make.identifier()
        await self.damage(store, Check.HEARD_IN_TIME, gone)
        await store.checks.heal(
            Check.HEARD_IN_TIME, [wrong(each) for each in await self.found(store, Check.HEARD_IN_TIME)]
        )
        assert await self.found(store, Check.HEARD_IN_TIME) == []

    async def test_a_run_without_a_job_is_found(self, store: Store, make: Factory) -> None:
        """It cannot be repaired: a person has to look into it."""
        run_id = await self.free_run(store, make)
        await self.damage(store, Check.HAS_A_JOB, run_id)
        assert await self.found(store, Check.HAS_A_JOB) == [run_id]
        assert await store.checks.heal(Check.HAS_A_JOB, [wrong(run_id)]) == 0

    async def test_runs_without_a_job_are_found_between_pages_of_timers(self, store: Store, make: Factory) -> None:
        """Before the first timer, between two of them, behind the last one; by pages of any size."""
        lost = []
        for _ in range(4):
            run_id = await self.free_run(store, make)
            await self.damage(store, Check.HAS_A_JOB, run_id)
            lost.append(run_id)
            await self.add(store, *(make.recurring(make.now + HOUR) for _ in range(3)))
        lost.append(await self.free_run(store, make))
        await self.damage(store, Check.HAS_A_JOB, lost[-1])
        for limit in (1, 2, 3, 100):
            assert await self.found(store, Check.HAS_A_JOB, limit=limit) == sorted(lost)

    async def test_what_others_have_to_do_the_store_does_not(self, store: Store, make: Factory) -> None:
        """It puts right nothing of it, and changes nothing."""
        await self.lively(store, make)
        await self.late(store, 2 * HOUR)
        for check in set(Check) - HEALED:
            before = await self.found(store, check)
            assert await store.checks.heal(check, [wrong(each) for each in (*before, make.identifier())]) == 0, check
            assert await self.found(store, check) == before, check

    async def test_each_is_healed_for_itself(self, store: Store, make: Factory) -> None:
        """Two are wrong, one is right, and one is not there."""
        damaged = [await self.free_run(store, make) for _ in range(2)]
        right = await self.free_run(store, make)
        for run_id in damaged:
            await self.damage(store, Check.WAITS_FOR_SOMETHING, run_id)
        found = [wrong(each) for each in (*damaged, right)]
        assert await store.checks.heal(Check.WAITS_FOR_SOMETHING, found) == 3
        assert await self.found(store, Check.WAITS_FOR_SOMETHING) == []

    async def test_a_lost_timer_is_restored(self, store: Store, make: Factory) -> None:
        """From the plan, as its reader computed it; then it fires as if it had never been away."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await self.damage(store, Check.PLANNED, job.job_id)
        timer = TimerState(make.now + 5.0, fired=3)
        assert await store.timers.restore("default", job.job_id, timer, expected_version=1) is True
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(timer)
        assert await self.found(store, Check.PLANNED) == []
        await self.shift(store, 5.0)
        async with self.near(store) as batch:
            assert [each.job_id for each in batch.timers] == [job.job_id]

    async def test_a_timer_that_is_there_is_not_replaced(self, store: Store, make: Factory) -> None:
        """Another one was quicker."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        assert await store.timers.restore("default", job.job_id, TimerState(make.now), expected_version=1) is False
        timer = (await self.job_row(store, job.job_id)).timer
        assert instants(timer) == instants(TimerState(make.now + HOUR))

    @pytest.mark.parametrize("meanwhile", ["changed", "paused", "cancelled", "elsewhere", "gone"])
    async def test_no_timer_is_restored_to_what_is_otherwise_by_now(
        self, store: Store, make: Factory, meanwhile: str
    ) -> None:
        """The plan was read from something else."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await self.damage(store, Check.PLANNED, job.job_id)
        namespace, job_id = "default", job.job_id
        if meanwhile == "changed":
            await store.jobs.change(make.change(await self.job_row(store, job.job_id), name="another"))
        elif meanwhile == "elsewhere":
            namespace = "elsewhere"
        elif meanwhile == "gone":
            job_id = make.identifier()
        else:
            action = JobAction.PAUSE if meanwhile == "paused" else JobAction.CANCEL
            await store.jobs.move(make.move(job.job_id, action, reason="no"))
        assert await store.timers.restore(namespace, job_id, TimerState(make.now), expected_version=1) is False
        assert (await self.job_row(store, job.job_id)).timer is None

    async def test_a_timer_that_is_held_back_is_restored_so(self, store: Store, make: Factory) -> None:
        """With all that it says."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        await self.damage(store, Check.PLANNED, job.job_id)
        timer = held(make.now + 5.0, due=make.now + HOUR)
        assert await store.timers.restore("default", job.job_id, timer, expected_version=1) is True
        assert instants((await self.job_row(store, job.job_id)).timer) == instants(timer)
