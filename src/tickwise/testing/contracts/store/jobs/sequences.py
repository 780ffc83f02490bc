"""Sequences: what is to follow from the end of a run is on record with that end, and is made once."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed, Trigger, run_id
from tickwise.domain.retry import OnUnknown
from tickwise.ports.store import (
    JobAction,
    LetterResolution,
    LetterStatus,
    NewJob,
    NewRun,
    Retention,
    RunCancel,
    RunQuery,
    Settlement,
    Store,
    Successor,
)
from tickwise.testing.contracts.base import DAY_SECONDS, LEASE_SECONDS, StoreContract, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0


class SequencesContract(StoreContract):
    """`Outcome.follow`, `completions`, `completions.commit`."""

    async def following(self, store: Store) -> list[tuple[UUID, bool]]:
        """The runs from which others are to be made, and how their sequences go on."""
        return [(follow.run.run_id, follow.succeeded) for follow in await store.completions.pending(100)]

    async def ended(
        self, store: Store, make: Factory, state: RunState = RunState.SUCCESS, *, follow: bool = True
    ) -> Claimed:
        """A run that ended so, and whose job names others."""
        executor = await self.register(store, lease_seconds=HOUR)
        claimed = await self.held(store, executor, make.job())
        assert await self.finish(store, executor, outcome(claimed, state, follow=follow)) == []
        return claimed

    async def origins(self, store: Store, job: NewJob) -> set[UUID | None]:
        """From which runs those of a job came."""
        found = await store.searches.runs(RunQuery(namespace="default", job_id=job.job_id, limit=100))
        return {row.origin for row in found}

    async def next_job(self, store: Store, make: Factory, **fields: str) -> NewJob:
        """A job that others start."""
        job = make.recurring(make.now, never=True, schedule_type="ON_DEMAND", **fields)
        await self.add(store, job)
        return job

    def successor(self, origin: UUID, job: NewJob, due: float) -> Successor:
        """The run that a job starts after the end of another."""
        name = run_id(job.job_id, due, Trigger.SEQUENCE, origin.bytes)
        return Successor(job.job_id, NewRun(name, due, Trigger.SEQUENCE, origin=origin))

    @pytest.mark.parametrize(("end", "succeeded"), [(RunState.SUCCESS, True), (RunState.FAILED, False)])
    async def test_what_was_reported_to_be_followed_is(
        self, store: Store, make: Factory, end: RunState, succeeded: bool
    ) -> None:
        """From the very report on, with all that is known of the run."""
        claimed = await self.ended(store, make, end)
        [follow] = await store.completions.pending(10)
        assert follow.succeeded is succeeded
        assert follow.run == await self.run_row(store, claimed.run_id)

    @pytest.mark.parametrize("end", [RunState.SUCCESS, RunState.FAILED])
    async def test_what_names_no_others_is_not_followed(self, store: Store, make: Factory, end: RunState) -> None:
        """Nothing is written for it."""
        await self.ended(store, make, end, follow=False)
        assert await self.following(store) == []

    @pytest.mark.parametrize("end", [RunState.CANCELLED, RunState.SKIPPED, RunState.RETRYING, RunState.QUEUED])
    async def test_only_success_and_failure_start_others(self, store: Store, make: Factory, end: RunState) -> None:
        """Not what was stopped, and not what is not yet at its end."""
        await self.ended(store, make, end)
        assert await self.following(store) == []

    async def test_a_refused_report_starts_nothing(self, store: Store, make: Factory) -> None:
        """Its attempt is another one's by now."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.expire(store, executor)
        report = outcome(claimed, follow=True)
        assert await self.finish(store, executor, report) == [claimed.run_id]
        assert await self.following(store) == []

    async def test_a_poisoned_run_is_followed(self, store: Store, make: Factory) -> None:
        """Its executor could not report it any more; the reader of the job finds whether it names successors."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed)
        await self.shift(store, LEASE_SECONDS + 1.0)
        await store.executors.expire(crashes_max=1)
        assert await self.following(store) == [(claimed.run_id, False)]

    @pytest.mark.parametrize("leaves", [False, True])
    async def test_a_run_that_failed_with_its_executor_is_followed(
        self, store: Store, make: Factory, leaves: bool
    ) -> None:
        """Lost or left."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed, on_unknown=OnUnknown.FAIL)
        await (store.executors.leave(executor) if leaves else self.expire(store, executor))
        assert await self.following(store) == [(claimed.run_id, False)]

    async def held_run(self, store: Store, make: Factory, *, reported: bool) -> UUID:
        """A run whose outcome is unknown, as its executor's loss tells, or the executor itself."""
        executor = await self.register(store)
        claimed = await self.held(store, executor, make.job())
        await self.begin(store, executor, claimed, on_unknown=OnUnknown.HOLD)
        if reported:
            report = outcome(claimed, RunState.FAILED, reason="unknown_outcome", follow=True)
            assert await self.finish(store, executor, report) == []
        else:
            await store.executors.leave(executor)
        return claimed.run_id

    @pytest.mark.parametrize("reported", [False, True])
    @pytest.mark.parametrize(
        ("resolution", "succeeded"), [(LetterResolution.SUCCEEDED, True), (LetterResolution.FAILED, False)]
    )
    async def test_a_held_run_is_followed_when_it_is_decided(
        self, store: Store, make: Factory, *, reported: bool, resolution: LetterResolution, succeeded: bool
    ) -> None:
        """Not before, and as was decided."""
        held = await self.held_run(store, make, reported=reported)
        assert await self.following(store) == []
        await store.letters.settle(
            "default", [Settlement(held, LetterStatus.RESOLVED, resolution=resolution)], by="ada"
        )
        assert await self.following(store) == [(held, succeeded)]

    @pytest.mark.parametrize("status", [LetterStatus.DISCARDED, LetterStatus.REDRIVEN])
    async def test_a_held_run_that_nobody_decided_starts_nothing(
        self, store: Store, make: Factory, status: LetterStatus
    ) -> None:
        """Discarded, nothing follows; run again, what follows comes of the new run."""
        held = await self.held_run(store, make, reported=False)
        job_id = (await self.run_row(store, held)).job_id
        run = make.run(job_id, trigger=Trigger.RETRY, origin=held) if status is LetterStatus.REDRIVEN else None
        await store.letters.settle("default", [Settlement(held, status, run=run)], by="ada")
        assert await self.following(store) == []

    async def test_the_oldest_comes_first(self, store: Store, make: Factory) -> None:
        """As many as are asked for."""
        ended = []
        for _ in range(4):
            ended.append((await self.ended(store, make)).run_id)
            await self.shift(store, 1.0)
        assert [follow.run.run_id for follow in await store.completions.pending(3)] == ended[:3]
        assert [run for run, _ in await self.following(store)] == ended

    async def test_what_follows_is_made_and_forgotten_as_one(self, store: Store, make: Factory) -> None:
        """Two jobs go on from one end; nothing is left to do."""
        claimed = await self.ended(store, make)
        jobs = [await self.next_job(store, make), await self.next_job(store, make)]
        starts = [self.successor(claimed.run_id, job, make.now) for job in jobs]
        assert await store.completions.commit("default", {claimed.run_id: starts}) == 2
        for start in starts:
            assert start.run is not None
            row = await self.run_row(store, start.run.run_id)
            assert (row.state, row.trigger, row.origin) == (RunState.QUEUED, Trigger.SEQUENCE, claimed.run_id)
            assert microseconds(row.nominal_at) == microseconds(make.now)
        assert await self.following(store) == []

    async def test_what_follows_is_run(self, store: Store, make: Factory) -> None:
        """With the payload that it was given."""
        claimed = await self.ended(store, make)
        job = await self.next_job(store, make)
        start = self.successor(claimed.run_id, job, make.now)
        assert start.run is not None
        start = start._replace(run=start.run._replace(definition='{"payload": {"of": "the first"}}'))
        await store.completions.commit("default", {claimed.run_id: [start]})
        [again] = await self.claim_freed(store, await self.register(store, "two"))
        assert (again.job_id, again.trigger, again.spec) == (
            job.job_id,
            Trigger.SEQUENCE,
            '{"payload": {"of": "the first"}}',
        )

    async def test_nothing_may_follow(self, store: Store, make: Factory) -> None:
        """The reader of the job found no successors: then the note is removed, too."""
        claimed = await self.ended(store, make)
        assert await store.completions.commit("default", {claimed.run_id: []}) == 0
        assert await self.following(store) == []

    async def test_a_repeat_changes_nothing(self, store: Store, make: Factory) -> None:
        """Even with something else, and even after what was made has ended."""
        claimed = await self.ended(store, make)
        job = await self.next_job(store, make)
        start = self.successor(claimed.run_id, job, make.now)
        assert await store.completions.commit("default", {claimed.run_id: [start]}) == 1
        assert await store.completions.commit("default", {claimed.run_id: [start]}) == 0
        later = self.successor(claimed.run_id, job, make.now + 1.0)
        assert await store.completions.commit("default", {claimed.run_id: [later]}) == 0
        assert later.run is not None
        assert await self.run_state(store, later.run.run_id) is None

    async def test_many_ends_are_followed_at_once(self, store: Store, make: Factory) -> None:
        """Also if some of them were followed before: the others are, and none is twice."""
        ends = [await self.ended(store, make) for _ in range(3)]
        job = await self.next_job(store, make)
        starts = {end.run_id: [self.successor(end.run_id, job, make.now)] for end in ends}
        first = ends[1].run_id
        assert await store.completions.commit("default", {first: starts[first]}) == 1
        assert await store.completions.commit("default", starts) == 2
        assert await store.completions.commit("default", starts) == 0
        assert await self.following(store) == []
        assert await self.origins(store, job) == {end.run_id for end in ends}

    async def test_what_is_reported_again_is_not_followed_again(self, store: Store, make: Factory) -> None:
        """The report's answer was lost, and its followers are made already."""
        executor = await self.register(store, lease_seconds=HOUR)
        claimed = await self.held(store, executor, make.job())
        report = outcome(claimed, follow=True)
        assert await self.finish(store, executor, report) == []
        await store.completions.commit("default", {claimed.run_id: []})
        assert await self.finish(store, executor, report) == []
        assert await self.following(store) == []

    async def test_nobody_follows_in_another_namespace(self, store: Store, make: Factory) -> None:
        """Neither is an end of another one forgotten, nor a job of another one started."""
        claimed = await self.ended(store, make)
        foreign = await self.next_job(store, make, namespace="elsewhere")
        start = self.successor(claimed.run_id, foreign, make.now)
        assert await store.completions.commit("elsewhere", {claimed.run_id: [start]}) == 0
        assert await self.following(store) == [(claimed.run_id, True)]
        assert await store.completions.commit("default", {claimed.run_id: [start]}) == 0
        assert start.run is not None
        assert await store.runs.get("elsewhere", start.run.run_id) is None

    async def test_a_paused_successor_does_not_run_and_that_is_on_record(self, store: Store, make: Factory) -> None:
        """Under the name of the run that would have been; resuming the job makes nothing of it."""
        claimed = await self.ended(store, make)
        job = await self.next_job(store, make)
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="no", by="ada"))
        start = self.successor(claimed.run_id, job, make.now)
        assert await store.completions.commit("default", {claimed.run_id: [start]}) == 0
        assert start.run is not None
        row = await self.run_row(store, start.run.run_id)
        assert (row.state, row.reason, row.trigger) == (RunState.SKIPPED, SkipReason.PAUSED, Trigger.SEQUENCE)
        assert (row.origin, row.occurrences, row.attempt) == (claimed.run_id, 1, 0)
        assert await self.following(store) == []
        await store.jobs.move(make.move(job.job_id, JobAction.RESUME))
        assert await store.completions.commit("default", {claimed.run_id: [start]}) == 0
        assert await self.run_state(store, start.run.run_id) is RunState.SKIPPED

    async def test_a_cancelled_successor_is_left_out(self, store: Store, make: Factory) -> None:
        """The others go on; one that never was is left out as well."""
        claimed = await self.ended(store, make)
        gone, job = await self.next_job(store, make), await self.next_job(store, make)
        await store.jobs.move(make.move(gone.job_id, JobAction.CANCEL))
        never = make.recurring(make.now)
        starts = [self.successor(claimed.run_id, each, make.now) for each in (gone, never, job)]
        assert await store.completions.commit("default", {claimed.run_id: starts}) == 1
        states = [await self.run_state(store, start.run.run_id) for start in starts if start.run is not None]
        assert states == [None, None, RunState.QUEUED]

    async def test_a_skip_that_was_decided_is_put_on_record(self, store: Store, make: Factory) -> None:
        """With the reason that was given."""
        claimed = await self.ended(store, make)
        job = await self.next_job(store, make)
        skip = make.skip(job.job_id, reason=SkipReason.REQUESTED, trigger=Trigger.SEQUENCE)
        assert await store.completions.commit("default", {claimed.run_id: [Successor(job.job_id, skip=skip)]}) == 0
        row = await self.run_row(store, skip.run_id)
        assert (row.state, row.reason, row.trigger) == (RunState.SKIPPED, SkipReason.REQUESTED, Trigger.SEQUENCE)

    async def test_of_many_who_make_what_follows_at_once_one_does(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Eight schedulers at the same moment, through two clients: one run."""
        claimed = await self.ended(store, make)
        job = await self.next_job(store, make)
        start = self.successor(claimed.run_id, job, make.now)
        made = await asyncio.gather(
            *(client.completions.commit("default", {claimed.run_id: [start]}) for client in [store, other] * 4)
        )
        assert sorted(made) == [0] * 7 + [1]
        assert (await store.upkeep.stats()).queued == 1

    async def test_pages_that_overlap_are_made_once(self, store: Store, other: Store, make: Factory) -> None:
        """Two schedulers read the same ends, in opposite orders: neither waits for the other in a circle, and after as
        many calls as a scheduler makes anyway each end was followed once."""
        ends = [(await self.ended(store, make)).run_id for _ in range(8)]
        job = await self.next_job(store, make)
        starts = {end: [self.successor(end, job, make.now)] for end in ends}
        back = dict(reversed(starts.items()))
        made = sum(
            await asyncio.gather(
                *(client.completions.commit("default", page) for client, page in [(store, starts), (other, back)] * 3)
            )
        )
        made += await store.completions.commit("default", starts)
        assert made == len(ends)
        assert await self.following(store) == []
        assert await self.origins(store, job) == set(ends)

    async def test_a_report_and_an_expiry_at_the_same_moment_agree(
        self, store: Store, other: Store, make: Factory
    ) -> None:
        """Ten times: what follows is on record exactly if the report was accepted."""
        for _ in range(10):
            executor = await self.register(store, lease_seconds=60.0)
            claimed = await self.held(store, executor, make.job())
            await self.shift(store, 61.0)
            refused, _ = await asyncio.gather(
                self.finish(other, executor, outcome(claimed, follow=True)), store.executors.expire(crashes_max=3)
            )
            # A run that somebody has in hand at that moment is freed by the next look at leases.
            await store.executors.expire(crashes_max=3)
            ended = await self.run_state(store, claimed.run_id)
            assert ended is (RunState.QUEUED if refused else RunState.SUCCESS)
            assert await self.following(store) == ([] if refused else [(claimed.run_id, True)])
            await store.completions.commit("default", {claimed.run_id: []})
            await store.runs.move(RunCancel("default", claimed.run_id, "ada"))

    async def test_a_run_stays_on_record_until_it_was_followed(self, store: Store, make: Factory) -> None:
        """However long that takes: what it said is needed for what follows."""
        claimed = await self.ended(store, make)
        await self.shift(store, 50 * DAY_SECONDS)
        await store.upkeep.maintain(Retention(runs_seconds=DAY_SECONDS, failed_seconds=DAY_SECONDS))
        [follow] = await store.completions.pending(10)
        assert follow.run.run_id == claimed.run_id
        assert await self.run_state(store, claimed.run_id) is RunState.SUCCESS
        assert await store.jobs.get("default", claimed.job_id) is not None
        assert await store.completions.commit("default", {claimed.run_id: []}) == 0
        assert await self.following(store) == []


class OnDemandContract(StoreContract):
    """Jobs that run only when they are asked to."""

    async def test_a_job_without_times_is_scheduled_until_it_is_cancelled(self, store: Store, make: Factory) -> None:
        """It can be started on request, before its first run and after it."""
        job = make.recurring(make.now, never=True, schedule_type="ON_DEMAND")
        await self.add(store, job)
        row = await self.job_row(store, job.job_id)
        assert (row.status, row.next_run_at, row.timer) == ("SCHEDULED", None, None)
        run = make.run(job.job_id)
        await store.runs.add("default", job.job_id, [run])
        executor = await self.register(store)
        [claimed] = await self.claim_freed(store, executor)
        assert await self.finish(store, executor, outcome(claimed, RunState.FAILED)) == []
        assert (await self.job_row(store, job.job_id)).status == "SCHEDULED"
        await store.jobs.move(make.move(job.job_id, JobAction.PAUSE, reason="no"))
        assert (await self.job_row(store, job.job_id)).status == "PAUSED"
        await store.jobs.move(make.move(job.job_id, JobAction.RESUME))
        assert (await self.job_row(store, job.job_id)).status == "SCHEDULED"
        await store.jobs.move(make.move(job.job_id, JobAction.CANCEL))
        assert (await self.job_row(store, job.job_id)).status == "CANCELLED"
