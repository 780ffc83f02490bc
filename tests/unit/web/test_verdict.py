"""The sentence that leads the overview is true, and the gravest that is known."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tickwise.control.observing.objectives import StandingObjective
from tickwise.domain.notices.rules import Alert, AlertState, NoticeEvent, Severity
from tickwise.domain.observing.objectives import GroupObjective, ObjectiveStanding, ObjectiveState, StartCount
from tickwise.domain.stops import Stop, StopScope
from tickwise.ports.store import ExecutorRow, QueueRow, StoreStats
from tickwise.web.views.observing.verdict import (
    LOST_SECONDS,
    NAMED,
    WELL,
    Finding,
    HealthFacts,
    Level,
    MissedTimes,
    verdict,
)

NOW = 10_000.0
STATS: dict[str, Any] = {
    "queued": 0, "held": 0, "retrying": 0, "oldest_ready_seconds": 0.0, "timers": 5, "timers_late_seconds": 0.0,
    "executors": 1,
}  # fmt: skip


def stats(**fields: Any) -> StoreStats:
    return StoreStats(**{**STATS, **fields})


def alert(name: str = "books", severity: Severity = Severity.CRITICAL, state: AlertState = AlertState.OPEN) -> Alert:
    return Alert(
        alert_id=UUID(int=7), namespace="default", rule_id=None, event=NoticeEvent.FAILURE, subject=name,
        subject_name=name, severity=severity, state=state, events=1, first_at=NOW, last_at=NOW, sentence="a run failed",
    )  # fmt: skip


def executor(name: str = "vm", *, lease: float = NOW + 5.0, gone: float | None = None) -> ExecutorRow:
    return ExecutorRow(
        executor=1, name=name, queues=(), labels=(), functions=(), slots=4, registered_at=0.0, lease_until=lease,
        gone_at=gone, held=0,
    )  # fmt: skip


def stop(**scope: Any) -> Stop:
    return Stop(
        stop_id=UUID(int=1), namespace="default", scope=StopScope(**scope), begin=0.0, until=NOW + 1.0, reason="x",
        by="ada",
    )  # fmt: skip


def queue(name: str, *, held: bool = True, queued: int = 0) -> QueueRow:
    return QueueRow(queue=name, hold=None, held=held, queued=queued, dispatched=0, running=0)


def objective(name: str, state: ObjectiveState) -> StandingObjective:
    wish = GroupObjective(
        objective_id=UUID(int=1), namespace="default", name=name, priority=None, labels={}, created_at=0.0,
        created_by="ada", within_seconds=5.0, ratio=0.99,
    )  # fmt: skip
    standing = ObjectiveStanding(state=state, count=StartCount(1, 1), budget_left=0.0, burn={})
    return StandingObjective(None, wish, standing, None)


class Case(NamedTuple):
    """Facts that give one finding."""

    facts: dict[str, Any]
    level: Level
    sentence: str
    path: str


MISSED = MissedTimes(times=72, jobs=2, more=False, query={"status": "SKIPPED"})

CASES = {
    "a miss": Case({"missed": MISSED._replace(times=1, jobs=1)}, Level.NOTE,
                   "One time of one job did not run in 24 hours.", "/runs"),
    "misses": Case({"missed": MISSED}, Level.NOTE, "72 times of 2 jobs did not run in 24 hours.", "/runs"),
    "many misses": Case({"missed": MISSED._replace(more=True)}, Level.NOTE,
                        "More than 72 times of 2 jobs did not run in 24 hours.", "/runs"),
    "no executor": Case({"stats": stats(executors=0)}, Level.BAD, "No executor is active, so nothing runs.",
                        "/executors"),
    "late timers": Case({"stats": stats(timers_late_seconds=300.0)}, Level.BAD,
                        "No scheduler keeps up: the oldest timer is late by 5 min.", "/executors"),
    "a critical alert": Case({"alerts": [alert()]}, Level.BAD, "One critical alert is open: books.",
                             f"/alerts/{UUID(int=7)}"),
    "overdue": Case({"overdue": 3}, Level.WARN, "3 jobs are overdue.", "#next-title"),
    "a wait": Case({"stats": stats(oldest_ready_seconds=130.0)}, Level.WARN,
                   "A run has waited for 2 min although executors are active.", "/runs"),
    "unserved": Case({"unserved": ["gpu"]}, Level.WARN,
                     "Runs wait in the queue gpu, and no active executor serves it.", "/queues"),
    "alerts": Case({"alerts": [alert("a", Severity.WARNING), alert("b", Severity.WARNING)]}, Level.WARN,
                   "2 alerts are open.", "/alerts"),
    "in hand": Case({"alerts": [alert("a", state=AlertState.ACKNOWLEDGED)]}, Level.WARN,
                    "One alert is acknowledged, and not over: a.", f"/alerts/{UUID(int=7)}"),
    "a lost executor": Case({"executors": [executor(lease=NOW - 130.0, gone=NOW - 120.0)]}, Level.WARN,
                            "The executor vm went silent 2 min ago.", "/executors"),
    "a hold": Case({"queues": [queue("reports", queued=2)]}, Level.WARN, "The queue reports is on hold.", "/queues"),
    "a stop": Case({"stops": [stop(labels={"customer": "x"})]}, Level.WARN,
                   "The jobs with the label customer=x are stopped.", "/stops"),
    "all is stopped": Case({"stops": [stop(queue="a"), stop()]}, Level.WARN, "All jobs of the namespace are stopped.",
                           "/stops"),
    "an objective burns": Case({"objectives": [objective("starts", ObjectiveState.BURNING)]}, Level.WARN,
                               "The objective of starts burns its error budget too fast.", "/objectives"),
    "an objective is burnt": Case({"objectives": [objective("starts", ObjectiveState.EXHAUSTED)]}, Level.WARN,
                                  "The objective of starts has no error budget left.", "/objectives"),
    "a minor alert": Case({"alerts": [alert(severity=Severity.INFO)]}, Level.NOTE, "One minor alert is open: books.",
                          f"/alerts/{UUID(int=7)}"),
    "failures": Case({"failed": 1}, Level.NOTE, "One run failed in this hour.", "/runs"),
}  # fmt: skip
NOTHING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an executor that left": {"executors": [executor(lease=NOW + 5.0, gone=NOW - 60.0)]},
    "an executor that came back": {"executors": [executor(lease=NOW - 60.0, gone=NOW - 50.0), executor()]},
    "an executor lost long ago": {"executors": [executor(lease=0.0, gone=NOW - LOST_SECONDS)]},
    "a queue that goes on": {"queues": [queue("reports", held=False, queued=900)]},
    "an objective that is met": {"objectives": [objective("starts", ObjectiveState.MET)]},
    "closed and snoozed alerts": {"alerts": [alert(state=AlertState.CLOSED), alert(state=AlertState.SNOOZED)]},
}


def judged(*facts: dict[str, Any]) -> list[Finding]:
    """The lead, and what follows."""
    known: dict[str, Any] = {"now": NOW, "stats": stats()}
    for each in facts:
        for name, value in each.items():
            known[name] = [*known.get(name, ()), *value] if isinstance(value, list) else value
    found = verdict(HealthFacts(**known))
    assert found.level == found.lead.level
    return [found.lead, *found.rest]


@pytest.mark.parametrize("facts", NOTHING.values(), ids=NOTHING.keys())
def test_without_a_finding_everything_runs(facts: dict[str, Any]) -> None:
    """Nothing else is said."""
    assert [WELL] == judged(facts)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_fact_is_a_finding_with_a_page(case: Case) -> None:
    """A note leaves the verdict as it is."""
    lead, *rest = judged(case.facts)
    found = rest[0] if case.level is Level.NOTE else lead
    assert (case.level, case.sentence, case.path) == (found.level, found.sentence, found.path)
    assert (lead == WELL) == (case.level is Level.NOTE)
    assert len(rest) == (1 if case.level is Level.NOTE else 0)


PAIRS = [
    (one, other)
    for one, other in itertools.combinations(CASES, 2)
    if not any(
        name in CASES[other].facts and not (isinstance(value, list) and name == "alerts")
        for name, value in CASES[one].facts.items()
    )
    and {one, other} != {"alerts", "in hand"}
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_two_the_graver_leads_and_none_is_lost(one: str, other: str) -> None:
    """Everything runs only if both are notes. Of equal ones the order is always the same."""
    cases = [CASES[one], CASES[other]]
    if one == "no executor" and other == "unserved":
        cases = cases[:1]  # that no executor is there says it
    found = judged(CASES[one].facts, CASES[other].facts)
    assert found == judged(CASES[other].facts, CASES[one].facts)
    assert {each.sentence for each in cases} == {each.sentence for each in found if each != WELL}
    assert max(each.level for each in cases) == found[0].level
    assert (found[0] == WELL) == all(each.level is Level.NOTE for each in cases)


def test_of_many_things_some_are_named() -> None:
    """And a sentence says that there are more of what was not looked at."""
    many = [objective(str(number), ObjectiveState.BURNING) for number in range(NAMED + 2)]
    assert (
        "5 objectives burn their error budgets too fast: 0, 1, 2 and 2 more."
        == judged({"objectives": many})[0].sentence
    )
    cut = judged({"alerts": [alert()], "is_cut": True})[0]
    assert ("At least one critical alert is open.", Level.BAD) == (cut.sentence, cut.level)
    lost = [executor(str(number), lease=NOW - 90.0, gone=NOW - 61.0 - number) for number in range(2)]
    assert "2 executors went silent, the last one 1 min ago: 0, 1." == judged({"executors": lost})[0].sentence
    held = [queue("a"), queue("b", queued=1)]
    assert ("2 queues are on hold: a, b.", "1 run waits in them.") == judged({"queues": held})[0][1:3]
    assert "2 stops are in force." == judged({"stops": [stop(queue="a"), stop(queue="b")]})[0].sentence
    assert "The queue a is stopped." == judged({"stops": [stop(queue="a")]})[0].sentence


def test_a_long_name_is_cut() -> None:
    """It cannot push the sentence off the page."""
    assert len(judged({"alerts": [alert("x" * 10_000)]})[0].sentence) < 120


@pytest.mark.parametrize(
    ("is_cut", "words"), [(False, "8 runs failed in this hour."), (True, "At least 8 runs failed")]
)
def test_failures_that_were_not_counted_to_the_end_are_at_least_so_many(is_cut: bool, words: str) -> None:
    """Who sees some jobs has no counts, and is told of the failures that are listed."""
    found = verdict(HealthFacts(now=NOW, stats=stats(), failed=8, is_failed_cut=is_cut))
    assert (WELL, True) == (found.lead, found.rest[0].sentence.startswith(words))
