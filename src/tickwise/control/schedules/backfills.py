"""Occurrences of the past, run now: a range of a job's schedule, the earliest first.

Invariant: the runs of one request share its id as their origin, are named by it and their nominal times, and come into
being in one transaction; nothing of the time to come is ever run by it.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from msgspec import UNSET

from tickwise.control.audit.entries import entry
from tickwise.control.bodies import OCCURRENCES_MAX, BackfillBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.demand import make_runs
from tickwise.control.jobs.policies import payload_of
from tickwise.control.jobs.replans import check_recurring
from tickwise.control.rules import ruled, rules_for
from tickwise.control.times import instant_within, written
from tickwise.documents.definition import decode_definition, with_payload
from tickwise.domain import schedule as schedules
from tickwise.domain.audit import AuditAction
from tickwise.domain.calendar.rules import Closed, ScheduleRules
from tickwise.domain.errors import Conflict, Invalid
from tickwise.domain.model import Principal, Trigger, run_id, time_id
from tickwise.domain.schedule import Schedule
from tickwise.ports.signals import Topic
from tickwise.ports.store import NewRun, Replay

CLOSED_MAX: Final = 1_000
"""The most closed occurrences of a range that are passed over."""
SLICE: Final = 5
"""After so many occurrences others get a turn: asking calendars for one takes up to some 10 ms."""
PAYLOADS_BYTES_MAX: Final = 32 << 20
"""Of all runs of one request together: as much as a batch of jobs may bring."""


class Backfill(NamedTuple):
    """The result of a backfill."""

    backfill_id: UUID
    nominals: tuple[float, ...]
    """Of its runs, ascending."""
    closed: int
    """Occurrences of the range, up to the last one that was looked at, that calendars close: they are not run."""
    more: bool
    """The limit was reached before the end of the range."""


class Backfills:
    """Runs occurrences of the past, and ends such a request."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def backfill(
        self, who: Principal, job_id: UUID, body: BackfillBody, receipt_for: ReceiptFor[Backfill] | None = None
    ) -> Backfill | Replay:
        """Make runs for the occurrences of a past range, for a job in any status.

        Raises `NotFound`; `Invalid` for a range that is none, lies in the future or holds too many occurrences;
        `Conflict` for a job that runs once or is CANCELLED."""
        row = await self._context.job(who, job_id)
        plan = decode_definition(row.definition)
        check_recurring(row, plan, "backfilled")
        payload = payload_of(body.payload, body.params)
        now = await self._context.time.now()
        start, end = instant_within(body.start, "/from"), instant_within(body.end, "/to")
        schedule = plan.schedule(job_id)
        _check_range(schedule, start, end, body.limit, now)
        # Calendars say at which times the job is meant to run; a window closed something else, in its time.
        rules = await rules_for(self._context, ruled(row), plan.calendars)
        rules = None if rules is None else ScheduleRules(rules.calendars)
        chosen = await self._occurrences(schedule, start, end, body.limit or OCCURRENCES_MAX, rules)
        backfill = Backfill(time_id(int(now * 1000), self._context.clock.random_bytes(10)), *chosen)
        definition = None if payload is None else with_payload(row.definition, payload)
        if definition is not None and len(definition) * len(backfill.nominals) > PAYLOADS_BYTES_MAX:
            raise Invalid(
                f"each of the {len(backfill.nominals)} runs keeps the payload, which is too much at once; send limit, "
                "or leave the payload out",
                pointer="/params" if body.payload is UNSET else "/payload",
            )
        runs = tuple(
            NewRun(
                run_id=run_id(job_id, nominal, Trigger.BACKFILL, backfill.backfill_id.bytes),
                due=now,
                trigger=Trigger.BACKFILL,
                definition=definition,
                origin=backfill.backfill_id,
                nominal=nominal,
                overlap=body.overlap,
            )
            for nominal in backfill.nominals
        )
        receipt = receipt_for(backfill) if receipt_for is not None else None
        replay = await make_runs(self._context, who, job_id, runs, receipt)
        return backfill if replay is None else replay

    async def _occurrences(
        self, schedule: Schedule, start: float, end: float, most: int, rules: ScheduleRules | None
    ) -> tuple[tuple[float, ...], int, bool]:
        """The first of the range, at most so many, that no calendar closes; how many are closed; whether there are
        more."""
        found: list[float] = []
        closed = 0
        at = schedules.first_fire(schedule, start)
        while at is not None and at <= end and len(found) < most and closed < CLOSED_MAX:
            if rules is not None and isinstance(rules.verdict(at), Closed):
                closed += 1
            else:
                found.append(at)
            if (len(found) + closed) % SLICE == 0:
                await self._context.clock.sleep(0)
            at = schedules.next_fire(schedule, at)
        if not found:
            raise Conflict(
                f"calendars close all of the {closed} occurrences that were looked at, so nothing would run",
                pointer="/from",
                code="occurrence_closed",
            )
        return tuple(found), closed, at is not None and at <= end

    async def cancel(self, who: Principal, job_id: UUID, backfill_id: UUID) -> int:
        """End its unfinished runs: how many there were. Raises `NotFound` for the job."""
        row = await self._context.job(who, job_id)
        audit = entry(who, AuditAction.BACKFILL_CANCELLED, "job", job_id, detail={"origin": str(backfill_id)})
        cancelled = await self._context.surely(
            lambda: self._context.store.runs.cancel_all(
                row.namespace, job_id, backfill_id, principal=who.name, audit=audit
            )
        )
        self._context.signals.send(Topic.CANCELS)
        return cancelled


def _check_range(schedule: Schedule, start: float, end: float, limit: int | None, now: float) -> None:
    if end < start:
        raise Invalid("to is before from; give a later time", pointer="/to")
    if end > now:
        raise Invalid(f"to is in the future (now {written(now)}); a backfill runs past occurrences", pointer="/to")
    count = schedules.count_between(schedule, start, schedules.just_after(end))
    if count == 0:
        raise Invalid("the schedule names no time from `from` to `to`; give a longer range", pointer="/from")
    if limit is None and count > OCCURRENCES_MAX:
        raise Invalid(
            f"the range holds {count} occurrences, and one request runs at most {OCCURRENCES_MAX}; send limit, then go "
            "on from the last one of the answer, or ask for a shorter range",
            pointer="/to",
            code="backfill_too_large",
        )
