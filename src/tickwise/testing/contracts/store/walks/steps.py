"""The calls of a walk of holds, pauses and requests: those of executors, and those of people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from tickwise.domain.decision import NEVER, Overlap, TimerState
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Lane, Trigger
from tickwise.domain.rules.sentences import REVOKED
from tickwise.ports.store import (
    ClaimRequest,
    Gate,
    JobAction,
    NewExecutor,
    Replan,
    RunCancel,
    RunPostpone,
    RunSkip,
    Store,
)
from tickwise.testing import factories
from tickwise.testing.contracts.base import began
from tickwise.testing.contracts.store.walks.scene import (
    MINUTE,
    LostClaim,
    StandstillScene,
    WalkedJob,
    WalkedRun,
)
from tickwise.testing.factories import held, outcome

FAR: Final = 1000 * 3600.0
"""The next fire of each schedule: runs are added by hand."""
LEASE: Final = 500 * 3600.0
POSTPONED_AFTER: Final = 4 * MINUTE
CRASHES_MAX: Final = 1000


class ExecutorSteps(StandstillScene):
    """Executors claim, hear, start, report, leave and are lost."""

    async def add_executor(self) -> None:
        """An executor of both queues."""
        new: NewExecutor = factories.executor(self.name, queues=tuple(self.queues), lease_seconds=LEASE)
        self.executors.append(await self.each(lambda store: store.executors.join(new)))

    async def claim(self) -> None:
        """An executor claims some of the runs, also ahead of their time."""
        executor = self.executors[self.draw(2)]
        ahead = (0.0, 5 * MINUTE, 30 * MINUTE)[self.draw(3)]
        # Seconds in service: then little happens between such a claim and the end of the pause that the run waits for.
        waits = {run_id for run_id, run in self.runs.items() if run.job.is_paused(self.now)} if ahead else set()
        wanted = [run_id for run_id in self.runs if self.draw(2) and run_id not in waits]
        request = ClaimRequest(
            executor=executor, queues=tuple(self.queues), labels=(), limit=20, ahead_seconds=ahead, runs=wanted
        )
        taken = [{one.run_id: one for one in await store.attempts.claim(request)} for store in self.stores]
        assert all(each.keys() == taken[0].keys() for each in taken), f"the stores give {taken}"
        for run_id in taken[0]:
            run = self.runs[run_id]
            self.claims[run_id] = [each[run_id] for each in taken]
            assert not self.on_hold(run.job.queue), f"{run_id} is claimed from a queue on hold"
            assert not self.waits_for_pause(run, since=run.job.paused_at), f"{run_id} is claimed in a pause"
            run.holder = executor
        self.note(*(str(run_id)[:13] for run_id in taken[0]))

    async def beat(self) -> None:
        """A heartbeat, and what it asks for is done. Afterwards the executor holds nothing that is to stand still."""
        await self.heartbeat(self.executors[self.draw(2)])

    async def heartbeat(self, executor: int) -> None:
        """See `beat`."""
        asked = await self.each(lambda store: self.asked(store, executor))
        self.note(*(f"{str(run_id)[:13]} {kind}" for run_id, kind in asked))
        for run_id, kind in asked:
            run = self.runs[run_id]
            assert run.holder == executor, f"{run_id} is held by {run.holder}"
            if kind is CancelKind.CANCEL:
                await self.report(run, RunState.CANCELLED, reason="cancelled")
            elif not run.begun and kind is CancelKind.RETURN:
                await self.report(run, RunState.QUEUED, started=0.0)
            elif not run.begun:
                await self.report(run, RunState.SKIPPED, reason=REVOKED, started=0.0)
        for run in self.held_by(executor, begun=False):
            assert not self.on_hold(run.job.queue), f"the holder of {run.run_id} has not heard of the hold"
            waits = self.waits_for_pause(run, since=self.now)
            assert not waits, f"the holder of {run.run_id} has not heard of the pause"

    async def asked(self, store: Store, executor: int) -> list[tuple[UUID, CancelKind]]:
        """The requests of a heartbeat."""
        beat = await store.executors.beat(executor, LEASE)
        assert beat.alive
        return sorted((one.run_id, one.kind) for one in beat.cancels)

    async def start(self) -> None:
        """One that is held and due begins, unless a start that is recorded first is refused."""
        run = self.one_of(self.due())
        if run is None:
            return
        claims, executor = self.claims[run.run_id], self.holder_of(run)
        refused = await self.each_claim(
            claims, lambda store, claimed: store.attempts.start(executor, [began(claimed, gate=run.job.gate)])
        )
        self.note(str(run.run_id)[:13], "refused" if refused else "begins")
        if not refused:
            first = claims[0].guarded or run.job.gate is not None
            assert not (first and self.on_hold(run.job.queue)), f"{run.run_id} starts in a queue on hold"
            run.begun = run.tried = True
        else:
            assert claims[0].guarded or run.job.gate is not None, f"the ordinary start of {run.run_id} is refused"
            self.let_go(run)

    async def finish(self) -> None:
        """One that goes on ends."""
        await self.end_one(RunState.FAILED if self.draw(4) == 0 else RunState.SUCCESS)

    async def retry(self) -> None:
        """One that goes on fails, and is to be tried again."""
        await self.end_one(RunState.RETRYING, retry_at=self.minutes(1, 3), reason="exit_code")

    async def end_one(self, state: RunState, **fields: Any) -> None:
        """One that goes on ends so."""
        if (run := self.one_of(self.held(begun=True))) is not None:
            self.note(str(run.run_id)[:13], state)
            await self.report(run, state, **fields)

    async def give_back(self) -> None:
        """The holder of one that has not begun does not want it."""
        if (run := self.one_of(self.held(begun=False))) is not None:
            self.note(str(run.run_id)[:13])
            await self.report(run, RunState.QUEUED, reason="drained", started=0.0)

    async def report(self, run: WalkedRun, state: RunState, **fields: Any) -> None:
        """An outcome that must be accepted."""
        executor = self.holder_of(run)
        refused = await self.each_claim(
            self.claims[run.run_id],
            lambda store, claimed: store.attempts.finish(executor, [outcome(claimed, state, **fields)]),
        )
        assert refused == [], f"{state} of {run.run_id} is refused"
        self.let_go(run)

    async def expire(self) -> None:
        """An executor is lost with its lease; another one comes."""
        number = self.draw(2)
        gone, other = self.executors[number], self.executors[1 - number]
        await self.heartbeat(other)
        await self.each(lambda store: self.dies(store, gone))
        await self.pass_time(2)
        await self.each(lambda store: self.expired(store))
        await self.replace(number)

    async def dies(self, store: Store, executor: int) -> None:
        """A last heartbeat, whose answer it does not carry out."""
        await store.executors.beat(executor, 1.0)

    async def expired(self, store: Store) -> list[int]:
        """The executors that are found lost."""
        return list((await store.executors.expire(CRASHES_MAX)).executors)

    async def leave(self) -> None:
        """An executor leaves in order; another one comes."""
        number = self.draw(2)
        gone = self.executors[number]
        await self.each(lambda store: store.executors.leave(gone))
        await self.replace(number)

    async def replace(self, number: int) -> None:
        """Another executor in its place. What it held is on its own."""
        gone = self.executors.pop(number)
        for run in [*self.held_by(gone, begun=False), *self.held_by(gone, begun=True)]:
            self.lost.append(LostClaim(gone, run, run.begun, self.claims[run.run_id]))
            self.let_go(run)
        await self.add_executor()

    async def report_late(self) -> None:
        """An executor that is gone reports what it had: all of it is refused."""
        if (late := self.one_of(self.lost)) is None:
            return
        for state in (RunState.SUCCESS, RunState.RETRYING, RunState.QUEUED):
            refused = await self.each_claim(
                late.claims,
                lambda store, claimed, state=state: store.attempts.finish(  # type: ignore[misc]  # a default binds it
                    late.executor, [outcome(claimed, state, reason="drained", retry_at=self.now)]
                ),
            )
            assert refused == [late.run.run_id], f"a late {state} of {late.run.run_id} is accepted"
        started = await self.each_claim(
            late.claims, lambda store, claimed: store.attempts.start(late.executor, [began(claimed)])
        )
        assert started == [late.run.run_id], f"a late start of {late.run.run_id} is accepted"

    async def unblock(self) -> None:
        """A scheduler looks for runs that wait for nothing. How many it wakes depends on when it looks."""
        for store in self.stores:
            await store.runs.unblock()


class PeopleSteps(StandstillScene):
    """People hold queues, pause and change jobs, and ask for runs, or for their end."""

    async def add_job(self, overlap: Overlap, gate: Gate | None) -> None:
        """A job that fires by itself a long time from now."""
        queue = self.queues[self.draw(2)]
        new = self.make.recurring(self.make.now + FAR, lane=Lane(queue), job_id=self.make.identifier())
        for store in self.stores:
            await self.contract.add(store, new)
        self.jobs.append(WalkedJob(new.job_id, queue, overlap, gate))

    async def add_run(self) -> None:
        """An occurrence of the schedule, now and then one that was postponed, or a run that a person asked for."""
        job = self.one_of([job for job in self.jobs if not job.is_paused(self.now)])
        if job is None:
            return
        due = self.minutes(0, 20)
        if self.draw(4) == 0:
            new = self.make.run(job.job_id, due, overlap=job.overlap)
        else:
            nominal = due - (5 + self.draw(10)) * MINUTE if self.draw(3) == 0 else due
            new = self.make.scheduled(job.job_id, due, nominal=nominal, overlap=job.overlap)
        if new.run_id in self.runs:
            return
        self.note(str(new.run_id)[:13], f"due {(due - self.now) / MINUTE:+.0f}")
        assert await self.each(lambda store: store.runs.add("default", job.job_id, [new])) is True
        self.runs[new.run_id] = WalkedRun(new.run_id, job, new.trigger == Trigger.SCHEDULE)

    def some_job(self) -> WalkedJob | None:
        """A job: mostly one of which executors hold a run, for that is where calls meet."""
        concerned = {run.job.job_id: run.job for run in self.held(begun=False) if run.job in self.jobs}
        return self.one_of(concerned.values() if concerned and self.draw(4) else self.jobs)

    async def hold(self) -> None:
        """A queue stands still: until it is resumed, for some time, or from some time on."""
        queue = self.queues[self.draw(2)]
        begin = self.minutes(1, 5) if self.draw(4) == 0 else None
        until = self.minutes(6, 20) if self.draw(3) == 0 else None
        self.note(queue, begin, until)
        for store in self.stores:
            await store.queues.hold(self.make.hold(queue, begin=begin, until=until))
        self.holds[queue] = (self.now if begin is None else begin, math.inf if until is None else until)

    async def resume_queue(self) -> None:
        """A queue goes on."""
        queue = self.queues[self.draw(2)]
        self.note(queue)
        await self.each(lambda store: store.queues.resume("default", queue))
        self.holds.pop(queue, None)

    async def pause(self) -> None:
        """A job pauses, or its pause gets another end."""
        if (job := self.some_job()) is not None:
            until = self.minutes(3, 25) if self.draw(3) == 0 else None
            self.note(str(job.job_id)[-6:], until)
            move = self.make.move(
                job.job_id, JobAction.PAUSE, until=until, postponed_after_seconds=POSTPONED_AFTER, by="ada"
            )
            for store in self.stores:
                await store.jobs.move(move)
            job.paused_at = job.paused_at if job.is_paused(self.now) else self.now
            job.paused_until = math.inf if until is None else until

    async def resume(self) -> None:
        """A job goes on, by a plan that has some of its runs."""
        if (job := self.some_job()) is not None:
            was_paused = job.is_paused(self.now)
            plan, left_out = await self.new_plan(job)
            self.note(str(job.job_id)[-6:], "paused" if was_paused else "not paused", len(plan.keep_dues))
            move = self.make.move(job.job_id, JobAction.RESUME, plan, postponed_after_seconds=POSTPONED_AFTER)
            for store in self.stores:
                await store.jobs.move(move)
            if was_paused:
                job.paused_at = None
                self.may_forget(left_out)

    async def plan(self) -> None:
        """A job gets another schedule, which has some of its runs."""
        if (job := self.some_job()) is not None:
            plan, left_out = await self.new_plan(job)
            self.note(str(job.job_id)[-6:], len(plan.keep_dues))
            await self.change(job, replan=plan, postponed_after_seconds=POSTPONED_AFTER)
            self.may_forget(left_out)

    async def change_queue(self) -> None:
        """A job's runs go to the other queue."""
        if (job := self.some_job()) is not None:
            [queue] = [each for each in self.queues if each != job.queue]
            self.note(str(job.job_id)[-6:], queue)
            await self.change(job, lane=Lane(queue))
            job.queue = queue

    async def change(self, job: WalkedJob, **fields: Any) -> None:
        """A change of a job's definition."""
        for store in self.stores:
            row = await self.contract.job_row(store, job.job_id)
            await store.jobs.change(self.make.change(row, **fields))

    async def new_plan(self, job: WalkedJob) -> tuple[Replan, list[WalkedRun]]:
        """A plan, and the runs that it leaves out."""
        most_are_kept = self.draw(2)
        kept: list[float] = []
        left_out: list[WalkedRun] = []
        for run in self.runs.values():
            if run.job is job and run.by_schedule and (row := await self.found(run.run_id)) is not None:
                if bool(self.draw(8)) is bool(most_are_kept):
                    kept.append(row.nominal_at)
                else:
                    left_out.append(run)
        timer = TimerState(self.make.now + FAR)
        if job.is_paused(self.now):
            until = NEVER if job.paused_until == math.inf else job.paused_until
            timer = held(self.make.now + FAR, until)
        return self.make.plan(timer, keep_dues=kept), left_out

    def may_forget(self, runs: Sequence[WalkedRun]) -> None:
        """A plan has left out these runs."""
        for run in runs:
            run.forgettable = True

    async def skip(self) -> None:
        """A person does not want a run."""
        if (run := self.one_of(self.runs.values())) is not None:
            self.note(str(run.run_id)[:13])
            await self.of_person(RunSkip("default", run.run_id, "not this one"))

    async def cancel(self) -> None:
        """A person cancels a run."""
        if (run := self.one_of(self.runs.values())) is not None:
            self.note(str(run.run_id)[:13])
            await self.of_person(RunCancel("default", run.run_id, "grace"))

    async def snooze(self) -> None:
        """A person wants a run later. A caller asks this of a job that is not paused; a pause may come first."""
        held_back = [run for run in self.runs.values() if run.job.is_paused(self.now)]
        run = self.one_of(held_back if held_back and self.draw(2) else self.runs.values())
        if run is not None and run.by_schedule:
            due = self.minutes(8, 30)
            self.note(str(run.run_id)[:13], f"{(due - self.now) / MINUTE:+.0f}")
            await self.of_person(RunPostpone("default", run.run_id, due))

    async def of_person(self, move: RunSkip | RunCancel | RunPostpone) -> None:
        """A move that may be refused, by each store alike."""

        async def moved(store: Store) -> RunState | str:
            try:
                return await store.runs.move(move)
            except Conflict as refused:
                return refused.code

        if await self.found(move.run_id) is not None:
            await self.each(moved)

    async def cancel_job(self) -> None:
        """A job ends; another one comes in its place."""
        if self.draw(4) or (job := self.some_job()) is None:
            return
        self.note(str(job.job_id)[-6:])
        for store in self.stores:
            await store.jobs.move(self.make.move(job.job_id, JobAction.CANCEL, reason="cancelled by grace"))
        job.cancelled, job.paused_at = True, None
        self.jobs.remove(job)
        await self.add_job(job.overlap, job.gate)
