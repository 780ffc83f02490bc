"""The stages of a run: each gap with what it waited for."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tickwise.control.explain.explanations import Because, Cause, Explanation, PastWait
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import AttemptRow, RunRow
from tickwise.web.waterfall import Span, waterfall

DUE = 1_800_000_000.0
ON_TIME = Explanation(code=Because.FIRED, sentence="it began on time")


def _run(**fields: Any) -> RunRow:
    values: dict[str, Any] = {
        "run_id": uuid4(), "job_id": uuid4(), "namespace": "default", "state": RunState.SUCCESS, "trigger": 1,
        "due_at": DUE, "queued_at": DUE - 5.0, "dispatched_at": None, "started_at": None, "ended_at": None,
        "ready_at": None, "attempt": 1, "failures": 0, "crashes": 0, "executor": 1, "reason": None, "error": None,
        "result": None, "origin": None, "definition": None, "nominal_at": DUE,
    }  # fmt: skip
    return RunRow(**{**values, **fields})


def _attempt(number: int, state: RunState, *, taken: float, began: float | None, ended: float | None) -> AttemptRow:
    return AttemptRow(
        attempt=number,
        token=number,
        executor=1,
        state=state,
        dispatched_at=DUE + taken,
        started_at=None if began is None else DUE + began,
        ended_at=None if ended is None else DUE + ended,
        reason=None if state is RunState.SUCCESS else "exit_code",
        error=None if state is RunState.SUCCESS else "exit status 1: first line\n\\x1b[31mthe last line\\x1b[0m\n",
    )


def _told(spans: list[Span]) -> list[tuple[str, str, float]]:
    return [(span.name, span.why, round(span.end - span.begin, 3)) for span in spans]


def test_a_run_on_time_is_its_attempt() -> None:
    """It was claimed ahead, so nothing was waited for; the accuracy of a timer is no stage."""
    attempts = [_attempt(1, RunState.SUCCESS, taken=-1.0, began=0.0002, ended=4.0)]
    spans = waterfall(_run(ended_at=DUE + 4.0), attempts, ON_TIME, DUE + 9.0)
    assert [("Attempt 1", "", 4.0)] == _told(spans)
    assert (0.0, 1000.0) == (spans[0].x, spans[0].width)


def test_a_wait_has_its_cause_and_a_pause_the_attempt_before_it() -> None:
    """The cause is the one that `explain` names; a reason of an attempt is the last line of its error."""
    attempts = [
        _attempt(1, RunState.RETRYING, taken=2.0, began=2.5, ended=3.0),
        _attempt(2, RunState.QUEUED, taken=3.5, began=5.0, ended=6.0),
        _attempt(3, RunState.SUCCESS, taken=8.0, began=8.0, ended=9.0),
    ]
    late = Cause(Because.LATE_EXECUTORS_BUSY, "all slots were taken")
    explained = Explanation(code=Because.RETRIED, sentence="it was late", causes=(late,))
    assert [
        ("Waited for an executor", "all slots were taken", 2.0),
        ("Held by its executor", "until it began", 0.5),
        ("Attempt 1", "exit status 1: the last line", 0.5),
        ("Waited to try again", "attempt 1 failed", 0.5),
        ("Held by its executor", "until the pause before the next attempt was over", 1.5),
        ("Attempt 2", "exit status 1: the last line", 1.0),
        ("Waited for another executor", "attempt 2 did not end", 2.0),
        ("Attempt 3", "", 1.0),
    ] == _told(waterfall(_run(ended_at=DUE + 9.0), attempts, explained, DUE + 20.0))


def test_what_goes_on_ends_now() -> None:
    """A run that waits, one that is held, and one that runs."""
    waits = Explanation(code=Because.WAITING_SLOT, sentence="two runs have the slots of 'bank'")
    (span,) = waterfall(_run(state=RunState.QUEUED, attempt=0), [], waits, DUE + 7.0)
    assert ("Waits", "two runs have the slots of 'bank'", 7.0, True) == (
        span.name, span.why, round(span.end - span.begin, 3), span.goes_on
    )  # fmt: skip
    held = [_attempt(1, RunState.DISPATCHED, taken=0.0, began=None, ended=None)]
    (span,) = waterfall(_run(state=RunState.DISPATCHED), held, ON_TIME, DUE + 3.0)
    assert ("Held by its executor", True) == (span.name, span.goes_on)
    runs = [_attempt(1, RunState.RUNNING, taken=0.0, began=0.0, ended=None)]
    (span,) = waterfall(_run(state=RunState.RUNNING), runs, ON_TIME, DUE + 3.0)
    assert ("Attempt 1", 3.0, True) == (span.name, span.end - span.begin, span.goes_on)


def test_a_run_that_is_not_due_yet_or_never_began_has_no_attempt() -> None:
    """And nothing of it is drawn backwards."""
    assert all(span.end >= span.begin for span in waterfall(_run(state=RunState.QUEUED), [], ON_TIME, DUE - 3.0))
    cancelled = _run(state=RunState.CANCELLED, attempt=0, ended_at=DUE + 2.0, reason="cancelled")
    assert [("Waited for an executor", "cancelled", 2.0)] == _told(waterfall(cancelled, [], ON_TIME, DUE + 9.0))


def test_each_wait_whose_time_is_known_has_a_stage_of_its_own() -> None:
    """What is left of the gap is the wait for an executor; the time beside the gap is not drawn."""
    stop = Cause(Because.LATE_STOPPED, "ada stopped it")
    hold = Cause(Because.LATE_QUEUE_HELD, "its queue was on hold")
    waits = (PastWait(stop, DUE + 1.0, DUE + 4.0), PastWait(hold, DUE + 4.0, DUE + 9.0))
    explained = Explanation(code=Because.LATE_STOPPED, sentence="it was late", waits=waits)
    attempts = [_attempt(1, RunState.SUCCESS, taken=10.0, began=10.0, ended=12.0)]
    assert [
        ("Waited for an executor", "", 1.0),
        ("Waited for the end of a stop", "ada stopped it", 3.0),
        ("Waited: its queue was on hold", "its queue was on hold", 5.0),
        ("Waited for an executor", "", 1.0),
        ("Attempt 1", "", 2.0),
    ] == _told(waterfall(_run(ended_at=DUE + 12.0), attempts, explained, DUE + 20.0))


def test_a_run_that_waits_shows_the_waits_that_are_over_and_the_one_that_goes_on() -> None:
    """The last one has the sentence of the explanation."""
    stop = PastWait(Cause(Because.LATE_STOPPED, "ada stopped it"), DUE, DUE + 4.0)
    waits = Explanation(code=Because.WAITING_SLOT, sentence="two runs have the slots", waits=(stop,))
    assert [
        ("Waited for the end of a stop", "ada stopped it", 4.0),
        ("Waits", "two runs have the slots", 3.0),
    ] == _told(waterfall(_run(state=RunState.QUEUED, attempt=0), [], waits, DUE + 7.0))


def test_a_turn_under_a_rate_is_named_where_an_executor_held_the_run_for_it() -> None:
    """Such a run is handed out ahead of its turn."""
    rate = Cause(Because.LATE_LIMITED, "its job has a limit (rate)")
    explained = Explanation(code=Because.LATE_LIMITED, sentence="late", waits=(PastWait(rate, DUE, DUE + 5.0),))
    attempts = [_attempt(1, RunState.SUCCESS, taken=2.0, began=5.0, ended=6.0)]
    assert [
        ("Waited for a limit", "its job has a limit (rate)", 2.0),
        ("Held by its executor", "its job has a limit (rate)", 3.0),
        ("Attempt 1", "", 1.0),
    ] == _told(waterfall(_run(ended_at=DUE + 6.0), attempts, explained, DUE + 20.0))
