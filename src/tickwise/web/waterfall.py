"""The stages of a run on one axis: each gap with what it waited for, and each attempt. Pure functions, no markup.

made ahead │ waited │ held │ attempt 1 │ waited │ held │ attempt 2
           due      taken  started     ended    taken  started

A gap has a stage for each wait that `explain` knows the time of, and one for what is left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwise.control.explain.explanations import Because, Explanation, PastWait
from tickwise.domain.excerpts import cause_line
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import AttemptRow, RunRow
from tickwise.web.ansi import plain
from tickwise.web.charts import WIDTH
from tickwise.web.texts import reasoned

BAR_LEAST: Final = 2.0
GAP_LEAST: Final = 0.0005
"""Seconds: a shorter gap is the accuracy of the clocks, and no stage."""
GOES_ON: Final = 1.0
"""Seconds: a wait that was there so lately goes on. It was looked at a moment before the page was made."""
WHY_MAX: Final = 200
_NOT_A_WAIT: Final = frozenset({"late_start", "late_executor_lost"})
"""Codes that tell of a later stage than the wait for an executor."""
_NAMES: Final = {
    Because.LATE_STOPPED: "Waited for the end of a stop",
    Because.LATE_QUEUE_HELD: "Waited: its queue was on hold",
    Because.LATE_OVERLAP: "Waited for an earlier run",
    Because.LATE_LIMITED: "Waited for a limit",
    Because.LATE_PRIORITY: "Waited behind a higher priority",
    Because.LATE_CIRCUIT: "Waited for its host",
    Because.LATE_STORE_AWAY: "Waited for the database",
    Because.LATE_SCHEDULER_AWAY: "Waited for a scheduler",
    Because.LATE_SCHEDULER_BEHIND: "Waited for a scheduler",
}
_OF_SCHEDULERS: Final = frozenset({Because.LATE_SCHEDULER_AWAY, Because.LATE_SCHEDULER_BEHIND})


class Span(NamedTuple):
    """A stage, with its bar in thousandths of the axis."""

    name: str
    why: str
    """The thing that it waited for, or the end of the attempt; empty: nothing is known beyond the name."""
    kind: str
    """`wait`, `held`, `run`."""
    begin: float
    end: float
    x: float
    width: float
    attempt: int | None
    state: RunState | None
    goes_on: bool


class _Stage(NamedTuple):
    name: str
    why: str
    kind: str
    begin: float
    end: float | None
    attempt: int | None = None
    state: RunState | None = None


def waterfall(run: RunRow, attempts: Sequence[AttemptRow], explanation: Explanation, now: float) -> list[Span]:
    """The stages from the due time on, the earliest first. A stage without an end goes on."""
    stages = _stages(run, attempts, explanation, now)
    stages = [each for each in stages if each.end is None or each.end - each.begin >= GAP_LEAST or each.kind == "run"]
    if not stages:
        return []
    begin = min(each.begin for each in stages)
    end = max(now if each.end is None else each.end for each in stages)
    whole = max(end - begin, 1e-6)
    return [_span(each, begin, whole, now) for each in stages]


def _stages(run: RunRow, attempts: Sequence[AttemptRow], explanation: Explanation, now: float) -> list[_Stage]:
    stages: list[_Stage] = []
    wait, waits = _wait_of(explanation), explanation.waits
    at, before = max(run.due_at, run.queued_at), None
    if any(each.cause.code in _OF_SCHEDULERS for each in waits):
        at = run.due_at
    for attempt in attempts:
        taken = attempt.dispatched_at or attempt.started_at
        if taken is None:
            continue
        waited = max(at, taken)
        stages += _gaps(before, wait, waits, at, waited)
        first = attempt.started_at
        if first is None:
            lost = "its executor gave it back, or was lost, before it began"
            ended = attempt.ended_at
            stages.append(_Stage("Held by its executor", lost if ended else "", "held", waited, ended, attempt.attempt))
            at = waited if ended is None else ended
        else:
            stages += _held(before, waits, waited, max(waited, first))
            name = f"Attempt {attempt.attempt}"
            stages.append(
                _Stage(name, _ending(attempt), "run", first, attempt.ended_at, attempt.attempt, attempt.state)
            )
            at = first if attempt.ended_at is None else attempt.ended_at
        before = attempt
    goes_on = any(each.end is None for each in stages)
    if run.ended_at is None and not goes_on:
        over = [each for each in waits if each.end < now - GOES_ON]
        rest = max([at, *(each.end for each in over)])
        stages += _gaps(before, "", over, at, rest) if rest > at else []
        stages.append(_gap(before, wait, rest, None))
    elif run.ended_at is not None and not goes_on and run.ended_at > at:
        stages += _gaps(before, run.reason or wait, waits, at, run.ended_at)
    return stages


def _gaps(before: AttemptRow | None, wait: str, waits: Sequence[PastWait], begin: float, end: float) -> list[_Stage]:
    """A wait for an executor, with the waits for other things that fall into it."""
    stages: list[_Stage] = []
    for each in waits:
        first, last = max(begin, each.begin), min(end, each.end)
        if last - first < GAP_LEAST:
            continue
        if first > begin:
            stages.append(_gap(before, "", begin, first))
        name = _NAMES.get(each.cause.code, "Waited for an executor")
        stages.append(_Stage(name, plain(each.cause.sentence), "wait", first, last))
        begin = last
    if begin < end or not stages:
        stages.append(_gap(before, "" if stages else wait, begin, end))
    return stages


def _held(before: AttemptRow | None, waits: Sequence[PastWait], begin: float, end: float) -> list[_Stage]:
    """The time from the hand-out to the begin. A run with its turn under a rate is handed out ahead."""
    limited = [each for each in waits if each.cause.code is Because.LATE_LIMITED and each.begin < end <= each.end]
    if before is None and limited:
        return [_Stage("Held by its executor", plain(limited[0].cause.sentence), "held", begin, end)]
    until = "until the pause before the next attempt was over" if _failed(before) else "until it began"
    return [_Stage("Held by its executor", until, "held", begin, end)]


def _gap(before: AttemptRow | None, wait: str, begin: float, end: float | None) -> _Stage:
    """The wait for an executor: of the first attempt with its cause, of a later one with the end of the one before."""
    if before is None:
        return _Stage("Waited for an executor" if end else "Waits", wait, "wait", begin, end)
    if _failed(before):
        return _Stage("Waited to try again", f"attempt {before.attempt} failed", "wait", begin, end)
    return _Stage("Waited for another executor", f"attempt {before.attempt} did not end", "wait", begin, end)


def _failed(before: AttemptRow | None) -> bool:
    """Check whether the attempt before failed, so that a pause follows it (`retry`)."""
    return before is not None and before.state is RunState.RETRYING


def _ending(attempt: AttemptRow) -> str:
    """The end of an attempt, in one line."""
    said = reasoned(attempt.reason, cause_line(plain(attempt.error)))
    return said if len(said) <= WHY_MAX else said[: WHY_MAX - 1] + "…"


def _wait_of(explanation: Explanation) -> str:
    """The cause of the wait before the first attempt, as far as it is known."""
    for code, sentence in (
        (explanation.code, explanation.sentence),
        *((c.code, c.sentence) for c in explanation.causes),
    ):
        if code.value.startswith(("late_", "waiting_")) and code.value not in _NOT_A_WAIT:
            return plain(sentence)
    return ""


def _span(stage: _Stage, begin: float, whole: float, now: float) -> Span:
    end = max(stage.begin, now) if stage.end is None else stage.end
    width = max(WIDTH * (end - stage.begin) / whole, BAR_LEAST)
    x = min(WIDTH * (stage.begin - begin) / whole, WIDTH - width)
    return Span(
        stage.name, stage.why, stage.kind, stage.begin, end, round(x, 2), round(width, 2), stage.attempt, stage.state,
        stage.end is None,
    )  # fmt: skip
