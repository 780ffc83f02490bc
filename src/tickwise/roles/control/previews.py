"""What a schedule will do: its next fires on two clocks, days of clock changes marked, and what it says in English."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from tickwise.domain import schedule as schedules
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Principal
from tickwise.domain.schedule import Schedule
from tickwise.domain.zones import zone_named
from tickwise.roles.control.bodies import PreviewBody
from tickwise.roles.control.planning import saved_schedule, schedule_of, upcoming, words
from tickwise.roles.control.runs import Runs
from tickwise.roles.definition import decode_definition


class Fire(NamedTuple):
    """One occurrence to come."""

    instant: float
    local: datetime
    """On the job's clock."""
    viewer: datetime
    """On the viewer's."""
    clock_change: bool
    """The job's clock is changed on this day."""


class Preview(NamedTuple):
    """What a schedule says."""

    schedule: Schedule
    explanation: str
    viewer_timezone: str
    warnings: tuple[str, ...]
    fires: tuple[Fire, ...]


class Previews(Runs):
    """`preview` of saved and unsaved schedules (SPEC B8)."""

    async def preview_job(
        self, who: Principal, job_id: UUID, *, count: int, viewer_timezone: str | None = None
    ) -> Preview:
        """What a job's schedule says from now on, whether it is paused or not. Raises `NotFound`."""
        row = await self._job(who, job_id)
        now = await self._time.now()
        return _preview(saved_schedule(decode_definition(row.definition)), now, count, viewer_timezone)

    async def preview(self, body: PreviewBody) -> Preview:
        """What a schedule would say if it were saved now. Raises `Invalid`."""
        now = await self._time.now()
        return _preview(schedule_of(words(body), now), now, body.count, body.viewer_timezone)


def _preview(schedule: Schedule, now: float, count: int, viewer_timezone: str | None) -> Preview:
    zone = zone_named(schedule.timezone)
    try:
        viewer = zone_named(viewer_timezone or schedule.timezone)
    except Invalid as refusal:
        refusal.pointer = "/viewer_timezone"
        raise
    return Preview(
        schedule,
        schedules.explain(schedule),
        viewer_timezone or schedule.timezone,
        schedules.warnings(schedule),
        tuple(_fire(due, zone, viewer) for due in upcoming(schedule, now, count)),
    )


def _fire(due: float, zone: ZoneInfo, viewer: ZoneInfo) -> Fire:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(due * 1_000_000))
    local = moment.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    # Wall-clock arithmetic: the next midnight on that clock, however long the day is.
    following = midnight + timedelta(days=1)
    return Fire(due, local, moment.astimezone(viewer), midnight.utcoffset() != following.utcoffset())
