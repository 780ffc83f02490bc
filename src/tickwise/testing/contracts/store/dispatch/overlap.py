"""Runs of one job that would overlap: each policy in each situation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Trigger
from tickwise.ports.store import CancelRequest, RunCancel, RunSkip, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
POLICIES = [policy for policy in Overlap if policy is not Overlap.ALLOW]


class LineContract(StoreContract):
    """Shortcuts for jobs with several runs."""

    async def job_with(self, store: Store, make: Factory, *policies: Overlap, **fields: Any) -> UUID:
        """A job whose schedule made a run for each policy, a second apart, the first of them due now."""
        job = make.recurring(make.now, **fields)
        await self.add(store, job)
        for ahead, policy in enumerate(policies):
            run = make.scheduled(job.job_id, make.now + ahead, overlap=policy)
            async with self.near(store, 1.0 + ahead) as batch:
                [due] = [timer.pending.due for timer in batch.timers if timer.job_id == job.job_id]
                fire = make.fire(job.job_id, due, make.now + ahead + 1.0, runs=[run])
                assert await batch.commit([fire]) == 1
        await self.shift(store, len(policies))
        return job.job_id

    async def claims(self, store: Store, *executors: int) -> list[Claimed]:
        """One run for each of these executors, the earliest first."""
        await self.shift(store, 2.0)
        claims: list[Claimed] = []
        for executor in executors:
            await store.executors.beat(executor, LEASE_SECONDS)
            claims += await self.claim(store, executor, limit=1)
        assert len(claims) == len(executors)
        assert [claimed.run_id for claimed in claims] == sorted(claimed.run_id for claimed in claims)
        return claims

    async def goes_on(self, store: Store, run_id: UUID) -> bool:
        """Check that a run that waited goes on: by the call that ended the earlier one, or by the sweep."""
        if await self.waits(store, run_id):
            assert await store.runs.unblock() == 1
        row = await self.run_row(store, run_id)
        return row.state is RunState.QUEUED and not row.blocked and row.ready_at is not None

    async def reason(self, store: Store, run_id: UUID) -> tuple[RunState, str | None]:
        """The state of a run and its reason."""
        row = await self.run_row(store, run_id)
        return row.state, row.reason


class OverlapContract(LineContract):
    """`attempts.start` of a run whose overlap is open."""

    async def test_a_run_that_comes_while_another_is_unfinished_asks(self, store: Store, make: Factory) -> None:
        """It is claimed guarded; the first was not."""
        await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        assert (first.guarded, second.guarded) == (False, True)

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_when_the_earlier_one_has_ended_it_starts(self, store: Store, make: Factory, policy: Overlap) -> None:
        """Under each policy: nothing overlaps."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        assert await self.finish(store, one, outcome(first)) == []
        assert await self.starts(store, two, second) == [True]
        assert await self.run_state(store, second.run_id) is RunState.RUNNING
        assert await self.finish(store, two, outcome(second)) == []

    @pytest.mark.parametrize("begun", [False, True])
    @pytest.mark.parametrize("policy", POLICIES)
    async def test_while_the_earlier_one_is_held_it_does_not_start(
        self, store: Store, make: Factory, policy: Overlap, begun: bool
    ) -> None:
        """Begun or not: it is skipped or waits, and with `cancel_running` the holder is asked to stop."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        if begun:
            await self.begin(store, one, first)
        assert await self.starts(store, two, second) == [False]
        if policy is Overlap.SKIP:
            assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "overlap")
        else:
            assert await self.waits(store, second.run_id)
        asked = [CancelRequest(first.run_id, CancelKind.CANCEL)] if policy is Overlap.CANCEL_RUNNING else []
        assert await self.cancels(store, one) == asked
        assert await self.run_state(store, first.run_id) is (RunState.RUNNING if begun else RunState.DISPATCHED)

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_while_the_earlier_one_is_free_and_has_not_begun(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """Given back for later: it counts as any other; `cancel_running` skips it and starts the later one."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.finish(store, one, outcome(first, RunState.QUEUED, retry_at=make.now + HOUR))
        starts = await self.starts(store, two, second)
        await self.assert_settled(store, policy, first, second, starts=starts, replaced=(RunState.SKIPPED, "overlap"))

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_while_the_earlier_one_waits_for_its_backoff(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """It is unfinished; with `cancel_running` it is cancelled and the later one starts."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.finish(store, one, outcome(first, RunState.RETRYING, retry_at=make.now + HOUR))
        starts = await self.starts(store, two, second)
        replaced = (RunState.CANCELLED, "cancelled")
        await self.assert_settled(store, policy, first, second, starts=starts, replaced=replaced)
        assert [attempt.state for attempt in await store.runs.attempts(first.run_id)] == [RunState.RETRYING]

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_right_after_the_earlier_one_was_lost_with_its_executor(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """It will run again, so it is unfinished; with `cancel_running` it is cancelled and the later one starts."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two", lease_seconds=HOUR)
        first, second = await self.claims(store, one, two)
        await store.executors.beat(two, HOUR)
        await self.begin(store, one, first)
        await self.expire(store, one)
        starts = await self.starts(store, two, second)
        replaced = (RunState.CANCELLED, "cancelled")
        await self.assert_settled(store, policy, first, second, starts=starts, replaced=replaced)

    async def assert_settled(
        self,
        store: Store,
        policy: Overlap,
        first: Claimed,
        second: Claimed,
        *,
        starts: list[bool],
        replaced: tuple[RunState, str],
    ) -> None:
        """Check both runs after the second met a first that no executor holds; `replaced`: the end of the first with
        `cancel_running`."""
        assert starts == [policy is Overlap.CANCEL_RUNNING]
        if policy is Overlap.CANCEL_RUNNING:
            assert await self.reason(store, first.run_id) == replaced
            assert await self.run_state(store, second.run_id) is RunState.RUNNING
            return
        assert await self.run_state(store, first.run_id) in (RunState.QUEUED, RunState.RETRYING)
        if policy is Overlap.SKIP:
            assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "overlap")
        else:
            assert await self.waits(store, second.run_id)

    @pytest.mark.parametrize("policy", POLICIES)
    async def test_while_one_goes_on_and_one_waits(self, store: Store, make: Factory, policy: Overlap) -> None:
        """`queue_one` keeps one waiting, `queue_all` all; `cancel_running` puts itself in the place of who waits."""
        await self.job_with(store, make, policy, Overlap.QUEUE_ALL, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second, third = await self.claims(store, one, two, two)
        await self.begin(store, one, first)
        assert await self.starts(store, two, second) == [False]
        assert await self.starts(store, two, third) == [False]
        assert await self.waits(store, third.run_id) == (policy in (Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING))
        if policy in (Overlap.SKIP, Overlap.QUEUE_ONE):
            assert await self.reason(store, third.run_id) == (RunState.SKIPPED, "overlap")
        if policy is Overlap.CANCEL_RUNNING:
            assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "overlap")
            assert await self.cancels(store, one) == [CancelRequest(first.run_id, CancelKind.CANCEL)]
        else:
            assert await self.waits(store, second.run_id)

    async def test_a_skipped_start_is_on_record_as_one_that_never_began(self, store: Store, make: Factory) -> None:
        """With a sentence for people, and no attempt."""
        job_id = await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        _, second = await self.claims(store, one, two)
        assert await self.starts(store, two, second) == [False]
        row = await self.run_row(store, second.run_id)
        assert (row.state, row.reason, row.job_id) == (RunState.SKIPPED, "overlap", job_id)
        assert (row.attempt, row.started_at, row.executor, row.occurrences) == (0, None, None, 1)
        assert row.error
        assert row.ended_at is not None
        assert microseconds(row.nominal_at) == microseconds(make.now + 1.0)
        assert list(await store.runs.attempts(second.run_id)) == []

    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ALL])
    async def test_a_refused_start_leaves_nothing_at_the_executor(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """It holds the run no longer, and nothing that it says of it is accepted."""
        await self.job_with(store, make, policy, policy)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        _, second = await self.claims(store, one, two)
        assert await self.starts(store, two, second) == [False]
        before = await self.run_row(store, second.run_id)
        assert await self.starts(store, two, second) == [False]
        for state in (RunState.SUCCESS, RunState.RETRYING, RunState.FAILED):
            assert await self.finish(store, two, outcome(second, state, retry_at=second.now)) == [second.run_id]
        await self.finish(store, two, outcome(second, RunState.QUEUED))
        assert await self.run_row(store, second.run_id) == before
        assert {row.executor: row.held for row in await store.executors.all()} == {one: 1, two: 0}
        assert await self.cancels(store, two) == []

    async def test_a_start_that_does_not_match_settles_nothing(self, store: Store, make: Factory) -> None:
        """The fence comes first."""
        await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        _, second = await self.claims(store, one, two)
        assert await self.starts(store, two, second._replace(token=second.token + 1_000)) == [False]
        assert await self.starts(store, one, second) == [False]
        assert await self.run_state(store, second.run_id) is RunState.DISPATCHED

    async def test_one_batch_settles_each_by_those_before_it(self, store: Store, make: Factory) -> None:
        """In whatever order they stand in it; other jobs are none of their business."""
        await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
        executor = await self.register(store)
        first, second, third = await self.claims(store, executor, executor, executor)
        stranger = await self.held(store, executor, make.job(make.now))
        starts = await self.starts(store, executor, third, stranger, first, second)
        assert starts == [False, True, True, False]
        assert [await self.waits(store, claimed.run_id) for claimed in (second, third)] == [True, True]

    async def test_who_is_settled_is_so_for_good(self, store: Store, make: Factory) -> None:
        """A retry of what began does not ask again, though another one waits for it."""
        await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second, third = await self.claims(store, one, two, two)
        await self.finish(store, one, outcome(first))
        assert await self.starts(store, two, second, third) == [True, False]
        await self.finish(store, two, outcome(second, RunState.RETRYING, retry_at=second.now))
        [again] = await self.claim_freed(store, one)
        assert (again.run_id, again.attempt, again.guarded) == (second.run_id, 2, False)
        assert await self.waits(store, third.run_id)

    async def test_what_is_given_back_before_its_start_asks_again(self, store: Store, make: Factory) -> None:
        """Nothing was settled yet."""
        await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.finish(store, two, outcome(second, RunState.QUEUED))
        await self.finish(store, one, outcome(first))
        [again] = await self.claim_freed(store, two)
        assert (again.run_id, again.attempt, again.guarded) == (second.run_id, 1, True)
        assert await self.starts(store, two, again) == [True]

    @pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE_ALL])
    async def test_a_request_to_stop_is_carried_out_by_the_refused_start(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """It is as if its holder had given it back."""
        for asks, expected in (("cancel", RunState.CANCELLED), ("skip", RunState.SKIPPED)):
            await self.job_with(store, make, policy, policy)
            one, two = await self.register(store, "one"), await self.register(store, "two")
            first, second = await self.claims(store, one, two)
            if asks == "cancel":
                await store.runs.move(RunCancel("default", second.run_id, "grace"))
            else:
                await store.runs.move(RunSkip("default", second.run_id, "not this one"))
            assert await self.starts(store, two, second) == [False]
            reason = "cancelled" if asks == "cancel" else "requested"
            assert await self.reason(store, second.run_id) == (expected, reason)
            await self.finish(store, one, outcome(first))

    # ------------------------------------------------------------------------------------------- what counts

    async def test_runs_of_a_backfill_are_a_line_of_their_own(self, store: Store, make: Factory) -> None:
        """They wait for each other, and neither they nor the schedule's wait for the others."""
        job_id = await self.job_with(store, make, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        [scheduled] = await self.claims(store, one)
        runs = [
            make.run(job_id, make.now - ago, trigger=Trigger.BACKFILL, nominal=make.now - ago, overlap=policy)
            for ago, policy in ((200.0, Overlap.QUEUE_ALL), (100.0, Overlap.QUEUE_ALL))
        ]
        await store.runs.add("default", job_id, runs)
        first, second = await self.claims(store, two, two)
        assert await self.starts(store, two, first, second) == [True, False]
        assert await self.waits(store, second.run_id)
        async with self.near(store, HOUR) as batch:
            run = make.scheduled(job_id, make.now + 2.0, overlap=Overlap.SKIP)
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=[run])])
        await self.finish(store, one, outcome(scheduled))
        [later] = await self.claim_freed(store, one)
        assert later.run_id == run.run_id
        assert await self.starts(store, one, later) == [True]

    async def test_what_people_asked_for_starts_and_counts(self, store: Store, make: Factory) -> None:
        """A run-now begins beside the one that goes on, and what comes later minds it."""
        job_id = await self.job_with(store, make, Overlap.SKIP)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        [scheduled] = await self.claims(store, one)
        await self.begin(store, one, scheduled)
        asked = make.run(job_id)
        await store.runs.add("default", job_id, [asked])
        [now] = await self.claims(store, two)
        assert (now.run_id, now.guarded) == (asked.run_id, False)
        assert await self.starts(store, two, now) == [True]
        await self.finish(store, one, outcome(scheduled))
        async with self.near(store, HOUR) as batch:
            run = make.scheduled(job_id, await store.now(), overlap=Overlap.SKIP)
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=[run])])
        [later] = await self.claim_freed(store, one)
        assert (later.run_id, later.guarded) == (run.run_id, True)
        assert await self.starts(store, one, later) == [False]
        assert await self.reason(store, later.run_id) == (RunState.SKIPPED, "overlap")

    async def test_what_was_let_start_counts_though_it_is_later(self, store: Store, make: Factory) -> None:
        """A run that was delayed meets a run-now of a later time that goes on already."""
        job_id = await self.job_with(store, make, Overlap.SKIP)
        async with self.near(store, HOUR) as batch:
            late = make.scheduled(job_id, make.now + 0.5, overlap=Overlap.QUEUE_ALL)
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=[late])])
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, delayed = await self.claims(store, one, two)
        await store.runs.add("default", job_id, [make.run(job_id, make.now + 2.0)])
        [now] = await self.claims(store, one)
        await self.finish(store, one, outcome(first))
        assert await self.starts(store, two, delayed) == [False]
        assert await self.waits(store, delayed.run_id)
        await self.finish(store, one, outcome(now))
        assert await self.goes_on(store, delayed.run_id)

    async def test_what_is_asked_for_later_and_waits_still_does_not_count(self, store: Store, make: Factory) -> None:
        """A run-now for tonight holds up nothing until then."""
        job_id = await self.job_with(store, make, Overlap.SKIP, Overlap.SKIP)
        await store.runs.add("default", job_id, [make.run(job_id, make.now + HOUR)])
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.finish(store, one, outcome(first))
        assert await self.starts(store, two, second) == [True]

    async def test_a_requested_run_may_have_a_policy(self, store: Store, make: Factory) -> None:
        """It asks at its start, also if it is alone."""
        job = make.recurring(make.now + HOUR)
        await self.add(store, job)
        runs = [make.run(job.job_id, make.now + ahead, overlap=Overlap.SKIP) for ahead in (0.0, 0.1)]
        executor = await self.register(store)
        await store.runs.add("default", job.job_id, runs)
        first, second = await self.claims(store, executor, executor)
        assert (first.guarded, second.guarded) == (True, True)
        assert await self.starts(store, executor, first) == [True]
        assert await self.starts(store, executor, second) == [False]
        assert await self.reason(store, second.run_id) == (RunState.SKIPPED, "overlap")
