"""Events and alerts: an event goes in the transaction that changes the alerts and notices which it led to.

Invariants: a fold applies wholly, or not at all because another scheduler was first. A rule and a channel that a fold
uses stay until it is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.openness import check_open, closed_among
from tickwise.adapters.store.postgres.records.audit import write_audit
from tickwise.adapters.store.postgres.statements import statement
from tickwise.documents.notices import lines_document, lines_of
from tickwise.documents.notify import channel_names
from tickwise.domain.audit import AuditEntry
from tickwise.domain.lifecycle import STATES
from tickwise.domain.notices.changes import (
    AlertChange,
    Burst,
    Fold,
    JobEnds,
    NoticeChange,
    NoticeJob,
    PendingEvent,
    RunEnd,
    StandingAlert,
)
from tickwise.domain.notices.folding import WaitingNotice, joined
from tickwise.domain.notices.judging import STORM_EVENTS
from tickwise.domain.notices.rules import Alert, AlertState, NoticeEvent, Severity
from tickwise.ports.store.notices import (
    MAX_BURST,
    MAX_DECIDED,
    MAX_ERROR,
    AlertQuery,
    NewAlertDecision,
    NotedEvent,
    PendingEvents,
    StandingAlertsQuery,
    alert_stands,
)

DEFINITION_BYTES: Final = 1_048_576

_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


class _Stale(Exception):
    """An event or an alert is not as it was when it was judged."""


class Alerts(Part):
    """`AlertStore` of the port."""

    async def note(self, noted: Sequence[NotedEvent]) -> int:
        """See the port."""
        fresh = list({(each.namespace, each.once): each for each in noted}.values())
        if not fresh:
            return 0
        columns = zip(*map(_noted_columns, fresh), strict=True)
        async with self._links.pooled(writes=True) as connection:
            count: int = await connection.fetchval(statement("notices_note"), *map(list, columns))
        return count

    async def events(self, limit: int) -> PendingEvents:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("notices_events_pending"), limit + 1)
            events = [_event(row) for row in rows[:limit]]
            job_ids = {each.job_id for each in events if each.job_id is not None}
            jobs = await _jobs(connection, job_ids) if job_ids else {}
        return PendingEvents(events, jobs, more=len(rows) > limit)

    async def ends(self, job_ids: Collection[UUID], most: int) -> Sequence[JobEnds]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("notices_ends"), list(job_ids), most)
        found: dict[UUID, list[RunEnd]] = {}
        for row in rows:
            found.setdefault(row["job_id"], []).append(RunEnd(row["run_id"], STATES[row["state"]]))
        return [JobEnds(job_id, ends) for job_id, ends in found.items()]

    async def standing(self, namespace: str, subjects: Collection[str]) -> Sequence[StandingAlert]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("alerts_standing"), namespace, list(subjects))
        return [_standing(row) for row in rows]

    async def bursts(self, pairs: Mapping[tuple[UUID | None, UUID], float]) -> Mapping[tuple[UUID | None, UUID], Burst]:
        """See the port."""
        asked = [rule_id for rule_id, _ in pairs], [channel_id for _, channel_id in pairs], [*pairs.values()]
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("notices_bursts"), *asked, MAX_BURST, STORM_EVENTS)
        return {
            (row["rule_id"], row["channel_id"]): Burst(row["made"], row["newest_at"], row["events"], row["storms"])
            for row in rows
        }

    async def fold(self, fold: Fold) -> bool:
        """See the port."""
        try:
            async with self._links.pooled(writes=True) as connection, connection.transaction():
                await _fold(connection, fold)
        except _Stale:
            return False
        return True

    async def due(self, limit: int) -> Sequence[StandingAlert]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            return [_standing(row) for row in await connection.fetch(statement("alerts_due"), limit)]

    async def find(self, query: AlertQuery) -> Sequence[Alert]:
        """See the port."""
        beyond = (None, None) if query.before is None else query.before
        states = [state.value for state in query.states] or None
        asked = (query.namespace, states, query.rule_id, query.subject, query.alert_id, *beyond, query.limit)
        is_open = bool(query.states) and AlertState.CLOSED not in query.states
        name = "alerts_find_standing" if is_open else "alerts_find"
        async with self._links.pooled(writes=False) as connection:
            return [_alert(row) for row in await connection.fetch(statement(name), *asked)]

    async def decide(
        self, namespace: str, alert_id: UUID, decision: NewAlertDecision, *, audit: AuditEntry | None = None
    ) -> Alert | None:
        """See the port."""
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, namespace, or_closing=False)
            row = await connection.fetchrow(statement("alert_get"), namespace, alert_id)
            if row is None:
                return None
            alert = _alert(row)
            if alert.state is AlertState.CLOSED and decision.state is not AlertState.OPEN:
                return alert
            if await connection.fetchval(statement("alerts_other"), alert_id):
                raise alert_stands(alert)
            kept = decision.state.value, decision.by, decision.note, decision.until
            await connection.execute(statement("alert_decide"), alert_id, *kept)
            await write_audit(connection, audit)
            return _alert(await connection.fetchrow(statement("alert_get"), namespace, alert_id))

    async def decide_all(
        self, query: StandingAlertsQuery, decision: NewAlertDecision | None, *, audit: AuditEntry | None = None
    ) -> Sequence[UUID]:
        """See the port."""
        if decision is None:
            async with self._links.pooled(writes=False) as connection:
                rows = await connection.fetch(statement("alerts_matching"), *_asked(query), MAX_DECIDED + 1)
            return [row["alert_id"] for row in rows]
        kept = decision.state.value, decision.by, decision.note
        async with self._links.pooled(writes=True) as connection, connection.transaction():
            await check_open(connection, query.namespace, or_closing=False)
            rows = await connection.fetch(statement("alerts_decide_all"), *_asked(query), MAX_DECIDED, *kept)
            found = [row["alert_id"] for row in rows]
            if found and audit is not None:
                await write_audit(connection, audit._replace(targets=found))
        return found


def _asked(query: StandingAlertsQuery) -> tuple[Any, ...]:
    states = [state.value for state in query.states] or None
    return query.namespace, states, query.rule_id, query.subject, query.event, query.until


async def _fold(connection: asyncpg.Connection, fold: Fold) -> None:
    judged = [event_id for event_id, _ in fold.judged], [token for _, token in fold.judged]
    if fold.judged and await connection.fetchval(statement("notices_events_take"), *judged) < len(fold.judged):
        raise _Stale
    if not (fold.alerts or fold.notices) or await closed_among(connection, {fold.namespace}, or_closing=False):
        return
    wanted = {each.key.rule_id for each in fold.alerts} | {each.rule_id for each in fold.notices}
    asked = statement("notices_rules_there"), fold.namespace, [each for each in wanted if each is not None]
    rules = {None, *(row["rule_id"] for row in await connection.fetch(*asked))}
    await _change_alerts(connection, [each for each in fold.alerts if each.seen is not None])
    await _open_alerts(
        connection, fold.namespace, [each for each in fold.alerts if each.seen is None and each.key.rule_id in rules]
    )
    channels = {each.channel_id for each in fold.notices}
    asked = statement("notification_rule_channels"), fold.namespace, list(channels)
    there = {row["channel_id"] for row in await connection.fetch(*asked)}
    await _collect(
        connection,
        fold.namespace,
        [each for each in fold.notices if each.rule_id in rules and each.channel_id in there],
    )


async def _change_alerts(connection: asyncpg.Connection, changes: Sequence[AlertChange]) -> None:
    if not changes:
        return
    columns = zip(
        *(
            (
                each.alert_id, each.seen, each.subject_name, each.events, each.first_at, each.last_at, each.sentence,
                each.run_id, each.close, each.reopen, each.told_at, each.escalated_at, each.next_at,
            )
            for each in changes
        ),
        strict=True,
    )  # fmt: skip
    if await connection.fetchval(statement("alerts_count"), *map(list, columns)) < len(changes):
        raise _Stale


async def _open_alerts(connection: asyncpg.Connection, namespace: str, changes: Sequence[AlertChange]) -> None:
    for some in ([each for each in changes if each.close], [each for each in changes if not each.close]):
        if not some:
            continue
        columns = zip(
            *(
                (
                    each.alert_id, each.key.rule_id, each.key.event, each.key.subject, each.subject_name,
                    each.severity, each.events, each.first_at, each.last_at, each.sentence, each.run_id, each.close,
                    each.told_at, each.escalated_at, each.next_at,
                )
                for each in some
            ),
            strict=True,
        )  # fmt: skip
        if await connection.fetchval(statement("alerts_open"), namespace, *map(list, columns)) < len(some):
            raise _Stale


async def _collect(connection: asyncpg.Connection, namespace: str, changes: Sequence[NoticeChange]) -> None:
    """Put lines into the notices that wait, and make the others."""
    if not changes:
        return
    pairs = [each.channel_id for each in changes], [each.rule_id for each in changes]
    waiting = {
        (row["channel_id"], row["rule_id"], row["is_escalation"]): row
        for row in await connection.fetch(statement("notices_waiting"), *pairs)
    }
    joins, new = [], []
    for each in changes:
        row = waiting.get((each.channel_id, each.rule_id, each.is_escalation))
        if row is not None:
            joins.append((row["notice_id"], *_columns(joined(_waiting(row), each))))
        elif not each.joins:
            made = WaitingNotice(
                each.severity, each.events, each.first_at, each.last_at, each.due, each.due, each.lines,
                subjects=each.subjects,
            )  # fmt: skip
            severity, *numbers, lines = _columns(made)
            new.append(
                (each.notice_id, each.channel_id, each.rule_id, each.rule_name, severity, *numbers, lines,
                 each.is_escalation)
            )  # fmt: skip
    if joins:
        await connection.execute(statement("notices_join"), *map(list, zip(*joins, strict=True)))
    if new:
        columns = map(list, zip(*new, strict=True))
        if await connection.fetchval(statement("notices_make"), namespace, *columns) < len(new):
            raise _Stale


def _waiting(row: Mapping[str, Any]) -> WaitingNotice:
    return WaitingNotice(
        Severity(row["severity"]), row["events"], row["first_at"], row["last_at"], row["due"], row["made_at"],
        lines_of(row["lines"]), row["tries"], row["subjects"],
    )  # fmt: skip


def _columns(notice: WaitingNotice) -> tuple[Any, ...]:
    lines = lines_document(notice.lines)
    return (notice.severity, notice.events, notice.first_at, notice.last_at, notice.due, notice.subjects, lines)


async def _jobs(connection: asyncpg.Connection, job_ids: Collection[UUID]) -> dict[UUID, NoticeJob]:
    rows = await connection.fetch(statement("notices_jobs"), list(job_ids), DEFINITION_BYTES)
    names = {row["job_id"]: channel_names(row["definition"]) for row in rows}
    channels: dict[tuple[str, str], UUID] = {}
    if wanted := {name for some in names.values() for name in some}:
        asked = list({row["namespace"] for row in rows}), list(wanted)
        found = await connection.fetch(statement("notices_channels"), *asked)
        channels = {(row["namespace"], row["name"]): row["channel_id"] for row in found}
    return {
        row["job_id"]: NoticeJob(
            row["namespace"],
            row["job_id"],
            row["name"],
            {} if row["labels"] is None else _labels(row["labels"]),
            [channels[row["namespace"], name] for name in names[row["job_id"]] if (row["namespace"], name) in channels],
            row["is_once"],
        )
        for row in rows
    }


def _noted_columns(noted: NotedEvent) -> tuple[Any, ...]:
    return (
        noted.namespace, noted.event, noted.once, noted.subject, noted.subject_name, noted.sentence[:MAX_ERROR],
        noted.job_id, noted.run_id, noted.rule_id,
    )  # fmt: skip


def _event(row: Mapping[str, Any]) -> PendingEvent:
    return PendingEvent(
        namespace=row["namespace"],
        event_id=row["event_id"],
        token=row["token"],
        job_id=row["job_id"],
        state=None if row["state"] is None else STATES[row["state"]],
        attempt=row["attempt"],
        at=row["at"],
        reason=row["reason"],
        error=row["error"],
        event=None if row["event"] is None else NoticeEvent(row["event"]),
        subject=row["subject"] or "",
        subject_name=row["subject_name"] or "",
        run_id=row["run_id"],
        rule_id=row["rule_id"],
    )


def _standing(row: Mapping[str, Any]) -> StandingAlert:
    return StandingAlert(_alert(row), row["version"], row["told_at"], row["escalated_at"], row["next_at"])


def _alert(row: Mapping[str, Any]) -> Alert:
    return Alert(
        alert_id=row["alert_id"],
        namespace=row["namespace"],
        rule_id=row["rule_id"],
        event=NoticeEvent(row["event"]),
        subject=row["subject"],
        subject_name=row["subject_name"],
        severity=Severity(row["severity"]),
        state=AlertState(row["state"]),
        events=row["events"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        sentence=row["sentence"],
        run_id=row["run_id"],
        acknowledged_by=row["acknowledged_by"],
        acknowledged_at=row["acknowledged_at"],
        snoozed_until=row["snoozed_until"],
        note=row["note"],
        closed_at=row["closed_at"],
    )
