"""Holds of queues, pauses of jobs and requests to holders of runs meet in any order, drawn by a seed.

    begin ──► step ──► step ──► … ──► end: everything goes on again, and each run that is left ends

A backend gives one store, or several on one clock, which then must show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import pytest

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import ClaimRequest, Gate, JobAction, RunRow, Store
from tickwise.testing.contracts.base import StoreContract
from tickwise.testing.contracts.store.walks.scene import WalkedJob
from tickwise.testing.contracts.store.walks.steps import FAR, POSTPONED_AFTER, ExecutorSteps, PeopleSteps
from tickwise.testing.factories import Factory

STEPS: Final = 120
MAX_ROUNDS: Final = 120


class StandstillWalk(ExecutorSteps, PeopleSteps):
    """One walk."""

    async def begin(self) -> None:
        """Three jobs: one of which runs may stand beside each other, one of which they wait, one with a limit."""
        self.now = await self.stores[0].now()
        await self.pass_time(1)
        for _ in range(2):
            await self.add_executor()
        limited = Gate(limit_key=f"{self.name} limit", limit=1)
        kinds = ((Overlap.ALLOW, None), (Overlap.QUEUE_ALL, None), (Overlap.ALLOW, limited))
        for overlap, gate in kinds:
            await self.add_job(overlap, gate)

    async def step(self) -> None:
        """One call. The likelier ones stand there more often."""
        await self.settle_clock()
        of_executors = (self.claim, self.claim, self.beat, self.start, self.start, self.finish)
        of_people = (self.hold, self.resume_queue, self.pause, self.resume, self.plan, self.change_queue)
        likely = (self.add_run, self.add_run, self.wait, *of_executors)
        rare = (
            self.skip,
            self.cancel,
            self.snooze,
            self.give_back,
            self.retry,
            self.expire,
            self.leave,
            self.report_late,
        )
        steps = (*likely, *likely, *of_people, *of_people, *rare, self.unblock, self.cancel_job)
        chosen = steps[self.draw(len(steps))]
        self.trace.append(chosen.__name__)
        await chosen()
        await self.compare()

    async def wait(self) -> None:
        """Time passes."""
        await self.pass_time(1 + self.draw(15))

    async def end(self) -> None:
        """All queues and jobs go on, and each run that is left ends."""
        self.trace.append("end")
        for queue in self.queues:
            await self.each(lambda store, queue=queue: store.queues.resume("default", queue))  # type: ignore[misc]  # a default binds it
        self.holds.clear()
        for job in self.jobs:
            move = self.make.move(
                job.job_id,
                JobAction.RESUME,
                self.make.plan(self.make.now + FAR, keep_dues=[row.nominal_at for row in await self.rows_of(job)]),
                postponed_after_seconds=POSTPONED_AFTER,
            )
            for store in self.stores:
                await store.jobs.move(move)
            job.paused_at = None
        for _ in range(MAX_ROUNDS):
            await self.pass_time(10)
            for executor in self.executors:
                await self.heartbeat(executor)
            await self.claim_all()
            while self.due() or self.held(begun=True):
                await self.start()
                await self.end_one(RunState.SUCCESS)
            await self.unblock()
            await self.compare()
            if not self.runs:
                return
        left = [await self.row(run_id) for run_id in self.runs]
        raise AssertionError(f"these runs do not end: {left}")

    async def rows_of(self, job: WalkedJob) -> list[RunRow]:
        """The runs of a job that are left."""
        rows = [await self.found(run.run_id) for run in self.runs.values() if run.job is job]
        return [row for row in rows if row is not None]

    async def claim_all(self) -> None:
        """An executor claims all that is due."""
        request = ClaimRequest(
            executor=self.executors[0], queues=tuple(self.queues), labels=(), limit=100, ahead_seconds=0.0,
            runs=list(self.runs),
        )  # fmt: skip
        taken = [{one.run_id: one for one in await store.attempts.claim(request)} for store in self.stores]
        assert all(each.keys() == taken[0].keys() for each in taken), f"the stores give {taken}"
        for run_id in taken[0]:
            self.runs[run_id].holder = self.executors[0]
            self.claims[run_id] = [each[run_id] for each in taken]


class StandstillWalksContract(StoreContract):
    """Queues on hold and paused jobs stand still, no run is lost, and all stores show the same."""

    seeds: ClassVar[Sequence[int]] = range(3)

    @pytest.fixture
    def walked(self, store: Store) -> Sequence[Store]:
        """The stores that are called alike. A backend may add one that has the same clock."""
        return [store]

    async def test_whatever_stands_still_or_is_asked_for_no_run_starts_against_it_or_is_lost(
        self, store: Store, walked: Sequence[Store]
    ) -> None:
        """A hundred and twenty calls; then all goes on, and ends."""
        for seed in self.seeds:
            make = Factory(await store.now(), seed=f"standstill {seed}")
            walk = StandstillWalk(self, walked, make, f"walk-{seed}")
            try:
                await walk.begin()
                for _ in range(STEPS):
                    await walk.step()
                await walk.end()
            except Exception as error:
                steps = "\n".join(f"{number:4} {step}" for number, step in enumerate(walk.trace))
                raise AssertionError(f"{steps}\nseed {seed}: {error}") from error
