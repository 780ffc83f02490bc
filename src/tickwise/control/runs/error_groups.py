"""Errors: failures grouped by cause, and what people decide about a group (`domain.error_groups`).

    OPEN ──resolve──► RESOLVED until it fails again
         ──ignore───► IGNORED until a time or a number of failures
         ◄─reopen──── what was decided is taken back

A group is redriven as all else that a filter finds: its dead letters are those of the filter `error_id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.access import check_namespace, requires
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import ErrorIgnoreBody, ErrorResolveBody
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_reason, clean_text
from tickwise.control.times import instant_within
from tickwise.domain.audit import AuditAction
from tickwise.domain.error_groups import HOURS_SECONDS, ErrorDecision
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.store import (
    PAGE_BYTES,
    ErrorGroupQuery,
    ErrorGroupRow,
    ErrorHour,
    ErrorJob,
    NewErrorDecision,
    Page,
)

JOBS_SHOWN: Final = 50

_ACTIONS: Final[Mapping[ErrorDecision | None, AuditAction]] = {
    ErrorDecision.RESOLVE: AuditAction.ERROR_RESOLVED,
    ErrorDecision.IGNORE: AuditAction.ERROR_IGNORED,
    None: AuditAction.ERROR_REOPENED,
}


class ErrorDetails(NamedTuple):
    """A group with what is counted in it."""

    row: ErrorGroupRow
    jobs: Sequence[ErrorJob]
    """Those with most failures."""
    hours: Sequence[ErrorHour]
    """Of the last `HOURS_SECONDS`, those in which something failed."""


class ErrorGroupService:
    """Everything about errors. A group may concern each job of its namespace: a permission for jobs with certain labels
    is not enough."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.RUNS_READ)
    async def search(self, who: Principal, query: ErrorGroupQuery) -> Page[ErrorGroupRow]:
        """The group that failed last first. A page is bounded in bytes."""
        check_namespace(who, query.namespace)
        for text, pointer in ((query.text, "/text"), (query.reason, "/reason"), (query.task_kind, "/task_kind")):
            if text is not None:
                clean_text(text, pointer)
        return await self._context.store.error_groups.search(replace(query, bytes_most=PAGE_BYTES))

    @requires(Permission.RUNS_READ)
    async def get(self, who: Principal, group: UUID) -> ErrorDetails:
        """One group. Raises `NotFound`."""
        store = self._context.store.error_groups
        row = await store.get(who.namespace, group)
        if row is None:
            raise _no_group(who, group)
        since = await self._context.time.now() - HOURS_SECONDS
        jobs = await store.jobs(who.namespace, group, JOBS_SHOWN)
        return ErrorDetails(row, jobs, await store.hours(who.namespace, [group], since))

    @requires(Permission.RUNS_READ)
    async def hours(self, who: Principal, groups: Sequence[UUID], since: float) -> Sequence[ErrorHour]:
        """The hours from `since` on in which these groups had failures."""
        return await self._context.store.error_groups.hours(who.namespace, groups, since)

    @requires(Permission.RUNS_READ)
    async def of_runs(self, who: Principal, runs: Sequence[UUID]) -> Mapping[UUID, UUID]:
        """The groups of runs that failed for good, as far as they are counted yet."""
        return await self._context.store.error_groups.of_runs(who.namespace, runs)

    @requires(Permission.RUNS_WRITE)
    async def resolve(self, who: Principal, group: UUID, body: ErrorResolveBody) -> ErrorGroupRow:
        """It is resolved until it fails again. Raises `NotFound`, `Conflict`."""
        return await self._decide(who, group, NewErrorDecision(ErrorDecision.RESOLVE, who.name, _note(body.note)))

    @requires(Permission.RUNS_WRITE)
    async def ignore(self, who: Principal, group: UUID, body: ErrorIgnoreBody) -> ErrorGroupRow:
        """It is ignored until a time, or for a number of failures. Raises `NotFound`, `Invalid`, `Conflict`."""
        if body.until is None and body.failures is None:
            raise Invalid("say until when it is ignored, or for how many failures", pointer="/until")
        until = None if body.until is None else instant_within(body.until, "/until")
        if until is not None and until <= await self._context.time.now():
            raise Invalid("until is in the past; give a later time", pointer="/until")
        decision = NewErrorDecision(ErrorDecision.IGNORE, who.name, _note(body.note), until, body.failures)
        return await self._decide(who, group, decision)

    @requires(Permission.RUNS_WRITE)
    async def reopen(self, who: Principal, group: UUID) -> ErrorGroupRow:
        """Take back the decision about it. Raises `NotFound`, `Conflict`."""
        return await self._decide(who, group, NewErrorDecision(None, who.name))

    async def _decide(self, who: Principal, group: UUID, decision: NewErrorDecision) -> ErrorGroupRow:
        detail = {"note": decision.note, "until": decision.until, "failures": decision.more}
        audit = entry(who, _ACTIONS[decision.decision], "error", group, detail=detail)
        row = await self._context.surely(
            lambda: self._context.store.error_groups.decide(who.namespace, group, decision, audit=audit)
        )
        if row is None:
            raise _no_group(who, group)
        return row


def _no_group(who: Principal, group: UUID) -> NotFound:
    return NotFound(f"there is no group of errors {group} in the namespace {who.namespace}")


def _note(note: str | None) -> str | None:
    return clean_reason(note, "/note")
