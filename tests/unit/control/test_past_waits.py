"""The waits of a run, each with its time: no two at one time, and nothing that the record does not show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

from tickwise.control.explain.explanations import Because, RunFacts
from tickwise.control.explain.lateness import past_waits
from tickwise.control.explain.reasons import judged
from tickwise.domain.lifecycle import RunState
from tickwise.domain.stops import Stop, StopScope
from tickwise.domain.zones import zone_named
from tickwise.ports.store import QUEUE_HELD, AttemptRow, Incident, RunRow

DUE = 1_800_000_000.0


def _run(**fields: Any) -> RunRow:
    values: dict[str, Any] = {
        "run_id": uuid4(), "job_id": uuid4(), "namespace": "default", "state": RunState.SUCCESS, "trigger": 1,
        "due_at": DUE, "queued_at": DUE - 5.0, "dispatched_at": None, "started_at": DUE + 100.0,
        "ended_at": DUE + 110.0,
        "ready_at": None, "attempt": 1, "failures": 0, "crashes": 0, "executor": 1, "reason": None, "error": None,
        "result": None, "origin": None, "definition": None, "nominal_at": DUE,
    }  # fmt: skip
    return RunRow(**{**values, **fields})


def _attempt(taken: float, began: float, ended: float) -> AttemptRow:
    return AttemptRow(
        attempt=1, token=1, executor=1, state=RunState.SUCCESS, dispatched_at=DUE + taken, started_at=DUE + began,
        ended_at=DUE + ended, reason=None, error=None,
    )  # fmt: skip


def _stop(begin: float, until: float) -> Stop:
    return Stop(
        stop_id=uuid4(), namespace="default", scope=StopScope({"customer": "acme"}), begin=DUE + begin,
        until=DUE + until, reason="a release", by="ada",
    )  # fmt: skip


def _hold(begin: float, end: float) -> Incident:
    return Incident(kind=QUEUE_HELD, begin=DUE + begin, end=DUE + end, who="default")


def _facts(run: RunRow, **fields: Any) -> RunFacts:
    given: dict[str, Any] = {"now": DUE + 1_000.0, "run": run, "zone": zone_named("UTC")}
    return RunFacts(**{**given, **fields})


def _told(facts: RunFacts) -> list[tuple[Because, float, float]]:
    return [(each.cause.code, each.begin - DUE, each.end - DUE) for each in past_waits(facts)]


def test_a_stop_and_a_hold_each_have_their_time() -> None:
    """Where both are in force the stop is told, and nothing before the run was due."""
    facts = _facts(
        _run(), attempts=[_attempt(100.0, 100.0, 110.0)], stops=[_stop(-50.0, 30.0)], holds=[_hold(10.0, 60.0)]
    )
    assert [(Because.LATE_STOPPED, 0.0, 30.0), (Because.LATE_QUEUE_HELD, 30.0, 60.0)] == _told(facts)[:2]


def test_a_stop_within_a_hold_cuts_it() -> None:
    """The parts follow each other without a gap."""
    facts = _facts(
        _run(), attempts=[_attempt(100.0, 100.0, 110.0)], stops=[_stop(20.0, 30.0)], holds=[_hold(-5.0, 100.0)]
    )
    assert [
        (Because.LATE_QUEUE_HELD, 0.0, 20.0),
        (Because.LATE_STOPPED, 20.0, 30.0),
        (Because.LATE_QUEUE_HELD, 30.0, 100.0),
    ] == _told(facts)


def test_an_explanation_names_each_wait_that_is_over() -> None:
    """The first leads, the others follow; one of less than a second is none."""
    stops, holds = [_stop(40.0, 70.0), _stop(80.0, 80.5)], [_hold(-5.0, 40.0)]
    facts = _facts(_run(), attempts=[_attempt(71.0, 100.0, 110.0)], stops=stops, holds=holds)
    found = judged(facts)
    assert Because.LATE_QUEUE_HELD is found.code
    assert [Because.LATE_STOPPED] == [
        each.code for each in found.causes if each.code is not Because.LATE_EXECUTORS_BUSY
    ]


def test_a_run_that_waits_names_what_it_waited_for_before() -> None:
    """A hold without an end goes on, and is no wait that is over."""
    waits = _run(state=RunState.QUEUED, started_at=None, ended_at=None, attempt=0)
    facts = _facts(waits, stops=[_stop(0.0, 50.0)], holds=[_hold(60.0, float("inf"))])
    assert [Because.LATE_STOPPED] == [each.code for each in judged(facts).causes]
    assert (Because.LATE_QUEUE_HELD, 60.0, 1_000.0) == _told(facts)[-1]


def test_what_comes_between_attempts_is_known_too() -> None:
    """A stop that came after the first failure."""
    attempts = [
        replace(_attempt(0.0, 0.0, 5.0), state=RunState.RETRYING),
        replace(_attempt(90.0, 100.0, 110.0), attempt=2),
    ]
    facts = _facts(_run(attempt=2), attempts=attempts, stops=[_stop(10.0, 80.0)])
    assert [(Because.LATE_STOPPED, 10.0, 80.0)] == _told(facts)


def test_a_run_on_time_waited_for_nothing() -> None:
    """A stop that began after it and ended before the end is no wait of it."""
    facts = _facts(_run(started_at=DUE), attempts=[_attempt(-1.0, 0.0, 110.0)], holds=[_hold(-50.0, -5.0)])
    assert [] == _told(facts)
