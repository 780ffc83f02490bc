"""What an executor makes of the end of an attempt, as the job's rules say; and what it asks before a start."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.unit.roles.rig import Rig, Silent, drive
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import OnUnknown
from tickwise.ports.runner import Verdict
from tickwise.ports.signals import Topic
from tickwise.ports.store import Began, Gate, NewJob, QueueHold, RunCancel
from tickwise.roles.executor.outcomes import ERROR_LENGTH, is_expired
from tickwise.roles.executor.run_starter import GUARD_RETRY_SECONDS

QUICK = {"backoff": "fixed", "base_seconds": 1.0, "jitter": 0.0}
NEXT = str(UUID(int=7))


@pytest.fixture
async def rig() -> Rig:
    """An executor that was born."""
    made = Rig()
    await drive(made.clock, made.executor.prepare())
    return made


async def fail(rig: Rig, verdict: Verdict = Verdict.FAILED, **ending: Any) -> None:
    """The only task that runs ends badly, and that is told."""
    (run_id,) = rig.runner.running
    rig.runner.end(run_id, verdict, **ending)
    await rig.tick()


async def fail_once(rig: Rig, definition: dict[str, Any], verdict: Verdict = Verdict.FAILED, **ending: Any) -> NewJob:
    """A job whose first attempt ends so."""
    job = await rig.submit(**definition)
    await rig.tick()
    await rig.clock.settle()
    await fail(rig, verdict, **ending)
    return job


# ------------------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("on", "ending", "state"),
    [
        ({"exit_code": {"64-78": "fail"}}, {"reason": "exit_code", "symptoms": ("65",)}, "FAILED"),
        ({"exit_code": {"64-78": "fail"}}, {"reason": "exit_code", "symptoms": ("1",)}, "RETRYING"),
        ({"error": {"ValueError": "fail"}}, {"reason": "error", "symptoms": ("a.Bad", "ValueError")}, "FAILED"),
        ({"status": {"5xx": "fail"}}, {"reason": "http_status", "symptoms": ("503",)}, "FAILED"),
        ({"reason": {"timeout": "fail"}}, {"reason": "timeout"}, "FAILED"),
        ({}, {"reason": "timeout"}, "RETRYING"),
    ],
)  # fmt: skip
async def test_a_job_says_which_failures_are_worth_another_attempt(
    rig: Rig, on: dict[str, Any], ending: dict[str, Any], state: str
) -> None:
    """By what exactly failed."""
    job = await fail_once(rig, {"retry": {"on": on}}, **ending)
    assert state == await rig.state(job)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({}, "RETRYING"),
        ({"on_unknown": "fail"}, "FAILED"),
        ({"on_unknown": "hold"}, "FAILED"),
        ({"on_unknown": "hold", "retry": {"on": {"reason": {"output_lost": "retry"}}}}, "RETRYING"),
    ],
)
async def test_what_must_not_run_twice_does_not_for_its_lost_output(rig: Rig, said: dict[str, Any], state: str) -> None:
    """What it was to do is done; unless the job says in so many words that this is worth another attempt."""
    job = await fail_once(rig, said, reason="output_lost", error="it ended well, but its output could not be stored")
    assert state == await rig.state(job)


async def test_a_run_that_fails_by_a_rule_says_so(rig: Rig) -> None:
    """After what the task itself said."""
    ending: dict[str, Any] = {"reason": "timeout", "error": "it ran longer than its 5 s"}
    job = await fail_once(rig, {"retry": {"on": {"reason": {"timeout": "fail"}}}}, **ending)
    said = "it ran longer than its 5 s. Its job says not to try again after the reason timeout."
    assert ("timeout", said) == ((await rig.row(job)).reason, (await rig.row(job)).error)


async def test_what_is_said_of_a_rule_is_not_cut_off_with_a_long_error(rig: Rig) -> None:
    """The task's own words are."""
    ending: dict[str, Any] = {"reason": "timeout", "error": "x" * 10 * ERROR_LENGTH}
    job = await fail_once(rig, {"retry": {"on": {"reason": {"timeout": "fail"}}}}, **ending)
    error = (await rig.row(job)).error or ""
    assert ERROR_LENGTH == len(error)
    assert error.endswith("after the reason timeout.")


async def test_what_is_invalid_is_repeated_only_if_a_rule_names_it(rig: Rig) -> None:
    """A status that its runner holds permanent may be passing for this job."""
    ending: dict[str, Any] = {"reason": "http_status", "symptoms": ("404",)}
    job = await fail_once(rig, {"retry": {"on": {"status": {"404": "retry"}}}}, Verdict.INVALID, **ending)
    assert "RETRYING" == await rig.state(job)


@pytest.mark.parametrize(
    ("said", "state", "reason", "attempts"),
    [
        ({}, "QUEUED", None, [(1, "QUEUED", "outcome_lost")]),
        ({"on_unknown": "fail"}, "FAILED", "executor_lost", [(1, "FAILED", "executor_lost")]),
        ({"on_unknown": "hold"}, "FAILED", "unknown_outcome", [(1, "FAILED", "unknown_outcome")]),
    ],
)
async def test_a_job_says_what_follows_an_outcome_that_is_lost(
    rig: Rig, said: dict[str, Any], state: str, reason: str | None, attempts: list[tuple[int, str, str]]
) -> None:
    """It is no failure of the task: its retries have no part in it, and none is used up."""
    lost: dict[str, Any] = {"reason": "outcome_lost", "error": "its exit status is lost"}
    job = await fail_once(rig, {"max_retries": 0, **said}, Verdict.UNKNOWN, **lost)
    row = await rig.row(job)
    assert (state, reason) == (str(row.state), row.reason)
    assert attempts == await rig.attempts(job)
    if state == "QUEUED":
        assert 0 == row.failures
        await rig.tick()
        assert [2] == [each.attempt for each in rig.runner.running.values()]
    else:
        assert (row.error or "").startswith("its exit status is lost; ")


@pytest.mark.parametrize("on_unknown", ["rerun", "fail", "hold"])
async def test_a_run_that_was_to_stop_is_cancelled_although_its_outcome_is_lost(rig: Rig, on_unknown: str) -> None:
    """It has ended, as was asked."""
    rig.runner.stubborn = True
    job = await rig.submit(on_unknown=on_unknown)
    await rig.tick()
    assert job.run_id is not None
    await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await fail(rig, Verdict.UNKNOWN, reason="outcome_lost")
    assert "CANCELLED" == await rig.state(job)


# ------------------------------------------------------------------------------------------ the deadline


async def test_no_retry_is_planned_for_after_the_deadline(rig: Rig) -> None:
    """Counted from when the run was due; the failure's own reason stays."""
    job = await rig.submit(max_retries=100, retry={**QUICK, "deadline_seconds": 10.0})
    await rig.tick()
    await rig.clock.advance(9.5)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await fail(rig, reason="exit_code", error="exit status 1")
    row = await rig.row(job)
    assert ("FAILED", "exit_code") == (str(row.state), row.reason)
    assert (row.error or "").startswith("exit status 1. There is no further attempt: it would begin more than 10 s")


async def test_a_retry_that_waited_beyond_the_deadline_is_not_made(rig: Rig) -> None:
    """Nobody had time for it before."""
    job = await rig.submit(max_retries=100, retry={**QUICK, "deadline_seconds": 10.0})
    await rig.tick()
    await fail(rig, reason="exit_code", error="exit status 1")
    assert "RETRYING" == await rig.state(job)
    await rig.clock.advance(11.0)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.tick()
    row = await rig.row(job)
    assert ("FAILED", "retry_deadline") == (str(row.state), row.reason)
    assert 1 == len(rig.runner.launched)


async def test_a_first_attempt_begins_however_late(rig: Rig) -> None:
    """The deadline is one of retries."""
    await rig.submit(retry={"deadline_seconds": 10.0})
    await rig.clock.advance(60.0)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.tick()
    assert 1 == len(rig.runner.launched)


async def test_a_fire_that_waited_beyond_its_start_deadline_is_skipped(rig: Rig) -> None:
    """Executors were away: the run is on record with the reason and how long it waited, and never begins."""
    job = await rig.submit(start_deadline_seconds=60.0)
    await rig.clock.advance(61.0)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.tick()
    row = await rig.row(job)
    assert ("SKIPPED", "expired") == (str(row.state), row.reason)
    assert "waited 61 s, and its deadline is 60 s" in (row.error or "")
    assert [] == rig.runner.launched


async def test_a_fire_within_its_start_deadline_begins(rig: Rig) -> None:
    """However near the end of it."""
    await rig.submit(start_deadline_seconds=60.0)
    await rig.clock.advance(59.0)
    await drive(rig.clock, rig.executor._heartbeat.beat())
    await rig.tick()
    assert 1 == len(rig.runner.launched)


@pytest.mark.parametrize(
    ("field", "value"), [("attempt", 2), ("failures", 1), ("crashes", 1), ("trigger", int(Trigger.RUN_NOW))]
)
async def test_the_start_deadline_is_one_of_fires_that_never_began(rig: Rig, field: str, value: Any) -> None:
    """A run that may have begun, and one that a person asked for, wait however long."""
    await rig.submit(start_deadline_seconds=60.0)
    await rig.tick()
    (held,) = rig.executor._held_runs.live.values()
    late = held.claimed.due + 61.0
    assert is_expired(held, late)
    held.claimed = held.claimed._replace(**{field: value})
    assert not is_expired(held, late)


# ------------------------------------------------------------------------------------------ sequences


@pytest.mark.parametrize(
    ("definition", "verdict", "followed"),
    [
        ({"then": [NEXT]}, Verdict.OK, [True]),
        ({"on_failure": [NEXT]}, Verdict.OK, []),
        ({"then": [NEXT], "max_retries": 0}, Verdict.FAILED, []),
        ({"on_failure": [NEXT], "max_retries": 0}, Verdict.FAILED, [False]),
        ({"on_failure": [NEXT]}, Verdict.FAILED, []),
        ({}, Verdict.OK, []),
    ],
)
async def test_an_end_from_which_others_go_on_is_told_as_such(
    rig: Rig, definition: dict[str, Any], verdict: Verdict, followed: list[bool]
) -> None:
    """Success by `then`, failure for good by `on_failure`; schedulers hear of it at once."""
    heard = rig.signals.listen(Topic.COMPLETIONS)
    await fail_once(rig, definition, verdict)
    assert followed == [follow.succeeded for follow in await rig.store.completions.pending(10)]
    assert bool(followed) == heard.is_set()


async def test_many_quick_ends_are_told_with_what_follows(rig: Rig) -> None:
    """On the path of quick functions as well."""
    jobs = [await rig.submit(then=[NEXT]), await rig.submit()]
    await rig.tick()
    rig.runner.end_many(list(rig.runner.running))
    await rig.tick()
    assert [jobs[0].run_id] == [follow.run.run_id for follow in await rig.store.completions.pending(10)]


# ------------------------------------------------------------------------------------------ guarded starts


def told_starts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Began]:
    """Every start that the store is told."""
    starts: list[Began] = []
    real = rig.store.attempts.start

    async def attempts_start(executor: int, batch: list[Began]) -> Any:
        starts.extend(batch)
        return await real(executor, batch)

    monkeypatch.setattr(rig.store.attempts, "start", attempts_start)
    return starts


@pytest.mark.parametrize(
    ("definition", "on_unknown", "gate"),
    [
        ({"on_unknown": "fail"}, OnUnknown.FAIL, None),
        ({"on_unknown": "hold"}, OnUnknown.HOLD, None),
        (
            {"concurrency": {"limit": 3, "key": "queue"}, "limit_key": "queue:default"},
            OnUnknown.RERUN,
            Gate("queue:default", 3),
        ),
        (
            {"rate": {"limit": 4, "per_seconds": 60.0}, "rate_key": "namespace"},
            OnUnknown.RERUN,
            Gate(rate_key="namespace", rate_gap_seconds=15.0),
        ),
    ],
)
async def test_a_start_that_a_job_wants_guarded_is_recorded_first_with_all_that_it_needs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, definition: dict[str, Any], on_unknown: OnUnknown, gate: Gate | None
) -> None:
    """What becomes of it if it is lost, and what it has to pass."""
    starts = told_starts(rig, monkeypatch)
    rig.flaky.away = {"attempts.start"}
    job = await rig.submit(**definition)
    await rig.tick()
    await rig.clock.advance(GUARD_RETRY_SECONDS)
    assert [] == rig.runner.launched
    rig.flaky.away = set()
    await rig.clock.advance(GUARD_RETRY_SECONDS)
    assert [job.run_id] == rig.runner.launched
    assert [(job.run_id, on_unknown, gate)] == [(each.run_id, each.on_unknown, each.gate) for each in starts]


async def test_a_guarded_start_whose_answer_was_lost_is_asked_again(rig: Rig) -> None:
    """It was recorded; saying it again is saying it once."""
    job = await rig.submit(on_unknown="hold")
    rig.flaky.answers_lost = {"attempts.start"}
    await rig.tick()
    await rig.clock.settle()
    assert ("RUNNING", []) == (await rig.state(job), rig.runner.launched)
    rig.flaky.answers_lost = set()
    await rig.clock.advance(GUARD_RETRY_SECONDS)
    assert [job.run_id] == rig.runner.launched


async def test_no_more_run_at_once_than_their_limit_allows(rig: Rig) -> None:
    """The others wait in the store, not here; each end lets one in."""
    limits: dict[str, Any] = {"concurrency": {"limit": 1, "key": "key:db"}, "limit_key": "key:db"}
    jobs = [await rig.submit(**limits) for _ in range(3)]
    for ended in range(3):
        for _ in range(3):
            await rig.tick(after_seconds=0.1)
            await rig.clock.settle()
        assert ended + 1 == len(rig.runner.launched)
        (run_id,) = rig.runner.running
        rig.runner.end(run_id)
    await rig.tick()
    assert ["SUCCESS"] * 3 == [await rig.state(job) for job in jobs]


# ------------------------------------------------------------------------------------------ given back


async def test_what_is_asked_back_unbegun_goes_back_and_comes_again(rig: Rig) -> None:
    """Its queue is on hold; when that is over, it runs, and no attempt was lost."""
    job = await rig.submit(rig.clock.now() + 0.5)
    await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    now = rig.clock.now()
    hold = QueueHold(namespace="default", queue="default", begin=None, until=now + 5.0, reason=None, by="ada")
    await rig.store.queues.hold(hold)
    await rig.tick()
    assert "QUEUED" == await rig.state(job)
    await rig.clock.advance(5.0)
    await rig.tick()
    assert [1] == [each.attempt for each in rig.runner.running.values()]


async def test_what_runs_goes_on_when_its_queue_is_held(rig: Rig) -> None:
    """It is not asked back."""
    job = await rig.submit()
    await rig.tick()
    assert job.run_id is not None
    rig.runner.begin(job.run_id)
    await rig.tick()
    hold = QueueHold(namespace="default", queue="default", begin=None, until=None, reason=None, by="ada")
    await rig.store.queues.hold(hold)
    await rig.tick()
    assert [] == rig.runner.stopped
    rig.runner.end(job.run_id)
    await rig.tick()
    assert RunState.SUCCESS == (await rig.row(job)).state


@pytest.mark.parametrize(("asked", "seconds"), [(None, 10.0), (30.0, 30.0)])
async def test_what_cannot_be_here_for_now_goes_back_for_so_long(rig: Rig, asked: float | None, seconds: float) -> None:
    """As its runner says; no attempt is counted."""
    job = await fail_once(rig, {}, Verdict.UNOFFERED, reason="circuit_open", retry_after_seconds=asked)
    row = await rig.row(job)
    assert row.ready_at is not None
    assert ("QUEUED", 0) == (str(row.state), row.failures)
    assert seconds == pytest.approx(row.ready_at - rig.clock.now(), abs=0.1)


@pytest.mark.parametrize("verdict", [Verdict.UNOFFERED, Verdict.RELEASED])
async def test_a_guarded_attempt_that_never_began_is_no_attempt(rig: Rig, verdict: Verdict) -> None:
    """Its start was recorded before its runner could say that it cannot be: its number is free again."""
    job = await fail_once(rig, {"on_unknown": "fail"}, verdict, reason="circuit_open")
    assert job.run_id is not None
    assert ("QUEUED", 0) == (str((await rig.row(job)).state), (await rig.row(job)).attempt)
    assert [] == list(await rig.store.runs.attempts(job.run_id))


async def test_what_never_began_took_no_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the time since 1970."""
    told: list[float] = []
    monkeypatch.setattr(Silent, "finished", lambda self, states, seconds, latencies: told.extend(seconds))
    await fail_once(rig, {}, Verdict.RELEASED)
    assert [0.0] == told


async def test_how_long_a_run_took_is_told_from_its_nominal_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when it has ended: waiting and earlier attempts included; what will be repeated has not ended."""
    told: list[list[float]] = []
    monkeypatch.setattr(Silent, "finished", lambda self, states, seconds, latencies: told.append(latencies))
    job = await rig.submit()
    run = rig.make.scheduled(job.job_id, rig.clock.now(), nominal=rig.clock.now() - 90.0)
    assert job.run_id is not None
    await rig.store.runs.move(RunCancel("default", job.run_id, "ada"))
    await rig.store.runs.add("default", job.job_id, [run])
    await rig.tick()
    await fail(rig)
    assert [[]] == told
    await rig.clock.advance(10.0)
    await rig.tick()
    rig.runner.end(run.run_id)
    await rig.tick()
    [ended] = told[1]
    assert 100.0 <= ended < 110.0


# ------------------------------------------------------------------------------------------ texts that are none


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.OK])
async def test_half_a_character_in_what_a_runner_says_is_replaced(rig: Rig, verdict: Verdict) -> None:
    """An answer's headers, and what a plugin says, may hold it; the next end is told as ever."""
    odd: dict[str, Any] = {"reason": "caf\udce9", "error": "no caf\udce9", "result": '"caf\udce9"'}
    job = await fail_once(rig, {}, verdict, **odd)
    row = await rig.row(job)
    assert ("caf?", "no caf?", '"caf?"') == (row.reason, row.error, row.result)
    assert await rig.state(await fail_once(rig, {}, Verdict.OK)) == "SUCCESS"


async def test_half_a_character_in_many_quick_results_keeps_none_from_being_told_and_remembered(rig: Rig) -> None:
    """A store puts something in its place; so does the executor in what it remembers."""
    jobs = [await rig.submit() for _ in range(3)]
    await rig.tick()
    await rig.clock.settle()
    pairs = [(run_id, assignment.token) for run_id, assignment in rig.runner.running.items()]
    rig.runner.end_many([*rig.runner.running], '"caf\udce9"')
    await rig.tick()
    assert ["SUCCESS"] * 3 == [await rig.state(job) for job in jobs]
    assert ['"caf?"'] * 3 == [outcome.result for outcome in rig.executor._outbox.remembered(pairs).values()]
