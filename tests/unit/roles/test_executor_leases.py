"""What an executor promises about its lease: nothing of it goes on, or begins, when others may have taken over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.unit.roles.rig import Rig, ScriptedRunner, Silent, drive
from tests.unit.roles.scheduler_rig import RETENTION
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.domain.retry import CRASHES_MAX
from tickwise.ports.runner import Assignment, Ending, Verdict
from tickwise.ports.signals import Topic
from tickwise.ports.store import ClaimRequest, NewJob, RunCancel
from tickwise.roles.executor import departure
from tickwise.roles.executor.capacity import RunnerConfig
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.registration import FIRST_JOIN_SECONDS
from tickwise.roles.executor.role import Executor
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings

LEASE = 10.0
MARGIN = 1.0


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born, with a lease of ten seconds."""
    made = Rig()
    await drive(made.clock, made.executor.prepare())
    return made


async def running(rig: Rig, **definition: Any) -> NewJob:
    """A job whose run has begun here."""
    job = await rig.submit(**definition)
    await rig.tick()
    assert job.run_id in rig.runner.running
    return job


async def until_let_go(rig: Rig) -> None:
    """The store is away for so long that the lease ends."""
    rig.flaky.gone = True
    await rig.clock.advance(LEASE)
    await rig.executor._lease_watch.watch()


# ------------------------------------------------------------------------------------------ joining at the start


@pytest.mark.parametrize("way", ["away", "answers_lost"])
@pytest.mark.parametrize("call", ["executors.join", "executors.beat"])
async def test_a_start_beside_a_failover_joins_when_it_is_over(way: str, call: str) -> None:
    """With the store away, and with an answer that is lost after the number was stored."""
    rig = Rig()
    names: set[str] = getattr(rig.flaky, way)
    names.add(call)
    start = asyncio.ensure_future(rig.executor.prepare())
    for _ in range(4):
        await rig.clock.settle()
        await rig.clock.advance(1.0)
    assert not start.done()
    names.clear()
    await drive(rig.clock, start)
    job = await rig.submit()
    await rig.tick()
    assert job.run_id in rig.runner.running


async def test_a_start_gives_up_while_its_supervisor_still_waits() -> None:
    """So that what is wrong is said by the end of the process, too."""
    rig = Rig()
    rig.flaky.gone = True
    began = rig.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        await drive(rig.clock, rig.executor.prepare())
    assert FIRST_JOIN_SECONDS <= rig.clock.monotonic() - began < FIRST_JOIN_SECONDS + 2


# ------------------------------------------------------------------------------------------ what runs


async def test_what_runs_is_stopped_in_time_if_the_lease_cannot_be_renewed(rig: Rig) -> None:
    """TERM a margin before the end, KILL so that it is dead by the end; not a moment earlier."""
    await running(rig)
    rig.flaky.gone = True
    rig.runner.stubborn = True
    left = await rig.executor._lease_watch.watch()
    assert LEASE - MARGIN - 0.1 < left <= LEASE - MARGIN
    await rig.clock.advance(left - 0.01)
    assert 0 < await rig.executor._lease_watch.watch()
    assert [] == rig.runner.stopped
    await rig.clock.advance(0.01)
    await rig.executor._lease_watch.watch()
    assert rig.runner.launched == rig.runner.stopped
    (grace,) = rig.runner.graces
    assert 0.0 < grace < MARGIN


async def test_a_task_is_asked_to_stop_once(rig: Rig) -> None:
    """However long it takes to die."""
    await running(rig)
    rig.runner.stubborn = True
    await until_let_go(rig)
    await rig.executor._lease_watch.watch()
    assert 1 == len(rig.runner.stopped)


async def test_a_lease_that_is_renewed_stops_nothing(rig: Rig) -> None:
    """Ten minutes of work."""
    await running(rig)
    for _ in range(200):
        await rig.clock.advance(3.0)
        await drive(rig.clock, rig.executor._heartbeat.beat())
        await rig.executor._lease_watch.watch()
    assert [] == rig.runner.stopped


async def test_a_lease_is_counted_from_when_it_was_asked_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may have answered at once, and the answer have been long under way."""
    real = rig.store.executors.beat

    async def executor_beat(*arguments: Any, **named: Any) -> Any:
        beat = await real(*arguments, **named)
        await rig.clock.sleep(LEASE)
        return beat

    monkeypatch.setattr(rig.store.executors, "beat", executor_beat)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    assert not rig.executor._lease.stands()


async def test_a_cancelled_task_with_a_long_grace_does_not_outlive_the_lease(rig: Rig) -> None:
    """It is asked again, with what is left."""
    job = await running(rig)
    rig.runner.stubborn = True
    assert job.run_id is not None
    await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await until_let_go(rig)
    first, second = rig.runner.graces
    assert (5.0, 0.0) == (first, second)
    rig.runner.end(job.run_id, Verdict.CANCELLED)
    rig.flaky.gone = False
    await rig.tick()
    assert "CANCELLED" == await rig.state(job)


# ------------------------------------------------------------------------------------------ what is told of it


async def test_what_was_stopped_is_told_when_the_store_is_back_and_runs_again(rig: Rig) -> None:
    """The attempt is on record, though the store had not heard of its start; no failure and no crash is counted."""
    job = await running(rig)
    await until_let_go(rig)
    rig.flaky.gone = False
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._outbox.send())
    row = await rig.row(job)
    assert ("QUEUED", 0, 0) == (str(row.state), row.failures, row.crashes)
    assert [(1, "QUEUED", "lease_over")] == await rig.attempts(job)
    await rig.tick()
    assert [2] == [assignment.attempt for assignment in rig.runner.running.values()]


@pytest.mark.parametrize(("on_unknown", "reason"), [("fail", "executor_lost"), ("hold", "unknown_outcome")])
async def test_what_must_not_run_twice_ends_when_it_was_stopped(rig: Rig, on_unknown: str, reason: str) -> None:
    """As if its executor had been lost with it: what it has done is as unknown."""
    job = await rig.submit(on_unknown=on_unknown)
    await rig.tick()
    await rig.clock.settle()
    assert job.run_id in rig.runner.running
    await until_let_go(rig)
    rig.flaky.gone = False
    await rig.tick()
    row = await rig.row(job)
    assert ("FAILED", reason) == (str(row.state), row.reason)
    assert 1 == len(rig.runner.launched)


async def test_from_what_was_stopped_and_is_held_nothing_goes_on_before_it_is_decided(rig: Rig) -> None:
    """Its outcome is unknown; `on_failure` is for what is known to have failed."""
    job = await rig.submit(on_unknown="hold", on_failure=[str(UUID(int=7))])
    await rig.tick()
    await rig.clock.settle()
    await until_let_go(rig)
    rig.flaky.gone = False
    told: list[Outcome] = []
    real = rig.store.attempts.finish

    async def attempts_finish(executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Any:
        told.extend(outcomes)
        return await real(executor, outcomes, usage)

    rig.store.attempts.finish = attempts_finish  # type: ignore[method-assign]  # to listen
    await rig.tick()
    assert "FAILED" == await rig.state(job)
    assert [False] == [outcome.follow for outcome in told]
    assert [] == list(await rig.store.completions.pending(10))


@pytest.mark.parametrize("reason", ["signal", "crashed"])
async def test_what_was_killed_for_its_lease_while_we_stood_still_is_no_failure(rig: Rig, reason: str) -> None:
    """Its watcher killed it at the end of the lease, and nobody took it over: it is given back, not failed."""
    job = await running(rig, max_retries=0)
    assert job.run_id is not None
    rig.flaky.gone = True
    await rig.clock.advance(LEASE)
    rig.runner.end(job.run_id, Verdict.FAILED, reason=reason)  # before the executor has looked at its lease
    rig.flaky.gone = False
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._outbox.send())
    row = await rig.row(job)
    assert ("QUEUED", 0, 0) == (str(row.state), row.failures, row.crashes)
    assert [(1, "QUEUED", "lease_over")] == await rig.attempts(job)


class Watchers:
    """Processes that watch a lease."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def hold_until(self, moment: float) -> None:
        self.told.append(moment)


async def test_until_when_tasks_may_run_is_told_with_each_heartbeat() -> None:
    """A watcher kills at that moment: when the executor would, shortly before the lease ends."""
    clock = VirtualClock()
    watchers = Watchers()
    lease = Lease(clock, LEASE, doubted=asyncio.Event(), watchers=watchers)
    began = clock.monotonic()
    lease.renewed(lease.mark())
    await clock.advance(3.0)
    mark = lease.mark()
    await clock.advance(1.0)
    lease.renewed(mark)
    assert [LEASE - 0.2, LEASE + 3.0 - 0.2] == pytest.approx([moment - began for moment in watchers.told])


async def test_what_ended_well_before_it_was_stopped_stays_so(rig: Rig) -> None:
    """Its result waits for the store."""
    job = await running(rig)
    rig.runner.stubborn = True
    await until_let_go(rig)
    assert job.run_id is not None
    rig.runner.end(job.run_id, Verdict.OK, result="42")
    rig.flaky.gone = False
    await rig.tick()
    assert ("SUCCESS", "42") == (str((await rig.row(job)).state), (await rig.row(job)).result)


async def test_an_expired_executor_tells_nothing_of_what_it_stopped(rig: Rig) -> None:
    """Somebody else has it by then."""
    job = await running(rig)
    await until_let_go(rig)
    rig.flaky.gone = False
    await rig.clock.advance(1.0)
    await rig.store.executors.expire(CRASHES_MAX)
    before = rig.executor._lease.number
    await drive(rig.clock, rig.executor._heartbeat.beat())
    assert before < rig.executor._lease.number
    assert 0 == len(rig.executor._outbox)
    assert "QUEUED" == await rig.state(job)


# ------------------------------------------------------------------------------------------ what would begin


async def test_after_a_pause_beyond_the_lease_the_first_thing_is_no_start(rig: Rig) -> None:
    """Whatever wakes first: what was held, a claim that was under way, a start that was just recorded."""
    await rig.submit(rig.clock.now() + 0.5)
    await rig.submit(rig.clock.now() + 0.5, on_unknown="fail")
    await rig.tick()
    late = await rig.submit()
    claims = await rig.store.attempts.claim(any_claim(rig))
    assert [late.run_id] == [claimed.run_id for claimed in claims]
    await rig.clock.advance(3600.0)
    rig.executor._admission.take(claims)
    await drive(rig.clock, rig.executor._starter.launch_due())
    await rig.clock.settle()
    assert [] == rig.runner.launched


def any_claim(rig: Rig) -> ClaimRequest:
    """What this executor would ask for."""
    return ClaimRequest(
        executor=rig.executor._lease.number,
        queues=["default"],
        labels=["task:scripted"],
        limit=1,
        ahead_seconds=0.0,
    )


async def test_a_guarded_start_that_was_accepted_begins_nothing_after_the_lease(rig: Rig) -> None:
    """The answer may be older than an expiry."""
    job = await rig.submit(on_unknown="hold")
    rig.flaky.away = {"attempts.start"}
    await rig.tick()
    await rig.clock.advance(LEASE)
    rig.flaky.away = {"executors.beat"}
    await rig.clock.advance(1.0)
    assert "RUNNING" == await rig.state(job)
    assert [] == rig.runner.launched
    rig.flaky.away = set()
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.clock.advance(0.1)
    assert 1 == len(rig.runner.launched)


async def test_what_could_not_begin_begins_once_the_lease_stands_again(rig: Rig) -> None:
    """The store renews a lease that ran out, if nobody was expired for it."""
    await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    await rig.clock.advance(3600.0)
    await drive(rig.clock, rig.executor._starter.launch_due())
    assert [] == rig.runner.launched
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._starter.launch_due())
    assert 1 == len(rig.runner.launched)


class Queueing(ScriptedRunner):
    """A runner with one place: what else is launched waits in it, and begins when the place is free."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Assignment] = []

    def launch(self, assignments: Sequence[Assignment]) -> None:
        self._waiting.extend(assignments)
        self._fill()

    def end(self, run_id: UUID, verdict: Verdict = Verdict.OK, **more: Any) -> None:
        super().end(run_id, verdict, **more)
        self._fill()

    def release_waiting(self) -> None:
        while self._waiting:
            run_id, now = self._waiting.pop(0).run_id, self._now()
            self._reports.ended(run_id, Ending(Verdict.RELEASED, now, now))

    def _fill(self) -> None:
        if self._waiting and not self.running:
            super().launch([self._waiting.pop(0)])


async def test_a_place_that_becomes_free_after_the_lease_is_filled_by_nothing() -> None:
    """Though the runner hears of it before anybody has looked at the lease."""
    rig = Rig(runner=Queueing())
    await drive(rig.clock, rig.executor.prepare())
    jobs = [await rig.submit() for _ in range(3)]
    await rig.tick()
    (first,) = rig.runner.launched
    await rig.clock.advance(LEASE)
    rig.runner.end(first)
    assert [first] == rig.runner.launched
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._outbox.send())
    assert ["QUEUED", "QUEUED", "SUCCESS"] == sorted([await rig.state(job) for job in jobs])


class Sleeper(VirtualClock):
    """A machine that can sleep: its wall clock goes on meanwhile, its monotonic one does not."""

    slept = 0.0

    def now(self) -> float:
        return super().now() + self.slept


async def test_a_machine_that_slept_begins_nothing_before_it_has_asked_the_store() -> None:
    """A monotonic clock may not count that time, so the lease seems to stand."""
    clock, doubted = Sleeper(), asyncio.Event()
    lease = Lease(clock, LEASE, doubted=doubted)
    lease.renewed(lease.mark())
    assert lease.stands()
    assert not doubted.is_set()
    clock.slept = 3600.0
    assert not lease.stands()
    assert doubted.is_set()
    lease.renewed(lease.mark())
    assert lease.stands()


@pytest.mark.parametrize(("seconds", "margin"), [(10.0, 1.0), (600.0, 1.0), (0.5, 0.1)])
def test_the_margin_of_a_short_lease_is_short(seconds: float, margin: float) -> None:
    """A second, or a fifth."""
    assert margin == pytest.approx(Lease(VirtualClock(), seconds, doubted=asyncio.Event()).margin_seconds)


# ------------------------------------------------------------------------------------------ a run that comes back


async def test_a_run_does_not_begin_here_while_an_older_attempt_of_it_still_dies_here(rig: Rig) -> None:
    """The end of the old one would be taken for that of the new one."""
    job = await running(rig)
    assert job.run_id is not None
    rig.runner.stubborn = True
    await rig.store.executors.release_unknown(rig.executor._lease.number, [], rig.clock.now())
    await rig.tick(after_seconds=1.0)
    await rig.tick(after_seconds=2.0)
    assert 1 == len(rig.runner.launched)
    rig.runner.end(job.run_id, Verdict.CANCELLED)
    await rig.tick(after_seconds=2.0)
    assert 2 == len(rig.runner.launched)
    rig.runner.end(job.run_id)
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)


async def test_a_newer_claim_of_a_run_takes_the_place_of_the_older_and_of_its_slot() -> None:
    """A start that the store refused, and a new claim of that run which overtakes the refusal: the older claim is void,
    and its slot must not be lost with it."""
    rig = Rig(slots=2)
    await drive(rig.clock, rig.executor.prepare())
    job = await rig.submit(on_unknown="fail")
    assert job.run_id is not None
    rig.flaky.away = {"attempts.start"}
    await rig.tick()
    await rig.store.executors.release_unknown(rig.executor._lease.number, [], rig.clock.now())
    await rig.tick()
    rig.flaky.away = set()
    await rig.clock.advance(2.0)
    assert [job.run_id] == rig.runner.launched
    rig.runner.end(job.run_id)
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)
    assert [2] == [capacity.room() for capacity in rig.executor._capacities]


# ------------------------------------------------------------------------------------------ outages


def scheduler(rig: Rig) -> Scheduler:
    """One that sees the same store."""
    return Scheduler(
        store=rig.flaky,
        blobs=open_blobs("memory://"),
        signals=LocalSignals(),
        clock=rig.clock,
        settings=SchedulerSettings(retention=RETENTION, lease_seconds=LEASE),
        telemetry=Silent(),
    )


async def live(rig: Rig, healer: Scheduler, seconds: int) -> None:
    """Everybody does their rounds, as far as the store lets them: leases twice a second, heartbeats each third."""
    for half in range(2 * seconds):
        await rig.clock.advance(0.5)
        await rig.executor._lease_watch.watch()
        with contextlib.suppress(StoreUnavailable):
            await drive(rig.clock, healer._lease_expiry.step())
        if half % 6 == 0:
            with contextlib.suppress(StoreUnavailable):
                await drive(rig.clock, rig.executor._heartbeat.beat())


@pytest.mark.parametrize("outage_seconds", [1, 2, 5])
async def test_a_short_outage_of_the_store_runs_nothing_again(rig: Rig, outage_seconds: int) -> None:
    """Heartbeats that come back in time keep the lease."""
    job, healer = await running(rig), scheduler(rig)
    await live(rig, healer, 20)
    rig.flaky.gone = True
    await live(rig, healer, outage_seconds)
    rig.flaky.gone = False
    await live(rig, healer, 60)
    await rig.tick()
    assert ([], [job.run_id]) == (rig.runner.stopped, rig.runner.launched)


@pytest.mark.parametrize("outage_seconds", [12, 60, 400])
async def test_after_a_long_outage_nobody_who_lives_is_expired(rig: Rig, outage_seconds: int) -> None:
    """What was stopped for it runs again once; what was held and what had ended is as if nothing had been."""
    job, healer = await running(rig), scheduler(rig)
    ended = await running(rig)
    number = rig.executor._lease.number
    await live(rig, healer, 20)
    rig.flaky.gone = True
    assert ended.run_id is not None
    rig.runner.end(ended.run_id)
    await live(rig, healer, outage_seconds)
    rig.flaky.gone = False
    await live(rig, healer, 60)
    for _ in range(3):
        await rig.tick()
    assert number == rig.executor._lease.number
    assert "SUCCESS" == await rig.state(ended)
    assert [job.run_id, ended.run_id, job.run_id] == rig.runner.launched
    assert 0 == (await rig.row(job)).crashes


# ------------------------------------------------------------------------------------------ the end


class Closing(ScriptedRunner):
    """A runner whose last child takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()

    async def close(self) -> None:
        await self.let.wait()
        await super().close()


async def test_heartbeats_go_on_until_the_last_child_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else others would take over what still dies here."""
    rig = Rig()
    signals, runner = LocalSignals(), Closing()
    beats: list[float] = []
    real = rig.store.executors.beat

    async def executor_beat(*arguments: Any, **named: Any) -> Any:
        beats.append(rig.clock.monotonic())
        return await real(*arguments)

    monkeypatch.setattr(rig.store.executors, "beat", executor_beat)
    dying = Executor(
        store=rig.store,
        runner_configs=[RunnerConfig(runner)],
        signals=signals,
        clock=rig.clock,
        settings=ExecutorSettings(name="dying"),
        telemetry=Silent(),
    )
    await drive(rig.clock, dying.start())
    stopping = asyncio.ensure_future(dying.stop())
    await rig.clock.settle()
    heard = len(beats)
    signals.send(Topic.CANCELS)
    await rig.clock.settle()
    assert heard < len(beats)
    runner.let.set()
    async with asyncio.timeout(60):
        await drive(rig.clock, stopping)


async def test_an_executor_ends_in_bounded_time_though_the_store_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease runs out by itself."""
    rig = Rig()
    await drive(rig.clock, rig.executor.prepare())
    await running(rig)
    monkeypatch.setattr(departure, "LEAVE_SECONDS", 0.01)

    async def executor_leave(_number: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(rig.store.executors, "leave", executor_leave)
    async with asyncio.timeout(60):
        await rig.executor.stop()
    assert {} == rig.runner.running
