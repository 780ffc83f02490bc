"""Quiet hours: on the wall clock of a zone, over midnight, over changes of clocks."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tickwise.domain.notices.quiet import quiet_until
from tickwise.domain.notices.rules import QuietHours

BERLIN = "Europe/Berlin"
NIGHT = QuietHours(22 * 60, 7 * 60, BERLIN)


def at(text: str, fold: int = 0, zone: str = BERLIN) -> float:
    """The instant of a wall time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("quiet", "now", "until"),
    [
        (NIGHT, "2026-11-02T21:59", None),
        (NIGHT, "2026-11-02T22:00", "2026-11-03T07:00"),
        (NIGHT, "2026-11-03T00:00", "2026-11-03T07:00"),
        (NIGHT, "2026-11-03T06:59", "2026-11-03T07:00"),
        (NIGHT, "2026-11-03T07:00", None),
        (QuietHours(9 * 60, 17 * 60, BERLIN), "2026-11-03T12:00", "2026-11-03T17:00"),
        (QuietHours(9 * 60, 17 * 60, BERLIN), "2026-11-03T08:00", None),
        (QuietHours(60, 60, BERLIN), "2026-11-03T12:00", "2026-11-04T01:00"),
        # Friday night only: it goes on into Saturday, and Saturday night is loud.
        (NIGHT._replace(weekdays=frozenset({4})), "2026-11-07T03:00", "2026-11-07T07:00"),
        (NIGHT._replace(weekdays=frozenset({4})), "2026-11-07T23:00", None),
        # The night in which clocks go forward is an hour shorter, and the one in which they go back longer.
        (NIGHT, "2026-03-28T23:00", "2026-03-29T07:00"),
        (NIGHT, "2026-10-24T23:00", "2026-10-25T07:00"),
        # 02:30 does not exist: it is over half an hour after the change.
        (QuietHours(22 * 60, 150, BERLIN), "2026-03-29T03:29", "2026-03-29T03:30"),
        (QuietHours(22 * 60, 150, BERLIN), "2026-03-29T03:30", None),
        (None, "2026-11-03T00:00", None),
    ],
)
def test_quiet_hours_end(quiet: QuietHours | None, now: str, until: str | None) -> None:
    """At the end of those that began last."""
    assert (None if until is None else at(until)) == quiet_until(quiet, at(now))


def test_a_time_that_comes_twice_counts_once() -> None:
    """Quiet until half past two ends at the first of both."""
    quiet = QuietHours(22 * 60, 150, BERLIN)
    assert at("2026-10-25T02:30", 0) == quiet_until(quiet, at("2026-10-25T02:29", 0))
    assert quiet_until(quiet, at("2026-10-25T02:29", 1)) is None


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Asia/Kolkata", "Pacific/Apia", "UTC"])
def test_each_hour_of_a_year_is_quiet_by_the_clock_on_the_wall(zone: str) -> None:
    """But for the hours around a change of clocks."""
    quiet = QuietHours(22 * 60, 7 * 60, zone)
    for hour in range(365 * 24):
        now = at("2026-01-01T00:30", zone="UTC") + hour * 3600.0
        wall = datetime.fromtimestamp(now, ZoneInfo(zone))
        is_quiet = wall.hour >= 22 or wall.hour < 7
        until = quiet_until(quiet, now)
        assert is_quiet == (until is not None), (zone, wall)
        assert until is None or now < until <= now + 10 * 3600.0, (zone, wall)
