"""Handovers: the effects of an end, or of a later run, on other runs are told at once, by name, so that the processes
that can act on them are woken."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Trigger
from tickwise.ports.store import (
    CancelRequest,
    ClaimRequest,
    Handover,
    JobAction,
    RunCancel,
    RunPostpone,
    RunSkip,
    Store,
)
from tickwise.testing.contracts.base import lane
from tickwise.testing.contracts.store.dispatch.limits import ENDS, CrowdContract, limit
from tickwise.testing.factories import Factory, outcome

HOUR = 3600.0
WAITS = [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING]


class Ear:
    """Hears what a store tells."""

    def __init__(self, store: Store) -> None:
        self._heard: list[Handover] = []
        store.on_handover(self._heard.append)

    def claimable(self) -> list[UUID]:
        """The runs that became claimable since the last look, in any order."""
        return sorted(run.run_id for handover in self._heard for run in handover.claimable)

    def stopping(self) -> list[UUID]:
        """The runs that their holders were asked to stop since the last look."""
        return [run_id for handover in self._heard for run_id in handover.stopping]

    def forget(self) -> None:
        """Drop the handovers so far."""
        self._heard.clear()


async def claim_by_name(store: Store, executor: int, runs: Sequence[UUID]) -> Sequence[Claimed]:
    """The claims of an executor that was told of these runs."""
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=10, ahead_seconds=0.0, runs=runs)
    return await store.attempts.claim(request)


class HandoverContract(CrowdContract):
    """`Store.on_handover`."""

    async def taken(self, store: Store, make: Factory, count: int = 2) -> tuple[int, list[Claimed]]:
        """A limit of one: an executor runs the first, the others wait for its slot."""
        executor, claims = await self.crowd(store, make, count)
        starts = await self.starts_in_turn(store, executor, *claims, gate=limit(1))
        assert starts == [True] + [False] * (count - 1)
        return executor, claims

    async def in_line(self, store: Store, make: Factory, policy: Overlap) -> tuple[int, Claimed, Claimed]:
        """An executor that runs the first of a job's two runs; the second one waits for it."""
        await self.job_with(store, make, policy, policy)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        first, second = await self.claims(store, executor, executor)
        assert await self.starts_in_turn(store, executor, first, second) == [True, False]
        return executor, first, second

    @pytest.mark.parametrize("end", ENDS)
    async def test_the_end_of_a_run_names_who_may_have_its_slot(
        self, store: Store, make: Factory, end: RunState
    ) -> None:
        """However it ends; and what is named can be claimed at that moment."""
        executor, [first, second] = await self.taken(store, make)
        ear = Ear(store)
        await self.finish(store, executor, outcome(first, end, retry_at=first.now + HOUR))
        assert ear.claimable() == [second.run_id]
        [again] = await claim_by_name(store, executor, ear.claimable())
        assert await self.starts(store, executor, again, gate=limit(1)) == [True]

    @pytest.mark.parametrize("policy", WAITS)
    async def test_the_end_of_a_run_names_the_next_of_its_job(
        self, store: Store, make: Factory, policy: Overlap
    ) -> None:
        """Those that can be claimed at that moment, too."""
        executor, first, second = await self.in_line(store, make, policy)
        ear = Ear(store)
        await self.finish(store, executor, outcome(first))
        assert ear.claimable() == [second.run_id]
        [again] = await claim_by_name(store, executor, ear.claimable())
        assert await self.starts(store, executor, again) == [True]

    async def test_it_is_told_with_its_lane_and_namespace(self, store: Store, make: Factory) -> None:
        """The executors that serve the lane can be told."""
        executor = await self.register(store, queues=("default", "heavy"), lease_seconds=HOUR)
        heavy = lane(7, queue="heavy")
        jobs = [make.job(make.now - ago, lane=heavy, namespace="elsewhere") for ago in (2.0, 1.0)]
        await self.add(store, *jobs)
        first, second = await self.claim(store, executor, queues=("heavy",))
        await self.starts_in_turn(store, executor, first, second, gate=limit(1))
        told: list[Handover] = []
        store.on_handover(told.append)
        await self.finish(store, executor, outcome(first))
        [[ready]] = [handover.claimable for handover in told]
        assert (ready.run_id, ready.lane, ready.namespace) == (second.run_id, heavy, "elsewhere")
        assert ready.ready <= await store.now()

    async def test_an_end_that_nobody_waits_for_tells_nothing(self, store: Store, make: Factory) -> None:
        """Neither that of an ordinary run, nor of one with a limit, nor of the only one of its job."""
        executor = await self.register(store, lease_seconds=HOUR)
        await self.job_with(store, make, Overlap.QUEUE_ALL)
        await self.add(store, make.job(make.now), make.job(make.now))
        ordinary, limited, alone = await self.claim_freed(store, executor)
        ear = Ear(store)
        await self.starts(store, executor, limited, gate=limit(1))
        for claimed in (ordinary, limited, alone):
            assert await self.finish(store, executor, outcome(claimed)) == []
        assert ear.claimable() == []

    async def test_an_end_names_no_more_than_there_are_slots(self, store: Store, make: Factory) -> None:
        """The others go on waiting."""
        executor, [first, second, *others] = await self.taken(store, make, 5)
        ear = Ear(store)
        await self.finish(store, executor, outcome(first))
        assert ear.claimable() == [second.run_id]
        assert all([await self.waits(store, claimed.run_id) for claimed in others])

    @pytest.mark.parametrize("way", ["cancelled", "skipped", "job cancelled"])
    async def test_who_ends_before_it_took_its_slot_leaves_it_to_the_next(
        self, store: Store, make: Factory, way: str
    ) -> None:
        """It was told of; then people end it before anybody claims it."""
        executor, [first, second, third] = await self.taken(store, make, 3)
        await self.finish(store, executor, outcome(first))
        ear = Ear(store)
        if way == "cancelled":
            await store.runs.move(RunCancel("default", second.run_id, "grace"))
        elif way == "skipped":
            await store.runs.move(RunSkip("default", second.run_id, "not this one"))
        else:
            await store.jobs.move(make.move(second.job_id, JobAction.CANCEL))
        assert ear.claimable() == [third.run_id]

    @pytest.mark.parametrize("way", ["cancelled", "skipped", "postponed"])
    async def test_a_free_run_that_goes_names_who_waited_for_it(self, store: Store, make: Factory, way: str) -> None:
        """An earlier run that was given back, and that people end or put off."""
        await self.job_with(store, make, Overlap.QUEUE_ALL, Overlap.QUEUE_ALL)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        assert await self.starts(store, two, second) == [False]
        await self.finish(store, one, outcome(first, RunState.QUEUED, retry_at=make.now + HOUR))
        ear = Ear(store)
        if way == "cancelled":
            await store.runs.move(RunCancel("default", first.run_id, "grace"))
        elif way == "skipped":
            await store.runs.move(RunSkip("default", first.run_id, "not this one"))
        else:
            await store.runs.move(RunPostpone("default", first.run_id, make.now + HOUR))
        assert ear.claimable() == [second.run_id]

    async def test_an_executor_that_leaves_names_who_waited_for_what_it_ran(self, store: Store, make: Factory) -> None:
        """Its run is free again, and the slot goes to the run that waited."""
        executor, [_, second] = await self.taken(store, make)
        ear = Ear(store)
        await store.executors.leave(executor)
        assert ear.claimable() == [second.run_id]

    async def test_an_expiry_names_who_waited_for_what_the_lost_one_ran(self, store: Store, make: Factory) -> None:
        """As soon as its lease is over and it is found."""
        lost = await self.register(store, "lost")
        jobs = [make.job(make.now - ago) for ago in (2.0, 1.0)]
        await self.add(store, *jobs)
        first, second = await self.claim(store, lost)
        await self.starts_in_turn(store, lost, first, second, gate=limit(1))
        ear = Ear(store)
        await self.expire(store, lost)
        assert ear.claimable() == [second.run_id]

    async def test_a_queue_that_goes_on_names_who_waits_for_a_slot_there(self, store: Store, make: Factory) -> None:
        """Nobody was woken while it stood still, though the slot was free."""
        executor, [first, second] = await self.taken(store, make)
        await store.queues.hold(make.hold())
        ear = Ear(store)
        await self.finish(store, executor, outcome(first))
        assert ear.claimable() == []
        assert await store.queues.resume("default", "default") is True
        assert ear.claimable() == [second.run_id]

    async def test_the_last_listener_hears_it(self, store: Store, make: Factory) -> None:
        """A client tells one."""
        executor, [first, second] = await self.taken(store, make)
        before, after = Ear(store), Ear(store)
        await self.finish(store, executor, outcome(first))
        assert (before.claimable(), after.claimable()) == ([], [second.run_id])

    # ------------------------------------------------------------------------------------------- what is to stop

    async def test_a_later_run_names_what_it_replaces(self, store: Store, make: Factory) -> None:
        """Its holder hears of it at the next heartbeat at the latest; who is told now can make that one be now."""
        await self.job_with(store, make, Overlap.CANCEL_RUNNING, Overlap.CANCEL_RUNNING)
        one, two = await self.register(store, "one"), await self.register(store, "two")
        first, second = await self.claims(store, one, two)
        await self.begin(store, one, first)
        ear = Ear(store)
        assert await self.starts(store, two, second) == [False]
        assert ear.stopping() == [first.run_id]
        assert await self.cancels(store, one) == [CancelRequest(first.run_id, CancelKind.CANCEL)]

    async def test_a_fire_replaces_fires_and_waits_for_what_people_asked_for(self, store: Store, make: Factory) -> None:
        """A schedule never drops a run that a person requested: not while it runs, nor while it waits its turn."""
        job_id = await self.job_with(store, make, Overlap.CANCEL_RUNNING)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        [fire] = await self.claims(store, executor)
        await self.begin(store, executor, fire)
        asked = [make.run(job_id, make.now + ahead, overlap=Overlap.QUEUE_ALL) for ahead in (0.1, 0.2)]
        await store.runs.add("default", job_id, asked)
        now, queued = await self.claims(store, executor, executor)
        assert await self.starts_in_turn(store, executor, now, queued) == [False, False]
        await self.finish(store, executor, outcome(fire))
        [now] = await claim_by_name(store, executor, [now.run_id])
        await self.begin(store, executor, now)
        async with self.near(store, HOUR) as batch:
            run = make.scheduled(job_id, await store.now(), overlap=Overlap.CANCEL_RUNNING)
            await batch.commit([make.fire(job_id, batch.timers[0].pending.due, None, runs=[run])])
        [later] = await self.claim_freed(store, executor)
        ear = Ear(store)
        assert await self.starts(store, executor, later) == [False]
        assert ear.stopping() == []
        for current, following in ((now, queued.run_id), (queued, run.run_id)):
            [held] = [current] if current is now else await claim_by_name(store, executor, [current.run_id])
            assert current is now or await self.starts(store, executor, held) == [True]
            ear.forget()
            await self.finish(store, executor, outcome(held))
            assert ear.claimable() == [following]

    @pytest.mark.parametrize("trigger", [Trigger.RUN_NOW, Trigger.RETRY])
    async def test_a_person_may_replace_whatever_goes_on(self, store: Store, make: Factory, trigger: Trigger) -> None:
        """If that is what was asked for: of fires, and of what people asked for."""
        job_id = await self.job_with(store, make, Overlap.SKIP)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        [fire] = await self.claims(store, executor)
        await self.begin(store, executor, fire)
        asked = make.run(job_id, make.now + 0.1, overlap=Overlap.QUEUE_ALL)
        await store.runs.add("default", job_id, [asked])
        [queued] = await self.claims(store, executor)
        assert await self.starts(store, executor, queued) == [False]
        await store.runs.add(
            "default", job_id, [make.run(job_id, make.now + 0.2, trigger=trigger, overlap=Overlap.CANCEL_RUNNING)]
        )
        [instead] = await self.claims(store, executor)
        ear = Ear(store)
        assert await self.starts(store, executor, instead) == [False]
        assert ear.stopping() == [fire.run_id]
        assert await self.reason(store, queued.run_id) == (RunState.SKIPPED, "overlap")
        await self.finish(store, executor, outcome(fire, RunState.CANCELLED))
        assert ear.claimable() == [instead.run_id]

    async def test_an_edit_lets_no_run_start_beside_one_that_might_run_beside_others(
        self, store: Store, make: Factory
    ) -> None:
        """Its job's fires could overlap when it began; those that the new definition makes wait for it."""
        job_id = await self.job_with(store, make, Overlap.ALLOW)
        executor = await self.register(store, lease_seconds=100 * HOUR)
        [fire] = await self.claims(store, executor)
        await self.begin(store, executor, fire)
        await store.jobs.change(make.change(await self.job_row(store, job_id), definition='{"n":2}'))
        await store.runs.add("default", job_id, [make.run(job_id, overlap=Overlap.QUEUE_ALL)])
        [later] = await self.claims(store, executor)
        assert await self.starts(store, executor, later) == [False]
        ear = Ear(store)
        await self.finish(store, executor, outcome(fire))
        assert ear.claimable() == [later.run_id]
