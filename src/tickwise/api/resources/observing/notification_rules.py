"""`/notification-rules` and `/alerts`: which events people are told of, and what is not well now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_text, foreign_cursor, page_links
from tickwise.api.problems import Headers
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.observing.channels import NoticeView, OfInstallation, WaitSeconds, notice_view
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.wire import API, Instant, time_of, time_or_none
from tickwise.control.notices.alerts import (
    AlertNoteBody,
    AlertsDecisionBody,
    AlertService,
    AlertSnoozeBody,
    DecidedAlerts,
)
from tickwise.control.notices.previews import RulePreview
from tickwise.control.notices.rule_bodies import NotificationRuleBody, NotificationRuleChangeBody, clock_text
from tickwise.control.notices.rules import NotificationRuleService
from tickwise.domain.calendar.entries import WEEKDAYS
from tickwise.domain.model import LATEST_INSTANT
from tickwise.domain.notices.rules import INSTALLATION, Alert, AlertState, NoticeEvent, NotificationRule, Severity
from tickwise.ports.store.notices import AlertQuery

_rule: Final = msgspec.json.Decoder(NotificationRuleBody)
_change: Final = msgspec.json.Decoder(NotificationRuleChangeBody)
_note: Final = msgspec.json.Decoder(AlertNoteBody)
_decision: Final = msgspec.json.Decoder(AlertsDecisionBody)
_snooze: Final = msgspec.json.Decoder(AlertSnoozeBody)


class NotificationRulesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    installation: OfInstallation = False
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class RuleTestQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The channels to test, and the time to wait for the outcome."""

    escalation: Annotated[bool, Meta(description="Test the channels of its escalation.")] = False
    wait: WaitSeconds = 0.0


class AlertsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The alerts of the list, and the page."""

    state: Annotated[
        list[AlertState], Meta(description="Only alerts in one of these states; not sent: all that are not closed.")
    ] = []
    rule_id: UUID | UnsetType = UNSET
    subject: (
        Annotated[str, Meta(max_length=200, description="The id of a job, the name of an executor.")] | UnsetType
    ) = UNSET
    installation: OfInstallation = False
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class QuietView(msgspec.Struct, kw_only=True):
    """Quiet hours."""

    begin: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    timezone: str
    days: list[str]


class EscalateView(msgspec.Struct, kw_only=True):
    """An escalation."""

    after: float
    """Seconds."""
    channels: list[str]


class FailuresOfView(msgspec.Struct, kw_only=True):
    """A number of failures among a number of runs."""

    failures: int
    runs: int


class NotificationRuleView(msgspec.Struct, kw_only=True):
    """A notification rule. Times are seconds."""

    rule_id: UUID
    name: str
    on: list[NoticeEvent]
    channels: list[str]
    """The names of its channels; one that was removed has left the rule."""
    jobs: list[UUID]
    labels: dict[str, str]
    severity: Severity
    after: float | None
    in_a_row: int | None
    failures_of: FailuresOfView | None
    attempts: int | None
    group: float
    repeat: float | None
    quiet: QuietView | None
    escalate: EscalateView | None
    enabled: bool
    installation: bool
    created_at: Instant
    created_by: str
    version: int


class ToldRunView(msgspec.Struct, kw_only=True):
    """A run that the rule would have told of."""

    at: Instant
    event: NoticeEvent
    run_id: UUID
    job_id: UUID
    job_name: str | None


class ConcernedJobView(msgspec.Struct, kw_only=True):
    """A job that the rule concerns."""

    job_id: UUID
    name: str


class RulePreviewView(msgspec.Struct, kw_only=True):
    """The jobs of a rule, and the events of the last 24 hours that it would have told of."""

    jobs: int
    """10,000 at most."""
    sample: list[ConcernedJobView]
    runs: int
    """Runs of the last 24 hours that were looked at."""
    more: bool
    """There were more runs: these are the newest."""
    counts: dict[str, int]
    """The number of times that each event would have been counted."""
    told: list[ToldRunView]
    """The newest of them."""
    not_judged: list[NoticeEvent]
    """Events of the rule that leave no record of a run: the preview says nothing of them."""


class AlertView(msgspec.Struct, kw_only=True):
    """The events that one rule has seen of one subject."""

    alert_id: UUID
    rule_id: UUID | None
    """Null: the job's own `notify`."""
    event: NoticeEvent
    subject: str
    """The id of the job, the name of the executor or of the certificate."""
    subject_name: str
    severity: Severity
    state: AlertState
    events: int
    first_at: Instant
    last_at: Instant
    sentence: str
    run_id: UUID | None
    acknowledged_by: str | None
    acknowledged_at: Instant | None
    snoozed_until: Instant | None
    note: str | None
    closed_at: Instant | None
    installation: bool


class DecidedAlertsView(msgspec.Struct, kw_only=True):
    """The outcome of a decision about all alerts that match."""

    matched: int
    """10,000 at most."""
    more: bool
    """More matched: the decision was about the oldest of them. Ask again for the others."""
    changed: int
    """0 of a dry run."""


def rule_view(rule: NotificationRule, names: Mapping[UUID, str]) -> NotificationRuleView:
    """A rule as it is answered. `names`: of channels."""
    quiet, escalation, of = rule.quiet, rule.escalation, rule.failures_of
    return NotificationRuleView(
        rule_id=rule.rule_id,
        name=rule.name,
        on=sorted(rule.on),
        channels=[names[each] for each in rule.channels if each in names],
        jobs=list(rule.jobs),
        labels=dict(rule.labels),
        severity=rule.severity,
        after=rule.after,
        in_a_row=rule.in_a_row,
        failures_of=None if of is None else FailuresOfView(failures=of.failures, runs=of.runs),
        attempts=rule.attempts,
        group=rule.group_seconds,
        repeat=rule.repeat_seconds,
        quiet=None
        if quiet is None
        else QuietView(
            begin=clock_text(quiet.begin),
            end=clock_text(quiet.end),
            timezone=quiet.zone,
            days=[WEEKDAYS[day] for day in sorted(quiet.weekdays)],
        ),
        escalate=None
        if escalation is None
        else EscalateView(
            after=escalation.after_seconds, channels=[names[each] for each in escalation.channels if each in names]
        ),
        enabled=rule.enabled,
        installation=rule.namespace == INSTALLATION,
        created_at=time_of(rule.created_at),
        created_by=rule.created_by,
        version=rule.version,
    )


def preview_view(found: RulePreview) -> RulePreviewView:
    """A preview as it is answered."""
    return RulePreviewView(
        jobs=found.jobs,
        sample=[ConcernedJobView(job_id=each.job_id, name=each.name) for each in found.sample],
        runs=found.runs,
        more=found.more,
        counts={event.value: count for event, count in found.counts.items()},
        told=[
            ToldRunView(
                at=time_of(each.at),
                event=each.event,
                run_id=each.run_id,
                job_id=each.job_id,
                job_name=found.names.get(each.job_id),
            )
            for each in found.told
        ],
        not_judged=list(found.not_judged),
    )


def alert_view(alert: Alert) -> AlertView:
    """An alert as it is answered."""
    return AlertView(
        alert_id=alert.alert_id,
        rule_id=alert.rule_id,
        event=alert.event,
        subject=alert.subject,
        subject_name=alert.subject_name,
        severity=alert.severity,
        state=alert.state,
        events=alert.events,
        first_at=time_of(alert.first_at),
        last_at=time_of(alert.last_at),
        sentence=alert.sentence,
        run_id=alert.run_id,
        acknowledged_by=alert.acknowledged_by,
        acknowledged_at=time_or_none(alert.acknowledged_at),
        snoozed_until=time_or_none(alert.snoozed_until),
        note=alert.note,
        closed_at=time_or_none(alert.closed_at),
        installation=alert.namespace == INSTALLATION,
    )


async def rule_add(call: Call) -> Reply:
    """Make a rule."""
    body = decode(_rule, call.body, field_names(NotificationRuleBody))
    rule = await call.control.notification_rules.add(call.principal, body)
    return answer(201, await _shown(call, rule), headers=_rule_location(rule.rule_id))


async def rule_preview(call: Call) -> Reply:
    """Preview a rule."""
    body = decode(_rule, call.body, field_names(NotificationRuleBody))
    return answer(200, preview_view(await call.control.notification_rules.preview(call.principal, body)))


async def rules_list(call: Call) -> Reply:
    """A page of rules."""
    said: NotificationRulesQuery = call.query
    after = None if said.cursor is UNSET else cursor_text(said.cursor)
    rules = call.control.notification_rules
    rows = await rules.page(call.principal, after_name=after, limit=said.limit + 1, installation=said.installation)
    page = rows[: said.limit]
    names = await rules.names(call.principal, page)
    last = page[-1].name if len(rows) > said.limit else None
    return answer(200, [rule_view(each, names) for each in page], headers=page_links(call, last))


async def rule_get(call: Call) -> Reply:
    """One rule."""
    return answer(200, await _shown(call, await call.control.notification_rules.get(call.principal, _rule_id(call))))


async def rule_change(call: Call) -> Reply:
    """Change a rule."""
    body = decode(_change, call.body, field_names(NotificationRuleChangeBody))
    rule = await call.control.notification_rules.change(call.principal, _rule_id(call), body)
    return answer(200, await _shown(call, rule))


async def rule_remove(call: Call) -> Reply:
    """Remove a rule."""
    rule = await call.control.notification_rules.remove(call.principal, _rule_id(call))
    return answer(200, await _shown(call, rule))


async def rule_test(call: Call) -> Reply:
    """Send test notices."""
    query: RuleTestQuery = call.query
    notices = await call.control.notification_rules.test(
        call.principal, _rule_id(call), escalation=query.escalation, wait_seconds=query.wait
    )
    return answer(202, [notice_view(each, {}) for each in notices])


async def alerts_list(call: Call) -> Reply:
    """A page of alerts."""
    said: AlertsQuery = call.query
    query = AlertQuery(
        namespace=call.principal.namespace,
        states=said.state or [each for each in AlertState if each is not AlertState.CLOSED],
        rule_id=None if said.rule_id is UNSET else said.rule_id,
        subject=None if said.subject is UNSET else said.subject,
        before=None if said.cursor is UNSET else _place(cursor_text(said.cursor)),
        limit=said.limit + 1,
    )
    rows = await call.control.alerts.page(call.principal, query, installation=said.installation)
    page = rows[: said.limit]
    last = f"{page[-1].last_at!r}_{page[-1].alert_id}" if len(rows) > said.limit else None
    return answer(200, [alert_view(each) for each in page], headers=page_links(call, last))


async def alert_get(call: Call) -> Reply:
    """One alert."""
    return answer(200, alert_view(await call.control.alerts.get(call.principal, _alert_id(call))))


async def alerts_acknowledge(call: Call) -> Reply:
    """Take all alerts that match in hand."""
    body = decode(_decision, call.body or b"{}", field_names(AlertsDecisionBody))
    return answer(200, _decided(await call.control.alerts.acknowledge_all(call.principal, body)))


async def alerts_close(call: Call) -> Reply:
    """Close all alerts that match."""
    body = decode(_decision, call.body or b"{}", field_names(AlertsDecisionBody))
    return answer(200, _decided(await call.control.alerts.close_all(call.principal, body)))


def _decided(found: DecidedAlerts) -> DecidedAlertsView:
    return DecidedAlertsView(matched=found.matched, more=found.more, changed=found.changed)


async def alert_acknowledge(call: Call) -> Reply:
    """Take an alert in hand."""
    body = decode(_note, call.body or b"{}", field_names(AlertNoteBody))
    return answer(200, alert_view(await call.control.alerts.acknowledge(call.principal, _alert_id(call), body)))


async def alert_snooze(call: Call) -> Reply:
    """Tell nothing of an alert for a time."""
    body = decode(_snooze, call.body or b"{}", field_names(AlertSnoozeBody))
    return answer(200, alert_view(await call.control.alerts.snooze(call.principal, _alert_id(call), body)))


async def alert_close(call: Call) -> Reply:
    """Close an alert."""
    body = decode(_note, call.body or b"{}", field_names(AlertNoteBody))
    return answer(200, alert_view(await call.control.alerts.close(call.principal, _alert_id(call), body)))


async def alert_reopen(call: Call) -> Reply:
    """Open an alert again."""
    body = decode(_note, call.body or b"{}", field_names(AlertNoteBody))
    return answer(200, alert_view(await call.control.alerts.reopen(call.principal, _alert_id(call), body)))


async def _shown(call: Call, rule: NotificationRule) -> NotificationRuleView:
    """The rule with the names of its channels, for a caller who may have written it without the right to read."""
    return rule_view(rule, await call.control.notification_rules.channel_names(call.principal, rule))


def _place(cursor: str) -> tuple[float, UUID]:
    at, _, alert_id = cursor.partition("_")
    try:
        found = float(at), UUID(alert_id)
    except ValueError:
        raise foreign_cursor() from None
    if not 0.0 <= found[0] < LATEST_INSTANT:  # no number, too
        raise foreign_cursor()
    return found


def _rule_id(call: Call) -> UUID:
    return call.uuid("rule_id", "notification rule")


def _alert_id(call: Call) -> UUID:
    return call.uuid("alert_id", "alert")


def _rule_location(rule: UUID | str) -> Headers:
    return [(b"location", f"{API}/notification-rules/{rule}".encode())]


def _location_of_rule(body: bytes) -> Headers:
    """The header that belongs to a stored answer."""
    return _rule_location(msgspec.json.decode(body)["rule_id"])


_WHAT: Final = (
    "`on` names the events. Without `jobs` and `labels` it concerns all jobs of the namespace. Its channels must be "
    "there. After the first notice of a burst, later ones are gathered (`group`); `quiet` hours hold all but critical "
    "ones back, `repeat` tells an open alert again, `escalate` tells further channels of one that nobody acknowledges. "
    "A rule that can never fire is refused."
)

NOTIFICATION_RULES: Final = (
    Endpoint(
        method="POST", path=f"{API}/notification-rules", control=NotificationRuleService.add,
        name="createNotificationRule", tag="notification-rules",
        summary="Make a rule: which events of which jobs are told to which channels.", description=_WHAT,
        handler=rule_add, body=NotificationRuleBody, answers=(NotificationRuleView,), status=201,
        headers_of=_location_of_rule, answer_headers=("Location",), refuses=(404, 409),
    ),
    Endpoint(
        method="GET", path=f"{API}/notification-rules", control=NotificationRuleService.page,
        name="listNotificationRules", tag="notification-rules", summary="Rules by name.",
        handler=rules_list, answers=(list[NotificationRuleView],), query=NotificationRulesQuery,
    ),
    Endpoint(
        method="POST", path=f"{API}/notification-rules:preview", control=NotificationRuleService.preview,
        name="previewNotificationRule", tag="notification-rules",
        summary="Find the jobs that a rule would concern, and what of the last 24 hours it would have told.",
        handler=rule_preview, body=NotificationRuleBody, answers=(RulePreviewView,), refuses=(404,), previews=True,
    ),
    Endpoint(
        method="GET", path=f"{API}/notification-rules/{{rule_id}}", control=NotificationRuleService.get,
        name="getNotificationRule", tag="notification-rules", summary="One rule.",
        handler=rule_get, answers=(NotificationRuleView,), refuses=(404,),
    ),
    Endpoint(
        method="PATCH", path=f"{API}/notification-rules/{{rule_id}}", control=NotificationRuleService.change,
        name="changeNotificationRule", tag="notification-rules",
        summary="Change fields of a rule; those that are not sent stay, null takes one away.",
        handler=rule_change, body=NotificationRuleChangeBody, answers=(NotificationRuleView,), refuses=(404, 409),
    ),
    Endpoint(
        method="DELETE", path=f"{API}/notification-rules/{{rule_id}}", control=NotificationRuleService.remove,
        name="removeNotificationRule", tag="notification-rules",
        summary="Remove a rule: its alerts are closed, its waiting notices dropped; it is returned as it was.",
        handler=rule_remove, answers=(NotificationRuleView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/notification-rules/{{rule_id}}/test", control=NotificationRuleService.test,
        name="testNotificationRule", tag="notification-rules",
        summary="Send a test notice to each channel of a rule, or of its escalation.",
        handler=rule_test, answers=(list[NoticeView],), status=202, refuses=(404,), query=RuleTestQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/alerts", control=AlertService.page, name="listAlerts", tag="alerts",
        summary="Alerts, the newest event first; all that are not closed, if no state is asked for.",
        handler=alerts_list, answers=(list[AlertView],), query=AlertsQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/alerts/{{alert_id}}", control=AlertService.get, name="getAlert", tag="alerts",
        summary="One alert.", handler=alert_get, answers=(AlertView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts:acknowledge", control=AlertService.acknowledge_all,
        name="acknowledgeAlerts", tag="alerts",
        summary="Take all alerts that match in hand, or count them: `dry_run`.",
        handler=alerts_acknowledge, body=AlertsDecisionBody, optional_body=True, answers=(DecidedAlertsView,),
        refuses=(409,),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts:close", control=AlertService.close_all, name="closeAlerts", tag="alerts",
        summary="Close all alerts that match, or count them: `dry_run`.",
        handler=alerts_close, body=AlertsDecisionBody, optional_body=True, answers=(DecidedAlertsView,), refuses=(409,),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts/{{alert_id}}/acknowledge", control=AlertService.acknowledge,
        name="acknowledgeAlert", tag="alerts",
        summary="Take an alert in hand: no repetition and no escalation; a recovery is still told.",
        handler=alert_acknowledge, body=AlertNoteBody, optional_body=True, answers=(AlertView,), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts/{{alert_id}}/snooze", control=AlertService.snooze, name="snoozeAlert",
        tag="alerts", summary="Tell nothing of an alert until a time; for an hour if none is sent.",
        handler=alert_snooze, body=AlertSnoozeBody, optional_body=True, answers=(AlertView,), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts/{{alert_id}}/close", control=AlertService.close, name="closeAlert",
        tag="alerts", summary="Close an alert: the next event opens another one.",
        handler=alert_close, body=AlertNoteBody, optional_body=True, answers=(AlertView,), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/alerts/{{alert_id}}/reopen", control=AlertService.reopen, name="reopenAlert",
        tag="alerts", summary="Open an alert again: what was decided about it is taken back.",
        handler=alert_reopen, body=AlertNoteBody, optional_body=True, answers=(AlertView,), refuses=(404, 409),
    ),
)  # fmt: skip
