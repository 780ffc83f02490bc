"""Events and alerts: an event goes with the change of the alerts and notices that it led to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from tickwise.adapters.store.memory.records import AlertRecord, NoticeRecord
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.documents.notify import channel_names
from tickwise.domain.audit import AuditEntry
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
    RunEnd,
    StandingAlert,
)
from tickwise.domain.notices.folding import WaitingNotice, counted_since, joined
from tickwise.domain.notices.judging import STORM_EVENTS
from tickwise.domain.notices.rules import Alert, AlertState, Notice, NoticeState
from tickwise.ports.store.notices import (
    ALERTS_KEPT_SECONDS,
    MAX_BURST,
    MAX_DECIDED,
    MAX_ERROR,
    NOTED_SECONDS,
    AlertQuery,
    NewAlertDecision,
    NotedEvent,
    PendingEvents,
    StandingAlertsQuery,
    alert_stands,
)


class Alerts(Duty):
    """`AlertStore` of the port."""

    async def note(self, noted: Sequence[NotedEvent]) -> int:
        state, count = self._state, 0
        for each in noted:
            once = (each.namespace, each.once)
            if each.namespace not in state.notices_watched or once in state.noted_once:
                continue
            state.noted_once[once] = state.now()
            event_id = UUID(bytes=state.clock.random_bytes(16), version=4)
            state.notice_events[event_id, 0] = PendingEvent(
                each.namespace, event_id, 0, each.job_id, None, 0, state.now(), None, each.sentence[:MAX_ERROR],
                each.event, each.subject, each.subject_name, each.run_id, each.rule_id,
            )  # fmt: skip
            count += 1
        return count

    async def events(self, limit: int) -> PendingEvents:
        waiting = sorted(self._state.notice_events.values(), key=lambda each: (each.at, each.event_id, each.token))
        events = waiting[:limit]
        jobs = {each.job_id for each in events if each.job_id in self._state.jobs}
        return PendingEvents(
            events, {job_id: self._job(job_id) for job_id in jobs if job_id is not None}, more=len(waiting) > limit
        )

    def _job(self, job_id: UUID) -> NoticeJob:
        job = self._state.jobs[job_id]
        names = channel_names(job.definition)
        channels = {
            each.name: each.channel_id for each in self._state.channels.values() if each.namespace == job.namespace
        }
        found = [channels[name] for name in names if name in channels]
        is_once = job.schedule_type in ("IMMEDIATE", "FUTURE")
        return NoticeJob(job.namespace, job_id, job.name, dict(job.labels), found, is_once)

    async def ends(self, job_ids: Collection[UUID], most: int) -> Sequence[JobEnds]:
        found = []
        for job_id in job_ids:
            job = self._state.jobs.get(job_id)
            rows = () if job is None else (ended.row for ended in self._state.ended.newest(job_id))
            ends = (RunEnd(row.run_id, row.state) for row in rows if row.state in (RunState.SUCCESS, RunState.FAILED))
            if newest := list(islice(ends, most)):
                found.append(JobEnds(job_id, newest))
        return found

    async def standing(self, namespace: str, subjects: Collection[str]) -> Sequence[StandingAlert]:
        return [
            _standing(record)
            for record in self._state.alerts.values()
            if record.alert.namespace == namespace
            and record.alert.subject in subjects
            and record.alert.state is not AlertState.CLOSED
        ]

    async def bursts(self, pairs: Mapping[tuple[UUID | None, UUID], float]) -> Mapping[tuple[UUID | None, UUID], Burst]:
        now, found = self._state.now(), {}
        for pair, seconds in pairs.items():
            made = sorted(
                (record.made_at, record.notice.due, record.notice.events)
                for record in self._state.notices.values()
                if (record.notice.rule_id, record.notice.channel_id) == pair
                and record.made_at > now - 2 * seconds
                and record.notice.due > now - seconds
                and not (record.notice.is_test or record.notice.is_escalation or _collects(record))
            )[-MAX_BURST:]
            if made:
                events = [each for *_, each in made]
                storms = sum(each >= STORM_EVENTS for each in events)
                found[pair] = Burst(len(made), max(due for _, due, _ in made), sum(events), storms)
        return found

    async def fold(self, fold: Fold) -> bool:
        state = self._state
        if any(event not in state.notice_events for event in fold.judged) or not _is_as_seen(state, fold):
            return False
        for event in fold.judged:
            del state.notice_events[event]
        if state.is_closed(fold.namespace, or_closing=False):
            return True
        rules = {
            None,
            *(
                rule.rule_id
                for rule in state.notification_rules.values()
                if rule.enabled and rule.namespace == fold.namespace
            ),
        }
        for change in fold.alerts:
            if change.seen is not None:
                _count(state, change)
            elif change.key.rule_id in rules:
                _open(state, change)
        for each in fold.notices:
            channel = state.channels.get(each.channel_id)
            if each.rule_id in rules and channel is not None and channel.namespace == fold.namespace:
                _collect(state, each)
        return True

    async def due(self, limit: int) -> Sequence[StandingAlert]:
        now = self._state.now()
        found = [
            _standing(record)
            for record in self._state.alerts.values()
            if record.alert.state in (AlertState.OPEN, AlertState.SNOOZED)
            and record.next_at is not None
            and record.next_at <= now
        ]
        return sorted(found, key=lambda each: each.next_at or 0.0)[:limit]

    async def find(self, query: AlertQuery) -> Sequence[Alert]:
        found = [
            alert
            for alert in (record.alert for record in self._state.alerts.values())
            if alert.namespace == query.namespace
            and (not query.states or alert.state in query.states)
            and query.rule_id in (None, alert.rule_id)
            and query.subject in (None, alert.subject)
            and query.alert_id in (None, alert.alert_id)
            and (query.before is None or (alert.last_at, alert.alert_id) < query.before)
        ]
        return sorted(found, key=lambda each: (each.last_at, each.alert_id), reverse=True)[: query.limit]

    async def decide(
        self, namespace: str, alert_id: UUID, decision: NewAlertDecision, *, audit: AuditEntry | None = None
    ) -> Alert | None:
        state = self._state
        state.check_open(namespace, or_closing=False)
        record = state.alerts.get(alert_id)
        if record is None or record.alert.namespace != namespace:
            return None
        alert, now = record.alert, state.now()
        if alert.state is AlertState.CLOSED and decision.state is not AlertState.OPEN:
            return alert
        if (other := state.alert_of(_key(alert))) is not None and other is not record:
            raise alert_stands(alert)
        by, at = alert.acknowledged_by, alert.acknowledged_at
        if decision.state is AlertState.ACKNOWLEDGED:
            by, at = decision.by, now
        elif decision.state is AlertState.OPEN:
            by, at = None, None
        until = decision.until if decision.state is AlertState.SNOOZED else None
        record.alert = replace(
            alert,
            state=decision.state,
            note=alert.note if decision.note is None else decision.note,
            acknowledged_by=by,
            acknowledged_at=at,
            snoozed_until=until,
            closed_at=now if decision.state is AlertState.CLOSED else None,
        )
        record.next_at = now if decision.state is AlertState.OPEN else until
        record.version += 1
        state.audit.write(audit)
        return record.alert

    async def decide_all(
        self, query: StandingAlertsQuery, decision: NewAlertDecision | None, *, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        if decision is None:
            return [each.alert.alert_id for each in self._matching(query)[: MAX_DECIDED + 1]]
        state = self._state
        state.check_open(query.namespace, or_closing=False)
        found = [each.alert.alert_id for each in self._matching(query) if each.alert.state is not decision.state]
        for alert_id in found[:MAX_DECIDED]:
            await self.decide(query.namespace, alert_id, decision)
        if found and audit is not None:
            state.audit.write(audit._replace(targets=found[:MAX_DECIDED]))
        return found[:MAX_DECIDED]

    def _matching(self, query: StandingAlertsQuery) -> list[AlertRecord]:
        found = [
            record
            for record in self._state.alerts.values()
            if (alert := record.alert).namespace == query.namespace
            and alert.state is not AlertState.CLOSED
            and (not query.states or alert.state in query.states)
            and query.rule_id in (None, alert.rule_id)
            and query.subject in (None, alert.subject)
            and query.event in (None, alert.event)
            and (query.until is None or alert.last_at <= query.until)
        ]
        return sorted(found, key=lambda each: (each.alert.last_at, each.alert.alert_id))


def forget(state: State) -> None:
    """Drop closed alerts and ended notices that are old, and what was noted once long ago."""
    now = state.now()
    since = now - ALERTS_KEPT_SECONDS
    for alert_id, alert in [*state.alerts.items()]:
        if alert.alert.closed_at is not None and alert.alert.closed_at < since:
            del state.alerts[alert_id]
    for notice_id, notice in [*state.notices.items()]:
        if notice.notice.ended_at is not None and notice.notice.ended_at < since:
            del state.notices[notice_id]
    for once in [each for each, at in state.noted_once.items() if at < now - NOTED_SECONDS]:
        del state.noted_once[once]


def _is_as_seen(state: State, fold: Fold) -> bool:
    closing = {change.alert_id for change in fold.alerts if change.close}
    for change in fold.alerts:
        if change.seen is not None:
            record = state.alerts.get(change.alert_id)
            if record is None or record.version != change.seen or record.alert.state is AlertState.CLOSED:
                return False
        elif not change.close:
            other = state.alert_of(change.key)
            if other is not None and other.alert.alert_id not in closing:
                return False
    return True


def _count(state: State, change: AlertChange) -> None:
    record, now = state.alerts[change.alert_id], state.now()
    alert = replace(
        record.alert,
        subject_name=change.subject_name,
        events=record.alert.events + change.events,
        first_at=min(record.alert.first_at, change.first_at),
        last_at=max(record.alert.last_at, change.last_at),
        sentence=change.sentence,
        run_id=change.run_id,
    )
    if change.reopen:
        alert = replace(alert, state=AlertState.OPEN, snoozed_until=None)
    if change.close:
        alert = replace(alert, state=AlertState.CLOSED, closed_at=now)
    record.alert = alert
    record.told_at = record.told_at if change.told_at is None else change.told_at
    record.escalated_at = record.escalated_at if change.escalated_at is None else change.escalated_at
    record.next_at = change.next_at
    record.version += 1


def _open(state: State, change: AlertChange) -> None:
    alert = Alert(
        alert_id=change.alert_id,
        namespace=change.key.namespace,
        rule_id=change.key.rule_id,
        event=change.key.event,
        subject=change.key.subject,
        subject_name=change.subject_name,
        severity=change.severity,
        state=AlertState.CLOSED if change.close else AlertState.OPEN,
        events=change.events,
        first_at=change.first_at,
        last_at=change.last_at,
        sentence=change.sentence,
        run_id=change.run_id,
        closed_at=state.now() if change.close else None,
    )
    state.alerts[change.alert_id] = AlertRecord(
        alert=alert, told_at=change.told_at, escalated_at=change.escalated_at, next_at=change.next_at
    )


def _collect(state: State, change: NoticeChange) -> None:
    """Put lines into the notice that waits, or make one."""
    under_way: Notice | None = None
    for record in state.notices.values():
        notice = record.notice
        mine = (notice.channel_id, notice.rule_id, notice.is_escalation)
        is_mine = mine == (change.channel_id, change.rule_id, change.is_escalation)
        if notice.state is not NoticeState.WAITING or notice.is_test or not is_mine:
            continue
        if record.sender is not None:
            under_way = notice
        else:
            after = joined(_waiting(state, record), change)
            record.notice = replace(
                notice,
                severity=after.severity,
                events=after.events,
                first_at=after.first_at,
                last_at=after.last_at,
                due=after.due,
                lines=tuple(after.lines),
                subjects=after.subjects,
                repeated=after.repeated,
                served=(),
            )
            return
    if change.joins:
        return
    notice = Notice(
        notice_id=change.notice_id,
        namespace=change.namespace,
        channel_id=change.channel_id,
        rule_id=change.rule_id,
        rule_name=change.rule_name,
        severity=change.severity,
        state=NoticeState.WAITING,
        events=change.events,
        first_at=change.first_at,
        last_at=change.last_at,
        lines=tuple(change.lines),
        due=change.due,
        is_escalation=change.is_escalation,
        subjects=change.subjects,
        beside=None if under_way is None else under_way.notice_id,
        repeated=0 if under_way is None else counted_since(change, under_way.first_at),
    )
    state.notices[change.notice_id] = NoticeRecord(notice=notice, made_at=state.now())


def _collects(record: NoticeRecord) -> bool:
    """Check whether lines join it: it waits, and no sender has it."""
    return record.notice.state is NoticeState.WAITING and record.sender is None


def _waiting(state: State, record: NoticeRecord) -> WaitingNotice:
    notice = record.notice
    beside = None if notice.beside is None else state.notices.get(notice.beside)
    return WaitingNotice(
        notice.severity,
        notice.events,
        notice.first_at,
        notice.last_at,
        notice.due,
        record.made_at,
        notice.lines,
        notice.tries,
        notice.subjects,
        notice.repeated,
        None if beside is None else beside.notice.first_at,
    )


def _standing(record: AlertRecord) -> StandingAlert:
    return StandingAlert(record.alert, record.version, record.told_at, record.escalated_at, record.next_at)


def _key(alert: Alert) -> AlertKey:
    return AlertKey(alert.namespace, alert.rule_id, alert.event, alert.subject)
