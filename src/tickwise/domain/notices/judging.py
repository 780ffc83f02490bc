"""Events, rules and standing alerts become changes of alerts, and lines for channels. Pure.

    event ──rules that concern it──► no alert stands, or nobody could be told of it: it is told
                                     one stands: counted; in a notice that still waits, too
                                     of many one-time jobs: told again, at growing distances
    success ──► the alerts of its job are closed; those about failures are told by rules that ask for recoveries
                rules that name its job, and ask for successes, tell it
                those about a run that was late, long or tried often, and ends well: at rest until a newer one does well
    alert that is due ──► told again, told to others, or open after its snooze

Invariants: an alert is told when it opens, and again only by repetition, escalation, the end of its snooze, as one of
many one-time jobs, or because no channel could deliver what told it. Nothing is told of a snoozed alert; of an
acknowledged one only its recovery is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final
from uuid import UUID

from tickwise.domain.decision import SkipReason
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import (
    AlertChange,
    AlertKey,
    Burst,
    Fold,
    JobEnds,
    NoticeChange,
    NoticeJob,
    PendingEvent,
    StandingAlert,
)
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.quiet import quiet_until
from tickwise.domain.notices.rules import (
    ALWAYS_AT_ONCE,
    MAX_LINES,
    OF_NOTIFY,
    OF_ONE_RUN,
    OPENS,
    PASSES,
    RECOVERS,
    TOLD_EACH,
    AlertState,
    NoticeEvent,
    NoticeLine,
    NotificationRule,
    Severity,
)
from tickwise.domain.notices.sentences import recovered, rested, sentence_of, still_open

PAUSES: Final = ((5, 1.0), (10, 5.0), (20, 60.0))
"""(events, seconds): after fewer events than these, told by a rule to a channel within `BURST_SECONDS`, the next notice
is sent no sooner than so many seconds after the last; after more, the `group_seconds` of the rule. A few failures that
have nothing to do with each other are each told at once, many are gathered."""
BURST_SECONDS: Final = 600.0
"""Notices of a rule that gathers for longer are one burst for twice that time."""
STORM_EVENTS: Final = 20
"""A page with so many events for one rule and channel is part of a storm. Its first notice goes at once."""
STORM_EBB_SECONDS: Final = 5.0
"""A storm is over after so long without such a page: then its second notice is sent,"""
STORM_SECONDS: Final = 30.0
"""which waits no longer than this."""
STORM_AT_ONCE: Final = 2
"""After so many notices the others of a storm are gathered for the `group_seconds` of the rule."""
FOLD_SECONDS: Final = 3_600.0
"""Failures of one-time jobs of one name that come together are one alert of this hour: one that fails later is told."""
AGAIN_FACTOR: Final = 3.0
"""Such an alert is told again after so many times the time that it had gone on when it was told last, but no sooner
than `STORM_SECONDS` after that, and no later than `FOLD_SECONDS`: at 0 s, 30 s, 2 min, 8 min, 32 min, then hourly."""
RETRIES_USUAL: Final = 3
"""The attempt of RETRIES if the rule names none."""
MAX_ENDS: Final = 200
"""Ended runs of one job that are looked at."""

UNCHOSEN: Final = frozenset({SkipReason.MISFIRE, SkipReason.QUOTA, SkipReason.EXPIRED, SkipReason.FUSE})
"""Reasons of a skip that nobody chose: not by a pause, stop, window or request, and not by the job's own schedule or
overlap."""

_OF_JOB: Final = UUID(int=0)
"""In place of a rule: the job's own `notify`."""
_OF_STATE: Final[Mapping[RunState, tuple[NoticeEvent, ...]]] = {
    RunState.FAILED: (NoticeEvent.FAILURE, NoticeEvent.FIRST_FAILURE, NoticeEvent.DEAD_LETTER),
    RunState.RETRYING: (NoticeEvent.RETRIES,),
}

NoticeTarget = tuple[UUID | None, UUID, bool]
"""(rule, channel, whether it is an escalation): what one notice collects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The knowledge with which a page of events is judged."""

    now: float
    rules: RuleIndex
    new_id: Callable[[], UUID]
    jobs: Mapping[UUID, NoticeJob] = field(default_factory=dict)
    ends: Mapping[UUID, JobEnds] = field(default_factory=dict)
    standing: Sequence[StandingAlert] = ()
    """The alerts of the subjects that are not closed."""
    bursts: Mapping[tuple[UUID | None, UUID], Burst] = field(default_factory=dict)
    """By rule and channel."""
    more: bool = False
    """There are more events than those of the page."""


def judge(namespace: str, events: Iterable[PendingEvent], situation: Situation) -> Fold:
    """Judge the events of one namespace, in the order in which they happened."""
    judging = _Judging(namespace, situation)
    judged = sorted(events, key=lambda each: (each.at, each.event_id, each.token))
    judging.fold_jobs(judged)
    for event in judged:
        judging.event(event)
    return judging.fold([(each.event_id, each.token) for each in judged])


def judge_due(namespace: str, due: Iterable[StandingAlert], situation: Situation) -> Fold:
    """Judge alerts whose time has come: to be told again or to others, or a snooze that is over."""
    judging = _Judging(namespace, situation)
    for standing in due:
        judging.due(standing)
    return judging.fold([])


def ends_needed(
    events: Iterable[PendingEvent], rules: RuleIndex, jobs: Mapping[UUID, NoticeJob]
) -> tuple[set[UUID], int]:
    """The jobs whose ended runs must be known to judge these events, and the number of runs of each."""
    wanted, most = set(), 0
    counts: dict[UUID, int] = {}
    for event in events:
        if event.job_id is None or event.state not in (RunState.FAILED, RunState.SUCCESS):
            continue
        labels = jobs[event.job_id].labels if event.job_id in jobs else {}
        needs = 0
        for name in (NoticeEvent.FAILURE, NoticeEvent.FIRST_FAILURE):
            for rule in rules.concerning(event.namespace, name, event.job_id, labels):
                window = 0 if rule.failures_of is None else rule.failures_of.runs
                needs = max(needs, rule.in_a_row or 0, window, 2 * (name is NoticeEvent.FIRST_FAILURE))
        if needs:
            wanted.add(event.job_id)
            counts[event.job_id] = counts.get(event.job_id, 0) + 1
            most = max(most, needs + counts[event.job_id])
    return wanted, min(most, MAX_ENDS)


def next_look(rule: NotificationRule | None, *, first_at: float, told_at: float, escalated: bool) -> float | None:
    """The time at which an open alert is to be told again, or to others; None: never."""
    if rule is None:
        return None
    times = [told_at + rule.repeat_seconds] if rule.repeat_seconds is not None else []
    if rule.escalation is not None and not escalated:
        times.append(first_at + rule.escalation.after_seconds)
    return min(times, default=None)


def burst_seconds(rule: NotificationRule | None) -> float:
    """The time in which the notices of a rule are one burst. None: the job's own `notify`."""
    return BURST_SECONDS if rule is None else max(BURST_SECONDS, 2 * rule.group_seconds)


def rule_of_job(namespace: str, job: NoticeJob) -> NotificationRule:
    """The job's own `notify` as a rule."""
    return NotificationRule(
        rule_id=_OF_JOB, namespace=namespace, name="", on=OF_NOTIFY, channels=tuple(job.notify), jobs=(job.job_id,)
    )


def _pause(told: int, rule: NotificationRule) -> float:
    """The least time between two notices of a rule and channel, in seconds, after so many events lately."""
    return next((seconds for events, seconds in PAUSES if told < events), rule.group_seconds)


@dataclass(slots=True)
class _AlertDraft:
    """An alert, as this page changes it."""

    key: AlertKey
    alert_id: UUID
    seen: StandingAlert | None
    subject_name: str
    severity: Severity
    first_at: float
    last_at: float
    sentence: str = ""
    run_id: UUID | None = None
    events: int = 0
    closed: bool = False
    reopened: bool = False
    at_rest: bool = False
    """The run that it is about has ended well, and no newer one has."""
    told_at: float | None = None
    escalated_at: float | None = None

    def is_silent(self, now: float) -> bool:
        """Check whether it is snoozed."""
        return self.seen is not None and not self.reopened and is_snoozed(self.seen, now)

    @property
    def seen_until(self) -> float | None:
        """The time of its newest event before this page; None: it opened in this page."""
        return None if self.seen is None else self.seen.alert.last_at

    @property
    def is_acknowledged(self) -> bool:
        return self.seen is not None and self.seen.alert.state is AlertState.ACKNOWLEDGED


@dataclass(slots=True)
class _NoticeDraft:
    """The lines of one notice."""

    rule: NotificationRule
    lines: list[NoticeLine] = field(default_factory=list)
    events: int = 0
    told: bool = False
    urgent: bool = False
    earliest: float = inf
    """Of the lines that are told: none of them is to be sent before."""
    subjects: dict[str, float | None] = field(default_factory=dict)
    """Each with the time of the newest event that its alert had before this page; None: it was told of none."""


class _Judging:
    """One page."""

    def __init__(self, namespace: str, situation: Situation) -> None:
        self._namespace = namespace
        self._in = situation
        self._drafts: dict[str, dict[AlertKey, _AlertDraft]] = {}
        """By subject."""
        self._ended: dict[UUID, tuple[UUID, list[RunState]]] = {}
        """By job: the newest event whose ends were asked for, and these."""
        self._closed: list[_AlertDraft] = []
        self._folded: frozenset[str] = frozenset()
        """The subjects of one-time jobs of one name that fail together."""
        self._notices: dict[NoticeTarget, _NoticeDraft] = {}
        self._standing: dict[str, dict[AlertKey, StandingAlert]] = {}
        for each in situation.standing:
            alert = each.alert
            key = AlertKey(namespace, alert.rule_id, alert.event, alert.subject)
            self._standing.setdefault(alert.subject, {})[key] = each

    # ------------------------------------------------------------------------------------------- events

    def fold_jobs(self, events: Sequence[PendingEvent]) -> None:
        """Find the one-time jobs of one name that fail together: each such name has one alert for each rule."""
        counts = Counter(subject for each in events if (subject := self._common(each)) is not None)
        self._folded = frozenset(
            subject for subject, count in counts.items() if count >= STORM_EVENTS or subject in self._standing
        )

    def _common(self, event: PendingEvent) -> str | None:
        """The subject that the event has in common with those of other one-time jobs of its name."""
        job = self._job(event)
        return common_subject(event, job) if job is not None else None

    def event(self, event: PendingEvent) -> None:
        if event.state is RunState.SUCCESS or event.event is NoticeEvent.RECOVERY:
            told = self._recover(event)
            if event.state is RunState.SUCCESS:
                self._succeed(event, told)
            return
        # A failed run that is a dead letter is one problem: one alert of a rule that asks for both.
        counted: set[UUID] = set()
        for name in asked_names(event):
            for rule in self._rules(event, name):
                if rule.rule_id not in counted and self._holds(rule, name, event):
                    counted.add(rule.rule_id)
                    self._count(rule, name, event)

    def _rules(self, event: PendingEvent, name: NoticeEvent) -> Sequence[NotificationRule]:
        if event.rule_id is not None:
            rule = self._in.rules.by_id.get(event.rule_id)
            return [rule] if rule is not None and rule.namespace == self._namespace and name in rule.on else []
        job = self._job(event)
        labels = {} if job is None else job.labels
        rules = self._in.rules.concerning(self._namespace, name, event.job_id, labels)
        if job is not None and job.notify and name in OF_NOTIFY:
            return [*rules, rule_of_job(self._namespace, job)]
        return rules

    def _job(self, event: PendingEvent) -> NoticeJob | None:
        job = None if event.job_id is None else self._in.jobs.get(event.job_id)
        return job if job is not None and job.namespace == self._namespace else None

    def _holds(self, rule: NotificationRule, name: NoticeEvent, event: PendingEvent) -> bool:
        """Check the thresholds of a rule."""
        if name is NoticeEvent.FAILURE and (rule.in_a_row is not None or rule.failures_of is not None):
            return self._is_over(rule, event)
        if name is NoticeEvent.FIRST_FAILURE:
            before = self._states(event)[1:2]
            return before != [RunState.FAILED]
        if name is NoticeEvent.RETRIES:
            return event.attempt >= (RETRIES_USUAL if rule.attempts is None else rule.attempts)
        return True

    def _is_over(self, rule: NotificationRule, event: PendingEvent) -> bool:
        """Check whether enough runs failed, up to the run of the event."""
        states = self._states(event)
        if rule.in_a_row is not None and states[: rule.in_a_row] == [RunState.FAILED] * rule.in_a_row:
            return True
        return rule.failures_of is not None and (
            states[: rule.failures_of.runs].count(RunState.FAILED) >= rule.failures_of.failures
        )

    def _states(self, event: PendingEvent) -> list[RunState]:
        """The ends of the job up to the run of the event, the newest first; of a run that ended too long ago, the
        newest ends."""
        known = None if event.job_id is None else self._in.ends.get(event.job_id)
        if known is None:
            return []
        # Each rule asks about the same event.
        asked, states = self._ended.get(known.job_id, (None, []))
        if asked != event.event_id:
            states = [end.state for end in known.ends if end.run_id <= event.event_id]
            states = states or [end.state for end in known.ends]
            self._ended[known.job_id] = event.event_id, states
        return states

    def _count(self, rule: NotificationRule, name: NoticeEvent, event: PendingEvent) -> None:
        """Count an event in the alert of a rule, and tell it if the alert opens."""
        key = self._key(rule, name, event)
        subject = key.subject
        draft = self._drafts.get(subject, {}).get(key)
        is_new = draft is None
        if draft is None:
            draft = self._draft(key, rule, event)
        is_first = is_new and (draft.seen is None or draft.seen.told_at is None)
        draft.events += 1
        draft.first_at = min(draft.first_at, event.at)
        sentence = sentence_of(name, event, threshold=self._threshold(rule, name, event))
        if event.at >= draft.last_at:
            draft.last_at, draft.sentence, draft.run_id = event.at, sentence, _run_of(event)
            draft.at_rest = False
            draft.subject_name = self._name(event)
        line = self._line(draft, name, event, sentence)
        # The newest event of an alert of many jobs says nothing of this job.
        before = draft.seen_until if subject == _subject(event) else None
        if draft.is_silent(self._in.now) or draft.is_acknowledged:
            return
        if is_new and draft.seen is not None and draft.seen.alert.state is AlertState.SNOOZED:
            draft.reopened, is_first = True, True
        tells, earliest = is_first or name in TOLD_EACH, self._in.now
        if tells:
            draft.told_at = self._in.now
        elif draft.seen is not None and subject != _subject(event):
            tells, earliest = True, self._told_again(draft, draft.seen)
        self._tell(rule, rule.channels, line, joins=not tells, before=before, earliest=earliest)

    def _told_again(self, draft: _AlertDraft, seen: StandingAlert) -> float:
        """The time of the next message about an alert of many one-time jobs, which counts what came since the last."""
        if draft.told_at is not None:
            return draft.told_at
        told_at = seen.alert.first_at if seen.told_at is None else seen.told_at
        if told_at <= self._in.now:
            before = draft.key._replace(subject=_hour_before(draft.key.subject))
            goes_on = before in self._standing.get(before.subject, {})
            draft.told_at = told_at = max(again_at(seen.alert.first_at, told_at, goes_on=goes_on), self._in.now)
        return told_at

    def _key(self, rule: NotificationRule, name: NoticeEvent, event: PendingEvent) -> AlertKey:
        """The alert in which an event is counted: that of its subject, or the common one of many one-time jobs."""
        own = AlertKey(self._namespace, _id_of(rule), name, _subject(event))
        common = self._common(event)
        if common not in self._folded or own in self._standing.get(own.subject, {}):
            return own
        return own._replace(subject=common or own.subject)

    def _threshold(self, rule: NotificationRule, name: NoticeEvent, event: PendingEvent) -> str | None:
        """The words for the thresholds that were passed: `3 runs in a row failed`."""
        if name is not NoticeEvent.FAILURE or (rule.in_a_row is None and rule.failures_of is None):
            return None
        states = self._states(event)
        row = next((place for place, state in enumerate(states) if state is not RunState.FAILED), len(states))
        if rule.in_a_row is not None and row >= rule.in_a_row > 1:
            return f"{row} runs in a row failed"
        if rule.failures_of is None:
            return None
        newest = states[: rule.failures_of.runs]
        return f"{newest.count(RunState.FAILED)} of the last {len(newest)} runs failed"

    def _draft(self, key: AlertKey, rule: NotificationRule, event: PendingEvent) -> _AlertDraft:
        seen = self._standing.get(key.subject, {}).get(key)
        if seen is None:
            at = event.at
            draft = _AlertDraft(key, self._in.new_id(), None, self._name(event), rule.severity, at, at)
        else:
            draft = self._draft_of(key, seen)
        self._drafts.setdefault(key.subject, {})[key] = draft
        return draft

    def _draft_of(self, key: AlertKey, seen: StandingAlert) -> _AlertDraft:
        alert = seen.alert
        draft = _AlertDraft(
            key, alert.alert_id, seen, alert.subject_name, alert.severity, alert.first_at, alert.last_at
        )  # fmt: skip
        draft.sentence, draft.run_id = alert.sentence, alert.run_id
        return draft

    # ------------------------------------------------------------------------------------------- recoveries

    def _recover(self, event: PendingEvent) -> set[UUID]:
        """Close the alerts of a subject that are over, and tell it; the rules that told it."""
        subject, of_run = _subject(event), event.event is None
        standing = self._standing.get(subject, {})
        drafts = self._drafts.get(subject, {})
        told: dict[UUID, NotificationRule] = {}
        is_over = False
        for key in dict.fromkeys([*standing, *drafts]):
            draft = drafts.get(key)
            if draft is None:
                draft = self._draft_of(key, standing[key])
            rule = self._rule(key, event)
            if not self._ends(key, draft, rule, event, of_run=of_run):
                if of_run and self._is_own_end(key, draft, event):
                    self._rest(key, draft)
                continue
            drafts.pop(key, None)
            standing.pop(key, None)
            draft.closed = True
            self._closed.append(draft)
            if draft.is_silent(self._in.now) or (of_run and key.event not in RECOVERS):
                continue
            is_over = True
            if rule is not None and NoticeEvent.RECOVERY in rule.on and rule.rule_id not in told:
                told[rule.rule_id] = rule
                self._tell(rule, rule.channels, self._recovery(event, draft), before=draft.seen_until)
        return set(told) | self._tell_others(event, told) if is_over else set()

    def _succeed(self, event: PendingEvent, told: Collection[UUID]) -> None:
        """Tell a success, by the rules that did not tell the recovery that it is."""
        for rule in self._rules(event, NoticeEvent.SUCCESS):
            if rule.rule_id not in told:
                sentence = sentence_of(NoticeEvent.SUCCESS, event)
                self._tell(rule, rule.channels, self._line(None, NoticeEvent.SUCCESS, event, sentence))

    def _ends(
        self, key: AlertKey, draft: _AlertDraft, rule: NotificationRule | None, event: PendingEvent, *, of_run: bool
    ) -> bool:
        """Check whether an alert is closed by this event."""
        if event.at < draft.last_at or (event.rule_id is not None and event.rule_id != key.rule_id):
            return False
        if not of_run:
            return True
        if key.event not in PASSES or self._is_own_end(key, draft, event):
            return False
        windowed = rule is not None and key.event is NoticeEvent.FAILURE and rule.failures_of is not None
        return not (windowed and rule is not None and self._is_over(rule, event))

    def _is_own_end(self, key: AlertKey, draft: _AlertDraft, event: PendingEvent) -> bool:
        """Check whether the run that succeeded is the one that the alert is about, or an older one. That it went well
        at last does not say that the job is on time again: a job that is late each time has one alert."""
        if key.event not in OF_ONE_RUN or draft.run_id is None or event.event_id > draft.run_id:
            return False
        job = self._job(event)
        return job is not None and not job.is_once

    def _rest(self, key: AlertKey, draft: _AlertDraft) -> None:
        """Its run ended well: say so, and tell the alert neither again nor to others until another run is like it."""
        draft.at_rest, said = True, rested(draft.sentence)
        if draft.seen is not None and draft.seen.next_at is None and (said, 0) == (draft.sentence, draft.events):
            return  # an older run
        draft.sentence = said
        self._drafts.setdefault(key.subject, {})[key] = draft

    def _tell_others(self, event: PendingEvent, told: Collection[UUID]) -> set[UUID]:
        """Tell rules that ask for recoveries and for no failures; which they are."""
        others = [
            rule
            for rule in self._rules(event, NoticeEvent.RECOVERY)
            if rule.rule_id not in told and not rule.on & RECOVERS
        ]
        for rule in others:
            self._tell(rule, rule.channels, self._recovery(event, None))
        return {rule.rule_id for rule in others}

    def _recovery(self, event: PendingEvent, draft: _AlertDraft | None) -> NoticeLine:
        sentence = sentence_of(NoticeEvent.RECOVERY, event)
        if draft is not None and event.event is None:
            counted = draft.events + (0 if draft.seen is None else draft.seen.alert.events)
            sentence = recovered(sentence, draft.key.event, counted, event.at - draft.first_at)
        return self._line(draft, NoticeEvent.RECOVERY, event, sentence)

    def _rule(self, key: AlertKey, event: PendingEvent | None) -> NotificationRule | None:
        if key.rule_id is not None:
            return self._in.rules.by_id.get(key.rule_id)
        job = None if event is None else self._job(event)
        return None if job is None else rule_of_job(self._namespace, job)

    # ------------------------------------------------------------------------------------------- alerts that are due

    def due(self, standing: StandingAlert) -> None:
        """Tell an alert again, or to others, or open it after its snooze."""
        alert, now = standing.alert, self._in.now
        key = AlertKey(self._namespace, alert.rule_id, alert.event, alert.subject)
        draft = self._drafts.setdefault(key.subject, {})[key] = self._draft_of(key, standing)
        rule = self._rule(key, None)
        if alert.state is AlertState.SNOOZED:
            if is_snoozed(standing, now):
                return
            draft.reopened = True
        if rule is None:
            return
        line = NoticeLine(
            now, alert.event, alert.severity, alert.subject, alert.subject_name, alert.run_id,
            still_open(alert.sentence, alert.events, alert.first_at), alert.alert_id, {}, True,
        )  # fmt: skip
        told_at = alert.first_at if standing.told_at is None else standing.told_at
        missed = draft.reopened and alert.last_at > told_at
        if missed or (rule.repeat_seconds is not None and told_at + rule.repeat_seconds <= now):
            draft.told_at = now
            self._tell(rule, rule.channels, line, before=alert.last_at)
        escalation = rule.escalation
        is_new = escalation is not None and standing.escalated_at is None
        if escalation is not None and is_new and alert.first_at + escalation.after_seconds <= now:
            draft.escalated_at = now
            self._tell(rule, escalation.channels, line, is_escalation=True)

    # ------------------------------------------------------------------------------------------- notices

    def _tell(
        self,
        rule: NotificationRule,
        channels: Sequence[UUID],
        line: NoticeLine,
        *,
        joins: bool = False,
        is_escalation: bool = False,
        before: float | None = None,
        earliest: float = -inf,
    ) -> None:
        """`before`: the time of the newest event of its alert before this page, which was told already. `earliest`: the
        line by itself is no reason for a message before."""
        for channel_id in channels:
            target = (_id_of(rule), channel_id, is_escalation)
            draft = self._notices.get(target)
            if draft is None:
                draft = self._notices[target] = _NoticeDraft(rule)
            draft.lines.append(line)
            del draft.lines[:-MAX_LINES]
            draft.events += 1
            draft.subjects.setdefault(line.subject, before)
            draft.told = draft.told or not joins
            if not joins:
                draft.earliest = min(draft.earliest, earliest)
            draft.urgent = draft.urgent or (line.event in ALWAYS_AT_ONCE and not joins)

    def _due(self, target: NoticeTarget, draft: _NoticeDraft) -> tuple[float, bool]:
        """The time at which a new notice is sent, and whether it is of a storm."""
        now, rule = self._in.now, draft.rule
        is_storm = draft.events >= STORM_EVENTS or (self._in.more and draft.events > 1)
        ebb = now + STORM_EBB_SECONDS if is_storm else now
        if target[2]:
            return ebb, is_storm
        burst = self._in.bursts.get(target[:2])
        due = now
        if burst is not None and (burst.storms or burst.newest_at + STORM_EBB_SECONDS > now):
            due = ebb  # the first message of a storm goes at once, with those that failed by then
        if draft.urgent:
            return due, is_storm
        if burst is not None and is_storm and burst.storms >= STORM_AT_ONCE:
            due = max(due, burst.newest_at + rule.group_seconds)
        elif burst is not None and not is_storm:
            due = max(due, burst.newest_at + _pause(burst.events, rule))
        if draft.told:
            due = max(due, draft.earliest)
        if rule.severity is not Severity.CRITICAL:
            try:
                quiet = quiet_until(rule.quiet, due)
            except Invalid:
                quiet = None  # this machine does not know the zone: it is told rather than not
            if quiet is not None:
                return quiet, False
        return due, is_storm

    def _line(self, draft: _AlertDraft | None, name: NoticeEvent, event: PendingEvent, sentence: str) -> NoticeLine:
        job = self._job(event)
        severity = Severity.INFO if draft is None or name is NoticeEvent.RECOVERY else draft.severity
        return NoticeLine(
            event.at, name, severity, _subject(event), self._name(event), _run_of(event), sentence,
            None if draft is None else draft.alert_id, {} if job is None else dict(job.labels),
        )  # fmt: skip

    def _name(self, event: PendingEvent) -> str:
        job = self._job(event)
        return event.subject_name or (_subject(event) if job is None else job.name)

    # ------------------------------------------------------------------------------------------- the outcome

    def fold(self, judged: Sequence[tuple[UUID, int]]) -> Fold:
        """All changes, alerts that close before those that open."""
        drafts = [*self._closed, *(draft for some in self._drafts.values() for draft in some.values())]
        return Fold(
            self._namespace,
            judged,
            [self._alert_change(each) for each in drafts],
            [self._notice_change(target, each) for target, each in self._notices.items()],
        )

    def _alert_change(self, draft: _AlertDraft) -> AlertChange:
        seen = draft.seen
        told_at = draft.told_at if seen is None or draft.told_at is not None else seen.told_at
        next_at = None
        if not draft.closed and not draft.is_acknowledged and not draft.at_rest:
            if seen is not None and draft.is_silent(self._in.now):
                next_at = seen.alert.snoozed_until
            else:
                next_at = next_look(
                    self._rule(draft.key, None),
                    first_at=draft.first_at,
                    told_at=draft.first_at if told_at is None else told_at,
                    escalated=draft.escalated_at is not None or (seen is not None and seen.escalated_at is not None),
                )
        return AlertChange(
            key=draft.key,
            alert_id=draft.alert_id,
            seen=None if seen is None else seen.version,
            subject_name=draft.subject_name,
            severity=draft.severity,
            events=draft.events,
            first_at=draft.first_at,
            last_at=draft.last_at,
            sentence=draft.sentence,
            run_id=draft.run_id,
            close=draft.closed,
            reopen=draft.reopened,
            told_at=draft.told_at,
            escalated_at=draft.escalated_at,
            next_at=next_at,
        )

    def _notice_change(self, target: NoticeTarget, draft: _NoticeDraft) -> NoticeChange:
        due, is_storm = self._due(target, draft)
        rule_id, channel_id, is_escalation = target
        at = [line.at for line in draft.lines]
        return NoticeChange(
            notice_id=self._in.new_id(),
            namespace=self._namespace,
            channel_id=channel_id,
            rule_id=rule_id,
            rule_name=draft.rule.name,
            severity=max((line.severity for line in draft.lines), key=list(Severity).index),
            events=draft.events,
            first_at=min(at),
            last_at=max(at),
            lines=draft.lines,
            due=due,
            is_escalation=is_escalation,
            joins=not draft.told,
            gathers=is_storm,
            subjects=len(draft.subjects),
            before=[at for at in draft.subjects.values() if at is not None],
        )


def is_snoozed(standing: StandingAlert, now: float) -> bool:
    """Check whether nothing is told of an alert for now."""
    alert = standing.alert
    return alert.state is AlertState.SNOOZED and (alert.snoozed_until is None or alert.snoozed_until > now)


def asked_names(event: PendingEvent) -> tuple[NoticeEvent, ...]:
    """The names under which rules are asked about an event that opens alerts; none for a recovery."""
    if event.event is not None:
        return (event.event,) if event.event in OPENS else ()
    if event.state is RunState.SKIPPED:
        if event.reason not in UNCHOSEN:
            return ()
        return (NoticeEvent.FUSE if event.reason == SkipReason.FUSE else NoticeEvent.DID_NOT_RUN,)
    return () if event.state is None else _OF_STATE.get(event.state, ())


def common_subject(event: PendingEvent, job: NoticeJob) -> str | None:
    """The subject under which failures of many one-time jobs of one name within one hour are one alert. None: the event
    is none of a one-time job that failed."""
    if not job.is_once or event.state is not RunState.FAILED:
        return None
    return f"once/{job.name}/{int(event.at // FOLD_SECONDS)}"


def subject_before(event: PendingEvent, job: NoticeJob) -> str | None:
    """The subject of `common_subject` one hour before."""
    common = common_subject(event, job)
    return None if common is None else _hour_before(common)


def _hour_before(common: str) -> str:
    begin, _, hour = common.rpartition("/")
    return f"{begin}/{int(hour) - 1}"


def again_at(first_at: float, told_at: float, *, goes_on: bool) -> float:
    """The time at which an alert of many one-time jobs is told again. `goes_on`: that of the hour before stands too."""
    pause = max(AGAIN_FACTOR * (told_at - first_at), STORM_SECONDS)
    return told_at + (FOLD_SECONDS if goes_on else min(pause, FOLD_SECONDS))


def _subject(event: PendingEvent) -> str:
    return event.subject or str(event.job_id or event.event_id)


def _run_of(event: PendingEvent) -> UUID | None:
    return event.event_id if event.event is None else event.run_id


def _id_of(rule: NotificationRule) -> UUID | None:
    return None if rule.rule_id == _OF_JOB else rule.rule_id
