"""Where a schedule stands that lost its timer."""

from __future__ import annotations

import pytest

from tickwise.domain.decision import TimerState
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.roles.scheduler.invariant_repair import timer_after

PLANNED = 1_800_000_000.0


@pytest.mark.parametrize(
    ("end_at", "expected"),
    [(PLANNED + 5.0, None), (PLANNED + 10.0, TimerState(PLANNED + 10.0))],
    ids=["that ends before its first time", "that goes on"],
)
def test_the_moment_of_planning_is_no_occurrence_of_an_interval(end_at: float, expected: TimerState | None) -> None:
    """An interval fires first one interval after it was stored. One that ended before that never fires."""
    schedule = Schedule(
        type=ScheduleType.INTERVAL, interval_seconds=10.0, anchor=PLANNED, planned_at=PLANNED, end_at=end_at
    )
    assert expected == timer_after(schedule, None, PLANNED)
