"""A decision about an alert, stored with its entry in the audit log."""

from __future__ import annotations

from typing import Final

from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import NotFound
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import Alert, AlertState
from tickwise.ports.store.notices import NewAlertDecision

ACTIONS: Final = {
    AlertState.ACKNOWLEDGED: AuditAction.ALERT_ACKNOWLEDGED,
    AlertState.SNOOZED: AuditAction.ALERT_SNOOZED,
    AlertState.CLOSED: AuditAction.ALERT_CLOSED,
    AlertState.OPEN: AuditAction.ALERT_REOPENED,
}


async def decide(
    context: ControlContext,
    who: Principal,
    alert: Alert,
    state: AlertState,
    *,
    note: str | None,
    until: float | None = None,
) -> Alert:
    """The alert after a person's decision. Raises `NotFound` if it is gone, `Conflict` if another one stands in its
    place, `Invalid` for a note that cannot be stored."""
    said = None if note is None else clean_text(note, "/note")
    decision = NewAlertDecision(state, who.name, said, until)
    audit = entry(
        who, ACTIONS[state], "alert", alert.alert_id, namespace=alert.namespace, before={"state": alert.state.value},
        detail={"about": alert.subject_name, "event": alert.event.value, "note": said, "until": until},
    )  # fmt: skip
    decided = await context.surely(
        lambda: context.store.alerts.decide(alert.namespace, alert.alert_id, decision, audit=audit)
    )
    if decided is None:
        raise no_alert(who, alert.alert_id)
    return decided


def no_alert(who: Principal, alert_id: object) -> NotFound:
    """The refusal of an id that names nothing here."""
    return NotFound(f"there is no alert {alert_id} in the namespace {who.namespace}")
