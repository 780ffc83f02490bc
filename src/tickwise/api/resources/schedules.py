"""Occurrences of a schedule: the next ones (`preview`), one occurrence moved (`skipNext`, `snooze`), many of the past
(`backfill`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, given, replayed
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API, Instant, time_of
from tickwise.control.bodies import BackfillBody, PreviewBody, SkipNextBody, SnoozeBody
from tickwise.control.schedules.backfills import Backfill
from tickwise.control.schedules.fires import Moved
from tickwise.control.schedules.previews import Look, OccurrenceFate, Preview
from tickwise.control.schedules.service import ScheduleService
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import Replay

_preview: Final = msgspec.json.Decoder(PreviewBody)
_skip_next: Final = msgspec.json.Decoder(SkipNextBody)
_snooze: Final = msgspec.json.Decoder(SnoozeBody)
_backfill: Final = msgspec.json.Decoder(BackfillBody)


class PreviewQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """From when on, how far to look, and for whom."""

    start: Annotated[datetime, Meta(tz=True, description="Fires after this instant. Default: now.")] | UnsetType = (
        msgspec.field(name="from", default=UNSET)
    )
    count: Annotated[int, Meta(ge=1, le=1_000)] = 20
    viewer_timezone: Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType = UNSET


class FireView(msgspec.Struct, kw_only=True):
    """One occurrence to come, on three clocks, and what becomes of it."""

    nominal: Instant
    """In the job's zone."""
    utc: Instant
    viewer: Instant
    """In the viewer's zone."""
    decision: OccurrenceFate
    """As far as it is known now: earlier runs may still go on by then."""
    due: Instant | None
    """The due time of its run in UTC: later than the nominal time by jitter, or by what it is deferred; null:
    skipped."""
    clock_change: bool
    """The job's clock is changed on this day."""
    note: str | None


class PreviewView(msgspec.Struct, kw_only=True):
    """The preview of a schedule."""

    explanation: str
    timezone: str
    viewer_timezone: str
    warnings: tuple[str, ...]
    fires: list[FireView]


class OccurrenceView(msgspec.Struct, kw_only=True):
    """The result for one occurrence."""

    run_id: UUID
    nominal_time: Instant
    due_time: Instant | None
    """The time at which it runs; null: it does not."""
    status: RunState
    """SKIPPED or QUEUED; DISPATCHED: an executor was asked to give it up, and does unless it has begun."""


class BackfillView(msgspec.Struct, kw_only=True):
    """The runs that were asked for. They are listed by `GET /jobs/{job_id}/runs?origin={backfill_id}`."""

    backfill_id: UUID
    count: int
    first: Instant
    last: Instant
    """Nominal times."""
    closed: int
    """Occurrences that were left out because calendars close them."""
    more: bool
    """The limit came before the end of the range: go on after `last`."""


class BackfillCancelled(msgspec.Struct, kw_only=True):
    """The number of unfinished runs that were ended, or asked to end."""

    cancelled: int


async def job_preview(call: Call) -> Reply:
    """The next fires of a job."""
    query: PreviewQuery = call.query
    look = Look(start=given(query.start), count=query.count, viewer_timezone=given(query.viewer_timezone))
    preview = await call.control.schedules.preview_job(call.principal, call.uuid("job_id", "job"), look)
    return answer(200, _preview_view(preview))


async def schedule_preview(call: Call) -> Reply:
    """The next fires of a schedule that is not saved."""
    body = decode(_preview, call.body, field_names(PreviewBody))
    return answer(200, _preview_view(await call.control.schedules.preview(call.principal, body)))


def _preview_view(preview: Preview) -> PreviewView:
    return PreviewView(
        explanation=preview.explanation,
        timezone=preview.schedule.timezone,
        viewer_timezone=preview.viewer_timezone,
        warnings=preview.warnings,
        fires=[
            FireView(
                nominal=fire.local,
                utc=time_of(fire.instant),
                viewer=fire.viewer,
                decision=fire.fate,
                due=None if fire.due is None else time_of(fire.due),
                clock_change=fire.clock_change,
                note=fire.note,
            )
            for fire in preview.fires
        ],
    )


async def job_skip_next(call: Call) -> Reply:
    """Skip the next occurrence: 200 if that is done, 202 if its executor was asked."""
    body = decode(_skip_next, call.body or b"{}", field_names(SkipNextBody))
    return _moved(await call.control.schedules.skip_next(call.principal, call.uuid("job_id", "job"), body))


async def job_snooze(call: Call) -> Reply:
    """Let the next occurrence run later."""
    body = decode(_snooze, call.body, field_names(SnoozeBody))
    return _moved(await call.control.schedules.snooze(call.principal, call.uuid("job_id", "job"), body))


def _moved(moved: Moved) -> Reply:
    view = OccurrenceView(
        run_id=moved.run_id,
        nominal_time=time_of(moved.nominal),
        due_time=None if moved.due is None else time_of(moved.due),
        status=moved.state,
    )
    return answer(202 if moved.state is RunState.DISPATCHED else 200, view)


async def job_backfill(call: Call) -> Reply:
    """Ask for runs of the past."""
    body = decode(_backfill, call.body, field_names(BackfillBody))
    claim = call.claim
    done = await call.control.schedules.backfill(
        call.principal,
        call.uuid("job_id", "job"),
        body,
        None if claim is None else lambda made: claim.receipt(_backfilled(made)),
    )
    return replayed(call, done) if isinstance(done, Replay) else _backfilled(done)


def _backfilled(done: Backfill) -> Reply:
    view = BackfillView(
        backfill_id=done.backfill_id,
        count=len(done.nominals),
        first=time_of(done.nominals[0]),
        last=time_of(done.nominals[-1]),
        closed=done.closed,
        more=done.more,
    )
    return answer(202, view)


async def backfill_cancel(call: Call) -> Reply:
    """End the unfinished runs of a backfill."""
    cancelled = await call.control.schedules.cancel_backfill(
        call.principal, call.uuid("job_id", "job"), call.uuid("backfill_id", "backfill")
    )
    return answer(200, BackfillCancelled(cancelled=cancelled))


SCHEDULES: Final = (
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}/preview", control=ScheduleService.preview_job,
        name="previewJob", tag="schedules",
        summary="The next fires of a job, in its zone and the viewer's; calendars are applied.",
        handler=job_preview, answers=(PreviewView,), query=PreviewQuery, refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs:preview", control=ScheduleService.preview,
        name="previewSchedule", previews=True,
        tag="schedules",
        summary="The next fires of a schedule that is not saved.",
        handler=schedule_preview, body=PreviewBody, answers=(PreviewView,),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/skipNext", control=ScheduleService.skip_next,
        name="skipNext", tag="schedules",
        summary="Skip the next occurrence; the schedule stays (202: an executor holds it and was asked to give it up).",
        description="Sent again, it skips the next one; name the intended one with `occurrence`. Occurrences that "
        "calendars, windows or stops skip anyway are passed over, and go on record with it.",
        handler=job_skip_next, body=SkipNextBody, optional_body=True, answers=(OccurrenceView,), further=(202,),
        refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/snooze", control=ScheduleService.snooze,
        name="snooze", tag="schedules",
        summary="Let the next occurrence run at another time; it keeps its nominal time, and the schedule stays.",
        handler=job_snooze, body=SnoozeBody, answers=(OccurrenceView,), refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/backfill", control=ScheduleService.backfill,
        name="backfill", tag="schedules",
        summary="Run the occurrences of a range of the past, the earliest first, by the schedule as it is now.",
        description="Each run keeps its nominal time and has the trigger `backfill`. Calendars apply; the past of the "
        "job itself (whether it was there, paused, or ran) does not.",
        handler=job_backfill, body=BackfillBody, answers=(BackfillView,), status=202, refuses=(404, 409), foretold=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/backfills/{{backfill_id}}/cancel",
        control=ScheduleService.cancel_backfill,
        name="cancelBackfill", tag="schedules",
        summary="End the runs of a backfill that have not ended.",
        handler=backfill_cancel, answers=(BackfillCancelled,), refuses=(404,),
    ),
)  # fmt: skip
