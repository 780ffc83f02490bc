"""`/jobs/{job_id}/occurrences`: one time line of what was, what is held back and what is to come."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_id, given_instant, page_links
from tickwise.api.wire import API, Instant, time_of
from tickwise.control.filters import TriggerName
from tickwise.control.schedules.occurrences import Occurrence, OccurrenceKind, Section
from tickwise.control.schedules.service import ScheduleService
from tickwise.domain.model import Trigger


class OccurrencesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part of the time line."""

    start: Annotated[datetime, Meta(tz=True, description="Default: a day ago.")] | UnsetType = msgspec.field(
        name="from", default=UNSET
    )
    end: Annotated[datetime, Meta(tz=True, description="Default: a day ahead.")] | UnsetType = msgspec.field(
        name="to", default=UNSET
    )
    limit: Annotated[int, Meta(ge=1, le=1_000, description="The most items of one page.")] = 100
    cursor: (
        Annotated[
            str,
            Meta(
                max_length=500,
                pattern=r"^[A-Za-z0-9_-]+$(?!\n)",
                description="From the `Link` header of the page before.",
            ),
        ]
        | UnsetType
    ) = UNSET


class TimeLineEntry(msgspec.Struct, kw_only=True):
    """One occurrence, or several that are told of together."""

    nominal_time: Instant
    """The time that the schedule names; of several, the first."""
    due_time: Instant | None
    """The due time of its run; null: it does not run."""
    kind: OccurrenceKind
    outcome: str
    """Of what is on record: the run's status. Else what becomes of it as far as it is known: fire, skip or defer."""
    trigger: TriggerName
    reason: str | None
    run_id: UUID | None
    """Of what is on record."""
    occurrences: int
    """For how many it stands."""
    until: Instant | None
    """With several: the nominal time of the last."""
    note: str | None


async def occurrences_list(call: Call) -> Reply:
    """A page of a job's time line, the earliest first."""
    query: OccurrencesQuery = call.query
    section = Section(
        start=given_instant(query.start),
        end=given_instant(query.end),
        after=cursor_id(query.cursor),
        limit=query.limit,
    )
    line = await call.control.schedules.occurrences(call.principal, call.uuid("job_id", "job"), section)
    last = str(line.occurrences[-1].name) if line.more else None
    return answer(200, [_view(each) for each in line.occurrences], headers=page_links(call, last))


def _view(each: Occurrence) -> TimeLineEntry:
    return TimeLineEntry(
        nominal_time=time_of(each.nominal),
        due_time=None if each.due is None else time_of(each.due),
        kind=each.kind,
        outcome=each.outcome.value,
        trigger=TriggerName[Trigger(each.trigger).name],
        reason=each.reason,
        run_id=each.name if each.recorded else None,
        occurrences=each.occurrences,
        until=None if each.until is None else time_of(each.until),
        note=each.note,
    )


OCCURRENCES: Final = (
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}/occurrences", control=ScheduleService.occurrences,
        name="listOccurrences",
        tag="schedules",
        summary="The time line of a job: past occurrences with their outcomes, held ones, and those to come.",
        description="The earliest first. Calendars, windows, pauses and jitter are applied to those to come, by the "
        "rules of now. Runs requested beside the schedule are not in it.",
        handler=occurrences_list, answers=(list[TimeLineEntry],), query=OccurrencesQuery, refuses=(404,),
    ),
)  # fmt: skip
