"""The actions of links in notices: acknowledge an alert, or run a run again.

    token ──read──► ActionLink ──► LinkedAction: what it would do, for a page with a button
                        └──act──► done as the link, which is the permission; on record with the notice that it was in

Invariant: a link does its one thing in its one namespace. A run that was rerun is not rerun again. A decision that a
person made after the link was sent stands: the link of an older notice does not undo it.
"""

from __future__ import annotations

from typing import NamedTuple

from tickwise.control.access import requires_none
from tickwise.control.bodies import RunRetryBody
from tickwise.control.context import ControlContext
from tickwise.control.notices.action_links import SKEW_SECONDS, ActionLink, ActionLinkReader, LinkAction
from tickwise.control.notices.decisions import decide
from tickwise.control.runs.retries import retry_run
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Origin, Principal
from tickwise.domain.notices.rules import Alert, AlertState
from tickwise.domain.permissions import Permission
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import RunRow
from tickwise.ports.store.notices import AlertQuery

NAME = "link of a notice"
"""The caller in the audit log."""

DECISIONS_READ = 50
"""Of the entries about an alert, the newest so many are read: each of them is a decision."""
_DECISIONS = frozenset(
    action.value
    for action in (
        AuditAction.ALERT_ACKNOWLEDGED, AuditAction.ALERT_SNOOZED, AuditAction.ALERT_CLOSED, AuditAction.ALERT_REOPENED,
    )
)  # fmt: skip


class LinkedAction(NamedTuple):
    """The action of a link, with its alert or run as it is now."""

    link: ActionLink
    alert: Alert | None = None
    run: RunRow | None = None
    job_name: str | None = None
    is_done: bool = False
    """It has no effect any more: the alert is acknowledged or closed, the run succeeded."""


class LinkActionService:
    """The actions of links in notices."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._reader = ActionLinkReader(context.store.sessions, lambda: context.store.upkeep.cluster_id, context.clock)

    @requires_none("the link itself is the permission: it was sent to those who may do this")
    async def look(self, token: str) -> LinkedAction:
        """The action of a link; nothing is changed. Raises `Unauthenticated`; `NotFound` for an alert or run that is
        gone, `Conflict`, code `alert_decided`, for one that a person decided about after the link was made."""
        link = await self._reader.read(token)
        if link.action is LinkAction.ACKNOWLEDGE:
            query = AlertQuery(namespace=link.namespace, alert_id=link.subject, limit=1)
            for alert in await self._context.store.alerts.find(query):
                is_done = alert.state in (AlertState.ACKNOWLEDGED, AlertState.CLOSED)
                if not is_done:
                    await self._check_undecided(link)
                return LinkedAction(link, alert=alert, job_name=alert.subject_name, is_done=is_done)
            raise NotFound("the alert of this link is gone: it was closed long ago")
        run = await self._context.store.runs.get(link.namespace, link.subject)
        if run is None:
            raise NotFound("the run of this link is gone: its record was dropped")
        job = await self._context.store.jobs.get(link.namespace, run.job_id)
        is_done = run.state is RunState.SUCCESS
        return LinkedAction(link, run=run, job_name=None if job is None else job.name, is_done=is_done)

    async def _check_undecided(self, link: ActionLink) -> None:
        """Raise `Conflict` if a person decided about the alert after the link was made. It is made with the clock of a
        scheduler, which may be behind that of the store by `SKEW_SECONDS`."""
        query = AuditQuery(
            namespace=link.namespace, target=str(link.subject), since=link.made_at + SKEW_SECONDS, limit=DECISIONS_READ
        )
        if any(row.action in _DECISIONS for row in await self._context.store.audit.find(query)):
            raise Conflict(
                "somebody decided about this alert after the link was sent, so the link changes nothing: sign in, and "
                "do it on the page of the alert",
                code="alert_decided",
            )

    @requires_none("the link itself is the permission: it was sent to those who may do this")
    async def act(self, token: str, origin: Origin) -> LinkedAction:
        """Do it. Raises as `look`; `Conflict` for a run that goes on or was rerun before."""
        found = await self.look(token)
        link = found.link
        permission = Permission.NOTICES_OPERATE if found.run is None else Permission.RUNS_WRITE
        who = Principal(NAME, link.namespace, frozenset({permission.value})).with_origin(*origin)
        if found.is_done:
            return found
        if found.alert is not None:
            note = f"by the link of the notice {link.notice_id}"
            return found._replace(
                alert=await decide(self._context, who, found.alert, AlertState.ACKNOWLEDGED, note=note)
            )
        await retry_run(self._context, who, link.subject, RunRetryBody())
        return found
