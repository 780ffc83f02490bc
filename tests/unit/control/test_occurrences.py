"""The time line keeps its word: what it says of an occurrence to come is what a scheduler makes of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.scene import DAY, START, scene
from tickwise.control.schedules.occurrences import Occurrence, Section
from tickwise.domain.decision import TimerState
from tickwise.domain.model import Principal, name_before, name_from, run_id, time_id
from tickwise.testing.factories import Factory

ADA = Principal("ada", "default", frozenset({"*"}))
NIGHT = {
    "weekly": [{"days": ["fri", "sat"], "from": "20:00", "to": "04:00", "name": "night"}],
    "timezone": "Asia/Tokyo",
}
NOON = {"periods": [{"from": "2027-01-15T11:50:00Z", "to": "2027-01-15T12:10:00Z"}]}
SKIPS = [{"name": "night"}]
DEFERS = [{"name": "noon", "otherwise": "defer"}]


@pytest.mark.parametrize(
    "body",
    [
        {"cron": "0 * * * *"},
        {"cron": "*/20 * * * *", "timezone": "Europe/Berlin", "jitter_seconds": 300},
        {"every": "40m", "window_seconds": 900},
        {"cron": "H/30 * * * *", "calendars": SKIPS},
        {"cron": "*/30 * * * *", "calendars": DEFERS},
        {"every": "1h", "calendars": [*SKIPS, *DEFERS], "jitter_seconds": 60},
        {"cron": "0 * * * *", "calendars": SKIPS, "max_runs": 7},
        {"cron": "0 * * * *", "end_at": "2027-01-15T20:30:00Z", "start_at": "2027-01-15T10:00:00Z"},
        {"cron": "*/30 * * * *", "calendars": [{"name": "night", "mode": "include"}]},
        {"at": "2027-01-15T12:00:00Z", "calendars": DEFERS},
    ],
)
async def test_what_is_told_ahead_is_what_becomes(body: dict[str, Any]) -> None:
    """A day of it, for schedules with calendars, jitter and bounds: the same names, outcomes, reasons and due times.
    Of those deferred to one time, the last runs for all."""
    async with scene() as here:
        await here.ask("PUT", "/calendars/night", 201, NIGHT)
        await here.ask("PUT", "/calendars/noon", 201, NOON)
        job_id = UUID(await here.create(**body, overlap="allow"))
        section = Section(start=START + 1, end=START + DAY, limit=1_000)
        told = await here.world.control.schedules.occurrences(ADA, job_id, section)
        await here.schedule(DAY + 3_600, step=60)
        became = await here.world.control.schedules.occurrences(ADA, job_id, section)
        assert told.occurrences
        assert [_kept(each) for each in _merged(told.occurrences)] == [_kept(each) for each in became.occurrences]


def _merged(told: tuple[Occurrence, ...]) -> list[Occurrence]:
    """Deferred to the same time: the last one runs, the others are one record."""
    found: list[Occurrence] = []
    for each in told:
        before = found[-1] if found else None
        if before is not None and (before.outcome, each.outcome) == ("defer", "defer"):
            found[-1] = before._replace(outcome="skip", due=None)  # type: ignore[arg-type]  # compared as text
        found.append(each)
    return found


def _kept(each: Occurrence) -> tuple[object, ...]:
    """What must be the same before and after."""
    runs = each.outcome in ("fire", "defer", "QUEUED")
    return each.name, each.nominal, runs, each.due, None if runs else each.reason


@pytest.mark.parametrize("instant", [0.0, 0.001, 1.001, START, START + 0.0005, START + 0.999999, 2e11])
def test_names_are_bounded_by_their_time(instant: float) -> None:
    """Every name of this time lies behind the one bound, and no name of a millisecond before does."""
    for nominal in (instant, instant + 0.0004):
        assert name_from(instant) <= run_id(UUID(int=7), nominal)
    before = name_before(instant)
    assert before is None or before < run_id(UUID(int=7), instant)
    if instant >= 0.001:
        assert time_id(round(instant * 1_000_000) // 1000 - 1, b"\xff" * 10) < name_from(instant)


async def test_a_timer_that_the_schedule_names_no_more_is_told_as_it_stands() -> None:
    """The rules of a zone may have changed since it was stored: its time counts."""
    async with scene() as here:
        job = Factory(START).recurring(
            START + 1_234.0, definition='{"schedule_type":"CRON","cron_expression":"0 * * * *","task":{"kind":"shell"}}'
        )
        await here.store.jobs.add([job])
        row = await here.store.jobs.get("default", job.job_id)
        assert row is not None
        assert TimerState(START + 1_234.0) == row.timer
        line = await here.world.control.schedules.occurrences(ADA, job.job_id, Section(end=START + 3_600, limit=10))
        assert [START + 1_234.0, START + 3_600.0] == [each.nominal for each in line.occurrences]
