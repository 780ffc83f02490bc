"""From what was said to a schedule: the short way for the usual bodies is the long way, only shorter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.planning import Timing, planned, timing
from tickwise.documents.definition import CalendarUse, MisfirePolicy, Plan
from tickwise.domain.errors import Invalid
from tickwise.domain.model import run_id
from tickwise.domain.schedule import MisfireMode, ScheduleType

JOB = UUID(int=7)
NOW = 1_800_000_000.25
SECONDS = st.sampled_from([-1e9, -61.0, -60.0, -59.9, -1e-6, 0.0, 1e-6, 1.0, 3e9, 2.5e11])


def times() -> st.SearchStrategy[Any]:
    begin = datetime.fromtimestamp(NOW, UTC)
    moments = SECONDS.filter(lambda seconds: seconds < 2e11).map(lambda seconds: begin + timedelta(seconds=seconds))
    return st.one_of(st.just(UNSET), st.none(), moments, st.just(datetime(9999, 12, 31, tzinfo=UTC)))


def outcome(make: Any) -> Timing | tuple[str, str | None]:
    try:
        found: Timing = make()
    except Invalid as refusal:
        return refusal.detail, refusal.pointer
    return msgspec.structs.replace(found, usual=False)


@given(
    kind=st.sampled_from([UNSET, None, *ScheduleType]),
    schedule_time=times(),
    at=st.one_of(st.just(UNSET), times()),
    cron=st.sampled_from([UNSET, UNSET, None, "0 3 * * *", "nonsense"]),
    every=st.sampled_from([UNSET, UNSET, None, "1h"]),
    timezone=st.sampled_from([UNSET, None, "UTC", "Europe/Berlin", "Mars"]),
    max_runs=st.sampled_from([UNSET, UNSET, None, 3]),
    jitter_seconds=st.sampled_from([UNSET, UNSET, None, 0.0, 5.0]),
    misfire=st.sampled_from([UNSET, UNSET, None, MisfirePolicy(mode=MisfireMode.SKIP)]),
    calendars=st.sampled_from([UNSET, UNSET, None, [], [CalendarUse("a")]]),
)
def test_the_short_way_comes_to_the_same(kind: Any, **said: Any) -> None:
    """The same plan, or the same refusal at the same field, whatever is said of time."""
    body = JobBody(name="a", schedule_type=kind, **said)
    assert outcome(lambda: planned(body, JOB, NOW)) == outcome(lambda: timing(body, JOB, NOW))


@pytest.mark.parametrize("name", ["schedule_time", "at"])
def test_one_time_takes_the_short_way_under_either_name(name: str) -> None:
    """A job that names its one time by the short form costs a submit no more than one that names it by the long form:
    both take the short way, to the same plan."""
    at = NOW + 60.0
    found = timing(msgspec.convert({"name": "a", name: datetime.fromtimestamp(at, UTC)}, JobBody), JOB, NOW)
    plan = Plan(schedule_type=ScheduleType.FUTURE, schedule_time=at)
    assert found == Timing(plan, at, usual=True, run_id=run_id(JOB, at))
