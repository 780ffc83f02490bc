"""Alerts: which there are, and what people decide about one.

open ──acknowledge──► acknowledged   a person has it in hand: no repetition, no escalation
     ──snooze───────► snoozed        until a time nothing is told of it
     ──close────────► closed
     ◄─reopen──────── what was decided is taken back
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.notices.decisions import ACTIONS, decide, no_alert
from tickwise.control.notices.places import place_for, places_for
from tickwise.control.notices.rule_bodies import Span, seconds_of
from tickwise.control.texts import clean_reason, clean_text
from tickwise.control.times import instant_within
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import Alert, AlertState, NoticeEvent
from tickwise.domain.permissions import Permission
from tickwise.ports.store.notices import MAX_DECIDED, AlertQuery, NewAlertDecision, StandingAlertsQuery

SNOOZE_SECONDS_USUAL: Final = 3_600.0
SNOOZE_SECONDS_MOST: Final = 30 * 86_400.0

AlertNote = Annotated[str, Meta(max_length=1_000, description="A note for later readers.")]


class AlertNoteBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An alert is acknowledged, closed or opened again."""

    note: AlertNote | None = None


class AlertSnoozeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Nothing is told of an alert until a time, or for a time; for an hour if neither is sent."""

    until: Annotated[datetime, Meta(tz=True, description="Until this time, 30 days from now at most.")] | None = None
    length: Span | None = msgspec.field(name="for", default=None)
    note: AlertNote | None = None


class AlertsDecisionBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """All alerts that are not closed and match are acknowledged or closed; without a filter: all of the namespace."""

    state: (
        Annotated[
            list[AlertState],
            Meta(max_length=3, description="In one of these states; not sent: each that is not closed."),
        ]
        | UnsetType
    ) = UNSET
    rule_id: Annotated[UUID, Meta(description="Of this rule.")] | UnsetType = UNSET
    subject: Annotated[str, Meta(max_length=300, description="About this job, executor or key.")] | UnsetType = UNSET
    event: Annotated[NoticeEvent, Meta(description="Of this event.")] | UnsetType = UNSET
    until: (
        Annotated[
            datetime,
            Meta(tz=True, description="Only those whose newest event is not later: what came since is not decided."),
        ]
        | UnsetType
    ) = UNSET
    note: AlertNote | None = None
    dry_run: Annotated[bool, Meta(description="Only count them.")] = False
    installation: Annotated[
        bool, Meta(description="Those of the installation, not of the namespace: for its administrators.")
    ] = False


class DecidedAlerts(NamedTuple):
    """The outcome of a decision about all alerts that match."""

    matched: int
    """The number that matched, `MAX_DECIDED` at most."""
    more: bool
    """More matched: the decision was about the oldest of them; ask again for the others."""
    changed: int
    """The number of those that were decided; 0 of a dry run."""


class AlertService:
    """Everything about alerts. They are of rules for a whole namespace: a permission for jobs with certain labels is
    not enough."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.NOTICES_READ)
    async def page(self, who: Principal, query: AlertQuery, *, installation: bool = False) -> Sequence[Alert]:
        """Alerts, the newest event first. The namespace of the query is that of the caller, or `*`. Raises
        `Forbidden`."""
        namespace = place_for(who, Permission.NOTICES_READ, installation=installation)
        return await self._context.store.alerts.find(replace(query, namespace=namespace))

    @requires(Permission.NOTICES_READ)
    async def get(self, who: Principal, alert_id: UUID) -> Alert:
        """One. Raises `NotFound`."""
        return await self._find(who, alert_id, Permission.NOTICES_READ)

    @requires(Permission.NOTICES_OPERATE)
    async def acknowledge(self, who: Principal, alert_id: UUID, body: AlertNoteBody) -> Alert:
        """Take it in hand. Raises `NotFound`, `Conflict`."""
        return await self._decide(who, alert_id, AlertState.ACKNOWLEDGED, body.note)

    @requires(Permission.NOTICES_OPERATE)
    async def snooze(self, who: Principal, alert_id: UUID, body: AlertSnoozeBody) -> Alert:
        """Tell nothing of it until a time. Raises `NotFound`, `Invalid`, `Conflict`."""
        if body.until is not None and body.length is not None:
            raise Invalid("until and for are two ends; send one of them", pointer="/for")
        now = await self._context.time.now()
        if body.until is not None:
            until = instant_within(body.until, "/until")
            if not now < until <= now + SNOOZE_SECONDS_MOST:
                raise Invalid("give a time within the next 30 days", pointer="/until")
        else:
            length = SNOOZE_SECONDS_USUAL if body.length is None else seconds_of(body.length, "/for", least=1.0)
            until = now + length
        return await self._decide(who, alert_id, AlertState.SNOOZED, body.note, until=until)

    @requires(Permission.NOTICES_OPERATE)
    async def close(self, who: Principal, alert_id: UUID, body: AlertNoteBody) -> Alert:
        """Close it: the next event opens another one. Raises `NotFound`, `Conflict`."""
        return await self._decide(who, alert_id, AlertState.CLOSED, body.note)

    @requires(Permission.NOTICES_OPERATE)
    async def reopen(self, who: Principal, alert_id: UUID, body: AlertNoteBody) -> Alert:
        """Take the decision back. Raises `NotFound`; `Conflict` if another alert of its rule and subject is open by
        now."""
        return await self._decide(who, alert_id, AlertState.OPEN, body.note)

    @requires(Permission.NOTICES_OPERATE)
    async def acknowledge_all(self, who: Principal, body: AlertsDecisionBody) -> DecidedAlerts:
        """Take all that match in hand, or count them. Raises `Invalid`, `Forbidden`, `Conflict`."""
        return await self._decide_all(who, AlertState.ACKNOWLEDGED, body)

    @requires(Permission.NOTICES_OPERATE)
    async def close_all(self, who: Principal, body: AlertsDecisionBody) -> DecidedAlerts:
        """Close all that match, or count them. Raises `Invalid`, `Forbidden`, `Conflict`."""
        return await self._decide_all(who, AlertState.CLOSED, body)

    async def _decide_all(self, who: Principal, state: AlertState, body: AlertsDecisionBody) -> DecidedAlerts:
        said = clean_reason(body.note, "/note")
        subject = None if isinstance(body.subject, UnsetType) else clean_text(body.subject, "/subject")
        query = StandingAlertsQuery(
            namespace=place_for(who, Permission.NOTICES_OPERATE, installation=body.installation),
            states=() if isinstance(body.state, UnsetType) else tuple(body.state),
            rule_id=None if isinstance(body.rule_id, UnsetType) else body.rule_id,
            subject=subject,
            event=None if isinstance(body.event, UnsetType) else body.event,
            until=None if isinstance(body.until, UnsetType) else instant_within(body.until, "/until"),
        )
        if AlertState.CLOSED in query.states:
            raise Invalid("alerts that are closed are decided already; choose another state", pointer="/state")
        store = self._context.store
        count = len(await store.alerts.decide_all(query, None, audit=None))
        matched, more = min(count, MAX_DECIDED), count > MAX_DECIDED
        if body.dry_run:
            return DecidedAlerts(matched, more, 0)
        decision = NewAlertDecision(state, who.name, said)
        detail = {"rule_id": query.rule_id, "subject": subject, "event": query.event, "note": said, "matched": matched}
        audit = entry(
            who, ACTIONS[state], "alert", namespace=query.namespace,
            detail={name: str(value) for name, value in detail.items() if value is not None},
        )  # fmt: skip
        decided = await self._context.surely(lambda: store.alerts.decide_all(query, decision, audit=audit))
        return DecidedAlerts(matched, more, len(decided))

    async def _decide(
        self, who: Principal, alert_id: UUID, state: AlertState, note: str | None, *, until: float | None = None
    ) -> Alert:
        said = clean_reason(note, "/note")
        alert = await self._find(who, alert_id, Permission.NOTICES_OPERATE)
        return await decide(self._context, who, alert, state, note=said, until=until)

    async def _find(self, who: Principal, alert_id: UUID, permission: Permission) -> Alert:
        for namespace in places_for(who, permission):
            query = AlertQuery(namespace=namespace, alert_id=alert_id, limit=1)
            for found in await self._context.store.alerts.find(query):
                return found
        raise no_alert(who, alert_id)
