"""Alerts: what is not well now, and what people decide about it. Each decision can be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from tickwise.control.notices.alerts import AlertNoteBody, AlertService, AlertSnoozeBody
from tickwise.domain.errors import Conflict, Forbidden, Invalid, NotFound, Refused
from tickwise.domain.model import LATEST_INSTANT
from tickwise.domain.notices.rules import Alert, AlertState, Notice, NotificationRule
from tickwise.ports.store.notices import AlertQuery, NoticeQuery
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
PAGE_SIZE: Final = 50
NOTE_MAX: Final = 1_000
CURSOR_MAX: Final = 100
FILTERS: Final = ("state", "rule_id", "subject", "done", "decided", "how")
MANY_DONE: Final = {"acknowledge": "acknowledged", "close": "closed"}
"""The decisions about all alerts that match, and the words for them once they are done."""
NOT_CLOSED: Final = tuple(each for each in AlertState if each is not AlertState.CLOSED)
NOTICES_LOOKED_AT: Final = 100
"""Notices of a rule in which those about one alert are looked for: the page of an alert stays cheap."""
ORDER: Final = (AlertState.OPEN, AlertState.ACKNOWLEDGED, AlertState.SNOOZED, AlertState.CLOSED)
"""Open ones first."""
LENGTHS: Final = {"30m": "30 minutes", "1h": "1 hour", "4h": "4 hours", "1d": "1 day"}
DONE: Final = {
    AlertState.ACKNOWLEDGED: "is in your hands: nobody is told of it again until it recovers.",
    AlertState.SNOOZED: "is snoozed: nothing is told of it until then.",
    AlertState.CLOSED: "is closed: the next event opens another one.",
    AlertState.OPEN: "is open again.",
}


async def alerts_page(visit: Visit) -> Response:
    """The alerts that are not closed, or those of a state."""
    return await _list(visit)


async def _list(visit: Visit, *, fault: Refused | None = None) -> Response:
    asked = [forms.choice(AlertState, each, "state") for each in visit.request.query_params.getlist("state") if each]
    query = AlertQuery(
        namespace=visit.who.namespace,
        states=asked or NOT_CLOSED,
        rule_id=forms.identifier(visit.query.get("rule_id"), "rule_id"),
        subject=forms.text(visit.query, "subject", 300),
        before=_place(visit.query.get("cursor", "")),
        limit=PAGE_SIZE + 1,
    )
    rows = await visit.control.alerts.page(visit.who, query)
    shown = rows[:PAGE_SIZE]
    filters = {name: visit.query[name] for name in ("state", "rule_id", "subject") if visit.query.get(name)}
    more = len(rows) > PAGE_SIZE
    chosen_closed = AlertState.CLOSED in asked
    values = {
        "alerts": sorted(shown, key=lambda alert: ORDER.index(alert.state)),
        "states": [each.value for each in AlertState],
        "chosen": [each.value for each in asked],
        "filters": filters,
        "lengths": LENGTHS,
        "done": await _done(visit),
        "decided": forms.whole(visit.query.get("decided"), "decided", 0, 1_000_000),
        "how": MANY_DONE.get(visit.query.get("how", ""), "decided"),
        "many": [] if chosen_closed or not shown else list(MANY_DONE),
        "done_words": DONE,
        "fault": fault,
        "next": visit.url("/alerts", **filters, cursor=f"{shown[-1].last_at!r}_{shown[-1].alert_id}") if more else None,
        "first": visit.url("/alerts", **filters) if query.before is not None else None,
    }
    status = 200 if fault is None else 409 if isinstance(fault, Conflict) else 422
    return visit.page("alerts.html", values, status)


async def alert_page(visit: Visit) -> Response:
    """One alert."""
    alert = await visit.control.alerts.get(visit.who, visit.uuid("alert_id", "alert"))
    told = await _told(visit, alert)
    values = {
        "alert": alert,
        "rule": await _rule(visit, alert),
        "told": told,
        "names": await visit.control.notices.channel_names(visit.who, told),
        "looked_at": NOTICES_LOOKED_AT,
        "lengths": LENGTHS,
        "fault": None,
    }
    return visit.page("alert.html", values)


async def _told(visit: Visit, alert: Alert) -> Sequence[Notice]:
    """The notices that name this alert, the newest first, among the newest `NOTICES_LOOKED_AT` of its rule."""
    query = NoticeQuery(namespace=visit.who.namespace, rule_id=alert.rule_id, limit=NOTICES_LOOKED_AT)
    notices = await visit.control.notices.page(visit.who, query)
    return [each for each in notices if any(line.alert_id == alert.alert_id for line in each.lines)]


async def acknowledge(visit: Visit) -> Response:
    """Take an alert in hand."""
    return await _decide(visit, visit.control.alerts.acknowledge)


async def close(visit: Visit) -> Response:
    """Close an alert."""
    return await _decide(visit, visit.control.alerts.close)


async def reopen(visit: Visit) -> Response:
    """Take a decision back."""
    return await _decide(visit, visit.control.alerts.reopen)


async def snooze(visit: Visit) -> Response:
    """Tell nothing of an alert for a time."""
    alert_id = visit.uuid("alert_id", "alert")
    try:
        length = visit.form.get("for") or "1h"
        if length not in LENGTHS:
            raise Invalid(f"write one of {', '.join(LENGTHS)}", pointer="/for")
        body = AlertSnoozeBody(length=length, note=forms.text(visit.form, "note", NOTE_MAX))
        await visit.control.alerts.snooze(visit.who, alert_id, body)
    except (Invalid, Conflict) as refusal:
        return await _refused(visit, refusal)
    return _back(visit, alert_id)


async def _decide(visit: Visit, decide: Callable[..., Awaitable[Alert]]) -> Response:
    alert_id = visit.uuid("alert_id", "alert")
    try:
        await decide(visit.who, alert_id, AlertNoteBody(note=forms.text(visit.form, "note", NOTE_MAX)))
    except (Invalid, Conflict) as refusal:
        return await _refused(visit, refusal)
    return _back(visit, alert_id)


async def _refused(visit: Visit, refusal: Refused) -> Response:
    if not visit.may(AlertService.page):
        raise refusal
    return await _list(visit, fault=refusal)


def _back(visit: Visit, alert_id: UUID) -> Response:
    if not visit.may(AlertService.page):
        return RedirectResponse(visit.url("/"), SEE_OTHER)
    return RedirectResponse(visit.url("/alerts", done=alert_id), SEE_OTHER)


async def _done(visit: Visit) -> Alert | None:
    """The alert of which the page says what was decided."""
    try:
        alert_id = forms.identifier(visit.query.get("done"), "done")
        return None if alert_id is None else await visit.control.alerts.get(visit.who, alert_id)
    except (Invalid, NotFound):
        return None


async def _rule(visit: Visit, alert: Alert) -> NotificationRule | None:
    if alert.rule_id is None:
        return None
    try:
        return await visit.control.notification_rules.get(visit.who, alert.rule_id)
    except (NotFound, Forbidden):
        return None


def _place(cursor: str) -> tuple[float, UUID] | None:
    """The place that an address names. Raises `Invalid`."""
    if not cursor:
        return None
    at, _, alert_id = cursor.partition("_")
    found = forms.identifier(alert_id or "none", "cursor")
    try:
        seen = float(at) if len(cursor) <= CURSOR_MAX else -1.0
    except ValueError:
        seen = -1.0
    if found is None or not 0.0 <= seen < LATEST_INSTANT:  # no number, too
        raise Invalid("this is no place in the list; begin without it", pointer="/cursor")
    return seen, found


def _action(name: str, handler: Callable[[Visit], Awaitable[Response]], control: Callable[..., object]) -> WebPage:
    path = f"/alerts/{{alert_id}}/{name}"
    return WebPage(method="POST", path=path, name=f"alert_{name}", handler=handler, control=(control,))


ALERTS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path="/alerts",
        name="alerts",
        query=(*FILTERS, "cursor"),
        handler=alerts_page,
        control=(AlertService.page,),
    ),
    WebPage(method="GET", path="/alerts/{alert_id}", name="alert", handler=alert_page, control=(AlertService.get,)),
    _action("acknowledge", acknowledge, AlertService.acknowledge),
    _action("snooze", snooze, AlertService.snooze),
    _action("close", close, AlertService.close),
    _action("reopen", reopen, AlertService.reopen),
)
