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
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from tickwise.control.access import requires
from tickwise.control.context import ControlContext
from tickwise.control.notices.decisions import decide, no_alert
from tickwise.control.notices.places import place_for, places_for
from tickwise.control.notices.rule_bodies import Span, seconds_of
from tickwise.control.texts import clean_reason
from tickwise.control.times import instant_within
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import Alert, AlertState
from tickwise.domain.permissions import Permission
from tickwise.ports.store.notices import AlertQuery

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
