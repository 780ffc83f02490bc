"""A store that lost what it had acknowledged is found out and put right by the executor that knows better."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import structlog

from tests.unit.roles.rig import Rig, drive
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import InDoubt
from tickwise.domain.fencing import epoch_of
from tickwise.domain.model import Claimed, Outcome
from tickwise.ports.runner import Verdict
from tickwise.ports.store import ClaimRequest, ExecutorRow, NewJob, RunCancel
from tickwise.roles.executor import answered_claims
from tickwise.roles.executor import outbox as outboxes
from tickwise.roles.executor.answered_claims import AnsweredClaims
from tickwise.roles.executor.reconciliation import SHARE

BEAT = 3.0
SOON = 2 * BEAT + 1.0
"""Two heartbeats: by then a difference is found without anybody saying so."""


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born."""
    made = Rig(slots=4)
    await drive(made.clock, made.executor.prepare())
    return made


async def running(rig: Rig, **definition: Any) -> NewJob:
    """A job whose run has begun here, with its start on record."""
    job = await rig.submit(**definition)
    await rig.tick()
    assert job.run_id is not None
    if job.run_id in rig.runner.running:
        rig.runner.begin(job.run_id)
    await rig.tick()
    assert "RUNNING" == await rig.state(job)
    return job


async def ended(rig: Rig, job: NewJob, verdict: Verdict = Verdict.OK, **more: Any) -> None:
    """The task of the job's run is over, and the store has said that it knows."""
    assert job.run_id is not None
    rig.runner.end(job.run_id, verdict, **more)
    await rig.tick()
    assert await rig.state(job) in ("SUCCESS", "FAILED", "RETRYING")


def set_back_silently(store: MemoryStore, snapshot: Any) -> None:
    """Writes are lost, and no epoch tells of it."""
    epoch, before, tokens = store.state.epoch, store.state.epochs_before, store.state.tokens
    store.set_back(snapshot)
    store.state.epoch, store.state.epochs_before, store.state.tokens = epoch, before, tokens


async def executor_row(rig: Rig) -> ExecutorRow:
    """The active one."""
    [row] = [row for row in await rig.store.executors.all() if row.gone_at is None]
    return row


# ------------------------------------------------------------------------------------------ the store lost an end


async def test_an_end_that_the_store_lost_is_reported_again(rig: Rig) -> None:
    """With its result, at the first heartbeat after the store was set back; the task does not run again."""
    job = await running(rig)
    snapshot = rig.store.snapshot()
    await ended(rig, job, result='{"a":1}')
    rig.store.set_back(snapshot)
    assert "RUNNING" == await rig.state(job)
    await rig.tick()
    row = await rig.row(job)
    assert ("SUCCESS", '{"a":1}', 1) == (str(row.state), row.result, row.attempt)
    assert 1 == len(rig.runner.launched)


async def test_an_end_that_nobody_was_told_to_be_lost_is_found_by_its_digest(rig: Rig) -> None:
    """Within two heartbeats, whatever lost it."""
    job = await running(rig)
    snapshot = rig.store.snapshot()
    await rig.tick(SOON)
    await ended(rig, job)
    set_back_silently(rig.store, snapshot)
    await rig.tick(BEAT)
    await rig.tick(BEAT)
    assert "SUCCESS" == await rig.state(job)


async def test_a_failure_that_the_store_lost_is_a_failure_again(rig: Rig) -> None:
    """Its retry comes when it was to come."""
    job = await running(rig, max_retries=2, retry={"backoff": "fixed", "base_seconds": 60.0})
    snapshot = rig.store.snapshot()
    await ended(rig, job, Verdict.FAILED, reason="error", error="no")
    ready = (await rig.row(job)).ready_at
    rig.store.set_back(snapshot)
    await rig.tick()
    row = await rig.row(job)
    assert ("RETRYING", 1, ready) == (str(row.state), row.failures, row.ready_at)


async def test_an_end_that_nobody_remembers_goes_by_on_unknown(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the executor had been lost with it: it runs again, under the next number, unless its job says otherwise."""
    monkeypatch.setattr(outboxes, "MAX_REMEMBERED", 0)
    jobs = [await running(rig, on_unknown=policy) for policy in ("rerun", "fail", "hold")]
    snapshot = rig.store.snapshot()
    for job in jobs:
        await ended(rig, job)
    await ended(rig, await running(rig))  # the last batch is remembered, whatever its length
    rig.store.set_back(snapshot)
    rig.executor._held_runs.closed = True  # so that what goes back is seen going back
    await rig.tick()
    rows = [await rig.row(job) for job in jobs]
    assert [("QUEUED", None), ("FAILED", "executor_lost"), ("FAILED", "unknown_outcome")] == [
        (str(row.state), row.reason) for row in rows
    ]
    assert [(1, "QUEUED", "end_lost")] == await rig.attempts(jobs[0])
    rig.executor._held_runs.closed = False
    await rig.tick(1.0)
    assert 2 == rig.runner.running[_id(jobs[0])].attempt


async def test_the_cancel_of_a_run_that_nobody_holds_is_carried_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request itself brings it to light, though nothing else did."""
    monkeypatch.setattr(outboxes, "MAX_REMEMBERED", 0)
    job = await running(rig)
    snapshot = rig.store.snapshot()
    await ended(rig, job)
    await ended(rig, await running(rig))
    set_back_silently(rig.store, snapshot)
    rig.executor._reconciliation._upto = 0  # digests would not have found it
    await rig.store.runs.move(RunCancel("default", _id(job), "ada"))
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._reconciliation.compare())
    await drive(rig.clock, rig.executor._outbox.send())
    assert "CANCELLED" == await rig.state(job)


async def test_a_cancel_of_what_is_on_its_way_asks_for_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store hears of its end with the next batch."""
    job = await running(rig)
    rig.runner.end(_id(job), Verdict.OK)
    await rig.store.runs.move(RunCancel("default", _id(job), "ada"))
    asked = counted(rig, monkeypatch, "held.tokens")
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._reconciliation.compare())
    assert [] == asked
    await rig.tick()
    assert "SUCCESS" == await rig.state(job)


async def test_a_claim_that_was_never_answered_is_given_back_unused(rig: Rig) -> None:
    """Nothing of it can have begun here: no attempt is counted, whatever its job says of unknown outcomes."""
    await running(rig)
    job = await rig.submit(on_unknown="fail")
    rig.flaky.answers_lost.add("attempts.claim")
    rig.flaky.away.add("executors.release_unknown")
    with pytest.raises(Exception, match="lost"):
        await drive(rig.clock, rig.executor._claim_loop.step())
    rig.flaky.answers_lost.clear()
    assert "DISPATCHED" == await rig.state(job)
    other = await rig.submit()
    rig.executor._claim_loop._in_doubt = False  # as if nobody had noticed
    await drive(rig.clock, rig.executor._claim_loop.step())
    assert "DISPATCHED" == await rig.state(other)
    rig.executor._reconciliation.doubt()
    rig.executor._held_runs.closed = True
    await drive(rig.clock, rig.executor._reconciliation.compare())
    await drive(rig.clock, rig.executor._outbox.send())
    row = await rig.row(job)
    assert ("QUEUED", 0) == (str(row.state), row.attempt)


async def test_a_claim_that_takes_effect_after_it_was_given_up_is_no_loss(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stood still carries it out when the executor has already given back what was in doubt, and a later
    claim is answered. Its run goes back unused, and nobody says that the store lost anything."""
    job, real = await rig.submit(on_unknown="fail"), rig.store.attempts.claim
    late: list[ClaimRequest] = []

    async def stands_still(request: ClaimRequest) -> Sequence[Claimed]:
        if not late:
            late.append(request)
            raise InDoubt("no answer came in time")
        if len(late) == 1:
            late.append(request)
            assert [_id(job)] == [row.run_id for row in await real(late[0])]
            await rig.submit()
        return await real(request)

    monkeypatch.setattr(rig.store.attempts, "claim", stands_still)
    with pytest.raises(InDoubt):
        await drive(rig.clock, rig.executor._claim_loop.step())
    await rig.tick()
    assert ["DISPATCHED", 1] == [await rig.state(job), len(rig.runner.running)]
    rig.executor._held_runs.closed = True  # so that what goes back is seen going back
    with structlog.testing.capture_logs() as told:
        await rig.tick(BEAT)
        await rig.tick(BEAT)
        await rig.tick(BEAT)
    row, [epoch] = await rig.row(job), await rig.store.epochs.all()
    assert ("QUEUED", 0, []) == (str(row.state), row.attempt, await rig.attempts(job))
    assert [("claim_given_back", 1)] == [(line["event"], line["count"]) for line in told]
    assert (0, False, 0) == (epoch.differed, epoch.lost_writes, (await executor_row(rig)).differs)


async def test_a_give_back_that_the_store_lost_is_a_loss(rig: Rig) -> None:
    """Though its claim was never answered: the store had acknowledged the give-back."""
    await running(rig)
    job = await rig.submit()
    rig.flaky.answers_lost.add("attempts.claim")
    with pytest.raises(InDoubt):
        await drive(rig.clock, rig.executor._claim_loop.step())
    rig.flaky.answers_lost.clear()
    rig.executor._claim_loop._in_doubt = False  # as if the claim had taken effect later
    await ended(rig, await running(rig))
    snapshot = rig.store.snapshot()
    rig.executor._reconciliation.doubt()
    await drive(rig.clock, rig.executor._reconciliation.compare())
    rig.executor._held_runs.closed = True
    await drive(rig.clock, rig.executor._outbox.send())
    assert "QUEUED" == await rig.state(job)
    rig.store.set_back(snapshot)
    await rig.tick(BEAT)
    await rig.tick(BEAT)
    assert "QUEUED" == await rig.state(job)
    assert 1 == (await rig.store.epochs.all())[0].differed


# ------------------------------------------------------------------------------------------ the store lost a claim


async def test_a_run_whose_claim_the_store_lost_is_stopped(rig: Rig) -> None:
    """Somebody else may have it by now. Nothing is reported of it, and it runs again under a greater token."""
    await rig.tick()
    job = await rig.submit()
    snapshot = rig.store.snapshot()
    await rig.tick()
    first = rig.runner.running[_id(job)]
    rig.store.set_back(snapshot)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._reconciliation.compare())
    assert [_id(job)] == rig.runner.stopped
    await rig.tick()
    second = rig.runner.running[_id(job)]
    assert (1, 1) == (first.attempt, second.attempt)
    assert epoch_of(first.token) < epoch_of(second.token)
    await ended(rig, job)
    assert "SUCCESS" == await rig.state(job)


async def test_an_executor_that_the_store_lost_joins_again(rig: Rig) -> None:
    """Under a number that nobody has had, and stops what it ran."""
    young = Rig()
    snapshot = young.store.snapshot()
    await drive(young.clock, young.executor.prepare())
    job = await young.submit()
    await young.tick()
    number = young.executor._lease.number
    young.store.set_back(snapshot)
    await young.tick()
    assert [_id(job)] == young.runner.stopped
    assert young.executor._lease.number > number + 1_000


# ------------------------------------------------------------------------------------------ no false alarms


async def test_what_ends_while_the_store_answers_is_no_difference(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before its effect nor after it, however long the answer takes."""
    jobs = [await running(rig) for _ in range(3)]
    await rig.tick(SOON)
    real = rig.store.held.tokens
    seen: list[Any] = []

    async def slowly(executor: int, token: int) -> Any:
        before = await real(executor, token)
        if len(seen) < 2:
            rig.runner.end(_id(jobs[len(seen)]), Verdict.OK)
            await rig.executor._outbox.send()
        seen.append(before)
        return before

    monkeypatch.setattr(rig.store.held, "tokens", slowly)
    rig.executor._reconciliation.doubt()
    await drive(rig.clock, rig.executor._reconciliation.compare())
    assert 1 <= len(seen) <= 2
    assert 0 == rig.executor._reconciliation.differs
    assert [] == rig.runner.stopped
    assert 0 == (await rig.store.epochs.all())[0].differed


async def test_what_is_told_while_digests_are_compared_is_looked_at_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is not asked for each time that a run ends at this moment."""
    jobs = [await running(rig) for _ in range(2)]
    await rig.tick(SOON)
    real = rig.store.held.digest

    async def slowly(executor: int, token: int) -> Any:
        answer = await real(executor, token)
        if _id(jobs[0]) in rig.runner.running:
            rig.runner.end(_id(jobs[0]), Verdict.OK)
            await rig.executor._outbox.send()
            return await real(executor, token)
        return answer

    monkeypatch.setattr(rig.store.held, "digest", slowly)
    asked = counted(rig, monkeypatch, "held.tokens")
    await rig.tick(BEAT)
    await rig.tick(BEAT)
    assert [] == asked
    assert [] == rig.runner.stopped


async def test_a_start_that_is_being_recorded_is_left_to_the_stores_answer(rig: Rig) -> None:
    """A refused start frees the run before its executor hears of it."""
    gate: dict[str, Any] = {"concurrency": {"limit": 1}, "limit_key": "key:one"}
    await running(rig, **gate)
    waits = await rig.submit(**gate)
    rig.flaky.answers_lost.add("attempts.start")
    await drive(rig.clock, rig.executor._claim_loop.step())
    assert "QUEUED" == await rig.state(waits)  # its start was refused, and the answer is lost
    rig.executor._reconciliation.doubt()
    await drive(rig.clock, rig.executor._reconciliation.compare())
    assert 0 == rig.executor._reconciliation.differs
    rig.executor._starter.stop()


async def test_an_ordinary_day_never_asks_for_lists(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs come, go on for long, and end."""
    asked = counted(rig, monkeypatch, "held.tokens")
    for _ in range(30):
        job = await running(rig)
        await rig.tick(BEAT)
        await ended(rig, job)
    assert [] == asked


# ------------------------------------------------------------------------------------------ what is told of it


async def test_what_is_found_is_told_with_the_heartbeat_and_counted_once(rig: Rig) -> None:
    """Until it is put right."""
    job = await running(rig)
    snapshot = rig.store.snapshot()
    await ended(rig, job)
    rig.store.set_back(snapshot)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await drive(rig.clock, rig.executor._reconciliation.compare())
    await drive(rig.clock, rig.executor._heartbeat.beat())
    assert 1 == (await executor_row(rig)).differs
    await drive(rig.clock, rig.executor._outbox.send())
    await rig.tick(BEAT)
    await rig.tick(BEAT)
    assert 0 == (await executor_row(rig)).differs
    epoch, before = await rig.store.epochs.all()
    assert (1, True, 0) == (epoch.differed, epoch.lost_writes, before.differed)


async def test_comparing_takes_a_hundredth_of_the_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that reads for a second to answer is asked again after a hundred."""
    await running(rig)
    await rig.tick(SOON)
    real, asked = rig.store.held.digest, []

    async def slowly(executor: int, token: int) -> Any:
        asked.append(rig.clock.monotonic())
        await rig.clock.sleep(1.0)
        return await real(executor, token)

    monkeypatch.setattr(rig.store.held, "digest", slowly)
    for _ in range(80):
        await rig.tick(BEAT)
    gaps = [later - sooner for sooner, later in pairwise(asked)]
    assert 2 <= len(asked) <= 3
    assert all(gap >= SHARE for gap in gaps)


async def test_a_comparison_that_waited_for_a_store_that_was_away_is_made_again_soon(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time was not that of the store: what was lost by the time it is back is found at once."""
    await running(rig)
    snapshot = rig.store.snapshot()
    stray = await running(rig)
    await rig.tick(SOON)
    real, waits = rig.store.held.digest, [4.0]

    async def away(executor: int, token: int) -> Any:
        answer = await real(executor, token)
        if waits:
            await rig.clock.sleep(waits.pop())
            set_back_silently(rig.store, snapshot)
        return answer

    monkeypatch.setattr(rig.store.held, "digest", away)
    for _ in range(12):
        await rig.tick(BEAT)
    assert not waits
    assert [_id(stray)] == rig.runner.stopped


async def test_a_store_that_is_slow_each_time_is_asked_seldom(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third answer shows that it was not away."""
    await running(rig)
    await rig.tick(SOON)
    real, asked = rig.store.held.digest, []

    async def slowly(executor: int, token: int) -> Any:
        asked.append(rig.clock.monotonic())
        await rig.clock.sleep(2.5)
        return await real(executor, token)

    monkeypatch.setattr(rig.store.held, "digest", slowly)
    for _ in range(80):
        await rig.tick(BEAT)
    gaps = [later - sooner for sooner, later in pairwise(asked)]
    assert (3, True) == (len(asked), max(gaps) < 3 * BEAT), gaps


async def test_a_comparison_that_fails_is_made_again(rig: Rig) -> None:
    """A store that is away leaves the doubt as it was."""
    job = await running(rig)
    snapshot = rig.store.snapshot()
    await ended(rig, job)
    rig.store.set_back(snapshot)
    rig.flaky.away.add("held.tokens")
    await drive(rig.clock, rig.executor._heartbeat.beat())
    with pytest.raises(Exception, match="held.tokens is away"):
        await drive(rig.clock, rig.executor._reconciliation.compare())
    rig.flaky.away.clear()
    await drive(rig.clock, rig.executor._reconciliation.compare())
    await drive(rig.clock, rig.executor._outbox.send())
    assert "SUCCESS" == await rig.state(job)


# ------------------------------------------------------------------------------------------ what is remembered


def claim(make: Any, token: int) -> Claimed:
    """With this token."""
    return Claimed(make(), token, make(), "default", 1, 0, 0, False, 0.0, 0.0, 0.0, 1, "{}", 0.0)


def test_of_claims_that_are_forgotten_nothing_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been answered."""
    monkeypatch.setattr(answered_claims, "TOKENS_KEPT", 3)
    claims, make = AnsweredClaims(), rig.make.identifier
    for token in (10, 20, 30, 40):
        claims.add([claim(make, token)])
    assert 40 == claims.highest
    assert [False, False, True, False, True] == [claims.never_came(token) for token in (5, 20, 25, 40, 41)]


async def test_of_many_ends_the_last_are_remembered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded by their number, and without those that are long."""
    monkeypatch.setattr(outboxes, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(outboxes, "REMEMBERED_LENGTH", 10)
    box, capacity = rig.executor._outbox, rig.executor._capacities[0]
    short = [Outcome(rig.make.identifier(), token, 5, 1.0, 2.0) for token in range(1, 7)]
    long = Outcome(rig.make.identifier(), 9, 5, 1.0, 2.0, result="x" * 11)
    for first in (0, 2, 4):
        box._remember([(outcome, capacity) for outcome in short[first : first + 2]])
    for _ in range(10):
        box._remember([(long, capacity)])
    assert len(box._remembered) <= 3
    pairs = [(outcome.run_id, outcome.token) for outcome in (*short, long)]
    assert set(pairs[4:6]) == set(box.remembered(pairs))
    assert {} == dict(box.remembered([(pairs[5][0], 99)]))


async def test_a_text_that_cannot_be_encoded_takes_no_other_from_memory(rig: Rig) -> None:
    """Half a pair of surrogates, as the store replaces it."""
    box, capacity = rig.executor._outbox, rig.executor._capacities[0]
    bad = Outcome(rig.make.identifier(), 1, 6, 1.0, 2.0, reason="error", error="half: \udcff")
    good = Outcome(rig.make.identifier(), 2, 5, 1.0, 2.0)
    box._remember([(bad, capacity), (good, capacity)])
    found = box.remembered([(bad.run_id, 1), (good.run_id, 2)])
    assert {(bad.run_id, 1): bad._replace(error="half: ?"), (good.run_id, 2): good} == dict(found)


async def test_what_is_remembered_is_bounded_in_bytes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest batch stays."""
    monkeypatch.setattr(outboxes, "REMEMBERED_BYTES", 100)
    box, capacity = rig.executor._outbox, rig.executor._capacities[0]
    ends = [Outcome(rig.make.identifier(), token, 6, 1.0, 2.0, error="x" * 90) for token in range(1, 4)]
    for outcome in ends:
        box._remember([(outcome, capacity)])
    pairs = [(outcome.run_id, outcome.token) for outcome in ends]
    assert {pairs[-1]} == set(box.remembered(pairs))


def _id(job: NewJob) -> Any:
    assert job.run_id is not None
    return job.run_id


def counted(rig: Rig, monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """The calls of this method of the store from now on."""
    part, method = name.split(".")
    real, calls = getattr(getattr(rig.store, part), method), []

    async def call(*arguments: Any) -> Any:
        calls.append(arguments)
        return await real(*arguments)

    monkeypatch.setattr(getattr(rig.store, part), method, call)
    return calls
