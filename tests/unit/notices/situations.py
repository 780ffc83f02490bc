"""Events, rules and alerts for tests of judging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import (
    AlertChange,
    AlertKey,
    Burst,
    Fold,
    JobEnds,
    NoticeJob,
    PendingEvent,
    RunEnd,
    StandingAlert,
)
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.judging import Situation, judge, judge_due
from tickwise.domain.notices.rules import Alert, AlertState, NoticeEvent, NotificationRule, Severity

NOW = 1_800_000_000.0
JOB = UUID(int=0xA)
OPS, PAGER = UUID(int=0xC1), UUID(int=0xC2)
RULE = UUID(int=0xE1)
SUBJECT = str(JOB)
FAILURE, RECOVERY = NoticeEvent.FAILURE, NoticeEvent.RECOVERY


def rule(*on: NoticeEvent, **fields: Any) -> NotificationRule:
    """A rule of the whole namespace."""
    given: dict[str, Any] = {
        "rule_id": RULE,
        "namespace": "default",
        "name": "nights",
        "on": frozenset(on or (FAILURE, RECOVERY)),
        "channels": (OPS,),
        **fields,
    }
    return NotificationRule(**given)


def event(number: int = 1, state: RunState | None = RunState.FAILED, **fields: Any) -> PendingEvent:
    """The end of a run of `JOB`; runs are numbered in the order of their times."""
    given: dict[str, Any] = {
        "namespace": "default",
        "event_id": UUID(int=number),
        "token": number,
        "job_id": JOB,
        "state": state,
        "attempt": 1,
        "at": NOW - 1000.0 + number,
        "reason": "error",
        "error": "no disk\nat line 3",
        **fields,
    }
    return PendingEvent(**given)


def standing(alert: Alert, version: int = 1, **fields: Any) -> StandingAlert:
    """An alert that was told when it opened."""
    given: dict[str, Any] = {"told_at": alert.first_at, "escalated_at": None, "next_at": None, **fields}
    return StandingAlert(alert, version, **given)


def alert(state: AlertState = AlertState.OPEN, **fields: Any) -> Alert:
    """An alert of `RULE` about failures of `JOB`."""
    given: dict[str, Any] = {
        "alert_id": UUID(int=0xF1),
        "namespace": "default",
        "rule_id": RULE,
        "event": FAILURE,
        "subject": SUBJECT,
        "subject_name": "nightly",
        "severity": Severity.WARNING,
        "state": state,
        "events": 4,
        "first_at": NOW - 5000.0,
        "last_at": NOW - 4000.0,
        "sentence": "a run failed: no disk",
        **fields,
    }
    return Alert(**given)


def ends(*states: RunState, first: int = 1) -> JobEnds:
    """The ends of runs of `JOB`, given from the oldest on."""
    runs = [RunEnd(UUID(int=number), state) for number, state in enumerate(states, first)]
    return JobEnds(JOB, runs[::-1])


def judged(
    events: Iterable[PendingEvent],
    *rules: NotificationRule,
    stands: Sequence[StandingAlert] = (),
    history: JobEnds | None = None,
    bursts: dict[tuple[UUID | None, UUID], Burst] | None = None,
    labels: dict[str, str] | None = None,
    notify: Sequence[UUID] = (),
    more: bool = False,
    now: float = NOW,
    jobs: Mapping[UUID, NoticeJob] | None = None,
) -> Fold:
    """The fold of a page. `jobs` instead of `JOB`."""
    known = situation(rules, stands, history, bursts, labels, notify, more=more, now=now)
    return judge("default", events, known if jobs is None else replace(known, jobs=jobs))


def judged_due(*due: StandingAlert, rules: Sequence[NotificationRule], now: float = NOW) -> Fold:
    """The fold of alerts whose time has come."""
    return judge_due("default", due, situation(rules, (), None, None, None, (), more=False, now=now))


def situation(
    rules: Sequence[NotificationRule],
    stands: Sequence[StandingAlert],
    history: JobEnds | None,
    bursts: dict[tuple[UUID | None, UUID], Burst] | None,
    labels: dict[str, str] | None,
    notify: Sequence[UUID],
    *,
    more: bool,
    now: float,
) -> Situation:
    """What is known of `JOB`."""
    numbers = count(0x1000)
    return Situation(
        now=now,
        rules=RuleIndex(rules),
        new_id=lambda: UUID(int=next(numbers)),
        jobs={JOB: NoticeJob("default", JOB, "nightly", labels or {}, notify)},
        ends={} if history is None else {JOB: history},
        standing=stands,
        bursts=bursts or {},
        more=more,
    )


def told(fold: Fold) -> list[tuple[NoticeEvent, UUID, int]]:
    """What each notice that is made is about: the event of its newest line, its channel, and how many."""
    return [(each.lines[-1].event, each.channel_id, each.events) for each in fold.notices if not each.joins]


def change(fold: Fold, key_event: NoticeEvent = FAILURE) -> AlertChange:
    """The only change of an alert about this event."""
    [found] = [each for each in fold.alerts if each.key.event is key_event]
    assert found.key == AlertKey("default", found.key.rule_id, key_event, SUBJECT)
    return found
