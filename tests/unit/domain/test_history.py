"""The history checker: a good history has no error, and each kind of error, put into a good one, is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import histories
from tickwise.domain.history.checker import (
    ClientAnswer,
    Execution,
    Fault,
    FindingKind,
    History,
    Operation,
    RequestKind,
    Run,
    RunChange,
    Status,
    judge,
)
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger, run_id, time_id

T = TypeVar("T")
SEEDS = range(10)
STRANGER = time_id(1_790_000_000_000, bytes(range(10)))

good = cache(histories.good)
"""No test changes what it is given."""

Damage = Callable[[History, random.Random], History]
DAMAGES: dict[FindingKind, list[Damage]] = {}


def damages(kind: FindingKind) -> Callable[[Damage], Damage]:
    """One way in which a system may err so."""

    def keep(damage: Damage) -> Damage:
        DAMAGES.setdefault(kind, []).append(damage)
        return damage

    return keep


def changed(history: History, where: Callable[[RunChange], bool], to: Callable[[RunChange], RunChange]) -> History:
    """One change of the journal told otherwise."""
    assert history.journal is not None
    journal = list(history.journal)
    number = next(number for number, change in enumerate(journal) if where(change))
    journal[number] = to(journal[number])
    return replace(history, journal=journal)


def any_of(rows: Sequence[T], where: Callable[[T], bool], drawn: random.Random) -> T:
    """One that fits."""
    return drawn.choice([row for row in rows if where(row)])


def with_run(history: History, run: Run, to: Run) -> History:
    """The same with this run on record otherwise."""
    return replace(history, runs=[to if each is run else each for each in history.runs])


def with_changes(history: History, *changes: RunChange) -> History:
    """With more in the journal."""
    return replace(history, journal=[*(history.journal or ()), *changes])


def with_executions(history: History, *executions: Execution) -> History:
    """With more witnessed."""
    return replace(history, executions=[*(history.executions or ()), *executions])


def succeeded(run: Run) -> bool:
    """A plain run of a job with one run: nothing befell it."""
    return run.state is RunState.SUCCESS and run.attempt == 1 and run.key is not None


def last_change(history: History, run: Run) -> RunChange:
    """By which it ended."""
    return max((each for each in history.journal or () if each.run_id == run.run_id), key=lambda each: each.version)


# --------------------------------------------------------------------------------------------------- records, requests


@damages(FindingKind.LOST)
def an_acknowledged_run_is_gone(history: History, drawn: random.Random) -> History:
    """And the journal knows nothing of it either."""
    acknowledged = {each.key for each in history.operations if each.answer is ClientAnswer.OK and each.key is not None}
    run = any_of(history.runs, lambda each: each.key in acknowledged, drawn)
    return replace(
        history,
        runs=[each for each in history.runs if each is not run],
        journal=[each for each in history.journal or () if each.run_id != run.run_id],
        executions=[each for each in history.executions or () if each.run_id != run.run_id],
    )


@damages(FindingKind.LOST)
def a_made_run_is_gone(history: History, drawn: random.Random) -> History:
    """Nobody was told of it; the journal saw it."""
    run = any_of(history.runs, lambda each: each.trigger == Trigger.SEQUENCE, drawn)
    return replace(history, runs=[each for each in history.runs if each is not run])


@damages(FindingKind.LOST)
def a_cancelled_run_is_gone(history: History, drawn: random.Random) -> History:
    """A client was told that it is cancelled."""
    told = any_of(history.operations, lambda each: each.asked is RequestKind.CANCEL, drawn)
    return replace(history, runs=[each for each in history.runs if each.run_id != told.run_id])


@damages(FindingKind.NOT_TERMINAL)
def a_run_never_ends(history: History, drawn: random.Random) -> History:
    """Its last change and its record are missing."""
    run = any_of(history.runs, succeeded, drawn)
    last = last_change(history, run)
    assert last.before is not None
    history = replace(history, journal=[each for each in history.journal or () if each is not last])
    return with_run(history, run, run._replace(state=last.before))


@damages(FindingKind.DUPLICATE_RUN)
def a_repeated_request_made_a_second_run(history: History, drawn: random.Random) -> History:
    """The same key, another job."""
    run = any_of(history.runs, succeeded, drawn)
    other = Run(run_id(STRANGER, run.due), STRANGER, RunState.CANCELLED, due=run.due, key=run.key)
    history = with_changes(
        history,
        RunChange(other.run_id, 1, None, RunState.QUEUED),
        RunChange(other.run_id, 2, RunState.QUEUED, RunState.CANCELLED),
    )
    return replace(history, runs=[*history.runs, other])


@damages(FindingKind.DUPLICATE_RUN)
def a_repeated_request_was_answered_with_another_id(history: History, drawn: random.Random) -> History:
    """Even if the run is not to be seen."""
    told = any_of(history.operations, lambda each: each.answer is ClientAnswer.OK and each.key is not None, drawn)
    again = told._replace(job_id=STRANGER, run_id=STRANGER)
    return replace(history, operations=[*history.operations, again])


@damages(FindingKind.DUPLICATE_RUN)
def an_occurrence_has_two_runs(history: History, drawn: random.Random) -> History:
    """The same job and nominal time under another id."""
    run = any_of(history.runs, lambda each: each.trigger == Trigger.SCHEDULE, drawn)
    return replace(history, runs=[*history.runs, run._replace(run_id=STRANGER)])


@damages(FindingKind.DUPLICATE_RUN)
def a_run_is_on_record_twice(history: History, drawn: random.Random) -> History:
    """Ended twice."""
    return replace(history, runs=[*history.runs, drawn.choice(history.runs)])


@damages(FindingKind.FAILED_SUBMIT)
def a_refused_submit_made_a_run(history: History, drawn: random.Random) -> History:
    """Every request with its key was answered as not done."""
    run = any_of(history.runs, succeeded, drawn)
    told = [each for each in history.operations if each.key != run.key]
    refused = Operation(RequestKind.SUBMIT, ClientAnswer.FAIL, run.due - 3, run.due - 2, run.key)
    return replace(history, operations=[*told, refused])


@damages(FindingKind.CANCELLED_RAN_ON)
def a_cancelled_run_went_on(history: History, drawn: random.Random) -> History:
    """A client was told that it has ended cancelled, and it is a success."""
    run = any_of(history.runs, succeeded, drawn)
    told = Operation(
        RequestKind.CANCEL, ClientAnswer.OK, run.due, run.due + 1, run_id=run.run_id, state=RunState.CANCELLED
    )
    return replace(history, operations=[*history.operations, told])


# --------------------------------------------------------------------------------------------------- journal


@damages(FindingKind.TERMINAL_LEFT)
def a_final_state_was_left(history: History, drawn: random.Random) -> History:
    """A success became a failure."""
    run = any_of(history.runs, succeeded, drawn)
    last = last_change(history, run)
    history = with_changes(
        history, last._replace(version=last.version + 1, before=RunState.SUCCESS, after=RunState.FAILED)
    )
    return with_run(history, run, run._replace(state=RunState.FAILED, failures=1))


@damages(FindingKind.TERMINAL_LEFT)
def an_ended_run_ended_again_as_if_it_had_not(history: History, drawn: random.Random) -> History:
    """Whoever wrote it believed that it still ran."""
    last = last_change(history, any_of(history.runs, succeeded, drawn))
    return with_changes(history, last._replace(version=last.version + 1))


@damages(FindingKind.ILLEGAL_TRANSITION)
def a_run_began_unclaimed(history: History, drawn: random.Random) -> History:
    """From its queue into a success."""
    run = any_of(history.runs, succeeded, drawn)
    mine = [each for each in history.journal or () if each.run_id == run.run_id]
    rest = [each for each in history.journal or () if each.run_id != run.run_id]
    first = min(mine, key=lambda each: each.version)
    second = first._replace(version=2, before=RunState.QUEUED, after=RunState.SUCCESS, token=run.token)
    return replace(history, journal=[*rest, first, second])


@damages(FindingKind.ILLEGAL_TRANSITION)
def a_running_run_was_taken_back(history: History, drawn: random.Random) -> History:
    """What began leaves a record."""
    return changed(
        history,
        lambda each: each.before is RunState.RUNNING and each.after is RunState.QUEUED,
        lambda each: each._replace(after=None),
    )


@damages(FindingKind.LOST_UPDATE)
def two_wrote_from_the_same_state(history: History, drawn: random.Random) -> History:
    """A cancel that did not see the claim."""
    return changed(
        history,
        lambda each: each.after is RunState.CANCELLED and each.before is not RunState.QUEUED,
        lambda each: each._replace(before=RunState.QUEUED, token=0),
    )


@damages(FindingKind.LOST_UPDATE)
def two_wrote_the_same_version(history: History, drawn: random.Random) -> History:
    """One of them is gone without a trace."""
    return with_changes(history, drawn.choice([each for each in history.journal or () if each.version == 2]))


@damages(FindingKind.LOST_UPDATE)
def the_record_is_not_what_the_journal_ends_with(history: History, drawn: random.Random) -> History:
    """Somebody wrote past the journal."""
    run = any_of(history.runs, succeeded, drawn)
    return with_run(history, run, run._replace(state=RunState.FAILED, failures=1))


@damages(FindingKind.VERSION_GAP)
def a_change_is_missing(history: History, drawn: random.Random) -> History:
    """One in the middle."""
    last = last_change(history, any_of(history.runs, succeeded, drawn))
    return replace(
        history,
        journal=[each for each in history.journal or () if (each.run_id, each.version) != (last.run_id, 2)],
    )


@damages(FindingKind.VERSION_GAP)
def a_run_is_on_record_that_the_journal_never_saw(history: History, drawn: random.Random) -> History:
    """It was written past the triggers."""
    run = drawn.choice(history.runs)
    return replace(history, journal=[each for each in history.journal or () if each.run_id != run.run_id])


@damages(FindingKind.STALE_TOKEN)
def a_stale_result_was_accepted(history: History, drawn: random.Random) -> History:
    """The journal saw the token of the attempt before."""
    run = any_of(history.runs, lambda each: each.state is RunState.SUCCESS and each.attempt > 1, drawn)
    return changed(
        history,
        lambda each: each.run_id == run.run_id and each.after is RunState.SUCCESS,
        lambda each: each._replace(token=run.token - 1),
    )


@damages(FindingKind.STALE_TOKEN)
def a_stale_result_is_on_record(history: History, drawn: random.Random) -> History:
    """The record names an earlier attempt."""
    run = any_of(history.runs, lambda each: each.state is RunState.SUCCESS and each.attempt > 1, drawn)
    return with_run(history, run, run._replace(token=run.token - 1))


@damages(FindingKind.STALE_TOKEN)
def another_executor_ended_it(history: History, drawn: random.Random) -> History:
    """The right token from the wrong hand."""
    return changed(
        history, lambda each: each.after is RunState.SUCCESS, lambda each: each._replace(executor=each.executor + 1)
    )


@damages(FindingKind.TOKEN_NOT_INCREASED)
def a_later_claim_has_a_smaller_token(history: History, drawn: random.Random) -> History:
    """The fence went backwards."""
    return changed(
        history,
        lambda each: each.after is RunState.DISPATCHED and each.version > 2,
        lambda each: each._replace(token=-7),
    )


@damages(FindingKind.TOKEN_REUSED)
def two_claims_have_the_same_token(history: History, drawn: random.Random) -> History:
    """By two executors."""
    claims = [each for each in history.journal or () if each.after is RunState.DISPATCHED]
    one, other = drawn.sample(claims, 2)
    return changed(history, lambda each: each is one, lambda each: each._replace(token=other.token))


@damages(FindingKind.TOKEN_REUSED)
def a_run_was_claimed_twice_with_the_same_token(history: History, drawn: random.Random) -> History:
    """By the same executor, perhaps."""
    again = any_of(history.journal or (), lambda each: each.after is RunState.DISPATCHED and each.version > 2, drawn)
    first = next(each for each in history.journal or () if each.run_id == again.run_id and each.version == 2)
    return changed(
        history,
        lambda each: each is again,
        lambda each: each._replace(token=first.token, executor=first.executor),
    )


@damages(FindingKind.TOKEN_REUSED)
def one_attempt_ran_twice(history: History, drawn: random.Random) -> History:
    """A claimed run was launched twice."""
    return with_executions(history, drawn.choice(history.executions or ()))


# --------------------------------------------------------------------------------------------------- executions


@damages(FindingKind.PHANTOM_EXECUTION)
def something_unknown_ran(history: History, drawn: random.Random) -> History:
    """A run that nobody asked for."""
    return with_executions(history, Execution(STRANGER, 10**9, 1e9, 1e9))


@damages(FindingKind.PHANTOM_EXECUTION)
def it_ran_unclaimed(history: History, drawn: random.Random) -> History:
    """A known run under a token that no claim gave."""
    run = any_of(history.runs, succeeded, drawn)
    return with_executions(history, Execution(run.run_id, 10**9, run.due + 1, run.due + 2))


@damages(FindingKind.PHANTOM_EXECUTION)
def a_skipped_run_ran(history: History, drawn: random.Random) -> History:
    """No journal is needed to see it."""
    run = any_of(history.runs, succeeded, drawn)
    return with_run(replace(history, journal=None, faults=()), run, run._replace(state=RunState.SKIPPED))


@damages(FindingKind.SUCCESS_WITHOUT_EXECUTION)
def a_success_that_never_ran(history: History, drawn: random.Random) -> History:
    """Nothing was witnessed."""
    run = any_of(history.runs, succeeded, drawn)
    return replace(history, executions=[each for each in history.executions or () if each.run_id != run.run_id])


@damages(FindingKind.SUCCESS_WITHOUT_EXECUTION)
def a_success_that_never_came_to_its_end(history: History, drawn: random.Random) -> History:
    """It began, and that is all."""
    run = any_of(history.runs, succeeded, drawn)
    executions = [each._replace(end=None) if each.run_id == run.run_id else each for each in history.executions or ()]
    return replace(history, executions=executions)


@damages(FindingKind.TOO_MANY_ATTEMPTS)
def it_ran_more_often_than_is_counted(history: History, drawn: random.Random) -> History:
    """The store forgot an attempt."""
    run = any_of(history.runs, lambda each: each.state is RunState.SUCCESS and each.attempt > 1, drawn)
    return with_run(history, run, run._replace(attempt=run.attempt - 1))


@damages(FindingKind.TOO_MANY_ATTEMPTS)
def it_failed_more_often_than_allowed(history: History, drawn: random.Random) -> History:
    """The job said otherwise."""
    run = any_of(history.runs, lambda each: each.failures > 1, drawn)
    return with_run(history, run, run._replace(attempts_most=1))


@damages(FindingKind.TOO_MANY_ATTEMPTS)
def it_crashed_more_often_than_allowed(history: History, drawn: random.Random) -> History:
    """It should have been quarantined."""
    run = any_of(history.runs, succeeded, drawn)
    return with_run(history, run, run._replace(crashes=4))


@damages(FindingKind.RE_EXECUTIONS)
def something_ran_again_for_no_reason(history: History, drawn: random.Random) -> History:
    """The faults that there were had nothing in flight."""
    return replace(history, faults=[each._replace(in_flight=0) for each in history.faults or ()])


@damages(FindingKind.RE_EXECUTIONS)
def what_a_healthy_executor_held_ran_again(history: History, drawn: random.Random) -> History:
    """There were faults enough, on others."""
    lost = next(
        each for each in history.journal or () if each.before is RunState.RUNNING and each.after is RunState.QUEUED
    )
    faults = [
        each._replace(executor=10**6) if each.executor == lost.executor else each for each in history.faults or ()
    ]
    return replace(history, faults=faults)


@damages(FindingKind.EARLY_START)
def it_began_early(history: History, drawn: random.Random) -> History:
    """Before its due time."""
    run = any_of(history.runs, succeeded, drawn)
    return with_run(history, run, run._replace(due=run.due + 1))


@damages(FindingKind.LATE_START)
def it_began_after_its_executor_had_lost_its_lease(history: History, drawn: random.Random) -> History:
    """By what the executor itself could know."""
    ends = [each._replace(at=each.at - 30) for each in history.lease_ends]
    return replace(history, lease_ends=ends, late_starts=False)


@damages(FindingKind.LATE_START)
def it_began_after_it_was_taken_away(history: History, drawn: random.Random) -> History:
    """By the journal alone."""
    history = replace(history, lease_ends=())
    return changed(
        history,
        lambda each: each.after is RunState.SUCCESS,
        lambda each: each._replace(at=each.at - 100),
    )


@damages(FindingKind.OVERLAP)
def more_ran_at_once_than_a_limit_allows(history: History, drawn: random.Random) -> History:
    """Two lanes under a limit of one."""
    return replace(history, limits=dict.fromkeys(history.limits, 1))


# --------------------------------------------------------------------------------------------------- occurrences


@damages(FindingKind.MISSED_TARGET)
def an_occurrence_has_no_run(history: History, drawn: random.Random) -> History:
    """One more was due."""
    target = drawn.choice(history.targets or ())
    return replace(history, targets=[*(history.targets or ()), target._replace(skippable=False)])


@damages(FindingKind.MISSED_TARGET)
def an_occurrence_was_skipped_that_may_not_be(history: History, drawn: random.Random) -> History:
    """There is a record, and it will not do."""
    return replace(history, targets=[each._replace(skippable=False) for each in history.targets or ()])


@damages(FindingKind.MISSED_TARGET)
def a_run_has_the_right_label_and_the_wrong_time(history: History, drawn: random.Random) -> History:
    """What a run says of its own time counts for nothing."""
    target = any_of(history.targets or (), lambda each: not each.skippable, drawn)
    executions = [
        each._replace(begin=each.begin + 35) if each.job_id == target.job_id else each
        for each in history.executions or ()
    ]
    return replace(history, executions=executions)


@damages(FindingKind.EXTRA_RUN)
def a_run_that_no_occurrence_asks_for(history: History, drawn: random.Random) -> History:
    """One target fewer, the same runs."""
    gone = any_of(history.targets or (), lambda each: not each.skippable, drawn)
    return replace(history, targets=[each for each in history.targets or () if each is not gone])


@damages(FindingKind.EXTRA_RUN)
def a_successor_that_nothing_asks_for(history: History, drawn: random.Random) -> History:
    """What follows a failure followed a success."""
    first = next(each for each in history.edges if each.after is RunState.SUCCESS)
    return replace(history, edges=[each for each in history.edges if each is not first])


@damages(FindingKind.SUCCESSOR_MISSING)
def nothing_followed(history: History, drawn: random.Random) -> History:
    """A chain that broke off."""
    run = any_of(history.runs, lambda each: each.trigger == Trigger.SEQUENCE, drawn)
    return with_run(history, run, run._replace(origin=None))


@damages(FindingKind.SUCCESSOR_DOUBLED)
def it_followed_twice(history: History, drawn: random.Random) -> History:
    """A crash between two steps, and both steps done again."""
    run = any_of(history.runs, lambda each: each.trigger == Trigger.SEQUENCE, drawn)
    return replace(history, runs=[*history.runs, run._replace(run_id=STRANGER)])


# --------------------------------------------------------------------------------------------------- the promises

CASES = [(kind, damage) for kind, several in DAMAGES.items() for damage in several]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_good_history_is_valid(seed: int) -> None:
    """Retries, kills, zombies, give-backs, cancels, skips, unknown answers: none of it is an error."""
    verdict = judge(good(seed))
    assert (Status.VALID, ()) == (verdict.status, verdict.findings), verdict.as_text()


@pytest.mark.parametrize(("kind", "damage"), CASES, ids=[f"{kind}-{damage.__name__}" for kind, damage in CASES])
def test_each_kind_of_error_put_into_a_good_history_is_found(kind: FindingKind, damage: Damage) -> None:
    """Whatever history it is put into."""
    for seed in SEEDS:
        verdict = judge(damage(good(seed), random.Random(seed)))
        assert kind in verdict.kinds(), f"seed {seed}\n{verdict.as_text()}"
        assert Status.INVALID is verdict.status


def test_every_kind_of_error_has_a_history_that_shows_it() -> None:
    """A kind that is added without one may never be found. That a store was set back stands in no history:
    it is read from the store itself (`tests/integration/test_db_restored.py`)."""
    assert set(FindingKind) - {FindingKind.STORE_SET_BACK} == DAMAGES.keys()


def test_a_good_history_shows_what_must_not_be_taken_for_an_error() -> None:
    """Else the test above would show little."""
    counts = judge(good(0)).counts
    assert counts["re_executions"] > 0
    assert counts["zombie_overlaps"] > 0
    assert counts["stale_refused"] > 0
    assert counts["re_executions"] <= counts["re_executions_allowed"]


@pytest.mark.parametrize(
    "nothing",
    [
        History(runs=()),
        History(runs=(), journal=(), operations=(), executions=(), targets=(), faults=()),
        History(runs=(), faults=[Fault("kill", 1.0, "executor 1", 3)], journal=(), executions=()),
        replace(good(1), runs=(), journal=(), operations=(), executions=(), targets=(), edges=()),
        History(runs=[Run(STRANGER, STRANGER, RunState.QUEUED)], calm=False),
        History(runs=[Run(STRANGER, STRANGER, RunState.CANCELLED)], executions=()),
        History(runs=[Run(STRANGER, STRANGER, RunState.CANCELLED)], journal=None, executions=(), faults=()),
    ],
    ids=["nothing", "all empty", "only faults", "only limits", "still alive", "no task ran", "no task ran, no fault"],
)
def test_a_history_in_which_nothing_happened_is_unknown(nothing: History) -> None:
    """Unknown is not valid: whoever asks must count it as a failure."""
    verdict = judge(nothing)
    assert (Status.UNKNOWN, False) == (verdict.status, verdict.valid)
    assert "shows nothing" in verdict.as_text()


def test_what_nobody_watched_is_said() -> None:
    """A verdict over records alone does not sound like one over everything."""
    records = History(runs=[run for run in good(2).runs if run.trigger == Trigger.SCHEDULE])
    verdict = judge(records)
    assert Status.VALID is verdict.status
    assert 5 == len(verdict.unseen)
    assert "not seen: the tasks' own record" in verdict.as_text()
    assert () == judge(good(2)).unseen


def test_a_verdict_is_told_in_text_and_as_json() -> None:
    """Each finding with its ids and a sentence."""
    history = it_ran_unclaimed(good(3), random.Random(3))
    verdict = judge(history)
    told = json.loads(verdict.as_json())
    assert "invalid" == told["status"]
    [found] = [each for each in told["findings"] if each["kind"] == "phantom-execution"]
    assert found["run_id"] in found["text"]
    assert 10**9 == found["token"]
    assert f"phantom-execution: {found['text']}" in verdict.as_text()
    assert 1 == told["counts"]["phantom-execution"]


def test_a_text_of_many_findings_is_bounded_and_says_how_many_there_are() -> None:
    """The first twenty of each kind; all are counted."""
    history = replace(good(4), runs=[], operations=[], edges=[], targets=[])
    verdict = judge(history)
    assert verdict.counts["lost"] > 100
    lines = [line for line in verdict.as_text().splitlines() if line.startswith("  lost: ")]
    assert 20 == len(lines)
    assert f"… and {verdict.counts['lost'] - 20} more of lost" in verdict.as_text()
    assert f"{verdict.counts['lost']}  findings of the kind lost" in verdict.as_text()


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_history_of_which_any_one_change_is_kept_back_is_invalid(seed: int, drawn: random.Random) -> None:
    """Each run's walk is whole, from its making to its end as it is on record."""
    history = good(seed)
    gone = drawn.choice(list(history.journal or ()))
    kept_back = replace(history, journal=[each for each in history.journal or () if each is not gone])
    # Of a run that was taken back nothing else is known: its last change may have been its last.
    taken_back = gone.after is None
    assert taken_back or Status.INVALID is judge(kept_back).status, gone


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.sampled_from(list(RunState)))
@settings(max_examples=60)
def test_a_history_in_which_any_run_is_told_to_have_ended_otherwise_is_invalid(
    seed: int, drawn: random.Random, state: RunState
) -> None:
    """Whatever it is told to be."""
    history = good(seed)
    run = drawn.choice(history.runs)
    verdict = judge(with_run(history, run, run._replace(state=state)))
    assert (state is run.state) == verdict.valid, verdict.as_text()


def test_the_order_in_which_a_history_is_told_is_no_matter() -> None:
    """Witnesses are gathered from many files."""
    history = a_stale_result_was_accepted(good(5), random.Random(5))
    backwards = replace(
        history,
        runs=list(reversed(history.runs)),
        journal=list(reversed(history.journal or ())),
        executions=list(reversed(history.executions or ())),
        operations=list(reversed(history.operations)),
    )
    assert set(judge(history).findings) == set(judge(backwards).findings)
    assert judge(history).counts == judge(backwards).counts
