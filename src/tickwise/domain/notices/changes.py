"""The events that rules are asked about, and the changes of alerts and notices that follow from them.

events ──► rules, alerts that stand ──► Fold: alerts opened, counted, closed; lines for channels; events gone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import Alert, NoticeEvent, NoticeLine, Severity


class PendingEvent(NamedTuple):
    """An event that no rule was asked about yet: a run that ended or is tried again (`state`), or one that was noted by
    its name (`event`)."""

    namespace: str
    event_id: UUID
    """Of a run: its id."""
    token: int
    job_id: UUID | None
    state: RunState | None
    """The state in which the run ended; RETRYING: it is tried again."""
    attempt: int
    at: float
    reason: str | None
    error: str | None
    """Cut to 1,000 characters."""
    event: NoticeEvent | None = None
    subject: str = ""
    subject_name: str = ""
    run_id: UUID | None = None
    rule_id: UUID | None = None
    """Only this rule is asked; None: each that concerns the job."""


class NoticeJob(NamedTuple):
    """The fields of a job that rules and messages need."""

    namespace: str
    job_id: UUID
    name: str
    labels: Mapping[str, str]
    notify: Sequence[UUID] = ()
    """The channels that the job itself names."""
    is_once: bool = False
    """It runs once, at once or at a time."""


class RunEnd(NamedTuple):
    """An ended run: SUCCESS or FAILED."""

    run_id: UUID
    state: RunState


class JobEnds(NamedTuple):
    """The newest ended runs of a job by their ids, the newest first: SUCCESS and FAILED alone."""

    job_id: UUID
    ends: Sequence[RunEnd]


class StandingAlert(NamedTuple):
    """An alert that is not closed, with the times that decide when it is told again."""

    alert: Alert
    version: int
    """Changes with each change of the alert."""
    told_at: float | None
    """None: nobody was told, because no channel delivered a notice of it."""
    escalated_at: float | None
    next_at: float | None
    """The time at which it is looked at again without an event: to repeat, to escalate, at the end of its snooze."""


class AlertKey(NamedTuple):
    """The identity of an alert that is not closed: there is one for each of these."""

    namespace: str
    rule_id: UUID | None
    event: NoticeEvent
    subject: str


class AlertChange(NamedTuple):
    """A change of one alert. It is applied only if the alert is still as it was seen."""

    key: AlertKey
    alert_id: UUID
    seen: int | None
    """The version of the alert that was seen; None: there was none, and this one opens."""
    subject_name: str
    severity: Severity
    events: int
    """Counted in addition."""
    first_at: float
    last_at: float
    sentence: str
    run_id: UUID | None
    close: bool = False
    reopen: bool = False
    """Its snooze is over: it is open again."""
    told_at: float | None = None
    """None: as it is."""
    escalated_at: float | None = None
    """None: as it is."""
    next_at: float | None = None


class NoticeChange(NamedTuple):
    """Lines for the waiting notice of a channel and rule, or for a new one."""

    notice_id: UUID
    """If it is made."""
    namespace: str
    channel_id: UUID
    rule_id: UUID | None
    rule_name: str
    severity: Severity
    events: int
    first_at: float
    last_at: float
    lines: Sequence[NoticeLine]
    due: float
    """Of a new one; one that waits keeps its own, if that is earlier."""
    is_escalation: bool = False
    joins: bool = False
    """Only counted in a notice that waits: none is made for it."""
    gathers: bool = False
    """A storm: a follow-up that waits becomes due as late as this, but at most `STORM_SECONDS` after it was made."""
    subjects: int = 0
    """The number of jobs, executors, certificates or keys that its events are of."""
    before: Sequence[float] = ()
    """Of those of them whose alert was told before: the times of the newest events of these alerts until then. One that
    is not before the first event of the waiting notice is counted in that."""


class Burst(NamedTuple):
    """The notices of a rule for a channel that went lately. One that waits for its first try is none: it collects."""

    made: int
    newest_at: float
    """The time at which the newest was due."""
    events: int
    """Of all of them."""
    storms: int
    """Those of a storm: with `STORM_EVENTS` or more."""


class Fold(NamedTuple):
    """The outcome of judging a page of events of one namespace."""

    namespace: str
    judged: Sequence[tuple[UUID, int]]
    """The events (event_id, token) that are pending no more."""
    alerts: Sequence[AlertChange]
    notices: Sequence[NoticeChange]
