"""Notification rules: which there are, and what a new one would have told, before it is stored.

    /notification-rules ── form ──► …/new?on=…: what it concerns, nothing is changed ── POST ──► stored
    …?rule=ID: that form with the fields of a rule ──────────┘                          └──► or the rule is changed

The address of the middle page has all that was chosen, so a colleague can look at it before it is confirmed. What a
rule has and the form does not, stays: a share of failures, and the days of its quiet hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.notices.previews import MAX_JOBS
from tickwise.control.notices.rule_bodies import (
    OF_INSTALLATION,
    FailuresOfBody,
    NotificationRuleBody,
    NotificationRuleChangeBody,
    QuietBody,
    quiet_words,
)
from tickwise.control.notices.rules import NotificationRuleService
from tickwise.domain.calendar.entries import WEEKDAYS
from tickwise.domain.errors import Conflict, Invalid, NotFound, Refused
from tickwise.domain.notices.rules import NoticeEvent, NoticeState, NotificationRule, Severity
from tickwise.web import forms
from tickwise.web.editing.values import duration_text
from tickwise.web.page import WebPage
from tickwise.web.views.jobs import labels_of
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
PAGE_SIZE: Final = 50
TEST_SECONDS: Final = 10.0
LIST_MAX: Final = 5_000
EVENTS: Final = {
    NoticeEvent.FAILURE: "a run failed for good",
    NoticeEvent.FIRST_FAILURE: "a run failed, and the one before it did not",
    NoticeEvent.RECOVERY: "a run succeeded after that",
    NoticeEvent.SUCCESS: "a run succeeded, each time; of jobs that the rule names, without labels",
    NoticeEvent.DID_NOT_RUN: "an occurrence did not run, and nobody chose that",
    NoticeEvent.LATE: "a run has not begun so long after it was due",
    NoticeEvent.LONG: "a run goes on for so long",
    NoticeEvent.RETRIES: "a run is tried again and again",
    NoticeEvent.DEAD_LETTER: "a run became a dead letter",
    NoticeEvent.FUSE: "a job was paused because it fired too often",
    NoticeEvent.OBJECTIVE: "the error budget of a job's objective burns too fast",
    NoticeEvent.ANOMALY: "a run took or wrote far more or less than earlier ones",
    NoticeEvent.EXPIRING: "an API key of the namespace ends in 30, 7 days, or one; without jobs and labels",
}
"""The events of jobs, in words."""
RULE: Final = "rule"
"""The field of the form that names the rule which is changed."""
FIELDS: Final = (
    "name", "channels", "jobs", "labels", "severity", "after", "in_a_row", "attempts", "group", "repeat",
    "quiet_from", "quiet_to", "quiet_zone", "escalate_after", "escalate_channels",
    *(f"on_{event.value}" for event in EVENTS), RULE,
)  # fmt: skip
DONE: Final = {
    "stored": "The rule is stored.",
    "changed": "The rule is changed.",
    "removed": "The rule is removed; its alerts are closed.",
    "on": "The rule tells again.",
    "off": "The rule tells nothing until it is switched on.",
}


async def rules_page(visit: Visit) -> Response:
    """The rules of the namespace, and the form of a new one."""
    typed = _sent(visit.query)
    if [*typed] == [RULE]:
        rule = await _rule(visit, typed)
        channels = await visit.control.channels.all(visit.who)
        typed |= _fields_of(rule, {each.channel_id: each.name for each in channels})
    return await _page(visit, typed=typed)


async def preview(visit: Visit) -> Response:
    """The jobs that a rule would concern, before it is stored."""
    said = visit.query
    if "name" not in said:  # a link that fills a field of the form
        return await _page(visit, typed=_sent(said))
    try:
        body = _body(said)
        if said.get(RULE):
            _keep(body, await _rule(visit, said))
        found = await visit.control.notification_rules.preview(visit.who, body)
    except (Invalid, NotFound) as refusal:
        return await _page(visit, typed=_sent(said), fault=refusal)
    values = {"found": found, "sent": _sent(said), "events": EVENTS, "on": _events(said), "counted_most": MAX_JOBS}
    return visit.page("notification_rule_new.html", values)


async def add(visit: Visit) -> Response:
    """Store it."""
    try:
        await visit.control.notification_rules.add(visit.who, _body(visit.form))
    except (Invalid, NotFound, Conflict) as refusal:
        if not visit.may(NotificationRuleService.page):
            raise
        return await _page(visit, typed=_sent(visit.form), fault=refusal)
    return RedirectResponse(visit.url("/notification-rules", done="stored"), SEE_OTHER)


async def change(visit: Visit) -> Response:
    """Change a rule to what the form says."""
    said = {**visit.form, RULE: str(visit.uuid("rule_id", "notification rule"))}
    rule = await _rule(visit, said)
    try:
        body = _body(said)
        _keep(body, rule)
        await visit.control.notification_rules.change(visit.who, rule.rule_id, _change(body, rule))
    except (Invalid, Conflict) as refusal:
        return await _page(visit, typed=_sent(said), fault=refusal)
    return RedirectResponse(visit.url("/notification-rules", done="changed"), SEE_OTHER)


async def switch(visit: Visit) -> Response:
    """Switch a rule on or off."""
    enabled = visit.form.get("enabled") == "yes"
    body = NotificationRuleChangeBody(enabled=enabled)
    await visit.control.notification_rules.change(visit.who, visit.uuid("rule_id", "notification rule"), body)
    return RedirectResponse(visit.url("/notification-rules", done="on" if enabled else "off"), SEE_OTHER)


async def remove(visit: Visit) -> Response:
    """Remove a rule."""
    rule_id = visit.uuid("rule_id", "notification rule")
    if visit.form.get("confirm") != "yes":
        return await _page(visit, typed={}, fault=Invalid("tick the box: what it tells of is told no more"))
    await visit.control.notification_rules.remove(visit.who, rule_id)
    return RedirectResponse(visit.url("/notification-rules", done="removed"), SEE_OTHER)


async def test(visit: Visit) -> Response:
    """Send a test notice to each channel of a rule, or of its escalation."""
    rule_id = visit.uuid("rule_id", "notification rule")
    try:
        notices = await visit.control.notification_rules.test(
            visit.who, rule_id, escalation=visit.form.get("escalation") == "yes", wait_seconds=TEST_SECONDS
        )
    except Invalid as refusal:
        return await _page(visit, typed={}, fault=refusal)
    states = [each.state for each in notices]
    outcome = f"{states.count(NoticeState.DELIVERED)} of {len(states)} test notices were delivered."
    return RedirectResponse(visit.url("/notification-rules", tested=outcome), SEE_OTHER)


async def _page(visit: Visit, *, typed: Mapping[str, str], fault: Refused | None = None) -> Response:
    after = visit.query.get("cursor") or None
    service = visit.control.notification_rules
    rows = await service.page(visit.who, after_name=after, limit=PAGE_SIZE + 1)
    shown, more = rows[:PAGE_SIZE], len(rows) > PAGE_SIZE
    channels = await visit.control.channels.all(visit.who)
    tested = visit.query.get("tested", "")
    values: dict[str, Any] = {
        "rules": shown,
        "names": {channel.channel_id: channel.name for channel in channels},
        "channels": [channel.name for channel in channels],
        "events": EVENTS,
        "severities": [each.value for each in Severity],
        "quiet_words": quiet_words,
        "typed": typed,
        "fault": fault,
        "fault_field": _field(fault),
        "done": DONE.get(visit.query.get("done", "")),
        "tested": tested[:200] if tested.endswith("test notices were delivered.") else None,
        "next": visit.url("/notification-rules", cursor=shown[-1].name) if more else None,
        "first": visit.url("/notification-rules") if after is not None else None,
    }
    status = 200 if fault is None else 404 if isinstance(fault, NotFound) else 422
    return visit.page("notification_rules.html", values, 409 if isinstance(fault, Conflict) else status)


def _sent(said: Mapping[str, str]) -> dict[str, str]:
    """The fields of the form that were filled in."""
    return {name: said[name] for name in FIELDS if said.get(name)}


def _events(said: Mapping[str, str]) -> Sequence[NoticeEvent]:
    return [event for event in EVENTS if said.get(f"on_{event.value}") == "yes"]


def _names(said: Mapping[str, str], name: str) -> list[str]:
    """Names with commas or line ends between them."""
    text = (forms.text(said, name, LIST_MAX) or "").replace("\n", ",")
    return [each.strip() for each in text.split(",") if each.strip()]


def _body(said: Mapping[str, str]) -> NotificationRuleBody:
    """The body of a rule from the fields of the form. Raises `Invalid`."""
    fields: dict[str, Any] = {
        "name": forms.text(said, "name", 200) or "",
        "on": [event.value for event in _events(said)],
        "channels": _names(said, "channels"),
        "severity": forms.choice(Severity, said.get("severity") or Severity.WARNING, "severity").value,
    }
    for name, missing in (
        ("name", "give the rule a name"),
        ("on", "tick at least one event"),
        ("channels", "name at least one channel"),
    ):
        if not fields[name]:
            raise Invalid(missing, pointer=f"/{name}")
    if jobs := _names(said, "jobs"):
        fields["jobs"] = jobs
    if labels := labels_of(_names(said, "labels")):
        fields["labels"] = dict(labels)
    for name in ("after", "group", "repeat"):
        if (text := forms.text(said, name, 50)) is not None:
            fields[name] = text
    for name, most in (("in_a_row", 100), ("attempts", 1_000)):
        if (number := forms.whole(said.get(name, "").strip(), name, 1, most)) is not None:
            fields[name] = number
    begin, end = forms.text(said, "quiet_from", 5), forms.text(said, "quiet_to", 5)
    if begin or end:
        fields["quiet"] = {"from": begin or "", "to": end or "", "timezone": forms.text(said, "quiet_zone") or "UTC"}
    if (after := forms.text(said, "escalate_after", 50)) is not None:
        fields["escalate"] = {"after": after, "channels": _names(said, "escalate_channels")}
    try:
        return msgspec.convert(fields, NotificationRuleBody)
    except msgspec.ValidationError as wrong:
        text, _, place = str(wrong).partition(" - at `$")
        raise Invalid(text, pointer=place.rstrip("`").replace(".", "/") or "/name") from None


async def _rule(visit: Visit, said: Mapping[str, str]) -> NotificationRule:
    """The rule that is changed. Raises `Invalid`, `NotFound`."""
    rule_id = forms.identifier(said.get(RULE), RULE)
    assert rule_id is not None
    return await visit.control.notification_rules.get(visit.who, rule_id)


def _fields_of(rule: NotificationRule, names: Mapping[UUID, str]) -> dict[str, str]:
    """A rule as the form has it. A channel that was removed is left out."""

    def named(channels: Sequence[UUID]) -> str:
        return ", ".join(names[each] for each in channels if each in names)

    def span(seconds: float | None) -> str:
        return "" if seconds is None else duration_text(seconds)

    quiet, escalation = rule.quiet, rule.escalation
    return {
        **{f"on_{event.value}": "yes" for event in rule.on},
        "name": rule.name,
        "channels": named(rule.channels),
        "jobs": ", ".join(str(each) for each in rule.jobs),
        "labels": ", ".join(f"{name}={value}" for name, value in rule.labels.items()),
        "severity": rule.severity.value,
        "after": span(rule.after),
        "in_a_row": str(rule.in_a_row or ""),
        "attempts": str(rule.attempts or ""),
        "group": duration_text(rule.group_seconds),
        "repeat": span(rule.repeat_seconds),
        "quiet_from": "" if quiet is None else _clock(quiet.begin),
        "quiet_to": "" if quiet is None else _clock(quiet.end),
        "quiet_zone": "" if quiet is None else quiet.zone,
        "escalate_after": "" if escalation is None else span(escalation.after_seconds),
        "escalate_channels": "" if escalation is None else named(escalation.channels),
    }


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _keep(body: NotificationRuleBody, rule: NotificationRule) -> None:
    """Give the body what the rule has and the form does not."""
    if rule.failures_of is not None:
        body.failures_of = FailuresOfBody(failures=rule.failures_of.failures, runs=rule.failures_of.runs)
    if isinstance(body.quiet, QuietBody) and rule.quiet is not None:
        body.quiet.days = [WEEKDAYS[day] for day in sorted(rule.quiet.weekdays)]


def _change(body: NotificationRuleBody, rule: NotificationRule) -> NotificationRuleChangeBody:
    """All that the form has: what was emptied there is taken away."""
    said: dict[str, Any] = {
        name: None if getattr(body, name) is UNSET else getattr(body, name)
        for name in NotificationRuleChangeBody.__struct_fields__
        if name != "enabled"
    }
    said |= {"jobs": said["jobs"] or [], "labels": said["labels"] or {}}
    if said["jobs"] == [str(each) for each in rule.jobs]:
        del said["jobs"]  # those that are gone meanwhile are nobody's fault here
    return NotificationRuleChangeBody(**said)


def _field(fault: Refused | None) -> str:
    """The field of the form that a fault is about."""
    parts = (getattr(fault, "pointer", None) or "").strip("/").split("/")
    if parts[0] == "quiet":
        return {"from": "quiet_from", "to": "quiet_to", "timezone": "quiet_zone"}.get(parts[-1], "quiet_from")
    if parts[0] == "escalate":
        return "escalate_channels" if "channels" in parts else "escalate_after"
    return "labels" if parts[0] == "label" else parts[0]


def _path(tail: str) -> str:
    return f"/notification-rules/{{rule_id}}/{tail}"


assert not EVENTS.keys() & OF_INSTALLATION  # the form offers no event that a rule of jobs never meets

NOTIFICATION_RULES: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/notification-rules",
        name="notification_rules",
        query=(*FIELDS, "cursor", "done", "tested"),
        handler=rules_page,
        control=(NotificationRuleService.page,),
    ),
    WebPage(
        method="GET",
        path="/notification-rules/new",
        name="notification_rule_preview",
        query=FIELDS,
        handler=preview,
        control=(NotificationRuleService.preview, NotificationRuleService.page),
    ),
    WebPage(
        method="POST",
        path="/notification-rules",
        name="notification_rule_add",
        handler=add,
        control=(NotificationRuleService.add,),
    ),
    WebPage(
        method="POST",
        path=_path("change"),
        name="notification_rule_change",
        handler=change,
        control=(NotificationRuleService.change, NotificationRuleService.get, NotificationRuleService.page),
    ),
    WebPage(
        method="POST",
        path=_path("switch"),
        name="notification_rule_switch",
        handler=switch,
        control=(NotificationRuleService.change,),
    ),
    WebPage(
        method="POST",
        path=_path("remove"),
        name="notification_rule_remove",
        handler=remove,
        control=(NotificationRuleService.remove, NotificationRuleService.page),
    ),
    WebPage(
        method="POST",
        path=_path("test"),
        name="notification_rule_test",
        handler=test,
        control=(NotificationRuleService.test, NotificationRuleService.page),
    ),
)
