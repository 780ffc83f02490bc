"""What an executor promises, on the memory store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.roles.rig import LANE, Rig, drive
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import InDoubt, Misconfigured, StoreUnavailable, Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import CRASHES_MAX
from tickwise.ports.runner import Verdict
from tickwise.ports.store import ClaimRequest, JobAction, NewExecutor, RunCancel, number_taken
from tickwise.testing.factories import executor, outcome


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born."""
    made = Rig()
    await drive(made.clock, made.executor.prepare())
    return made


async def test_an_executor_whose_number_is_taken_draws_another() -> None:
    """Two that start in the same millisecond may draw the same. One that never finds a free number says so."""
    rig = Rig()
    drawn: list[int] = []
    join = rig.store.executors.join

    async def taken(new: NewExecutor) -> int:
        drawn.append(new.number)
        if len(drawn) < 3:
            raise number_taken(new.number)
        return await join(new)

    rig.store.executors.join = taken  # type: ignore[method-assign,assignment]  # the first two are taken
    await drive(rig.clock, rig.executor.prepare())
    assert (3, drawn[2]) == (len(set(drawn)), rig.executor._lease.number)
    with pytest.raises(Unavailable, match="numbers that this executor drew are taken"):
        await drive(rig.clock, crowded().executor.prepare())


def crowded() -> Rig:
    """An executor beside so many that every number is taken."""
    rig = Rig()

    async def taken(new: NewExecutor) -> int:
        raise number_taken(new.number)

    rig.store.executors.join = taken  # type: ignore[method-assign,assignment]  # all are taken
    return rig


async def test_a_due_run_is_run_and_recorded(rig: Rig) -> None:
    """From queue to history."""
    job = await rig.submit()
    await rig.tick()
    assert [job.run_id] == rig.runner.launched
    rig.runner.end(rig.runner.launched[0], result="42")
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)


async def test_a_claimed_run_is_held_until_it_is_due(rig: Rig) -> None:
    """Claimed ahead, never started early."""
    due = rig.clock.now() + 0.5
    job = await rig.submit(due)
    await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    assert [] == rig.runner.launched
    await rig.tick(after_seconds=0.6)
    assert job.run_id is not None
    assert due <= rig.runner.launched_at[job.run_id]


async def test_a_store_that_answers_late_is_asked_for_more_at_once() -> None:
    """Two claims are under way at most, so what one takes grows with the time of the answer before; a store that is
    quick again is asked for few."""
    rig, limits, seconds = Rig(claim_batch=5, slots=1_000), list[int](), [0.2]
    claim = rig.store.attempts.claim

    async def late(request: ClaimRequest) -> Any:
        limits.append(request.limit)
        await rig.clock.sleep(seconds[0])
        return await claim(request)

    rig.flaky.attempts.claim = late
    await drive(rig.clock, rig.executor.prepare())
    for _ in range(100):
        await rig.submit()
    await rig.tick()
    seconds[0] = 0.0
    for _ in range(3):
        await rig.tick()
    assert ([5, 20, 5, 5], 35) == (limits, len(rig.runner.launched))


async def test_what_is_held_is_not_started_once_our_lease_may_have_run_out(rig: Rig) -> None:
    """A silent executor must not run what somebody else may have by now."""
    await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    rig.flaky.away = {"executors.beat", "attempts.claim"}
    await rig.clock.advance(11)
    await drive(rig.clock, rig.executor._starter.launch_due())
    assert [] == rig.runner.launched
    await drive(rig.clock, rig.executor._lease_watch.watch())
    assert 1 == rig.runner.released, "what waits in the runner must not begin either"


async def test_a_failure_is_retried_after_its_backoff_and_ends_when_retries_are_used_up(rig: Rig) -> None:
    """Two retries: three attempts, then FAILED."""
    job = await rig.submit(max_retries=2, retry={"backoff": "fixed", "base_seconds": 5.0, "jitter": 0.0})
    for attempt in (1, 2, 3):
        await rig.tick()
        assert attempt == len(rig.runner.launched)
        rig.runner.end(rig.runner.launched[-1], Verdict.FAILED, reason="exit_code", error="1")
        await rig.tick()
        if attempt < 3:
            assert "RETRYING" == await rig.state(job)
            await rig.tick(after_seconds=4.0)
            assert attempt == len(rig.runner.launched), "claimed before its backoff was over"
            await rig.clock.advance(1.0)
    assert "FAILED" == await rig.state(job)


async def test_an_invalid_task_is_not_retried(rig: Rig) -> None:
    """What cannot succeed fails at once."""
    job = await rig.submit(max_retries=5)
    await rig.tick()
    rig.runner.end(rig.runner.launched[0], Verdict.INVALID, reason="invalid")
    await rig.tick()
    assert "FAILED" == await rig.state(job)


async def test_a_task_may_ask_for_a_later_retry(rig: Rig) -> None:
    """`Retry-After` wins over a shorter backoff."""
    await rig.submit(retry={"backoff": "fixed", "base_seconds": 1.0, "jitter": 0.0})
    await rig.tick()
    rig.runner.end(rig.runner.launched[0], Verdict.FAILED, retry_after_seconds=60.0)
    await rig.tick()
    await rig.tick(after_seconds=30.0)
    assert 1 == len(rig.runner.launched)
    await rig.tick(after_seconds=31.0)
    assert 2 == len(rig.runner.launched)


async def test_results_wait_for_a_store_that_is_away(rig: Rig) -> None:
    """An outcome is sent until it is accepted."""
    job = await rig.submit()
    await rig.tick()
    rig.runner.end(rig.runner.launched[0])
    rig.flaky.away = {"attempts.finish"}
    with pytest.raises(Exception, match="away"):
        await rig.tick()
    rig.flaky.away = set()
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)


async def test_an_expired_executor_kills_its_tasks_reports_nothing_and_comes_back_new(rig: Rig) -> None:
    """Others have its runs by now."""
    job = await rig.submit()
    await rig.tick()
    number = rig.executor._lease.number
    await rig.clock.advance(11)
    await rig.store.executors.expire(CRASHES_MAX)
    assert "QUEUED" == await rig.state(job)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    assert rig.runner.stopped == rig.runner.launched
    assert number < rig.executor._lease.number
    assert "QUEUED" == await rig.state(job)


async def test_a_run_that_was_lost_once_is_recorded_before_it_starts_again(rig: Rig) -> None:
    """So that a task that takes executors down is seen and counted."""
    job = await rig.submit()
    await rig.tick()
    await rig.clock.advance(11)
    await rig.store.executors.expire(CRASHES_MAX)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.tick()
    await rig.clock.settle()
    assert 2 == len(rig.runner.launched)
    assert "RUNNING" == await rig.state(job)


async def test_a_guarded_run_does_not_begin_while_its_start_cannot_be_recorded(rig: Rig) -> None:
    """The fenced start comes first."""
    job = await rig.submit()
    await rig.tick()
    await rig.clock.advance(11)
    await rig.store.executors.expire(CRASHES_MAX)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    rig.flaky.away = {"attempts.start"}
    await rig.tick()
    await rig.clock.advance(2)
    assert 1 == len(rig.runner.launched)
    rig.flaky.away = set()
    await rig.clock.advance(2)
    assert 2 == len(rig.runner.launched)
    assert "RUNNING" == await rig.state(job)


async def test_a_cancel_reaches_what_is_held_and_what_runs(rig: Rig) -> None:
    """Held runs never begin; running ones are stopped; both end CANCELLED."""
    held = await rig.submit(rig.clock.now() + 0.5)
    running = await rig.submit()
    await rig.tick()
    assert [running.run_id] == rig.runner.launched
    for job in (held, running):
        assert job.run_id is not None
        await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await rig.tick()
    await rig.tick(after_seconds=1.0)
    assert [running.run_id] == rig.runner.stopped
    assert [running.run_id] == rig.runner.launched
    assert ["CANCELLED", "CANCELLED"] == [await rig.state(held), await rig.state(running)]


async def test_a_cancelled_job_takes_its_held_run_with_it(rig: Rig) -> None:
    """DELETE inside the horizon."""
    held = await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    await rig.store.jobs.move(rig.make.move(held.job_id, JobAction.CANCEL))
    await rig.tick()
    await rig.tick(after_seconds=1.0)
    assert [] == rig.runner.launched
    assert "CANCELLED" == await rig.state(held)


async def test_a_task_that_goes_on_is_shown_as_running(rig: Rig) -> None:
    """Its start reaches the store with the next batch."""
    job = await rig.submit()
    await rig.tick()
    assert job.run_id is not None
    rig.runner.begin(job.run_id)
    await rig.tick()
    assert "RUNNING" == await rig.state(job)


async def test_no_more_is_taken_than_there_are_slots() -> None:
    """What cannot begin here stays for others."""
    rig = Rig(slots=2)
    await drive(rig.clock, rig.executor.prepare())
    jobs = [await rig.submit() for _ in range(5)]
    await rig.tick()
    assert 2 == len(rig.runner.running)
    assert [(2, 2)] == list(rig.executor.slots().values())
    assert 3 == [await rig.state(job) for job in jobs].count("QUEUED")
    rig.runner.end(rig.runner.launched[0])
    await rig.tick()
    await rig.tick()
    assert 3 == len(rig.runner.launched)
    for run_id in list(rig.runner.running):
        rig.runner.end(run_id)
    assert [(0, 2)] == list(rig.executor.slots().values())


async def test_a_task_is_told_when_it_was_due_and_which_time_it_stands_for(rig: Rig) -> None:
    """A run that was deferred or made up for is later than the time that its schedule named."""
    job = await rig.submit()
    nominal = rig.clock.now() - 3600
    run = rig.make.scheduled(job.job_id, rig.clock.now(), nominal=nominal)
    await rig.store.runs.add("default", job.job_id, [run])
    await rig.tick()
    told = rig.runner.running[run.run_id]
    assert (nominal, run.due) == (told.nominal, told.due)


async def test_a_start_that_overlaps_an_earlier_run_leaves_nothing_here() -> None:
    """It is skipped in the record; its slot is free for others at once, and nobody is told of a failure."""
    rig = Rig(slots=2)
    await drive(rig.clock, rig.executor.prepare())
    job = await rig.submit()
    await rig.tick()
    await rig.clock.advance(0.1)
    second = rig.make.scheduled(job.job_id, rig.clock.now(), overlap=Overlap.SKIP)
    await rig.store.runs.add("default", job.job_id, [second])
    await rig.tick()
    await rig.clock.settle()
    row = await rig.store.runs.get("default", second.run_id)
    assert row is not None
    assert (RunState.SKIPPED, "overlap") == (row.state, row.reason)
    other = await rig.submit()
    await rig.tick()
    assert [job.run_id, other.run_id] == rig.runner.launched
    assert 0 == len(rig.executor._outbox)


async def test_a_start_that_has_to_wait_is_taken_again_when_the_earlier_run_has_ended(rig: Rig) -> None:
    """The store keeps it until then."""
    job = await rig.submit()
    await rig.tick()
    await rig.clock.advance(0.1)
    second = rig.make.scheduled(job.job_id, rig.clock.now(), overlap=Overlap.QUEUE_ALL)
    await rig.store.runs.add("default", job.job_id, [second])
    await rig.tick()
    await rig.clock.settle()
    assert [job.run_id] == rig.runner.launched
    assert job.run_id is not None
    rig.runner.end(job.run_id)
    for _ in range(3):
        await rig.tick(after_seconds=1.0)
    assert [job.run_id, second.run_id] == rig.runner.launched


async def test_drain_does_not_wait_for_a_start_that_was_refused() -> None:
    """Nothing is left of it, so nothing is under way."""
    rig = Rig(drain_seconds=3600.0)
    await drive(rig.clock, rig.executor.prepare())
    job = await rig.submit()
    elsewhere = await rig.store.executors.join(executor())
    claim = ClaimRequest(executor=elsewhere, queues=["default"], labels=["task:scripted"], limit=1, ahead_seconds=0)
    assert [job.run_id] == [claimed.run_id for claimed in await rig.store.attempts.claim(claim)]
    await rig.clock.advance(0.1)
    second = rig.make.scheduled(job.job_id, rig.clock.now(), overlap=Overlap.SKIP)
    await rig.store.runs.add("default", job.job_id, [second])
    rig.flaky.away = {"attempts.start"}
    await rig.tick()
    await rig.clock.settle()
    draining = asyncio.ensure_future(rig.executor.drain())
    await rig.clock.settle()
    rig.flaky.away = set()
    async with asyncio.timeout(60):  # of an hour
        await drive(rig.clock, draining)
    assert [] == rig.runner.launched


async def test_drain_gives_back_what_has_not_begun(rig: Rig) -> None:
    """A stopping executor keeps nobody waiting."""
    held = await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    draining = asyncio.ensure_future(rig.executor.drain())
    await rig.clock.settle()
    await drive(rig.clock, rig.executor._outbox.send())
    await drive(rig.clock, draining)
    assert "QUEUED" == await rig.state(held)


async def test_a_definition_that_cannot_be_read_fails_its_run_and_no_other(rig: Rig) -> None:
    """A defect does not come back for ever."""
    broken = rig.make.job(None, definition="{", task_kind="scripted")
    await rig.store.jobs.add([broken])
    good = await rig.submit()
    await rig.tick()
    await rig.tick()
    assert "FAILED" == await rig.state(broken)
    assert [good.run_id] == rig.runner.launched


async def test_a_claim_whose_answer_was_lost_is_given_back(rig: Rig) -> None:
    """Nobody else could free it: its holder lives."""
    job = await rig.submit()
    rig.flaky.answers_lost = {"attempts.claim"}
    with pytest.raises(InDoubt):
        await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    rig.flaky.answers_lost = set()
    await rig.tick(after_seconds=3.0)
    assert [job.run_id] == rig.runner.launched


async def test_a_claim_that_is_carried_out_long_after_it_was_given_up_is_given_back(rig: Rig) -> None:
    """A server that stood still does what lies in its queue: after we have asked it what it gave us."""
    rig.flaky.away = {"attempts.claim"}
    with pytest.raises(StoreUnavailable):
        await rig.tick()
    rig.flaky.away = set()
    await rig.tick(after_seconds=1.0)
    job = await rig.submit()
    late = ClaimRequest(
        executor=rig.executor._lease.number, queues=("default",), labels=LANE.requires, limit=1, ahead_seconds=0.0
    )
    assert 1 == len(await rig.store.attempts.claim(late))
    for _ in range(5):
        await rig.tick(after_seconds=3.0)
    assert [job.run_id] == rig.runner.launched


async def test_what_is_known_is_kept_when_a_lost_claim_is_given_back(rig: Rig) -> None:
    """Running ones go on, held ones stay held, ended ones are recorded."""
    running, ended = await rig.submit(), await rig.submit()
    await rig.tick()
    held = await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    assert ended.run_id is not None
    rig.runner.end(ended.run_id)
    rig.flaky.answers_lost = {"attempts.claim"}
    with pytest.raises(InDoubt):
        await drive(rig.clock, rig.executor._claim_loop.step())
    rig.flaky.answers_lost = set()
    await drive(rig.clock, rig.executor._claim_loop.step())
    await rig.tick()
    assert ["DISPATCHED", "SUCCESS", "DISPATCHED"] == [await rig.state(job) for job in (running, ended, held)]
    assert 2 == len(rig.runner.launched)


@pytest.mark.parametrize("failure", [Misconfigured("the password was changed"), RuntimeError("a defect")])
async def test_outcomes_outlive_any_failure_of_the_store(rig: Rig, failure: Exception) -> None:
    """Not only that of a store that is away."""
    job = await rig.submit()
    await rig.tick()
    rig.runner.end(rig.runner.launched[0])
    rig.flaky.broken = {"attempts.finish": failure}
    with pytest.raises(type(failure)):
        await rig.tick()
    rig.flaky.broken = {}
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)


async def test_a_guarded_start_is_tried_again_after_any_failure(rig: Rig) -> None:
    """Else its run and its slot were lost."""
    await rig.submit()
    await rig.tick()
    await rig.clock.advance(11)
    await rig.store.executors.expire(CRASHES_MAX)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    rig.flaky.broken = {"attempts.start": Misconfigured("the password was changed")}
    await rig.tick()
    rig.flaky.broken = {}
    await rig.clock.advance(2)
    assert 2 == len(rig.runner.launched)


async def test_a_guarded_start_that_was_long_under_way_waits_for_the_lease(rig: Rig) -> None:
    """We may be expired by the time the answer comes."""
    await rig.submit()
    await rig.tick()
    await rig.clock.advance(11)
    await rig.store.executors.expire(CRASHES_MAX)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    rig.executor._lease._until = rig.clock.monotonic() + 0.5 + rig.executor._lease.margin_seconds
    rig.flaky.away = {"executors.beat", "attempts.start"}
    await drive(rig.clock, rig.executor._claim_loop.step())
    await rig.clock.advance(1.0)
    rig.flaky.away = {"executors.beat"}
    await rig.clock.advance(1.0)
    assert 1 == len(rig.runner.launched)
    rig.flaky.away = set()
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.clock.advance(0.1)
    assert 2 == len(rig.runner.launched)


async def test_a_claim_under_way_when_the_end_is_asked_for_is_given_back(rig: Rig) -> None:
    """Claim nothing more means: begin nothing more."""
    job = await rig.submit()
    rig.executor._held_runs.closed = True
    claims = await rig.store.attempts.claim(
        ClaimRequest(
            executor=rig.executor._lease.number,
            queues=["default"],
            labels=["task:scripted"],
            limit=5,
            ahead_seconds=1.0,
        )
    )
    rig.executor._admission.take(claims)
    await rig.tick()
    assert [] == rig.runner.launched
    assert "QUEUED" == await rig.state(job)


async def test_an_outcome_that_cannot_be_stored_ends_its_run_plainly_and_harms_no_other(rig: Rig) -> None:
    """A retry time beyond all time is a defect; the run must not stay held for it."""
    broken, good = await rig.submit(), await rig.submit()
    await rig.tick()
    assert broken.run_id is not None
    assert good.run_id is not None
    held = rig.executor._held_runs.live[broken.run_id]
    rig.runner.running.pop(broken.run_id)
    rig.executor._settlement.settle(held, outcome(held.claimed, RunState.RETRYING, retry_at=float("inf")))
    rig.runner.end(good.run_id)
    await rig.tick()
    assert ["FAILED", "SUCCESS"] == [await rig.state(broken), await rig.state(good)]
