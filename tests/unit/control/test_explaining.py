"""What a run's record bears out, and no more: cases that hardly come about, judged from made-up facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.scene import HOUR, START, scene
from tickwise.control.explain.explanations import Because, RunFacts, lasting, sentence
from tickwise.control.explain.reasons import judged
from tickwise.control.explain.waits import cause_in_words
from tickwise.documents.definition import Definition
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal, Trigger, run_id
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import AttemptRow, ExecutorRow, Incident, RunRow
from tickwise.testing.factories import Factory

ADA = Principal("ada", "default", frozenset({"*"}))
UTC = ZoneInfo("UTC")
JOB = UUID(int=7)


def run(state: RunState = RunState.SUCCESS, **fields: Any) -> RunRow:
    given: dict[str, Any] = {
        "run_id": run_id(JOB, START),
        "job_id": JOB,
        "namespace": "default",
        "state": state,
        "trigger": Trigger.SCHEDULE,
        "due_at": START,
        "queued_at": START,
        "dispatched_at": START,
        "started_at": START,
        "ended_at": START + 5.0,
        "ready_at": None,
        "attempt": 1,
        "failures": 0,
        "crashes": 0,
        "executor": 1,
        "reason": None,
        "error": None,
        "result": None,
        "origin": None,
        "definition": None,
        "nominal_at": START,
    }
    return RunRow(**{**given, **fields})


def attempt(number: int = 1, state: RunState = RunState.SUCCESS, **fields: Any) -> AttemptRow:
    given: dict[str, Any] = {
        "attempt": number,
        "token": number,
        "executor": number,
        "state": state,
        "dispatched_at": START,
        "started_at": START,
        "ended_at": START + 5.0,
        "reason": None,
        "error": None,
    }
    return AttemptRow(**{**given, **fields})


def facts(row: RunRow, **fields: Any) -> RunFacts:
    return RunFacts(**{"now": START + HOUR, "run": row, "zone": UTC, **fields})


def test_a_run_of_a_job_that_is_gone_is_judged_all_the_same() -> None:
    """Jobs that ran once are forgotten before their failed runs are."""
    assert Because.FIRED is judged(facts(run())).code


def test_a_late_start_that_nothing_explains_claims_nothing() -> None:
    """Executors lived, and when it was handed out is not on record."""
    alive = ExecutorRow(
        executor=1, name="one", queues=("default",), labels=(), functions=(), slots=4,
        registered_at=START - HOUR, lease_until=START + 2 * HOUR, gone_at=None, held=0,
    )  # fmt: skip
    row = run(started_at=START + 60, dispatched_at=None)
    found = judged(facts(row, executors=(alive,)))
    assert Because.LATE is found.code
    assert "nothing on record says why" in found.sentence


def test_a_run_that_nobody_could_take_is_not_late_because_of_an_earlier_run() -> None:
    """After an outage of all executors, the runs of a job begin one after the other: what kept them is the outage."""
    alive = ExecutorRow(
        executor=1, name="one", queues=("default",), labels=(), functions=(), slots=4,
        registered_at=START + 600, lease_until=START + 2 * HOUR, gone_at=None, held=0,
    )  # fmt: skip
    before = run(run_id=run_id(JOB, START - 60), due_at=START - 60, nominal_at=START - 60, ended_at=START + 605)
    row = run(trigger=Trigger.RUN_NOW, dispatched_at=START + 605, started_at=START + 605, ended_at=START + 610)
    task = msgspec.Raw(b'{"kind":"shell","command":"true"}')
    plan = Definition(schedule_type=ScheduleType.ON_DEMAND, planned_at=START, task=task)
    found = judged(facts(row, plan=plan, earlier=[before], executors=(alive,)))
    assert Because.LATE_NO_EXECUTOR is found.code, found
    there = replace(alive, registered_at=START - HOUR)
    assert Because.LATE_OVERLAP is judged(facts(row, plan=plan, earlier=[before], executors=(there,))).code


def test_of_two_absences_the_longer_one_counts() -> None:
    """A short one of the database does not hide that no scheduler was there."""
    row = run(queued_at=START + 600, started_at=START + 601)
    away = [
        Incident(kind="store_away", begin=START, end=START + 10, who="one"),
        Incident(kind="scheduler_away", begin=START, end=START + 600, who="two"),
    ]
    assert Because.LATE_SCHEDULER_AWAY is judged(facts(row, incidents=away)).code


def test_an_absence_of_another_time_is_no_cause() -> None:
    """It ended before the run was due."""
    row = run(queued_at=START + 600, started_at=START + 601)
    away = [Incident(kind="scheduler_away", begin=START - 60, end=START + 0.5, who="two")]
    assert Because.LATE_SCHEDULER_BEHIND is judged(facts(row, incidents=away)).code


def test_a_run_that_took_its_executors_down_says_so() -> None:
    """It was given up, with the executors that were lost: also the last one, whose attempt ended the run."""
    lost = [attempt(number, RunState.QUEUED, reason="lease_lost") for number in (1, 2)]
    lost.append(attempt(3, RunState.FAILED, reason="poison"))
    found = judged(facts(run(RunState.FAILED, reason="poison", attempt=3), attempts=lost))
    assert (Because.EXECUTOR_LOST, ["1", "2", "3"]) == (found.code, found.data["lost_executors"])
    assert "3 executors were lost while they ran it (1, 2, 3), so it was given up" in found.sentence


@pytest.mark.parametrize(
    ("reason", "code"),
    [("executor_lost", Because.FAILED_EXECUTOR_LOST), ("unknown_outcome", Because.UNKNOWN_OUTCOME)],
)
def test_an_outcome_that_was_lost_without_its_executor_says_how(reason: str, code: Because) -> None:
    """No executor is called lost that was not."""
    row = run(RunState.FAILED, reason=reason, error="its exit status is lost: a process was killed; its job says no")
    found = judged(facts(row))
    assert code is found.code
    assert "its outcome was lost after it had begun (its exit status is lost: a process was killed)" in found.sentence


def test_a_run_that_a_stop_ended_says_so() -> None:
    """The stop of an executor in order is told like its loss."""
    stopped = [attempt(1, RunState.QUEUED, reason="executor_left")]
    found = judged(facts(run(attempt=2), attempts=stopped))
    assert (Because.EXECUTOR_LEFT, ["1"]) == (found.code, found.data["left_executors"])
    assert "the executor 1 was stopped while it ran, and it went on with another attempt" in found.sentence


def test_executors_that_were_stopping_are_not_called_busy() -> None:
    """They claim nothing more, whatever slots they have free."""
    leaving = ExecutorRow(
        executor=1, name="one", queues=("default",), labels=(), functions=(), slots=4,
        registered_at=START - HOUR, lease_until=START + 15, gone_at=START + 10, held=0,
    )  # fmt: skip
    new = replace(leaving, executor=2, registered_at=START + 12, lease_until=START + HOUR, gone_at=None)
    row = run(dispatched_at=START + 12, started_at=START + 12, ended_at=START + 13)
    assert Because.LATE_EXECUTORS_LEFT is judged(facts(row, executors=(leaving, new))).code
    stayed = replace(leaving, executor=3, gone_at=None, lease_until=START + HOUR)
    assert Because.LATE_EXECUTORS_BUSY is judged(facts(row, executors=(leaving, stayed, new))).code


def test_a_run_that_failed_says_of_what() -> None:
    """The last line of its output ends the sentence, whatever else it has said."""
    found = judged(facts(run(RunState.FAILED, reason="exit_code", error="exit status 7: copying\ndisk full")))
    assert found.sentence.endswith("(UTC): exit status 7: disk full.")


def test_a_run_that_failed_without_ever_beginning() -> None:
    """The error is told."""
    row = run(RunState.FAILED, started_at=None, dispatched_at=None, error="no such task kind", executor=None)
    found = judged(facts(row))
    assert Because.FAILED_UNBEGUN is found.code
    assert "no such task kind" in found.sentence


def test_a_reason_of_a_later_version_is_told_as_it_is() -> None:
    """A record that another version made is explained by its own words."""
    row = run(RunState.SKIPPED, reason="eclipse", error="the sun was gone", started_at=None)
    found = judged(facts(row))
    assert (Because.SKIPPED, "eclipse") == (found.code, found.data["reason"])
    assert "the sun was gone" in found.sentence


def test_a_later_run_kept_none_from_running() -> None:
    """Of the runs that had not ended when one was skipped, the earlier one is named: not one that came after it."""
    row = run(RunState.SKIPPED, reason="overlap", error="an earlier run of the job had not ended", started_at=None)
    open_ended: dict[str, Any] = {"state": RunState.QUEUED, "started_at": None, "ended_at": None, "dispatched_at": None}
    earlier, later = (
        run(**open_ended, run_id=run_id(JOB, START + step), nominal_at=START + step, due_at=START + step)
        for step in (-60.0, 60.0)
    )
    found = judged(facts(row, earlier=[later, earlier]))
    assert (Because.SKIPPED_OVERLAP, str(earlier.run_id)) == (found.code, found.data["unfinished_run"])
    assert "unfinished_run" not in judged(facts(row, earlier=[later])).data


def test_a_run_that_was_let_start_first_kept_an_earlier_one_from_running() -> None:
    """Whatever its due time: somebody asked for it, or the earlier one came late."""
    row = run(RunState.SKIPPED, reason="overlap", error="an earlier run of the job had not ended", started_at=None)
    asked = run(RunState.RUNNING, run_id=run_id(JOB, START + 2), nominal_at=START + 2, due_at=START + 2,
                started_at=START + 3, ended_at=None, trigger=Trigger.RUN_NOW)  # fmt: skip
    assert str(asked.run_id) == judged(facts(row, earlier=[asked])).data["unfinished_run"]


def test_words_of_an_error_are_bounded() -> None:
    """A megabyte of error text makes no megabyte of explanation."""
    failed = attempt(1, RunState.RETRYING, error="x" * 1_000_000)
    found = judged(facts(run(attempt=2), attempts=[failed, attempt(2)]))
    assert Because.RETRIED is found.code
    assert len(found.sentence) < 1_000


@pytest.mark.parametrize("error", ["", "\n", "  \n "])
def test_an_error_without_words_is_left_out(error: str) -> None:
    """Whatever a task failed with."""
    failed = attempt(1, RunState.RETRYING, error=error)
    found = judged(facts(run(attempt=2), attempts=[failed]))
    assert (Because.RETRIED, True) == (found.code, "it failed once and was tried again" in found.sentence)
    row = run(RunState.RETRYING, ready_at=START + 2 * HOUR, started_at=None, ended_at=None)
    found = judged(facts(row, attempts=[failed]))
    assert Because.WAITING_BACKOFF is found.code
    assert (
        "The run of 2027-01-15 08:00 (UTC) will be tried again at 2027-01-15 10:00 (UTC), as attempt 2."
        == found.sentence
    )


@pytest.mark.parametrize(
    ("count", "error", "said"),
    [
        (1, "02:30 does not exist on this day: the clock goes from 02:00 to 03:00; skipped",
         "On 2027-01-15, 02:30 does not exist on this day: the clock goes from 02:00 to 03:00, so it was skipped."),
        (2, "2 times from 02:00 to 02:30 do not exist on this day: the clock goes from 02:00 to 03:00; skipped",
         "On 2027-01-15, 2 times from 02:00 to 02:30 do not exist on this day: the clock goes from 02:00 to 03:00, so "
         "they were skipped."),
    ],
)  # fmt: skip
def test_a_time_that_no_clock_showed_is_told_by_that_time(count: int, error: str, said: str) -> None:
    """Not by the instant before the change, by which its record is named."""
    row = run(RunState.SKIPPED, reason="dst", error=error, started_at=None, occurrences=count, until=START)
    assert said == judged(facts(row)).sentence


def test_what_happened_on_the_way_is_no_reason_for_the_start() -> None:
    """Attempts that failed are told after the start, and the last error with them."""
    failed = [attempt(number, RunState.RETRYING, error=f"error {number}\nmore") for number in (1, 2)]
    words = judged(facts(run(attempt=3), attempts=[*failed, attempt(3)])).sentence
    assert "began on time, at 2027-01-15 08:00 (UTC); it failed 2 times (the last time with 'error 2')" in words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0.0 s"), (1.44, "1.4 s"), (75.0, "75 s"), (1800.0, "30 min"), (9e4, "25 h"), (1e6, "12 days")],
)
def test_lengths_of_time_are_told_in_few_words(seconds: float, words: str) -> None:
    """In the unit that people would use."""
    assert words == lasting(seconds)


def test_a_sentence_begins_with_a_capital_and_ends_with_one_stop() -> None:
    """Whatever it was put together from."""
    assert ["It is so.", "It is so."] == [sentence("it is so"), sentence("it is so.")]


def test_an_error_that_is_cut_says_so() -> None:
    """It would end in the midst of a word, as if that were all."""
    whole, cut = cause_in_words("no disk"), cause_in_words(f"no disk {'x' * 300}")
    assert ("no disk", 200, "…") == (whole, len(cut), cut[-1])
    assert ["It failed: no disk.", "…"] == [sentence(f"it failed: {whole}"), sentence(f"it failed: {cut}")[-1]]


async def test_a_schedule_without_a_timer_names_no_further_time() -> None:
    """Neither an end nor a number of runs explains it: that is all that is said. And of a time that has no record,
    that there is none."""
    async with scene() as here:
        job = Factory(START).recurring(
            START,
            never=True,
            definition='{"schedule_type":"CRON","cron_expression":"0 * * * *","task":{"kind":"shell"}}',
        )
        await here.store.jobs.add([job])
        control = here.world.control
        assert Because.OVER_NO_TIME is (await control.explain.job(ADA, job.job_id)).code


async def test_an_occurrence_without_a_record_is_unknown() -> None:
    """The timer stands behind it, and nothing was recorded: nobody makes anything up."""
    async with scene() as here:
        job = Factory(START).recurring(
            START + 10 * HOUR,
            definition='{"schedule_type":"CRON","cron_expression":"0 * * * *","task":{"kind":"shell"}}',
        )
        await here.store.jobs.add([job])
        await here.pass_time(2 * HOUR)
        found = await here.world.control.explain.job(ADA, job.job_id, START + HOUR)
        assert Because.UNKNOWN is found.code
