"""One decision about all alerts that match a filter of the list: counted first, then done.

/alerts?rule_id=… ──► /alerts/all?do=close&rule_id=…  the number, and a button
                          └──POST──► decided, as of the time at which they were counted
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from tickwise.control.notices.alerts import AlertsDecisionBody, AlertService, DecidedAlerts
from tickwise.domain.errors import Conflict, Invalid, Refused
from tickwise.domain.notices.rules import AlertState
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303
NOTE_MAX: Final = 1_000
SUBJECT_MAX: Final = 300
FILTERS: Final = ("state", "rule_id", "subject")
PATH: Final = "/alerts/all"


class ManyDeed(NamedTuple):
    """A decision about many alerts."""

    title: str
    button: str
    told: str


DEEDS: Final = {
    "acknowledge": ManyDeed(
        "Acknowledge alerts", "Acknowledge", "They are in your hands: none is repeated or escalated until it recovers."
    ),
    "close": ManyDeed("Close alerts", "Close", "The next event of each opens another alert, which is told."),
}


async def many_page(visit: Visit) -> Response:
    """The number of alerts that match, and the button."""
    return await _ask(visit)


async def _ask(visit: Visit, fault: Refused | None = None) -> Response:
    name, until = _deed(visit.query.get("do", "")), visit.now
    found = await _decide(visit, name, until, note=None, dry_run=True)
    filters = {each: visit.query[each] for each in FILTERS if visit.query.get(each)}
    values = {
        "deed": DEEDS[name],
        "found": found,
        "filters": filters,
        "until": datetime.fromtimestamp(until, UTC).isoformat(),
        "again": visit.url(PATH, do=name, **filters),
        "back": visit.url("/alerts", **filters),
        "fault": fault,
    }
    return visit.page("alerts_all.html", values, 200 if fault is None else 409 if isinstance(fault, Conflict) else 422)


async def decide_many(visit: Visit) -> Response:
    """Decide about those that matched when they were counted."""
    name, until = _deed(visit.query.get("do", "")), forms.instant(visit.form, "until")
    try:
        found = await _decide(visit, name, until, note=forms.text(visit.form, "note", NOTE_MAX), dry_run=False)
    except (Invalid, Conflict) as refusal:
        return await _ask(visit, refusal)
    return RedirectResponse(visit.url("/alerts", decided=found.changed, how=name), SEE_OTHER)


async def _decide(
    visit: Visit, name: str, until: float | None, *, note: str | None, dry_run: bool
) -> DecidedAlerts:  # fmt: skip
    states = [each for each in visit.request.query_params.getlist("state") if each]
    body = AlertsDecisionBody(
        state=[forms.choice(AlertState, each, "state") for each in states] or UNSET,
        rule_id=forms.identifier(visit.query.get("rule_id"), "rule_id") or UNSET,
        subject=forms.text(visit.query, "subject", SUBJECT_MAX) or UNSET,
        until=UNSET if until is None else datetime.fromtimestamp(until, UTC),
        note=note,
        dry_run=dry_run,
    )
    service = visit.control.alerts
    return await (service.acknowledge_all if name == "acknowledge" else service.close_all)(visit.who, body)


def _deed(said: str) -> str:
    if said not in DEEDS:
        raise Invalid(f"write one of {', '.join(DEEDS)}", pointer="/do")
    return said


MANY_ALERTS: Final[tuple[WebPage, ...]] = (
    WebPage(
        method="GET",
        path=PATH,
        name="alerts_all",
        query=("do", *FILTERS),
        handler=many_page,
        control=(AlertService.acknowledge_all, AlertService.close_all),
    ),
    WebPage(
        method="POST",
        path=PATH,
        name="alerts_decide_all",
        query=("do", *FILTERS),
        handler=decide_many,
        control=(AlertService.acknowledge_all, AlertService.close_all),
    ),
)
