"""Times are read as people write them, and shown as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwise.cli import moments

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()  # 13:00 in Berlin


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2 days", 172_800), ("1h 30 min", 5400), ("250ms", 0.25),
        ("45", 45), ("1.5h", 5400), ("1w", 604_800), ("2 HOURS", 7200),
    ],
)  # fmt: skip
def test_a_duration_is_read(text: str, seconds: float) -> None:
    """Numbers with units, joined or apart, or bare seconds."""
    assert seconds == moments.duration_seconds(text)


@pytest.mark.parametrize("text", ["", "soon", "5x", "m5", "5m x", "-5m", "-3", "nan", "inf", "1e30", "5mm"])
def test_what_is_no_duration_is_refused_with_what_to_write(text: str) -> None:
    """The message shows a form that works."""
    with pytest.raises(moments.UnreadableTime, match="90s, 5m, 1h30m"):
        moments.duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-01-31T10:00:00+01:00", "2027-01-31T09:00:00+00:00"),
        ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00+00:00"),
        ("2027-01-31 10:00", "2027-01-31T09:00:00+00:00"),
        ("2027-07-31 10:00", "2027-07-31T08:00:00+00:00"),
        ("14:30", "2026-11-21T13:30:00+00:00"),
        ("12:30", "2026-11-22T11:30:00+00:00"),
        ("tomorrow", "2026-11-21T23:00:00+00:00"),
        ("today 12:30", "2026-11-21T11:30:00+00:00"),
        ("tomorrow 10:00", "2026-11-22T09:00:00+00:00"),
        ("yesterday at 10:00", "2026-11-20T09:00:00+00:00"),
        ("Tomorrow at 9:05", "2026-11-22T08:05:00+00:00"),
        ("5m", "2026-11-21T12:05:00+00:00"),
    ],
)
def test_a_moment_is_read_on_the_given_clock(text: str, expected: str) -> None:
    """A wall clock counts in the zone, a bare time of day is its next occurrence, a duration counts from now."""
    assert expected == moments.moment(text, BERLIN, NOON).astimezone(UTC).isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOON - 90),
        ("1h30m", NOON - 5400),
        ("yesterday", NOON - 13 * 3600 - 86_400),
        ("tomorrow 13:00", NOON + 86_400),
        ("12:45", NOON - 900),
        ("13:15", NOON + 900 - 86_400),
    ],
)
def test_a_length_of_time_may_be_meant_to_lie_in_the_past(text: str, expected: float) -> None:
    """A time of day is its last occurrence then. All else is read as ever."""
    assert expected == moments.moment(text, BERLIN, NOON, ago=True).timestamp()


def test_a_length_of_time_that_leads_to_before_all_calendars_is_refused() -> None:
    """Three thousand years ago."""
    with pytest.raises(moments.UnreadableTime):
        moments.moment("1100000d", BERLIN, NOON, ago=True)


@pytest.mark.parametrize(
    "text", ["", "whenever", "25:00", "12:61", "2027-02-30 10:00", "monday 10:00", "30", "2027", "1.5", "-3"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """The message says so and never guesses."""
    with pytest.raises(moments.UnreadableTime):
        moments.moment(text, BERLIN, NOON)


def test_an_unknown_zone_is_refused() -> None:
    """Also a folder of zones, which is no zone."""
    for name in ("Europe/Nowhere", "America", "../etc/passwd", ""):
        with pytest.raises(moments.UnreadableTime, match="IANA name"):
            moments.zone_named(name)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [(0, "now"), (300, "in 5 min"), (-7200, "2 h ago"), (30, "in 30 s"), (3 * 86_400, "in 3 d"), (-1.5, "1.5 s ago")],
)
def test_a_time_is_shown_by_its_distance(distance: float, expected: str) -> None:
    """In the largest unit that fits."""
    assert expected == moments.relative(NOON + distance, NOON)


def test_a_time_is_shown_in_the_viewers_zone() -> None:
    """With the zone's own abbreviation, summer and winter."""
    assert "2026-11-21 13:00:00 CET" == moments.absolute(NOON, BERLIN)
    assert "2026-11-21 12:00:00 UTC" == moments.absolute(NOON, UTC)


@pytest.mark.parametrize(("seconds", "expected"), [(0.0421, "42 ms"), (1.26, "1.3 s"), (59, "59 s"), (150, "2 min")])
def test_a_length_is_short(seconds: float, expected: str) -> None:
    """One number, one unit."""
    assert expected == moments.length(seconds)
